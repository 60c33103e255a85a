"""Probes of a server: its type, and whether it is ready. Written once, for blocking and async callers.

A probe is a generator that yields addresses and receives each response, or None if there was none.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, Literal, TypeVar

from holdfast.model.named_tuple import NamedTuple

Prefill = Literal["auto"] | bool
PROBE_S: Final = 3.0
"""How long a server may take to answer a probe."""

R = TypeVar("R")
Question = Generator[str, Any, R]


class Server(NamedTuple):
    """A server: the address of its protocol, and its host."""

    base: str
    host: str = ""

    @property
    def root(self) -> str:
        """Its own address, without the path of OpenAI's protocol."""
        return self.base.rstrip("/").removesuffix("/v1")


def flavour_of(server: Server, prefill: Prefill) -> Question[str]:
    """The server, if it can continue an answer from its middle; else empty."""
    if prefill != "auto":
        return "any" if prefill else ""
    for path, flavour, sign in _SIGNS:
        response = yield server.root + path
        if sign in _fields(response):
            return flavour
    return ""


_SIGNS: Final = (("/props", "llama.cpp", "default_generation_settings"), ("/version", "vllm", "version"))
"""How each server identifies itself: a path, the server, a field of the answer."""


def readiness_of(server: Server, model: str) -> Question[str | None]:
    """Why the server cannot answer now; None if it can. For Ollama, also checks that it has the model."""
    response = yield f"{server.base.rstrip('/')}/models"
    if response is None:
        return "it cannot be reached"
    if response.status_code >= 500:
        return f"it answers with status {response.status_code}"
    response = yield server.root + "/api/tags"
    tags = _fields(response).get("models")
    if model and isinstance(tags, list):
        names = {
            name for tag in tags if isinstance(tag, dict) for name in (tag.get("name"), tag.get("model"))
        }
        if not {model, f"{model}:latest"} & names:
            return f"it does not have the model {model}"
    return None


def readiness(client: Any, model: str = "") -> str | None:
    """Why a blocking OpenAI client's provider cannot answer now; None if it can.

    It calls the server, not the model.
    """

    def look(url: str) -> Any:
        return client._client.get(url, timeout=PROBE_S, headers=client.auth_headers)  # noqa: SLF001 - the SDK has no other name for it

    return answered(readiness_of(Server(str(client.base_url)), model), look)


def answered(question: Question[R], get: Callable[[str], Any]) -> R:
    """Run a probe; blocking."""
    found = None
    try:
        url = next(question)
        while True:
            try:
                found = get(url)
            except Exception:  # noqa: BLE001 - whatever is wrong, nothing came from there
                found = None
            url = question.send(found)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # StopIteration is untyped


async def answered_async(question: Question[R], get: Callable[[str], Awaitable[Any]]) -> R:
    """Run a probe; async."""
    found = None
    try:
        url = next(question)
        while True:
            try:
                found = await get(url)
            except Exception:  # noqa: BLE001 - whatever is wrong, nothing came from there
                found = None
            url = question.send(found)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # StopIteration is untyped


def _fields(response: Any) -> dict[str, Any]:
    try:
        told = response.json() if response is not None and response.status_code == 200 else None
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
