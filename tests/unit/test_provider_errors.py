"""What passes by itself and what does not, told from status, headers and words; and how long to wait."""

from typing import Any, ClassVar

import pytest

from holdfast.core.llm.provider_errors import Signs, backoff_s, outage_of, reset_at, signs_of
from holdfast.model.provider_patience import Patience

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("signs", "kind"),
    [
        (Signs(status=500, words="oops"), "unavailable"),
        (Signs(status=529, words="overloaded"), "unavailable"),
        (Signs(status=503, words='{"message":"Loading model"}'), "loading"),
        (Signs(status=429, words="slow down"), "rate_limited"),
        (Signs(status=429, words="You exceeded your quota (insufficient_quota)"), "quota"),
        (Signs(is_connection=True), "unreachable"),
        (Signs(is_timeout=True, is_connection=True), "stalled"),
        (Signs(is_cut_off=True, is_connection=True), "cut_off"),
        (Signs(is_garbled=True), "garbled"),
        (Signs(status=400, words="bad"), None),
        (Signs(status=401, is_connection=True), None),
        (Signs(status=404, words="model not found"), None),
        (Signs(status=422), None),
        (Signs(words="something of the program's own"), None),
    ],
)
def test_what_is_an_outage(signs: Signs, kind: str | None) -> None:
    """Waiting helps against the first ones, and would hide the others."""
    outage = outage_of(signs, NOW)
    assert (outage.kind if outage else None) == kind
    assert outage is None or outage.why


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Mon, 21 Sep 2026 15:13:20 GMT"}, 0.0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset": str(NOW + 77)}, 77.0),
        ({"anthropic-ratelimit-tokens-reset": "2026-09-21T16:00:00Z"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_when_a_limit_is_lifted(headers: dict[str, str], seconds: float | None) -> None:
    """In every way that providers say it; nonsense is as if they had said nothing."""
    at = reset_at(headers, NOW)
    if any(text.endswith(("GMT", "Z")) for text in headers.values()):
        from datetime import UTC, datetime

        text = next(iter(headers.values()))
        hour = 15 if "GMT" in text else 16
        minute, second = (13, 20) if "GMT" in text else (0, 0)
        assert at == datetime(2026, 9, 21, hour, minute, second, tzinfo=UTC).timestamp()
    else:
        assert at == (None if seconds is None else pytest.approx(NOW + seconds))


def test_waits_grow_and_are_bounded_and_differ() -> None:
    """Twice as long each time up to the bound; half of it is chance."""
    patience = Patience(first_s=1.0, longest_s=30.0)
    assert [backoff_s(n, patience, 1.0) for n in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert [backoff_s(n, patience, 0.0) for n in range(3)] == [0.5, 1.0, 2.0]
    assert backoff_s(10_000, patience, 0.5) == 22.5


class Response:
    status_code = 429
    headers: ClassVar = {"Retry-After": "3"}


class StatusError(Exception):
    def __init__(self) -> None:
        super().__init__("limit")
        self.response = Response()
        self.status_code = 429


class EventError(Exception):
    def __init__(self, **fields: Any) -> None:
        super().__init__("in the stream")
        vars(self).update(fields)


def test_what_an_exception_shows() -> None:
    """Of any client: by the fields of its errors, the names of their classes, and what they were raised from."""
    signs = signs_of(StatusError())
    assert (signs.status, signs.headers) == (429, {"retry-after": "3"})
    assert signs_of(ConnectionRefusedError("no")).is_connection
    assert signs_of(TimeoutError()).is_timeout
    assert signs_of(EventError(code=503)).status == 503
    assert signs_of(EventError(code="429")).status == 429
    assert signs_of(EventError(type="overloaded_error", code=None)).status == 529
    assert signs_of(EventError()).status is None
    wrapped = type("APIConnectionError", (Exception,), {})("Connection error.")
    wrapped.__cause__ = OSError("connection refused by 127.0.0.1")
    assert "refused by 127.0.0.1" in signs_of(wrapped).words
    framework = RuntimeError("the service failed")
    framework.__cause__ = StatusError()
    assert signs_of(framework).status == 429


@pytest.mark.parametrize("code", ["²", "①", "", "five"])
def test_a_code_that_is_no_number_is_no_status(code: str) -> None:
    """Some characters count as digits, and are no decimal number: they raised ValueError in place of the error."""
    error = Exception("odd")
    error.code = code  # type: ignore[attr-defined]
    assert signs_of(error).status is None
