"""What can go wrong between a client and a model, one function a fault. All of them were seen with real providers.

A fault is plain data, so that it can be sent to a provider in another process.
"""

import json
from typing import Any, Literal, NamedTuple

Kind = Literal[
    "refusal",
    "stall",
    "cut",
    "bad_json",
    "bad_line",
    "empty",
    "error_body",
    "error_event",
    "wrong_type",
    "altered",
]


class Fault(NamedTuple):
    """One fault. ``after`` counts the tokens that still reach the client; None is "before the headers"."""

    kind: Kind
    after: int | None = None
    after_bytes: int | None = None
    seconds: float = 0.0
    how: str = ""
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Fault":
        """The fault that ``_asdict`` of it was."""
        pairs = tuple((str(name), str(value)) for name, value in told.get("headers", ()))
        return cls(**{**told, "headers": pairs})


def _error(message: str, kind: str, code: str | int | None = None) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


def status(code: int, message: str = "The server had an error", **headers: str) -> Fault:
    """An error answer: 500, 502, 503 and the like. Headers are written with underscores: ``retry_after="1"``."""
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Fault("refusal", status=code, headers=pairs, body=_error(message, "server_error", code))


def gateway_page() -> Fault:
    """502 with a page of HTML: what stands in front of the provider answers."""
    page = "<html><head><title>502 Bad Gateway</title></head></html>"
    return Fault("refusal", status=502, headers=(("content-type", "text/html"),), body=page)


def loading() -> Fault:
    """llama.cpp while it reads the weights."""
    body = '{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
    return Fault("refusal", status=503, body=body)


def rate_limited(**headers: str) -> Fault:
    """429. When it ends stands in ``retry_after`` ("2" or an HTTP date), ``retry_after_ms``, ``x_ratelimit_reset_requests`` …"""
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    body = _error(
        "Rate limit reached for requests. Please try again later.", "requests", "rate_limit_exceeded"
    )
    return Fault("refusal", status=429, headers=pairs, body=body)


def quota() -> Fault:
    """429 that no waiting ends: the account is empty."""
    body = _error("You exceeded your current quota.", "insufficient_quota", "insufficient_quota")
    return Fault("refusal", status=429, body=body)


def unauthorized() -> Fault:
    """401: the key is wrong."""
    return Fault(
        "refusal",
        status=401,
        body=_error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    )


def unknown_model(model: str = "gpt-9") -> Fault:
    """404: there is no such model."""
    message = f"The model `{model}` does not exist or you do not have access to it."
    return Fault("refusal", status=404, body=_error(message, "invalid_request_error", "model_not_found"))


def bad_request(message: str = "Invalid value.") -> Fault:
    """400: asking again will not help."""
    return Fault("refusal", status=400, body=_error(message, "invalid_request_error"))


def stall(seconds: float, *, after: int | None = None) -> Fault:
    """Silence for so long: before the headers, or after some tokens. Then it goes on."""
    return Fault("stall", after=after, seconds=seconds)


def cut(*, after: int | None = None, rst: bool = False) -> Fault:
    """The connection ends in the middle: after some tokens, or instead of an answer. With ``rst``, by a reset."""
    return Fault("cut", after=after, how="rst" if rst else "")


def cut_bytes(count: int, *, rst: bool = False) -> Fault:
    """The connection ends after so many bytes of the body, which may be in the middle of a character."""
    return Fault("cut", after=0, after_bytes=count, how="rst" if rst else "")


def early_end(*, after: int) -> Fault:
    """A stream that ends like a good one, without having said that it is finished: a proxy lost its other side."""
    return Fault("cut", after=after, how="clean")


def bad_json() -> Fault:
    """200 with a body that is not JSON."""
    return Fault("bad_json")


def bad_line(*, after: int = 0) -> Fault:
    """A line of the stream whose data is not JSON."""
    return Fault("bad_line", after=after)


def empty(*, choices: bool = True) -> Fault:
    """An answer without content, or without any choice."""
    return Fault("empty", how="content" if choices else "choices")


def error_body(message: str = "upstream is overloaded") -> Fault:
    """200 with an error in the body, as gateways do."""
    return Fault("error_body", body=_error(message, "server_error", 503))


def error_event(*, after: int = 0, message: str = "The server had an error") -> Fault:
    """A stream that says in its middle that it failed."""
    return Fault("error_event", after=after, body=_error(message, "server_error"))


def altered(name: str) -> Fault:
    """A kind of ``fault_catalogue``: the good answer, changed on its way to the socket."""
    return Fault("altered", how=name)


def wrong_type() -> Fault:
    """200 with a page of HTML: a captive portal."""
    return Fault("wrong_type", body="<html><body>Please log in</body></html>")
