"""Vectors from a configured server: any ``/v1/embeddings`` in OpenAI's form, such as Ollama's.

The texts go to that address only: redirects are refused, and no proxy is used for this machine's own address.
The key is read from HOLDFAST_EMBEDDER_KEY at each call, and appears in no message.
"""

from collections.abc import Sequence
from http.client import HTTPException
from json import dumps, loads
from os import environ
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from holdfast.errors import BadOption, EmbedderUnavailable
from holdfast.limits import EMBEDDER_ANSWER_BYTES_MAX, EMBEDDER_BATCH_MAX, EMBEDDER_TIMEOUT_S

KEY: Final = "HOLDFAST_EMBEDDER_KEY"
_OWN_MACHINE: Final = frozenset(["localhost", "127.0.0.1", "::1"])
_SHOWN_CHARS: Final = 200


class Endpoint:
    """One model of one server. Vectors belong to the model, on any server."""

    def __init__(self, url: str, model: str, *, timeout_s: float = EMBEDDER_TIMEOUT_S) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.username or parts.query:
            raise BadOption(option="embedder", value=f"…#{model}", choices=("http(s)://host:port/v1#model",))
        self.url = f"{url.rstrip('/')}/embeddings"
        self.model = model
        self._timeout_s = timeout_s
        self._dimensions = 0
        proxies = [ProxyHandler({})] if parts.hostname in _OWN_MACHINE else []
        self._opener: OpenerDirector = build_opener(_NoRedirect, *proxies)

    @property
    def dimensions(self) -> int:
        """The length of its vectors. Asks the server the first time."""
        if not self._dimensions:
            self.embed(["dimensions"])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text. Raises EmbedderUnavailable."""
        found: list[list[float]] = []
        for at in range(0, len(texts), EMBEDDER_BATCH_MAX):
            found += self._ask([*texts[at : at + EMBEDDER_BATCH_MAX]])
        return found

    def _ask(self, texts: list[str]) -> list[list[float]]:
        body = dumps({"model": self.model, "input": texts, "encoding_format": "float"}).encode()
        headers = {"Content-Type": "application/json"}
        if key := environ.get(KEY):
            headers["Authorization"] = f"Bearer {key}"
        # The setting's scheme was checked when it was read: http or https, never a file.
        request = Request(self.url, body, headers, method="POST")  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                data: bytes = response.read(EMBEDDER_ANSWER_BYTES_MAX + 1)
        except HTTPError as error:
            with error:
                told = error.read(_SHOWN_CHARS).decode(errors="replace")
            raise self._refused(f"answered {error.code}: {' '.join(told.split())}") from error
        except (OSError, HTTPException) as error:  # includes timeouts and refused connections
            raise self._refused(f"cannot be reached: {error}") from error
        if len(data) > EMBEDDER_ANSWER_BYTES_MAX:
            raise self._refused(f"answered with more than {EMBEDDER_ANSWER_BYTES_MAX} bytes")
        return self._vectors(data, len(texts))

    def _vectors(self, data: bytes, count: int) -> list[list[float]]:
        try:
            rows: list[Any] = sorted(loads(data)["data"], key=lambda row: row["index"])
            vectors = [[float(number) for number in row["embedding"]] for row in rows]
        except (ValueError, TypeError, KeyError) as error:
            raise self._refused(f"answered with something else than embeddings: {error!r}") from error
        sizes = {len(vector) for vector in vectors} | ({self._dimensions} if self._dimensions else set())
        if len(vectors) != count or len(sizes) != 1 or 0 in sizes:
            raise self._refused(
                f"answered {count} texts with {len(vectors)} vectors of {sorted(sizes)} numbers"
            )
        (self._dimensions,) = sizes
        return vectors

    def _refused(self, problem: str) -> EmbedderUnavailable:
        return EmbedderUnavailable(embedder=f"{self.model} at {self.url}", problem=problem)


class _NoRedirect(HTTPRedirectHandler):
    """Refuses redirects: an unconfigured address must see neither the texts nor the key."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None
