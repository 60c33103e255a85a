"""Finds what changed between two states, by walking both trees and skipping what they share.

Equal references are equal content and are never loaded, so the cost follows the difference. List elements are
matched by content, so an element inserted in the middle is one change. The path of a change is its path after
the changes before it: applied in order, they turn one state into the other (except for the order of keys,
which JSON ignores).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import orjson

from holdfast.core.state.assemble import expect, gather_with
from holdfast.core.state.nodes import (
    DICT,
    LIST,
    RUNS,
    TEXT,
    VALUE,
    Fetch,
    Nodes,
    elements,
    form_of,
    pairs,
    ref_in,
    runs_in,
    unescape,
)
from holdfast.model.named_tuple import NamedTuple

Path: TypeAlias = tuple[str | int, ...]


class Change(NamedTuple):
    """One difference: its path, and the values before and after. None if there was or is nothing."""

    path: Path
    kind: Literal["added", "removed", "changed"]
    before: Any
    after: Any


class Found(NamedTuple):
    """A change, and the path of its value in the first state, which earlier changes do not shift."""

    change: Change
    old_path: Path


class _Run(NamedTuple):
    """A run of elements that is not loaded, because both sides share it; and how many there are."""

    ref: str
    size: int


class _Pair(NamedTuple):
    """Two values still to be compared."""

    path: Path
    old_path: Path
    a: Any
    b: Any


def changes(a_root: Any, b_root: Any, fetch: Fetch) -> Iterator[Change]:
    """The changes that turn the state at ``a_root`` into the one at ``b_root``. Raises Corrupt."""
    return (found.change for found in find_changes(a_root, b_root, Nodes(fetch)))


def find_changes(a_root: Any, b_root: Any, nodes: Nodes) -> Iterator[Found]:
    """As ``changes``, with the old paths, and with a reader that keeps what it has read."""
    todo = [_Pair((), (), a_root, b_root)]
    while todo:
        # Changes inside an element come after the changes of its list, because only then its index is final.
        inner: list[_Pair] = []
        for found in _compared(todo.pop(), nodes):
            if isinstance(found, Found):
                yield found
            else:
                inner.append(found)
        todo += reversed(inner)


def as_json_patch(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """The changes as operations of RFC 6902."""
    return [_operation(change) for change in changes]


def _operation(change: Change) -> dict[str, Any]:
    path = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in change.path)
    if change.kind == "removed":
        return {"op": "remove", "path": path}
    return {"op": "add" if change.kind == "added" else "replace", "path": path, "value": change.after}


def _compared(pair: _Pair, nodes: Nodes) -> Iterator[Found | _Pair]:
    """The changes between two values, and the pairs of values inside them that are still to be compared."""
    path, old_path, a, b = pair
    # Compared as bytes, because 1, 1.0 and True are equal in Python.
    if orjson.dumps(a) == orjson.dumps(b):
        return
    a, b = _opened(a, nodes), _opened(b, nodes)
    kinds = {_kind(a), _kind(b)}
    if kinds == {"list"}:
        yield from _lists(pair._replace(a=a, b=b), nodes)
    elif kinds == {"dict"}:
        yield from _objects(pair._replace(a=a, b=b), nodes)
    else:
        before, after = gather_with(a, nodes), gather_with(b, nodes)
        if orjson.dumps(before) != orjson.dumps(after):
            yield Found(Change(path, "changed", before, after), old_path)


def _opened(value: Any, nodes: Nodes) -> Any:
    """The value with its reference followed. A long list or object stays as a reference to its top run."""
    if form_of(value) == VALUE:  # one step is enough: no node is only a reference
        value = nodes.load(ref_in(value))
    return value


def _kind(value: Any) -> str:
    form = form_of(value)
    if form in {LIST, DICT, TEXT}:
        return form.removeprefix("#")
    return type(value).__name__


# -- objects: by key -----------------------------------------------------------------------------------------


def _objects(pair: _Pair, nodes: Nodes) -> Iterator[Found | _Pair]:
    path, old_path, a, b = pair
    before, after = _both_objects(a, b, nodes)
    differ = [side[key] for side in (before, after) for key in side if not _is_same(key, before, after)]
    expect(differ, nodes)
    for key, item in before.items():
        if key not in after:
            gone = Change((*path, key), "removed", gather_with(item, nodes), None)
            yield Found(gone, (*old_path, key))
    for key, item in after.items():
        if key in before:
            yield _Pair((*path, key), (*old_path, key), before[key], item)
        else:
            yield Found(Change((*path, key), "added", None, gather_with(item, nodes)), (*old_path, key))


def _is_same(key: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether both objects have the key, with a value that need not be loaded."""
    return key in before and key in after and orjson.dumps(before[key]) == orjson.dumps(after[key])


def _both_objects(a: Any, b: Any, nodes: Nodes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both objects by key, without the keys in shared runs, which are equal on both sides."""
    if form_of(a) == DICT and form_of(b) == DICT:
        sides = _unshared(ref_in(a), ref_in(b), nodes)
        flat_a, flat_b = ([item for item in side if type(item) is not _Run] for side in sides)
        return pairs(flat_a, ref_in(a)), pairs(flat_b, ref_in(b))
    return _object(a, nodes), _object(b, nodes)


def _object(value: Any, nodes: Nodes) -> dict[str, Any]:
    whole: dict[str, Any] = pairs(nodes.items(ref_in(value)), value[1]) if form_of(value) == DICT else value
    return whole


# -- lists: by content ---------------------------------------------------------------------------------------


def _lists(pair: _Pair, nodes: Nodes) -> Iterator[Found | _Pair]:
    """The changes of a list, from the left.

    ``at`` is the index in a document that is b up to it and a after it.
    """
    path, old_path, a, b = pair
    at = was_at = 0
    for before, after, count in _blocks(*_both_lists(a, b, nodes), nodes):
        at, was_at = at + count, was_at + count
        for old, new in zip(before, after, strict=False):
            yield _Pair((*path, at), (*old_path, was_at), old, new)
            at, was_at = at + 1, was_at + 1
        for old in before[len(after) :]:
            gone = Change((*path, at), "removed", gather_with(old, nodes), None)
            yield Found(gone, (*old_path, was_at))
            was_at += 1
        for new in after[len(before) :]:
            yield Found(Change((*path, at), "added", None, gather_with(new, nodes)), (*old_path, was_at))
            at += 1


def _both_lists(a: Any, b: Any, nodes: Nodes) -> tuple[list[Any], list[Any]]:
    if form_of(a) == LIST and form_of(b) == LIST:
        return _unshared(ref_in(a), ref_in(b), nodes)
    return _elements(a, nodes), _elements(b, nodes)


def _elements(value: list[Any], nodes: Nodes) -> list[Any]:
    form = form_of(value)
    if form == LIST:
        return nodes.items(ref_in(value))
    return unescape(value) if form else value


def _unshared(a_ref: str, b_ref: str, nodes: Nodes) -> tuple[list[Any], list[Any]]:
    """Both sequences of items, with each shared run left as a ``_Run``."""
    sides: list[list[Any]] = [[_Run(a_ref, 0)], [_Run(b_ref, 0)]]
    levels = [nodes.level_of(a_ref), nodes.level_of(b_ref)]
    # The trees may have different heights. Only runs of the same level can be the same run.
    for now in range(max(levels), -1, -1):
        a_runs, b_runs = ({item.ref for item in side if type(item) is _Run} for side in sides)
        shared = a_runs & b_runs
        for refs, level in zip((a_runs, b_runs), levels, strict=True):
            if level >= now:
                nodes.expect(refs - shared)
        for number, side in enumerate(sides):
            if levels[number] >= now:
                sides[number] = [inner for item in side for inner in _stepped(item, shared, nodes)]
    # The size of a top run is not known. If it is shared, it is an inner run on the other side, which knows
    # its size.
    sizes = {item.ref: item.size for side in sides for item in side if type(item) is _Run and item.size}
    a, b = (
        [item._replace(size=sizes[item.ref]) if type(item) is _Run else item for item in side]
        for side in sides
    )
    return a, b


def _stepped(item: Any, shared: set[str], nodes: Nodes) -> Sequence[Any]:
    """The runs or items in a run; a shared run, or an item, as it is."""
    if type(item) is not _Run or item.ref in shared:
        return (item,)
    node = nodes.load(item.ref)
    if form_of(node) != RUNS:
        return elements(node, item.ref)
    return [_Run(ref, count) for ref, count in runs_in(node, item.ref)]


_Block: TypeAlias = tuple[list[Any], list[Any], int]
"""Elements of a, the elements of b in their place, and how many equal elements come before them."""


def _blocks(a: list[Any], b: list[Any], nodes: Nodes) -> Iterator[_Block]:
    a_keys, b_keys = _matchable(a, b, nodes)
    stayed = a_done = b_done = 0
    for a_at, b_at, size in _matches(a_keys, b_keys):
        before, after = _all_open(a[a_done:a_at], nodes), _all_open(b[b_done:b_at], nodes)
        if before or after:
            yield before, after, stayed
            stayed = 0
        stayed += sum(item.size if type(item) is _Run else 1 for item in a[a_at : a_at + size])
        a_done, b_done = a_at + size, b_at + size


def _all_open(items: Sequence[Any], nodes: Nodes) -> list[Any]:
    """Elements only: a shared run that moved is replaced by its elements."""
    return [e for item in items for e in (nodes.items(item.ref) if type(item) is _Run else (item,))]


def _matchable(a: list[Any], b: list[Any], nodes: Nodes) -> tuple[list[bytes], list[bytes]]:
    """Bytes that are equal for equal elements: a reference that both sides have, or else the content."""
    a_json, b_json = ([_json(item) for item in side] for side in (a, b))
    shared = set(a_json) & set(b_json)
    alone = [
        item
        for item, json in zip((*a, *b), (*a_json, *b_json), strict=True)
        if json not in shared and type(item) is not _Run
    ]
    expect(alone, nodes)

    def key(item: Any, json: bytes) -> bytes:
        if json in shared or form_of(item) is None:
            return json
        return orjson.dumps(gather_with(item, nodes))

    return list(map(key, a, a_json)), list(map(key, b, b_json))


def _json(item: Any) -> bytes:
    return b"run " + item.ref.encode() if type(item) is _Run else orjson.dumps(item)


_MATCHED_MAX = 4_000_000
"""With more possible pairs, elements between the common beginning and end are paired by index, for speed."""


def _matches(a: list[bytes], b: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """Equal ranges, from left to right. The last is empty and marks both ends."""
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    yield 0, 0, begin
    a_end, b_end = len(a) - end, len(b) - end
    if 0 < (a_end - begin) * (b_end - begin) <= _MATCHED_MAX:
        from difflib import SequenceMatcher

        matcher = SequenceMatcher(None, a[begin:a_end], b[begin:b_end], autojunk=False)
        for a_at, b_at, size in matcher.get_matching_blocks()[:-1]:
            yield begin + a_at, begin + b_at, size
    yield a_end, b_end, end
    yield len(a), len(b), 0
