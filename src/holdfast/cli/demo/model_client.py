"""A client for an OpenAI-compatible endpoint, written with the standard library only.

It knows the protocol and its errors. The invariant: every failure is an ``Unanswered`` with a hint.
"""

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

ATTEMPT_HEADER = "X-Holdfast-Attempt"
"""Tells the demo's own server which attempt of the run is asking."""

_START_IT = (
    "start the server first (`ollama serve`, `vllm serve MODEL`, `llama-server -m FILE`) and give its "
    "address, for instance --llm http://localhost:11434; without --llm the demo brings its own scripted model"
)
_ERROR_CHARS_MAX = 300


class Unanswered(Exception):
    """The endpoint gave no usable answer."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


def base_url(address: str) -> str:
    """The endpoint's base URL from what people paste: a host, a base with or without /v1, a full URL."""
    text = address.strip()
    if "://" not in text:
        text = f"http://{text}"
    text = text.rstrip("/").removesuffix("/chat/completions")
    try:
        parts = urlsplit(text)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return text if parts.path else f"{text}/v1"
    except ValueError:
        pass
    raise Unanswered(f"{address!r} is not the address of an HTTP server", _START_IT)


def complete(
    base: str, payload: dict[str, Any], *, timeout_s: float, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """The endpoint's unchanged answer to one chat completion."""
    body = json.dumps(payload).encode()
    answer = _send(f"{base}/chat/completions", body, timeout_s=timeout_s, headers=headers or {})
    text_of(answer)
    return answer


def text_of(answer: dict[str, Any]) -> str:
    """The text of the model's answer."""
    try:
        return str(answer["choices"][0]["message"]["content"] or "").strip()
    except (KeyError, IndexError, TypeError):
        raise Unanswered(f"the server's answer is not a chat completion: {_short(str(answer))}") from None


def list_models(base: str, *, timeout_s: float) -> list[str]:
    """The names of the endpoint's models; empty if it does not list them."""
    try:
        answer = _send(f"{base}/models", None, timeout_s=timeout_s, headers={})
        return [str(model["id"]) for model in answer["data"]]
    except (KeyError, TypeError):
        return []
    except Unanswered as error:
        if isinstance(error.__cause__, HTTPError):  # the server is up and has no such list
            return []
        raise


def _send(url: str, body: bytes | None, *, timeout_s: float, headers: dict[str, str]) -> dict[str, Any]:
    request = Request(url, body, {"Content-Type": "application/json", **headers})  # noqa: S310 - base_url lets only HTTP through
    try:
        with _opener(url).open(request, timeout=timeout_s) as response:
            answer = json.loads(response.read())
    except HTTPError as error:
        with error:
            told = _message_in(error.read())
        raise Unanswered(f"{url} answered {error.code}: {told or error.reason}") from error
    except TimeoutError as error:
        raise Unanswered(f"{url} did not answer within {timeout_s:.0f} s", _START_IT) from error
    except (URLError, OSError, HTTPException) as error:
        raise Unanswered(f"cannot reach {url}: {getattr(error, 'reason', error)}", _START_IT) from error
    except ValueError as error:
        raise Unanswered(f"{url} answered something that is not JSON", _START_IT) from error
    if not isinstance(answer, dict):
        raise Unanswered(f"{url} answered something that is not a JSON object", _START_IT)
    return answer


def _opener(url: str) -> OpenerDirector:
    """No proxy for loopback: a proxy would connect to its own machine."""
    host = urlsplit(url).hostname or ""
    is_here = host in {"localhost", "::1"} or host.startswith("127.")
    return build_opener(ProxyHandler({})) if is_here else build_opener()


def _message_in(body: bytes) -> str:
    """The server's error message without the JSON around it."""
    text = body.decode(errors="replace").strip()
    try:
        return _short(str(json.loads(text)["error"]["message"]))
    except (ValueError, KeyError, TypeError):
        return _short(text)


def _short(text: str) -> str:
    return text if len(text) <= _ERROR_CHARS_MAX else f"{text[:_ERROR_CHARS_MAX]}..."
