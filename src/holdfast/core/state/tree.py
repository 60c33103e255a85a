"""Stores a state as a tree of nodes, each stored once: takes the whole state, returns only what is new.

``StoredNodes`` remembers, for one held run, what is stored already and under which reference. It identifies
content by its hash, never by its reference, so equal content is cut equally wherever it was first stored. It
does no I/O: the caller plants a state, stores the packs, and then calls ``settle``. Plants that overlap in
time do not see each other; at worst the same content is stored twice.

Every pack begins with a line that names its lineage. So two lineages never share a pack, and pruning one
lineage need not ask whether another one still needs it.

The *identity* of a small value is its own JSON; that of a large one is ``#`` and its SHA-256. Objects near
the top are examined in every plant. Long lists and objects are compared with the last plant as bytes, 64
elements at a time, and in a window that differs only the elements from the first changed one on are hashed:
that is what makes the cost follow the change. What of a long list is as it was need not be encoded at all:
``rest_of`` and ``plant_rest`` leave it out, see ``unchanged.py``.

Values that the codec would tag must be tagged before they are planted. Data that was parsed from JSON may
come as it is: only its new elements are looked at, and what needs the codec is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import orjson

from holdfast.core.state.chunking import pieces, runs
from holdfast.core.state.last_state import NEVER, UNCUT, UNSEEN, WINDOW, Cuts, Long, Window, hashed
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
from holdfast.core.state.unchanged import Rest, rest_of
from holdfast.errors import TooLarge
from holdfast.limits import (
    STATE_DEPTH_MAX,
    STATE_INLINE_BYTES_MAX,
    STATE_MEMORY_NODES_MAX,
    STATE_PACK_BYTES,
    STATE_PIECE_BYTES_MAX,
    STATE_WIDTH_MAX,
    VALUE_DEPTH_MAX,
    VALUE_SIZE_BYTES_MAX,
)
from holdfast.model.named_tuple import NamedTuple

_HASHED: Final = ord("#")
_RUN: Final = ""
"""The form of a run. Its reference has no word before it, because only a run of runs refers to it."""
_PAIR: Final = b"\x00"
"""Separates key and value in the identity of a pair. JSON never has this byte."""
_TAG: Final = "$"
_DOLLAR: Final = ord(_TAG)
_TAGGED: Final = b'"$":'
"""Encoded data have it exactly where an object has that key: in a text the quotes are escaped."""


class _NeedsTags(Exception):
    """The codec must look at these data: an object has the key of a tag, or they may be too deep."""


_CONTAINERS: Final = (dict, list)


class Pack(NamedTuple):
    """New nodes as one blob, and its address."""

    address: str
    data: bytes


class Planted(NamedTuple):
    """The root to record for a state, and the packs that must be stored before it.

    ``identity`` depends on the content alone: equal states have the same one. ``size`` is that of the whole
    state as JSON.
    """

    root: Any
    packs: tuple[Pack, ...]
    identity: bytes
    size: int
    fresh: dict[bytes, bytes]
    series: str
    long: dict[tuple[str, ...], Long]


class StoredNodes:
    """The nodes that a held run has stored already. Not thread-safe: one plant or settle at a time."""

    def __init__(self, address_of: Callable[[bytes], str], lineage: str = "") -> None:
        self._address_of = address_of
        self._first_line = orjson.dumps(lineage)
        self._stored: dict[bytes, bytes] = {}
        """Identity -> the JSON that refers to it."""
        self._learned: dict[bytes, str] = {}
        """Hash of a node -> its reference, for a state that an earlier process planted."""
        self._long: dict[str, dict[tuple[str, ...], Long]] = {}
        """Of the last state of each series, by the form and the place of a list or object."""
        self._is_json = False
        self._begin("", (), {})

    def plant_json(self, data: Any, *, series: str = "") -> Planted | None:
        """As ``plant``, for data that were parsed from JSON; None if the codec must look at them first."""
        self._is_json = True
        try:
            return self.plant(data, series=series)
        except (_NeedsTags, TypeError):  # orjson writes fewer levels than it reads
            return None
        finally:
            self._is_json = False

    def plant(self, tree: Any, *, series: str = "", known: tuple[bytes, ...] = ()) -> Planted:
        """The root of this state, and the packs that are not stored yet. Raises TooLarge.

        What was planted and never settled counts as not stored: the append may have failed. It is compared
        with the last one of its ``series``. ``known``: the secrets that were hidden in it.
        """
        self._begin(series, known, {})
        return self._planted(tree)

    def rest_of(self, state: Any, known: Sequence[bytes] = ()) -> Rest | None:
        """What of this state is to be encoded for ``plant_rest``; None if that is all of it."""
        last = self._long.get("")
        return rest_of(state, last, known) if last else None

    def plant_rest(self, rest: Rest, tree: Any, known: tuple[bytes, ...] = ()) -> Planted | None:
        """As ``plant``, for the tree of what ``rest_of`` has left. None if it does not fit in there."""
        self._begin("", known, rest.kept)
        planted = self._planted(tree)
        return None if self._kept else planted

    def _planted(self, tree: Any) -> Planted:
        identity = self._spine(tree, ())
        if self._size > VALUE_SIZE_BYTES_MAX:
            raise TooLarge(what="a state", size=self._size, size_max=VALUE_SIZE_BYTES_MAX, unit="bytes")
        self._seal()
        root = orjson.loads(self._json(identity))
        return Planted(
            root, tuple(self._packs), identity, self._size, self._fresh, self._series, self._new_long
        )

    def settle(self, planted: Planted) -> None:
        """Note that the packs of this plant are stored, so that later plants refer to them."""
        self._stored.update(planted.fresh)
        self._long[planted.series] = planted.long
        # The plant has read through the learned state: what it shares is in ``fresh`` now.
        self._learned = {}

    def _begin(
        self,
        series: str,
        known: tuple[bytes, ...],
        kept: Mapping[tuple[str, ...], Sequence[Window | None]],
    ) -> None:
        self._fresh: dict[bytes, bytes] = {}
        self._local: dict[bytes, tuple[str, int]] = {}
        self._nodes: list[bytes] = []
        self._packs: list[Pack] = []
        self._bytes = self._size = 0
        self._series, self._known, self._kept = series, known, dict(kept)
        self._last = self._long.get(series, {})
        self._new_long: dict[tuple[str, ...], Long] = {}

    def learn(self, root: Any, fetch: Fetch) -> None:
        """Read the nodes of a stored state, so that the next plant does not write them again."""
        for ref, node in Nodes(fetch).reachable(root):
            self._learned[sha256(node).digest()] = ref

    @property
    def is_overgrown(self) -> bool:
        """Whether it uses so much memory that the caller should replace it and learn the latest state."""
        return len(self._stored) > STATE_MEMORY_NODES_MAX

    # -- objects near the top, and long lists: examined in every plant ---------------------------------------

    def _spine(self, value: Any, path: tuple[str, ...]) -> bytes:
        if type(value) is dict and len(path) < STATE_DEPTH_MAX:
            if self._is_json and _TAG in value:
                raise _NeedsTags
            if len(value) > STATE_WIDTH_MAX:
                return self._windowed(DICT, list(value.items()), path)
            return self._branch(value, path)
        if type(value) is list:
            return self._windowed(LIST, value.copy(), path)
        data = orjson.dumps(value)
        if self._is_json and type(value) is dict:
            _check_plain(data, len(path))
        data = escape(data)
        self._size += len(data)
        return self._content(value, data, len(path))

    def _branch(self, value: dict[str, Any], path: tuple[str, ...]) -> bytes:
        """Identify a small object by the identities of its values: long values are not encoded again."""
        items: list[bytes] = []
        keys: list[bytes] = []
        for key, item in list(value.items()):  # a copy at one moment: another thread may change the object
            items.append(self._spine(item, (*path, key)))
            keys.append(orjson.dumps(key))
        self._size += sum(map(len, keys)) + 2 * len(keys) + 1
        data = _object(keys, items)
        if len(data) <= STATE_INLINE_BYTES_MAX and not _has_hashed(items):
            return data
        identity = _hashed(b"branch", data)
        if not self._is_known(identity):
            self._add(identity, VALUE, _object(keys, [self._json(item) for item in items]))
        return identity

    def _windowed(self, form: str, elements: Sequence[Any], path: tuple[str, ...]) -> bytes:
        # The form is part of the key, because the pairs of an object encode like a list of pairs, and a value
        # may change from one to the other between two plants.
        place = (form, *path)
        old = self._last.get(place, NEVER)
        kept = self._kept.pop(place, None)
        new: list[Window] = []
        same = size = began = 0
        for number, as_before in enumerate(kept or [None] * -(-len(elements) // WINDOW)):
            last = old.windows[number] if number < len(old.windows) else UNSEEN
            if as_before is None:
                part = elements[began : began + WINDOW]
                began += len(part)
                window, unchanged = self._encoded(form, part, last, len(path) + 1, was_tried=bool(kept))
            else:
                window, unchanged = as_before, len(as_before.items) if as_before.data is last.data else 0
            same += unchanged if same == size else 0
            size += len(window.items)
            self._size += len(window.data)
            new.append(window)
        assert began == len(elements), "more elements than windows are left of a list"
        items = [item for window in new for item in window.items]
        cuts = old.upto(same)
        if size < STATE_INLINE_BYTES_MAX // 2 and not _has_hashed(items):
            data = _array(items)
            if form == LIST and len(data) <= STATE_INLINE_BYTES_MAX:
                self._new_long[place] = Long(new, cuts, self._known)
                return data
        kind = b"long " + form.encode()
        if len(new) > 1:
            identity, beginning = hashed(kind, new, old.beginning, same // WINDOW)
        else:
            identity, beginning = _hashed(kind, *items), None
        if not self._is_known(identity):
            cuts = self._cut(identity, form, items, cuts)
        self._new_long[place] = Long(new, cuts, self._known, beginning)
        return identity

    def _encoded(
        self, form: str, part: Sequence[Any], last: Window, depth: int, *, was_tried: bool
    ) -> tuple[Window, int]:
        """The window of these elements, and how many of them are as in the last one."""
        data = orjson.dumps(part)
        if self._is_json and _is_tagged(data):
            raise _NeedsTags
        if last.data == data:
            return last.again(was_tried=was_tried), len(last.items)
        unchanged = last.unchanged(data)
        return self._window(form, data, last, unchanged, depth), unchanged

    def _window(self, form: str, data: bytes, last: Window, unchanged: int, depth: int) -> Window:
        """The window of these data, which begin with some elements of the last one."""
        items, ends = last.items[:unchanged], last.ends[:unchanged]
        end = ends[-1] if ends else 0
        # Another thread may edit the elements. Items from the encoded bytes agree with those bytes.
        part = orjson.loads(b"[" + data[end + 1 :]) if end + 1 < len(data) else []
        for element in part:
            encoded = orjson.dumps(element)
            if self._is_json and type(element) in _CONTAINERS:
                _check_plain(encoded, depth)
            end += 1 + len(encoded)  # and what is before it: a comma, or the bracket
            items.append(self._element(form, element, encoded, depth))
            ends.append(end)
        assert end == len(data) - 1, "the elements of a window are not what it was encoded from"
        return Window(data, items, ends)

    def _element(self, form: str, element: Any, data: bytes, depth: int) -> bytes:
        if form == LIST:
            return self._content(element, escape(data), depth)
        key, item = element
        return self._keyed(key, item, depth)

    def _keyed(self, key: str, item: Any, depth: int) -> bytes:
        return orjson.dumps(key) + _PAIR + self._item(item, depth)

    # -- values below: identified by the hash of their JSON --------------------------------------------------

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
        # Most elements of a list, such as messages, are written once and never edited. One node is read at
        # once.
        if len(data) <= STATE_PIECE_BYTES_MAX or depth >= STATE_DEPTH_MAX:
            self._add(identity, VALUE, data)
        elif kind is str:
            self._cut(identity, TEXT, [self._piece(piece) for piece in pieces(value)])
        elif kind is list:
            self._cut(identity, LIST, [self._item(element, depth + 1) for element in value])
        elif len(value) > STATE_WIDTH_MAX:
            self._cut(
                identity, DICT, [self._keyed(key, item, depth + 1) for key, item in list(value.items())]
            )
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

    def _cut(
        self, identity: bytes, form: str, items: Sequence[bytes], stored: Sequence[Cuts] = ()
    ) -> list[Cuts]:
        """Store a sequence as runs, runs of runs, and so on up to one.

        ``stored`` are the first runs of each level, if known.
        """
        levels: list[Cuts] = []
        counts: Sequence[int] = ()
        while not levels or len(items) > 1:
            level = len(levels)
            cuts = self._cut_on(form, level, items, counts, stored[level] if level < len(stored) else UNCUT)
            levels.append(cuts)
            items, counts = cuts.runs, cuts.counts
        # A list of one run is the array of that run, so a plain reference to it is enough.
        self._refer(identity, VALUE if form == LIST and len(levels) == 1 else form, items[0])
        return levels

    def _cut_on(
        self, form: str, level: int, items: Sequence[bytes], counts: Sequence[int], stored: Cuts
    ) -> Cuts:
        """Cut items into runs, beginning where the last stored run ends.

        Appended items do not change earlier cuts.
        """
        end = stored.ends[-1] if stored.ends else 0
        ends, found, sums = stored.ends.copy(), stored.runs.copy(), stored.counts.copy()
        for run in runs(items[end:]):
            inside = counts[end : end + len(run)]
            end += len(run)
            ends.append(end)
            found.append(self._run(form, level, run, inside))
            sums.append(sum(inside) if level else len(run))
        return Cuts(ends, found, sums)

    def _run(self, form: str, level: int, run: Sequence[bytes], counts: Sequence[int]) -> bytes:
        identity = _hashed(b"run %d %b" % (level, form.encode()), *run)
        if not self._is_known(identity):
            if level:
                body = runs_body(level, [self._json(item) for item in run], counts)
            elif form == DICT:
                body = _array([self._pair(item) for item in run])
            else:
                stored = self._stored  # most items of a run are: they need no call
                body = _array([stored.get(item) or self._json(item) for item in run])
            self._add(identity, _RUN, body)
        return identity

    def _pair(self, item: bytes) -> bytes:
        key, _, value = item.partition(_PAIR)
        return key + b"," + self._json(value)

    # -- nodes and references --------------------------------------------------------------------------------

    def _is_known(self, identity: bytes) -> bool:
        return identity in self._stored or identity in self._fresh or identity in self._local

    def _json(self, identity: bytes) -> bytes:
        """What a node holds for this content: the content itself if it is small, or a reference."""
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
        # The pack is sealed after the body was added, never before: the body may refer to lines of this pack.
        self._local[identity] = (form, len(self._nodes) + 1)  # after the first line
        self._nodes.append(body)
        self._bytes += len(body)
        if self._bytes >= STATE_PACK_BYTES:
            self._seal()

    def _refer(self, identity: bytes, form: str, run: bytes) -> None:
        """Make the identity of a sequence refer to its topmost run."""
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
            ref = f"{address}/{index}"
            self._fresh[identity] = link(form, ref) if form else ref.encode()
        self._local, self._nodes, self._bytes = {}, [], 0


def _is_tagged(data: bytes) -> bool:
    # Most data have no dollar, and one byte is found in a fiftieth of the time that a text takes.
    return _DOLLAR in data and _TAGGED in data


def _check_plain(data: bytes, depth: int) -> None:
    """_NeedsTags if the codec must look at an encoded value that is so deep in its tree."""
    # Brackets inside of texts count, too: then the codec counts again.
    if _is_tagged(data) or data.count(b"[") + data.count(b"{") > VALUE_DEPTH_MAX - depth:
        raise _NeedsTags


def _has_hashed(items: Sequence[bytes]) -> bool:
    for item in items:  # noqa: SIM110 - a generator takes a call for each
        if item[0] == _HASHED:
            return True
    return False


def _hashed(kind: bytes, *parts: bytes) -> bytes:
    # The parts need no length prefix: JSON shows where it ends, and a hash has a fixed length.
    return b"#" + sha256(kind + b"\n" + b",".join(parts)).digest()


def _reference(form: str, ref: str) -> bytes:
    return link(form, ref) if form else ref.encode()


def _object(keys: Sequence[bytes], items: Sequence[bytes]) -> bytes:
    return b"{" + b",".join([key + b":" + item for key, item in zip(keys, items, strict=True)]) + b"}"


def _array(items: Sequence[bytes]) -> bytes:
    first, *rest = items or (b"",)
    if first.startswith(b'"#'):  # a text of the user: only as the first item would it look like a reference
        first = b'"#' + first[1:]
    return b"[" + b",".join([first, *rest]) + b"]"
