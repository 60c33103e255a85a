"""Gives objects of a framework another class for a while: one that uses the journal.

Instances change their class, and classes stay unchanged: a copy of a durable object is durable too, and other
objects are not. When its last holder releases it, an object is as before.
"""

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from holdfast.model.named_tuple import NamedTuple

H = TypeVar("H")


class Held(NamedTuple):
    """An object, its original class, and its holders."""

    thing: Any
    kind: type
    holders: list[Any]


_held: dict[int, Held] = {}
_holding: Final = Lock()


class Hold(Generic[H]):
    """The objects of one holder. ``mixin_of`` gives the mixin of an object; None to leave it alone."""

    def __init__(self, holder: H, mixin_of: Callable[[Any], type | None]) -> None:
        self._holder = holder
        self._mixin_of = mixin_of
        self._mine: list[int] = []

    def take(self, *things: Any) -> None:
        """Hold objects."""
        for thing in things:
            kind, mixin = type(thing), self._mixin_of(thing)
            if mixin is None:
                continue
            with _holding:
                holders = _held.setdefault(id(thing), Held(thing, kind, [])).holders
                if self._holder not in holders:
                    holders.append(self._holder)
                    self._mine.append(id(thing))
                if not issubclass(kind, mixin):
                    object.__setattr__(thing, "__class__", _mixed(kind, mixin))  # type: ignore[arg-type]  # classes are hashable

    def let_go(self) -> None:
        """Release all of them."""
        with _holding:
            for number in self._mine:
                thing, kind, holders = _held[number]
                holders.remove(self._holder)
                if not holders:
                    object.__setattr__(thing, "__class__", kind)
                    del _held[number]
            self._mine.clear()


def only_holder(thing: Any) -> Any:
    """The holder of an object; None if it has none, or several."""
    held = _held.get(id(thing))
    return held.holders[0] if held is not None and len(held.holders) == 1 else None


@cache
def _mixed(kind: Any, mixin: Any) -> type:
    make: Callable[..., type] = type(kind)
    # Created under another name, which is set back afterwards: a registry of classes would take it for the
    # user's.
    namespace = {
        "__module__": kind.__module__,
        "__qualname__": f"Durable{kind.__qualname__}",
        "__doc__": kind.__doc__,
    }
    mixed = make(kind.__name__, (mixin, kind), namespace)
    mixed.__qualname__ = kind.__qualname__
    return mixed
