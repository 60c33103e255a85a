"""Reads single values of a stored state: only the nodes on the way to them are loaded."""

from typing import Any, Final

from holdfast.core.diff.state_diff import Path
from holdfast.core.state.assemble import gather_with
from holdfast.core.state.nodes import (
    DICT,
    LIST,
    RUNS,
    VALUE,
    Nodes,
    corrupt,
    elements,
    form_of,
    pairs,
    ref_in,
    runs_in,
    unescape,
)

ABSENT: Final = object()
"""The answer for a path that does not exist."""

_LEVELS_MAX: Final = 64


class Peek:
    """Reads values of one state.

    It keeps what is on the way, because callers ask for neighbours one after another.
    """

    def __init__(self, root: Any, nodes: Nodes) -> None:
        self._nodes = nodes
        self._seen: dict[Path, Any] = {(): self._opened(root)}
        self._objects: dict[str, dict[str, Any]] = {}

    def at(self, path: Path) -> Any:
        """The whole value at a path, or ABSENT. Raises Corrupt."""
        found = self._raw(path)
        return found if found is ABSENT else gather_with(found, self._nodes)

    def small(self, path: Path) -> Any:
        """The value at a path, with inner nodes left as references. That is enough to see its type."""
        return self._raw(path)

    def _raw(self, path: Path) -> Any:
        if path not in self._seen:
            self._seen[path] = self._opened(self._inside(self._raw(path[:-1]), path[-1]))
        return self._seen[path]

    def _opened(self, value: Any) -> Any:
        return self._nodes.load(ref_in(value)) if form_of(value) == VALUE else value

    def _inside(self, value: Any, part: str | int) -> Any:
        form = form_of(value)
        if form == LIST and type(part) is int:
            return self._item(ref_in(value), part)
        if form == DICT and type(part) is str:
            ref = ref_in(value)
            if ref not in self._objects:
                self._objects[ref] = pairs(self._nodes.items(ref), ref)
            return self._objects[ref].get(part, ABSENT)
        if type(value) is dict and type(part) is str:
            return value.get(part, ABSENT)
        if type(value) is list and type(part) is int and form in {None, "##"}:
            items = unescape(value) if form else value
            return items[part] if part < len(items) else ABSENT
        return ABSENT

    def _item(self, ref: str, index: int) -> Any:
        """One item of a run, found by the counts of the runs in it."""
        for _ in range(_LEVELS_MAX):
            node = self._nodes.load(ref)
            if form_of(node) != RUNS:
                items = elements(node, ref)
                return items[index] if index < len(items) else ABSENT
            for inner, count in runs_in(node, ref):
                if index < count:
                    ref = inner
                    break
                index -= count
            else:
                return ABSENT
        raise corrupt(f"run {ref} stands too deep")
