"""Leaves out of a state what is as it was in the last one: that is taken over, and only the rest is encoded.

Only windows of long lists are left out, and only where their shape holds; see ``shape.py``. A window gets a
shape when it was encoded twice to the same data. The proof that shape and data belong together is that a copy
that has the shape is encoded to those data: no other thread has that copy.

A window was searched for the secrets that were known then. It is not left out once another one is known. Nor
is one with a mask: what it was in clear may be asked for.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Any, Final

import orjson

from holdfast.core.state.last_state import WINDOW, Long, Window
from holdfast.core.state.nodes import LIST
from holdfast.core.state.shape import shape_of
from holdfast.limits import STATE_SHAPE_LEAVES_TOTAL_MAX, STATE_WIDTH_MAX
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.secret_text import MASKED

_TAG: Final = "$"


class Rest(NamedTuple):
    """A state without what is as it was. ``kept`` has the windows of a list, None for those in the state."""

    state: Any
    kept: Mapping[tuple[str, ...], Sequence[Window | None]]


def rest_of(state: Any, last: Mapping[tuple[str, ...], Long], known: Sequence[bytes]) -> Rest | None:
    """What is to be encoded of this state; None if that is all of it."""
    places = [
        place
        for place, long in last.items()
        if place[0] == LIST and long.may_be_kept and _is_searched_for(long, known)
    ]
    if not places:
        return None
    walk = _Walk(last, places)
    rest = walk.rest(state, ())
    return Rest(rest, walk.kept) if walk.kept else None


def whole(rest: Rest, tree: Any) -> Any:
    """The tree of the whole state, for the tree of its rest."""
    for place, windows in rest.kept.items():
        tree = _filled(tree, place[1:], windows)
    return tree


def _is_searched_for(long: Long, known: Sequence[bytes]) -> bool:
    # By identity: when secrets change, the list gets new objects, though a value may come back.
    return len(long.known) == len(known) and all(map(is_, long.known, known))


class _Walk:
    """One walk over a state. ``kept`` is filled on the way."""

    def __init__(self, last: Mapping[tuple[str, ...], Long], places: Sequence[tuple[str, ...]]) -> None:
        self._last = last
        self._places = {place[1:] for place in places}
        self._ways = {way[:length] for way in self._places for length in range(len(way))}
        self._room = STATE_SHAPE_LEAVES_TOTAL_MAX
        self.kept: dict[tuple[str, ...], list[Window | None]] = {}

    def rest(self, value: Any, path: tuple[str, ...]) -> Any:
        if type(value) is list and path in self._places:
            return self._rest_of_list(value.copy(), (LIST, *path))
        # An object that the codec would tag has other paths in it, and a wide one is encoded as pairs.
        if type(value) is dict and path in self._ways and _TAG not in value and len(value) <= STATE_WIDTH_MAX:
            return {key: self.rest(item, (*path, key)) for key, item in list(value.items())}
        return value

    def _rest_of_list(self, elements: list[Any], place: tuple[str, ...]) -> list[Any]:
        windows = self._last[place].windows
        kept: list[Window | None] = []
        rest: list[list[Any]] = []
        for number, began in enumerate(range(0, len(elements), WINDOW)):
            part = elements[began : began + WINDOW]
            window = self._as_it_was(windows[number], part) if number < len(windows) else None
            kept.append(window)
            if window is None:
                rest.append(part)
        self.kept[place] = kept
        return list(chain.from_iterable(rest))

    def _as_it_was(self, window: Window, part: list[Any]) -> Window | None:
        """The window, with a shape, if it has these elements."""
        shape = window.shape
        if shape is not None:
            if not shape.holds(part):
                return None
        elif window.may_be_kept and len(part) == len(window.items):
            found = shape_of(part)
            if found is None or found[0].size > self._room or not _is_written(found[1], window.data):
                return None
            shape = found[0]
            window = window._replace(shape=shape)
        else:
            return None
        self._room -= shape.size
        return window


def _is_written(elements: list[Any], data: bytes) -> bool:
    try:
        return orjson.dumps(elements) == data and MASKED not in data
    except TypeError:  # an int or a text that orjson cannot write
        return False


def _filled(tree: Any, path: Sequence[str], windows: Sequence[Window | None]) -> Any:
    if path:
        return {**tree, path[0]: _filled(tree[path[0]], path[1:], windows)}
    made: list[Any] = []
    began = 0
    for window in windows:
        if window is None:
            made += tree[began : began + WINDOW]
            began += WINDOW
        else:
            made += orjson.loads(window.data)
    return made
