"""Reads a state back from its nodes, and lists the packs that it needs.

The walk keeps a list of containers to fill instead of recursing, so a deep state cannot exhaust the stack.
Damaged nodes raise Corrupt: depth is bounded, and a reference that leads back to itself is found.
"""

from collections.abc import Iterable
from typing import Any

import orjson

from holdfast.core.state.nodes import (
    DICT,
    LIST,
    TEXT,
    VALUE,
    Fetch,
    Nodes,
    corrupt,
    form_of,
    links,
    pairs,
    ref_in,
    unescape,
)
from holdfast.limits import VALUE_DEPTH_MAX


def gather(root: Any, fetch: Fetch) -> Any:
    """The state that was planted.

    It shares no object with ``root``. Raises Corrupt if a node is missing or wrong.
    """
    return gather_with(root, Nodes(fetch))


def gather_with(root: Any, nodes: Nodes) -> Any:
    """As ``gather``, with a reader that keeps the packs that it has fetched."""
    top = [_copied(root)]
    todo: list[tuple[Any, int]] = [(top, 0)]
    while todo:
        holder, depth = todo.pop()
        if depth > VALUE_DEPTH_MAX:
            raise corrupt(f"it is nested deeper than {VALUE_DEPTH_MAX}")
        parts = holder.items() if type(holder) is dict else enumerate(holder)
        # A list, because the loop below writes into the container that is being read.
        inner = [(key, part, form_of(part)) for key, part in parts if type(part) in _CONTAINERS]
        nodes.expect([ref_in(part) for _, part, form in inner if form not in _OWN])
        for key, part, form in inner:
            if form == VALUE:  # most are, in a long list
                value, is_whole = nodes.open(part[1])
                if is_whole:
                    holder[key] = value
                    continue
            else:
                value = part
            holder[key], is_whole = _resolved(value, nodes)
            if not is_whole and type(holder[key]) in _CONTAINERS:
                todo.append((holder[key], depth + 1))
    return top[0]


def packs_of(root: Any, fetch: Fetch) -> set[str]:
    """The addresses of all packs that the state needs; ``root`` may be a list of roots. Raises Corrupt.

    A few packs are fetched by one request, and only these are in memory, since a lineage may have many. A
    pack is fetched again if a later one refers to another node in it.
    """
    seen: dict[str, set[str]] = {}
    wanted: dict[str, list[str]] = {}

    def want(refs: Iterable[str]) -> None:
        for ref in refs:
            address, _, line = ref.rpartition("/")
            if line not in seen.setdefault(address, set()):
                seen[address].add(line)
                wanted.setdefault(address, []).append(line)

    want(links(orjson.dumps(root)))
    while wanted:
        group = dict(wanted.popitem() for _ in range(min(_PACKS_AT_ONCE, len(wanted))))
        nodes = Nodes(fetch)
        nodes.expect(f"{address}/{lines[0]}" for address, lines in group.items())
        for address, first in group.items():
            lines = [*first, *wanted.pop(address, ())]
            while lines:
                want(links(nodes.read(f"{address}/{lines.pop()}")))
                lines += wanted.pop(address, ())
    return set(seen)


_PACKS_AT_ONCE = 16
_CONTAINERS = (list, dict)
_OWN = (None, "##")
"""The forms of arrays that are user data and no references."""


def _resolved(value: Any, nodes: Nodes) -> tuple[Any, bool]:
    """The value with its reference followed, and whether it is known to hold no more references."""
    # A node is parsed each time it is met. If one object were used twice, a change of one place in the
    # program's state would change the other.
    for _ in range(VALUE_DEPTH_MAX):
        form = form_of(value)
        if form is None:
            return value, False
        if form == "##":
            return unescape(value), False
        ref = ref_in(value)
        if form == VALUE:
            value, is_whole = nodes.open(ref)
            if is_whole:
                return value, True
        elif form == LIST:
            return nodes.items(ref), False
        elif form == DICT:
            return pairs(nodes.items(ref), ref), False
        elif form == TEXT:
            items = nodes.items(ref)
            expect(items, nodes)
            return "".join([_piece(item, nodes) for item in items]), True
        else:
            raise corrupt(f"{form!r} stands where a value should")
    raise corrupt("a reference leads in a circle")


def expect(values: Iterable[Any], nodes: Nodes) -> None:
    """Fetch together what these values refer to: one request to the store instead of one per value."""
    nodes.expect(ref_in(value) for value in values if form_of(value) not in _OWN)


def _piece(item: Any, nodes: Nodes) -> str:
    piece, _ = _resolved(item, nodes)
    if type(piece) is not str:
        raise corrupt("a piece of a text is something else")
    return piece


def _copied(root: Any) -> Any:
    """A copy of the root, which is small. The caller keeps its own."""
    return orjson.loads(orjson.dumps(root))
