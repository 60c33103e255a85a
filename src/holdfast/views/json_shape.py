"""The JSON form of a read model: NamedTuples become objects, times become ISO 8601 in UTC.

The invariant: field names are the fields of the NamedTuples. A float whose field is ``at`` or ends in ``_at``
is a time; ``mood`` is for display and left out; everything else stays as it is.
"""

from datetime import UTC, datetime
from typing import Any

from holdfast.core.text.times import is_told


def as_plain(value: Any) -> Any:
    """The value as dicts, lists, texts and numbers, ready for any JSON writer."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(getattr(value, "_fields", ()), value, strict=True)
        return {name: _field(name, part) for name, part in fields if name != "mood"}
    if isinstance(value, (list, tuple)):
        return [as_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: as_plain(part) for name, part in value.items()}
    return value


def iso(at: float) -> str:
    """``2026-03-01T14:02:11.250Z``; a time that no calendar has stays a number."""
    if not is_told(at):
        return f"{at:g} s"
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _field(name: str, part: Any) -> Any:
    if isinstance(part, float) and (name == "at" or name.endswith("_at")):
        return iso(part)
    return as_plain(part)
