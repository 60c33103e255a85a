"""Knows again, without encoding it, a part of a state that is as it was.

The *shape* of some elements is the exact types and lengths of all containers in them, and the very objects
that are their keys and leaves. A leaf is a text, a number, a bool or None of exactly that type, so it cannot
change. Two values of one shape have the same JSON, whatever was done to their containers meanwhile: a part
that was changed in place, or in which something equal but of another type stands, has another shape.

Invariants: a shape refers to its leaves, so none of them can be freed and its address used again. It refers
to no container of the program. No part of it has the key of a tag, so the codec leaves it as it is.
"""

from collections.abc import Sequence
from itertools import chain, compress
from operator import is_, not_
from types import NoneType
from typing import Any, Final

from holdfast.limits import STATE_SHAPE_LEAVES_MAX, STATE_SHAPE_LEVELS_MAX
from holdfast.model.named_tuple import NamedTuple

_LEAVES: Final = frozenset({str, int, float, bool, NoneType})
_DICT: Final = frozenset({dict})
_LIST: Final = frozenset({list})
_TAG: Final = "$"


class _NotPlain(Exception):
    """There is something else than plain data, or too many levels of it."""


class _Level(NamedTuple):
    """The containers that are equally deep. Flat, the items of dicts come before those of lists.

    Tuples, because the garbage collector forgets those that refer to no containers.
    """

    kinds: frozenset[type]
    are_dicts: tuple[bool, ...]
    are_lists: tuple[bool, ...]
    lengths: tuple[int, ...]
    keys: tuple[str, ...]
    leaves: tuple[Any, ...]
    are_leaves: tuple[bool, ...]
    """Of all items, flat."""
    are_inner: tuple[bool, ...]
    """Which items, flat, are containers. Empty if all are leaves."""

    def parted(self, containers: list[Any]) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """The dicts and the lists among the containers of this level; None if one has another type."""
        if not self.kinds.issuperset(map(type, containers)):
            return None
        if self.kinds == _DICT:
            return containers, ()
        if self.kinds == _LIST:
            return (), containers
        if tuple([type(container) is dict for container in containers]) != self.are_dicts:
            return None
        return list(compress(containers, self.are_dicts)), list(compress(containers, self.are_lists))


class Shape:
    """The shape of a sequence of elements."""

    __slots__ = ("_levels", "size")

    def __init__(self, levels: list[_Level], size: int) -> None:
        self._levels = levels
        self.size = size
        """How many keys and leaves it refers to."""

    def holds(self, elements: list[Any]) -> bool:
        """Whether these elements have this shape."""
        # All loops are inside of the interpreter: a step of Python per leaf takes as long as to encode it.
        containers: list[Any] = [elements]
        for level in self._levels:
            parted = level.parted(containers)
            if parted is None or tuple(map(len, containers)) != level.lengths:
                return False
            dicts, lists = parted
            if not all(map(is_, chain.from_iterable(dicts), level.keys)):
                return False
            items = _items(dicts, lists)
            if not level.are_inner:
                return all(map(is_, items, level.leaves))
            containers = list(items)
            if level.leaves:
                if not all(map(is_, compress(containers, level.are_leaves), level.leaves)):
                    return False
                containers = list(compress(containers, level.are_inner))
        raise AssertionError("the last level of a shape has containers")


def shape_of(elements: Sequence[Any]) -> tuple[Shape, list[Any]] | None:
    """The shape of these elements, and a copy that has it; None if they are not plain data, or too much.

    Another thread may change the elements meanwhile, so what was encoded must be compared with the copy. That
    refuses keys that are no texts, too: the codec writes them in another way.
    """
    try:
        copy = [item if type(item) in _LEAVES else _copied(item, 1) for item in elements]
    except _NotPlain:
        return None
    levels: list[_Level] = []
    size, containers = 0, [copy]
    while containers:
        level, containers = _level_of(containers)
        levels.append(level)
        size += len(level.keys) + len(level.leaves)
        if _TAG in level.keys or size > STATE_SHAPE_LEAVES_MAX:
            return None
        # The difference is 0.0 for every float but the infinities and NaN, which the codec tags.
        if any(type(leaf) is float and leaf - leaf != 0.0 for leaf in level.leaves):
            return None
    return Shape(levels, size), copy


def _copied(value: Any, depth: int) -> Any:
    if depth > STATE_SHAPE_LEVELS_MAX:  # it may contain itself
        raise _NotPlain
    kind = type(value)
    if kind is dict:
        return {
            key: item if type(item) in _LEAVES else _copied(item, depth + 1) for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _LEAVES else _copied(item, depth + 1) for item in value]
    raise _NotPlain


def _level_of(containers: list[Any]) -> tuple[_Level, list[Any]]:
    are_dicts = tuple([type(container) is dict for container in containers])
    are_lists = tuple(map(not_, are_dicts))
    dicts, lists = list(compress(containers, are_dicts)), list(compress(containers, are_lists))
    items = list(_items(dicts, lists))
    are_leaves = tuple([type(item) in _LEAVES for item in items])
    are_inner = () if all(are_leaves) else tuple(map(not_, are_leaves))
    level = _Level(
        frozenset(map(type, containers)),
        are_dicts,
        are_lists,
        tuple(map(len, containers)),
        tuple(chain.from_iterable(dicts)),
        tuple(compress(items, are_leaves)),
        are_leaves,
        are_inner,
    )
    return level, list(compress(items, are_inner))


def _items(dicts: Sequence[Any], lists: Sequence[Any]) -> "chain[Any]":
    return chain(chain.from_iterable(map(dict.values, dicts)), chain.from_iterable(lists))
