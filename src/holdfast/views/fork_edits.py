"""The edits of a fork for the eye: what differs, path by path, and what the program makes of it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from holdfast.model.explained_error import masked_message
from holdfast.model.fork_edits import ForkChange
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.value_text import count, readable

_LINES_MAX: Final = 12
_CHARS_MAX: Final = 80
_ABSENT: Final = object()


class EditLines(NamedTuple):
    """One edit: what it is, its differences, and what the program makes of it."""

    what: str
    lines: tuple[str, ...]
    then: str


def edit_lines(changes: Sequence[ForkChange]) -> list[EditLines]:
    """The edits of a fork. Of a long one, only its first differences."""
    return [_told(change) for change in changes]


def _told(change: ForkChange) -> EditLines:
    found = list(_differences(change.before, change.after, ""))
    lines = found[:_LINES_MAX]
    if len(found) > len(lines):
        lines.append(f"and {count(len(found) - len(lines), 'other difference')}")
    return EditLines(change.what, tuple(lines), change.then)


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if before == after and type(before) is type(after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            inner = f"{path}.{name}" if path else str(name)
            yield from _differences(before.get(name, _ABSENT), after.get(name, _ABSENT), inner)
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            old, new = (next(islice(one, index, None), _ABSENT) for one in (before, after))
            yield from _differences(old, new, f"{path}[{index}]")
    elif before is _ABSENT:
        yield f"+ {path}: {_short(after)}"
    elif after is _ABSENT:
        yield f"- {path}: {_short(before)}"
    else:
        yield f"{path}: {_short(before)} → {_short(after)}".removeprefix(": ")


def _short(value: Any) -> str:
    text = readable(value)
    return text if len(text) <= _CHARS_MAX else f"{masked_message(text)[: _CHARS_MAX - 1]}…"
