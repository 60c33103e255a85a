"""A state as a tree of lines, with what has changed since an earlier one.

A line is one value. Of a long list or object only the first entries and the changed ones are lines, and a
number says how many are left out: a page shows a state of any size.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from holdfast.model.named_tuple import NamedTuple
from holdfast.views.value_text import one_line, readable

Change = Literal["", "added", "removed", "changed", "inside"]

LINES_MAX: Final = 2_000
_ENTRIES: Final = 60
_CHARS: Final = 400
_DEPTH_MAX: Final = 60
_MISSING: Final = object()


class StateNode(NamedTuple):
    """One value: its name, its text or its size, its change, and the lines inside it."""

    name: str
    path: str
    text: str
    before: str
    change: Change
    entries: int | None
    """How many entries it has; None if it is no list and no object."""
    is_list: bool
    nodes: tuple["StateNode", ...]
    left_out: int
    added: int
    """How many entries are new in it."""


def state_tree(state: Any, before: Any = _MISSING, *, lines_max: int = LINES_MAX) -> StateNode:
    """The tree of a state; without an earlier one, nothing in it is marked."""
    return _Teller(lines_max).node("", "$", state, state if before is _MISSING else before, 0)


def has_changed(node: StateNode) -> bool:
    """Whether anything in it differs from the earlier state."""
    return node.change != ""


class _Teller:
    def __init__(self, room: int) -> None:
        self._room = room

    def node(self, name: str, path: str, value: Any, before: Any, depth: int) -> StateNode:
        self._room -= 1
        entries, earlier = _entries(value), _entries(before)
        if entries is None or depth >= _DEPTH_MAX:
            return _leaf(name, path, value, before)
        is_list = isinstance(value, list)
        same_kind = earlier is not None and isinstance(before, list) == is_list
        then = earlier if same_kind and earlier is not None else {}
        added = len([key for key in entries if key not in then]) if then is not entries else 0
        if value is before or value == before:
            change: Change = ""
        elif before is _MISSING:
            change = "added"
        else:
            change = "inside" if same_kind else "changed"
        nodes = tuple(self._inside(path, entries, then, depth, is_new=before is _MISSING))
        shown = sum(node.change != "removed" for node in nodes)
        return StateNode(
            name, path, _type(value), "", change, len(entries), is_list, nodes, len(entries) - shown, added
        )

    def _inside(
        self, path: str, entries: Mapping[Any, Any], then: Mapping[Any, Any], depth: int, *, is_new: bool
    ) -> Iterator[StateNode]:
        """The first entries, and all that changed, while there is room."""
        plain = 0
        for key, value in entries.items():
            earlier = _MISSING if is_new else then.get(key, _MISSING)
            is_same = earlier is not _MISSING and (value is earlier or value == earlier)
            if is_same or is_new:
                plain += 1
                if plain > _ENTRIES:
                    continue
            if self._room <= 0:
                return
            yield self.node(str(key), f"{path}{_step(key)}", value, value if is_new else earlier, depth + 1)
        for key, value in then.items():
            if key not in entries and self._room > 0:
                self._room -= 1
                text = _text(value)
                yield StateNode(str(key), f"{path}{_step(key)}", text, "", "removed", None, False, (), 0, 0)


def _entries(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, dict):
        inner = value.get("v") if "$" in value else None
        if "$" not in value:
            return value
        return inner if isinstance(inner, dict) else None
    if isinstance(value, list):
        return dict(enumerate(value))
    return None


def _leaf(name: str, path: str, value: Any, before: Any) -> StateNode:
    change: Change = ""
    if before is _MISSING:
        change = "added"
    elif value != before:
        change = "changed"
    told = _text(before) if change == "changed" else ""
    return StateNode(name, path, _text(value), told, change, None, False, (), 0, 0)


def _text(value: Any) -> str:
    return readable(value, _CHARS)


def _type(value: Any) -> str:
    """The name of a tagged type; empty for plain objects and lists."""
    tag = value.get("$") if isinstance(value, dict) else None
    named = value.get("t") or value.get("type") or tag if isinstance(value, dict) and tag else ""
    return one_line(str(named), 80) if named else ""


def _step(key: Any) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}"
