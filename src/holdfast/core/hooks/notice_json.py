"""Writes a notice as JSON: the body of a webhook, and the input of a command."""

from time import gmtime, strftime
from typing import Any, Final

from orjson import dumps

from holdfast.core.text.times import is_told
from holdfast.model.hooks import Notice

_TIMES: Final = frozenset({"at", "expires_at"})


def notice_json(notice: Notice) -> bytes:
    """The notice, with times in UTC, as ISO 8601."""
    return dumps(as_data(notice))


def as_data(part: Any) -> Any:
    """NamedTuples as objects, and their times as texts."""
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        fields = zip(getattr(part, "_fields", ()), part, strict=True)
        return {name: _time(value) if name in _TIMES else as_data(value) for name, value in fields}
    return [as_data(one) for one in part] if isinstance(part, tuple) else part


def _time(at: float | None) -> str | None:
    if at is None or not is_told(at):
        return None
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(at))}.{int(at % 1 * 1000):03d}Z"
