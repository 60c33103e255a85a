"""Decides whether a provider's failure will pass by itself, from its status, headers and text.

An error that the request caused (a wrong key, an unknown model, a context that is too long) does not pass,
and waiting would hide it. The module knows HTTP and the texts of common servers. It imports no client: it
recognises exceptions by their class names and attributes.
"""

from collections.abc import Mapping
from re import compile as pattern
from typing import Any, Final

from holdfast.model.explained_error import masked_message
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.provider_patience import Outage, OutageKind, Patience

_UNAVAILABLE: Final = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
_TOO_MANY: Final = 429
_PART: Final = pattern(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE: Final = pattern(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LOADING: Final = (
    "loading model",
    "model is loading",
    "currently loading",
    "still loading",
    "model is not ready",
)
_QUOTA: Final = ("insufficient_quota", "quota_exceeded", "billing_hard_limit_reached", "credit balance")
_RESETS: Final = (
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-reset",
    "x-ratelimit-reset",
)
_WORDS_MAX: Final = 200
_EPOCH_MIN: Final = 1_000_000_000
"""A number this large in a reset header is a time since 1970, not a duration."""


class Signs(NamedTuple):
    """What is known about a failure."""

    status: int | None = None
    headers: Mapping[str, str] = {}
    words: str = ""
    """Message, code and body in one text."""
    is_connection: bool = False
    is_timeout: bool = False
    is_cut_off: bool = False
    is_garbled: bool = False


def outage_of(signs: Signs, now: float) -> Outage | None:
    """The outage that these signs show; None if waiting does not help."""
    words = signs.words.lower()
    if signs.status == _TOO_MANY:
        is_quota = any(word in words for word in _QUOTA)
        kind: OutageKind = "quota" if is_quota else "rate_limited"
        return Outage(kind, _reason(signs, "too many requests"), reset_at(signs.headers, now))
    # Checked before the status: a loading model is often a 503, which would count as unavailable.
    if signs.status is not None and any(word in words for word in _LOADING):
        return Outage("loading", _reason(signs, "the model is still loading"), _retry_at(signs.headers, now))
    if signs.status in _UNAVAILABLE:
        return Outage(
            "unavailable",
            f"status {signs.status}: {_reason(signs, 'no reason given')}",
            _retry_at(signs.headers, now),
        )
    if signs.status is not None and signs.status >= 400:
        return None
    if signs.is_cut_off:
        return Outage("cut_off", _reason(signs, "the connection was closed in the middle of the answer"))
    if signs.is_timeout:
        return Outage("stalled", _reason(signs, "no answer in time"))
    if signs.is_connection:
        return Outage("unreachable", _reason(signs, "cannot be reached"))
    if signs.is_garbled:
        return Outage("garbled", _reason(signs, "an answer that makes no sense"))
    return None


def backoff_s(looks: int, patience: Patience, chance: float) -> float:
    """How long to wait before the next try: twice as long each time, up to a bound, with jitter.

    ``chance`` is a random number in [0, 1). Without it, all runs would return to a recovered provider at
    once.
    """
    longest = min(patience.first_s * 2.0 ** min(looks, 30), patience.longest_s)
    return longest * (0.5 + chance / 2)


def reset_at(headers: Mapping[str, str], now: float) -> float | None:
    """When all limits that the provider names are lifted; None if it names no time."""
    asked = _retry_at(headers, now)
    if asked is not None:
        return asked
    found = [at for name in _RESETS if (at := _moment(headers.get(name), now)) is not None]
    return max(found, default=None)


def _retry_at(headers: Mapping[str, str], now: float) -> float | None:
    ms = _number(headers.get("retry-after-ms"))
    return now + ms / 1000 if ms is not None else _moment(headers.get("retry-after"), now)


def _moment(text: str | None, now: float) -> float | None:
    """A time from a header: seconds, a duration such as ``6m0s``, a date, or seconds since 1970."""
    if not text:
        return None
    text = text.strip()
    number = _number(text)
    if number is not None:
        return number if number >= _EPOCH_MIN else now + number
    if _WHOLE.fullmatch(text):
        return now + sum(float(size) * _UNITS_S[unit] for size, unit in _PART.findall(text))
    return _date(text)


def _date(text: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime  # imports sockets, and few providers send dates

    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < float("inf") else None


def _reason(signs: Signs, otherwise: str) -> str:
    words = " ".join(masked_message(signs.words).split())  # a service repeats the key that it refuses
    return (words if len(words) <= _WORDS_MAX else f"{words[: _WORDS_MAX - 1]}…") or otherwise


# -- from exceptions of any client ---------------------------------------------------------------------------

_TIMEOUTS: Final = frozenset(
    {
        "APITimeoutError",
        "ReadTimeout",
        "TimeoutException",
        "ConnectTimeout",
        "PoolTimeout",
        "WriteTimeout",
        "ReadTimeoutError",
        "ConnectTimeoutError",
    }
)
_CUTS: Final = frozenset(
    {
        "RemoteProtocolError",
        "ReadError",
        "IncompleteRead",
        "ChunkedEncodingError",
        "StreamError",
        "ResponseStreamingError",
        "ConnectionClosedError",
        "ProtocolError",
    }
)
_CONNECTIONS: Final = frozenset(
    {
        "APIConnectionError",
        "ConnectError",
        "NetworkError",
        "TransportError",
        "MaxRetryError",
        "EndpointConnectionError",
        "HTTPClientError",
    }
)


_KINDS: Final = {"server_error": 500, "api_error": 500, "overloaded_error": 529, "rate_limit_error": 429}
"""The types of error events in a stream, with the status they correspond to.

The status of a stream was 200.
"""


def signs_of(error: BaseException) -> Signs:
    """What an exception shows about its cause, by its class names and the attributes of HTTP clients."""
    names = {cls.__name__ for cls in type(error).__mro__}
    cause = error.__cause__
    behind = {cls.__name__ for cls in type(cause).__mro__} if cause is not None else set()
    if cause is not None and hasattr(cause, "status_code") and not hasattr(error, "status_code"):
        return signs_of(cause)  # a framework raised its own error over that of the client
    response = getattr(error, "response", None)
    code = getattr(error, "code", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    if status is None:  # an error event in the middle of a stream
        status = int(str(code)) if str(code).isdecimal() else _KINDS.get(str(getattr(error, "type", "")))
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None)
    cut = bool(names & _CUTS or behind & _CUTS)
    return Signs(
        status=status if isinstance(status, int) else None,
        headers=_lowered(headers),
        words=_words(error),
        is_timeout=bool(names & _TIMEOUTS) or isinstance(error, TimeoutError),
        is_cut_off=cut,
        is_connection=bool((names | behind) & _CONNECTIONS) or isinstance(error, ConnectionError),
        is_garbled=bool(names & {"UnusableAnswer", "JSONDecodeError"}),
    )


def _lowered(headers: Any) -> dict[str, str]:
    if not hasattr(headers, "items"):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _words(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    cause = error.__cause__
    if cause is not None and str(cause) and str(cause) not in text:
        text = f"{text.rstrip('.')}: {cause}"
    code = getattr(error, "code", None)
    return f"{text} ({code})" if isinstance(code, str) and code not in text else text
