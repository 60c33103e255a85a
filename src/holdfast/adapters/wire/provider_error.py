"""What a provider answered instead of an answer: a status with a body, or an error in the middle of a stream.

It travels through the engine as an exception, which decides whether to wait, and is recorded. At the client
it becomes a response again, so that the client raises its own error, live as in a replay.
"""

from collections.abc import Mapping
from typing import Any, Final

from orjson import JSONDecodeError, loads

_KEPT: Final = ("content-type", "retry-after", "retry-after-ms", "x-request-id", "request-id")
_KEPT_PART: Final = "ratelimit"
_KEY_HEADERS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_KEY_CHARS_MIN: Final = 8
_KEY_SHOWN: Final = b"(the key)"
_BODY_BYTES_MAX: Final = 64_000
IN_STREAM: Final = 0
"""Instead of a status: the error came in the middle of a stream, whose status was good."""


class ProviderError(Exception):
    """The provider refused a request, or broke off its answer."""

    def __init__(self, status_code: int, headers: Mapping[str, str], content: bytes) -> None:
        self.status_code = status_code
        self.headers = {
            name.lower(): text
            for name, text in headers.items()
            if name.lower() in _KEPT or _KEPT_PART in name.lower()
        }
        self.content = content[:_BODY_BYTES_MAX]
        said = _fields(content)
        error = said.get("error", said)
        fields = error if isinstance(error, Mapping) else {"message": error}
        self.code = fields.get("code") or said.get("code")
        self.type = fields.get("type")
        if status_code == IN_STREAM and not (self.code or self.type):
            self.type = "server_error"  # the request was good: the answer had begun
        words = fields.get("message") or content[:500].decode("utf-8", "replace")
        super().__init__(f"status {status_code}: {words}" if status_code else str(words))

    @property
    def fields(self) -> dict[str, Any]:
        """Its body; empty if that is no JSON object, but a page of HTML, for example."""
        return _fields(self.content)

    @property
    def response(self) -> "ProviderError | None":
        """Its own status and headers, where a client's error has its response."""
        return self if self.status_code else None


def message_of(error: Any) -> str:
    """The words of an error, which is an object or a text."""
    message = error.get("message") if isinstance(error, Mapping) else error
    return str(message or error)


def without_key(refusal: bytes, sent: Mapping[str, str]) -> bytes:
    """A refusal without the key that was sent: some providers repeat it, and refusals are recorded."""
    for name in _KEY_HEADERS:
        key = sent.get(name, "").rpartition(" ")[2].encode()
        if len(key) >= _KEY_CHARS_MIN:
            refusal = refusal.replace(key, _KEY_SHOWN)
    return refusal


def _fields(content: bytes) -> dict[str, Any]:
    try:
        said = loads(content)
    except JSONDecodeError:
        return {}
    return said if isinstance(said, dict) else {}
