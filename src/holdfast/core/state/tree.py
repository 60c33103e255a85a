"""A state as a tree of nodes, each stored once: whole state in, only what is new out.

``StoredNodes`` remembers, for one held run, what is stored already and under which reference. It knows content by its
hash alone, never by its reference: so equal content is cut equally, wherever and whenever it was first stored. It
does no I/O; whoever plants stores the packs, then says that they are stored (``settle``). Plants on their way at the
same time know nothing of each other: at worst the same content is stored twice.

Every pack begins with a line that names whose it is. So packs are shared within one lineage and never beyond it, and
whoever prunes a lineage needs to ask nobody else whether a pack is still wanted.

An *identity* is how content is known here: a small value is its own JSON; a large one is ``#`` and its SHA-256. On
the way from the top to a long list or object, through objects only, everything is looked at in every plant; there,
64 elements at a time are compared as bytes with the last plant, and hashed only where they differ.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, NamedTuple

import orjson

from holdfast.core.state.chunking import pieces, runs
from holdfast.core.state.nodes import (
    DICT,
    LIST,
    TEXT,
    VALUE,
    Fetch,
    Nodes,
    escape,
    link,
    pack_nodes,
    runs_body,
)
from holdfast.errors import TooLarge
from holdfast.limits import (
    STATE_DEPTH_MAX,
    STATE_INLINE_BYTES_MAX,
    STATE_MEMORY_NODES_MAX,
    STATE_PACK_BYTES,
    STATE_PIECE_BYTES_MAX,
    STATE_WIDTH_MAX,
    VALUE_SIZE_BYTES_MAX,
)

_WINDOW: Final = 64
_HASHED: Final = ord("#")
_RUN: Final = ""
"""The form of a run: its reference stands bare, because only a run of runs holds it."""
_PAIR: Final = b"\x00"
"""Between key and value in the identity of a pair; JSON holds no such byte."""


class Pack(NamedTuple):
    """New nodes in one content, and its address."""

    address: str
    data: bytes


class _Window(NamedTuple):
    """Some elements of a long list or object as they were encoded last time, and their identities."""

    data: bytes
    items: list[bytes]


class _Cuts(NamedTuple):
    """Where the runs of a sequence end, and their identities."""

    ends: list[int]
    runs: list[bytes]

    def upto(self, size: int) -> "_Cuts":
        """Those that stay if the sequence stays as it is up to there: all but the last, which may grow."""
        count = min(bisect_right(self.ends, size), max(len(self.ends) - 1, 0))
        return _Cuts(self.ends[:count], self.runs[:count])


class _Long(NamedTuple):
    """A long list or object as it was planted last time."""

    windows: list[_Window]
    cuts: _Cuts


_UNCUT: Final = _Cuts([], [])
_NEVER: Final = _Long([], _UNCUT)


class Planted(NamedTuple):
    """A state as it is to be recorded, and the packs that must be stored with it.

    ``identity`` is of the content alone: equal states have the same, wherever they were stored. ``size`` is that of the
    whole state as JSON.
    """

    root: Any
    packs: tuple[Pack, ...]
    identity: bytes
    size: int
    fresh: dict[bytes, bytes]
    long: dict[tuple[str, ...], _Long]


class StoredNodes:
    """What is stored already. Not thread-safe: one plant or settle at a time."""

    def __init__(self, address_of: Callable[[bytes], str], lineage: str = "") -> None:
        self._address_of = address_of
        self._first_line = orjson.dumps(lineage)
        self._stored: dict[bytes, bytes] = {}
        """Identity -> the JSON that refers to it."""
        self._learned: dict[bytes, str] = {}
        """Hash of a node -> its reference, for a state that another held run planted."""
        self._long: dict[tuple[str, ...], _Long] = {}
        self._begin()

    def plant(self, tree: Any) -> Planted:
        """The tree's root and the packs not stored yet. What was planted and not settled counts as not stored.

        Raises TooLarge. The tree is JSON as orjson writes it; it is not kept.
        """
        self._begin()
        identity = self._spine(tree, ())
        if self._size > VALUE_SIZE_BYTES_MAX:
            raise TooLarge(what="a state", size=self._size, size_max=VALUE_SIZE_BYTES_MAX, unit="bytes")
        self._seal()
        root = orjson.loads(self._json(identity))
        return Planted(root, tuple(self._packs), identity, self._size, self._fresh, self._new_long)

    def settle(self, planted: Planted) -> None:
        """The packs of this plant are stored: later plants refer to them."""
        self._stored.update(planted.fresh)
        self._long = planted.long
        self._learned = {}

    def _begin(self) -> None:
        self._fresh: dict[bytes, bytes] = {}
        self._local: dict[bytes, tuple[str, int]] = {}
        self._nodes: list[bytes] = []
        self._packs: list[Pack] = []
        self._bytes = self._size = 0
        self._new_long: dict[tuple[str, ...], _Long] = {}

    def learn(self, root: Any, fetch: Fetch) -> None:
        """Know a state that is stored: the next plant reads through it, and writes only what is not in it."""
        for ref, node in Nodes(fetch).reachable(root):
            self._learned[sha256(node).digest()] = ref

    @property
    def is_overgrown(self) -> bool:
        """Whether it remembers so much that a new garden should learn the latest state instead."""
        return len(self._stored) > STATE_MEMORY_NODES_MAX

    # -- the way to what is long: looked at in every plant ----------------------------------------------------

    def _spine(self, value: Any, path: tuple[str, ...]) -> bytes:
        if type(value) is dict and len(path) < STATE_DEPTH_MAX:
            if len(value) > STATE_WIDTH_MAX:
                return self._windowed(DICT, list(value.items()), path)
            return self._branch(value, path)
        if type(value) is list:
            return self._windowed(LIST, value.copy(), path)
        data = escape(orjson.dumps(value))
        self._size += len(data)
        return self._content(value, data, len(path))

    def _branch(self, value: dict[str, Any], path: tuple[str, ...]) -> bytes:
        """A small object by the identities of its values, so that a long one among them is not encoded again."""
        pairs = list(value.items())  # at one moment, whatever another thread does to it
        items = [self._spine(item, (*path, key)) for key, item in pairs]
        keys = [orjson.dumps(key) for key, _ in pairs]
        self._size += sum(map(len, keys)) + 2 * len(keys) + 1
        if all(item[0] != _HASHED for item in items):
            data = _object(keys, items)
            if len(data) <= STATE_INLINE_BYTES_MAX:
                return data
        identity = _hashed(b"branch", _object(keys, items))
        if not self._is_known(identity):
            self._add(identity, VALUE, _object(keys, [self._json(item) for item in items]))
        return identity

    def _windowed(self, form: str, elements: Sequence[Any], path: tuple[str, ...]) -> bytes:
        # By form too: an object's pairs are encoded as a list of pairs would be, and are other items.
        place = (form, *path)
        old = self._long.get(place, _NEVER)
        new: list[_Window] = []
        same = 0
        for number, began in enumerate(range(0, len(elements), _WINDOW)):
            data = orjson.dumps(elements[began : began + _WINDOW])
            self._size += len(data)
            if number < len(old.windows) and old.windows[number].data == data:
                new.append(old.windows[number])
                same += same == number
            else:
                # Read back, so that the bytes and the items agree though another thread edits the elements.
                new.append(_Window(data, self._items(form, orjson.loads(data), len(path) + 1)))
        items = [item for window in new for item in window.items]
        cuts = old.cuts.upto(same * _WINDOW)
        self._new_long[place] = _Long(new, cuts)
        if len(items) < STATE_INLINE_BYTES_MAX // 2 and all(item[0] != _HASHED for item in items):
            data = _array(items)
            if form == LIST and len(data) <= STATE_INLINE_BYTES_MAX:
                return data
        identity = _hashed(b"long " + form.encode(), *items)
        if not self._is_known(identity):
            self._new_long[place] = _Long(new, self._cut(identity, form, items, cuts))
        return identity

    def _items(self, form: str, part: Sequence[Any], depth: int) -> list[bytes]:
        if form == LIST:
            return [self._item(element, depth) for element in part]
        return [orjson.dumps(key) + _PAIR + self._item(item, depth) for key, item in part]

    # -- what hangs there: known by the hash of its JSON ------------------------------------------------------

    def _item(self, value: Any, depth: int) -> bytes:
        return self._content(value, escape(orjson.dumps(value)), depth)

    def _content(self, value: Any, data: bytes, depth: int) -> bytes:
        if len(data) <= STATE_INLINE_BYTES_MAX:
            return data
        identity = _hashed(b"", data)
        if not self._is_known(identity):
            self._store(identity, value, data, depth)
        return identity

    def _store(self, identity: bytes, value: Any, data: bytes, depth: int) -> None:
        kind = type(value)
        # Most elements of a list are written once and never edited: a message in one node is read in one go.
        if len(data) <= STATE_PIECE_BYTES_MAX or depth >= STATE_DEPTH_MAX:
            self._add(identity, VALUE, data)
        elif kind is str:
            self._cut(identity, TEXT, [self._piece(piece) for piece in pieces(value)])
        elif kind is list:
            self._cut(identity, LIST, [self._item(element, depth + 1) for element in value])
        elif len(value) > STATE_WIDTH_MAX:
            self._cut(identity, DICT, self._items(DICT, list(value.items()), depth + 1))
        else:
            items = [self._item(item, depth + 1) for item in value.values()]
            keys = [orjson.dumps(key) for key in value]
            self._add(identity, VALUE, _object(keys, [self._json(item) for item in items]))

    def _piece(self, piece: str) -> bytes:
        data = orjson.dumps(piece)
        if len(data) <= STATE_INLINE_BYTES_MAX:
            return data
        identity = _hashed(b"piece", data)
        if not self._is_known(identity):
            self._add(identity, VALUE, data)
        return identity

    def _cut(self, identity: bytes, form: str, items: Sequence[bytes], stored: _Cuts = _UNCUT) -> _Cuts:
        """Store a sequence as runs, runs of runs, and so on to the one at the top; how it begins may be ``stored``."""
        cuts = self._cut_on(form, items, stored)
        items, level = cuts.runs, 1
        counts = [end - began for began, end in pairwise((0, *cuts.ends))]
        while len(items) > 1:
            above: list[bytes] = []
            sums: list[int] = []
            began = 0
            for run in runs(items):
                inside = counts[began : began + len(run)]
                began += len(run)
                above.append(self._run(form, level, run, inside))
                sums.append(sum(inside))
            items, counts, level = above, sums, level + 1
        # a list of one run is that run's array, and needs no form of its own
        self._refer(identity, VALUE if form == LIST and level == 1 else form, items[0])
        return cuts

    def _cut_on(self, form: str, items: Sequence[bytes], stored: _Cuts) -> _Cuts:
        """Cut items into runs where the last stored run ends: what was appended says nothing about those before it."""
        end = stored.ends[-1] if stored.ends else 0
        ends, found = stored.ends.copy(), stored.runs.copy()
        for run in runs(items[end:]):
            end += len(run)
            ends.append(end)
            found.append(self._run(form, 0, run, ()))
        return _Cuts(ends, found)

    def _run(self, form: str, level: int, run: Sequence[bytes], counts: Sequence[int]) -> bytes:
        identity = _hashed(b"run %d %b" % (level, form.encode()), *run)
        if not self._is_known(identity):
            if level:
                body = runs_body(level, [self._json(item) for item in run], counts)
            elif form == DICT:
                body = _array([self._pair(item) for item in run])
            else:
                body = _array([self._json(item) for item in run])
            self._add(identity, _RUN, body)
        return identity

    def _pair(self, item: bytes) -> bytes:
        key, _, value = item.partition(_PAIR)
        return key + b"," + self._json(value)

    # -- nodes and references ---------------------------------------------------------------------------------

    def _is_known(self, identity: bytes) -> bool:
        return identity in self._stored or identity in self._fresh or identity in self._local

    def _json(self, identity: bytes) -> bytes:
        """What stands for the content in a node: itself, or a reference."""
        if identity[0] != _HASHED:
            return identity
        known = self._stored.get(identity) or self._fresh.get(identity)
        if known is not None:
            return known
        form, index = self._local[identity]
        return _reference(form, f"/{index}")

    def _add(self, identity: bytes, form: str, body: bytes) -> None:
        ref = self._learned.get(sha256(body).digest()) if self._learned else None
        if ref is not None:
            self._fresh[identity] = _reference(form, ref)
            return
        # Only now, and never between making a body and adding it: the body may refer to lines of its own pack.
        self._local[identity] = (form, len(self._nodes) + 1)  # after the first line
        self._nodes.append(body)
        self._bytes += len(body)
        if self._bytes >= STATE_PACK_BYTES:
            self._seal()

    def _refer(self, identity: bytes, form: str, run: bytes) -> None:
        """Let a whole sequence be known by its topmost run."""
        local = self._local.get(run)
        if local is not None:
            self._local[identity] = (form, local[1])
        else:
            self._fresh[identity] = _reference(form, self._json(run).decode())

    def _seal(self) -> None:
        if not self._nodes:
            return
        data = pack_nodes([self._first_line, *self._nodes])
        address = self._address_of(data)
        self._packs.append(Pack(address, data))
        for identity, (form, index) in self._local.items():
            self._fresh[identity] = _reference(form, f"{address}/{index}")
        self._local, self._nodes, self._bytes = {}, [], 0


def _hashed(kind: bytes, *parts: bytes) -> bytes:
    # With commas between them, parts need no length: JSON shows its end, and a hash is of fixed length.
    return b"#" + sha256(kind + b"\n" + b",".join(parts)).digest()


def _reference(form: str, ref: str) -> bytes:
    return link(form, ref) if form else ref.encode()


def _object(keys: Sequence[bytes], items: Sequence[bytes]) -> bytes:
    return b"{" + b",".join([key + b":" + item for key, item in zip(keys, items, strict=True)]) + b"}"


def _array(items: Sequence[bytes]) -> bytes:
    first, *rest = items or (b"",)
    if first.startswith(b'"#'):  # a text of the user's, which is a sign of ours only where it is first
        first = b'"#' + first[1:]
    return b"[" + b",".join([first, *rest]) + b"]"
