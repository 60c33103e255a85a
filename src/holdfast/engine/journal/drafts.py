"""Events before they have a place in a journal, how they get one, and whether they got it."""

from collections.abc import Sequence
from typing import Any

from orjson import dumps

from holdfast.codec.blobs import address_of, pack
from holdfast.limits import VALUE_INLINE_BYTES_MAX
from holdfast.model.event_fields import write
from holdfast.model.events import Event, Kind, chained
from holdfast.model.markers import KNOWN, SHAPES
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Blob

_new = tuple.__new__
_TEXTS = frozenset({"goal", "question", "reason", "text", "what", "why", "note"})
"""The parts that only people and models read. The program gets the others back."""


class Draft(NamedTuple):
    """An event before it has a place in the journal."""

    kind: str
    name: str
    key: str
    body: bytes
    blobs: tuple[Blob, ...] = ()
    at: float | None = None
    """When it was, if that is not when it is appended."""


def draft(
    kind: str,
    name: str,
    key: str,
    fields: dict[str, Any],
    value: bytes | None = None,
    value_name: str = "value",
    *,
    parts: dict[str, Any] | None = None,
    at: float | None = None,
) -> Draft:
    """A draft with a small value in its body, and a large one in a blob.

    ``fields`` are Holdfast's own; content of users goes into ``parts``, see ``model.event_fields``. Texts in
    them that have a secret are masked; the encoded value has references already.
    """
    if KNOWN or SHAPES:
        name, fields, parts = _masked(kind, name, fields, parts)
    if value is None or len(value) <= VALUE_INLINE_BYTES_MAX:
        body = write(fields, parts, value=value, value_name=value_name)
        return _new(Draft, (kind, name, key, body, (), at))  # no constructor: a step makes two
    address = address_of(value)
    fields[f"{value_name}_blob"] = address
    fields[f"{value_name}_bytes"] = len(value)
    return Draft(kind, name, key, write(fields, parts), (Blob(address, pack(value)),), at)


def _masked(
    kind: str, name: str, fields: dict[str, Any], parts: dict[str, Any] | None
) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
    from holdfast.codec.secrets import has_known, masked, without_shapes  # late: most processes know none

    if KNOWN and has_known(dumps([name, fields, parts])):
        name, fields, parts = masked(name, "kind"), masked(fields), masked(parts)
    if SHAPES and parts and kind != Kind.STREAM_CHUNK and not _TEXTS.isdisjoint(parts):
        parts = {
            one: without_shapes(part) if one in _TEXTS and type(part) is str else part
            for one, part in parts.items()
        }
    return name, fields, parts


def placed_after(
    seq: int, before: int, drafts: Sequence[Draft], run: str, fence: int, at: float
) -> tuple[tuple[Event, ...], tuple[Blob, ...]]:
    """The drafts as events after ``seq``, chained to ``before``, written under ``fence``; and their blobs."""
    blobs: tuple[Blob, ...] = ()
    for one in drafts:
        if one[4]:
            blobs += one[4]
    return chained(run, seq, before, fence, at, drafts), blobs


def note_written(cut: BaseException, seq: int) -> None:
    """Note on the exception that interrupted an append that the append was written nevertheless."""
    cut.holdfast_written = seq  # type: ignore[attr-defined]


def written_despite(cut: BaseException) -> int | None:
    """The seq of the last event of an append that this exception interrupted; None if it was not written."""
    return getattr(cut, "holdfast_written", None)
