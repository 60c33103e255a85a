"""Gives objects of a framework other methods for a while: ones that use the journal.

For objects whose class cannot be changed (see ``class_swap``): Python refuses that for plain classes with a
second base. The methods are attributes of the object, and are removed when its last holder releases it.
"""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final

Make = Callable[[Any, Callable[..., Any]], Callable[..., Any]]
"""Makes a method of an object, from the object and its own method."""

_held: dict[int, tuple[Any, list[object]]] = {}
"""The objects, each with its holders."""
_holding: Final = Lock()


class MethodHold:
    """The objects of one holder. ``methods_of`` gives the methods of an object; none to leave it alone."""

    def __init__(self, methods_of: Callable[[Any], Mapping[str, Make]]) -> None:
        self._methods_of = methods_of
        self._mine: dict[int, Mapping[str, Make]] = {}

    def take(self, *things: Any) -> None:
        """Hold objects."""
        for thing in things:
            methods = self._methods_of(thing)
            with _holding:
                if not methods or id(thing) in self._mine:
                    continue
                self._mine[id(thing)] = methods
                _, holders = _held.setdefault(id(thing), (thing, []))
                if not holders:
                    own = {name: getattr(thing, name) for name in methods}
                    vars(thing).update({name: make(thing, own[name]) for name, make in methods.items()})
                holders.append(self)

    def let_go(self) -> None:
        """Release all of them."""
        with _holding:
            for number, methods in self._mine.items():
                thing, holders = _held[number]
                holders.remove(self)
                if not holders:
                    for name in methods:
                        del vars(thing)[name]
                    del _held[number]
            self._mine.clear()
