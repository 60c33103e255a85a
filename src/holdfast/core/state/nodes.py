"""The stored format of a state's nodes: writing, parsing and finding them.

A node is one line of JSON. A pack is the lines that one checkpoint added, so ``zstd -d`` and ``grep`` can
read it. A node refers to another as ``address/line``, or as ``/line`` inside its own pack, whose address is
not known before it is complete. The word before a reference says what it refers to::

["#", ref]        the value that the node there holds ["#list", ref]    a list; ["#dict", ref] an object;
["#text", ref] a text: the items of the run there, in order ["#runs", level, ref, count, ref, count, ...]   a
run of runs, and how many items each of them holds

A run of level 0 is an array of items: values; keys and values in turn; or pieces of text. If an array of the
user begins with a text that begins with ``#``, that text gets one more ``#``. The escape works on bytes,
because in JSON ``["#`` can only be the beginning of an array. References as objects were rejected: the object
may already have a key with one more ``#``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from holdfast.errors import Corrupt

Fetch: TypeAlias = Callable[[Sequence[str]], Mapping[str, Sequence[bytes]]]
"""Fetches the nodes of all packs at these addresses, or raises Corrupt.

One request has many: stores may be far away.
"""

VALUE: Final = "#"
LIST: Final = "#list"
DICT: Final = "#dict"
TEXT: Final = "#text"
RUNS: Final = "#runs"

MARK: Final = b'["#'
"""Bytes without it have no reference and no escape.

Most nodes have neither, so they are parsed as they are.
"""
_HASH: Final = ord("#")
_LEVELS: Final = range(1, 64)
"""Enough for any state: a level is at most half as long as the one below."""
_RUNS_START: Final = b'["#runs",'
_LOCAL: Final = re.compile(rb'(\["#(?:list|dict|text)?",")/')
_LINK: Final = re.compile(rb'\["#(?:list|dict|text)?","([^"]*)"\]')
_RUN_LINK: Final = re.compile(rb'"([^"]+/\d+)"')


def pack_nodes(nodes: Sequence[bytes]) -> bytes:
    """The nodes as one blob, a line each.

    JSON has no raw line break inside a value, so lines are separable.
    """
    assert nodes, "an empty pack cannot be told from one with an empty node"
    return b"\n".join(nodes)


def unpack_nodes(data: bytes) -> list[bytes]:
    """The nodes of a pack, by their line."""
    return data.split(b"\n")


def escape(data: bytes) -> bytes:
    """The user's JSON, escaped so that no array in it looks like a reference."""
    return data.replace(MARK, b'["##') if MARK in data else data


def link(form: str, ref: str) -> bytes:
    """The JSON that refers to what is stored at ``ref``."""
    return b'["%b","%b"]' % (form.encode(), ref.encode())


def runs_body(level: int, refs: Sequence[bytes], counts: Sequence[int]) -> bytes:
    """The node of a run of runs."""
    entries = b",".join(b'"%b",%d' % entry for entry in zip(refs, counts, strict=True))
    return b"%b%d,%b]" % (_RUNS_START, level, entries)


def absolute(node: bytes, address: str) -> bytes:
    """The node with absolute references, which are valid outside its pack."""
    # A run of runs has bare references and no user data, so a plain replacement is safe there.
    if node.startswith(_RUNS_START):
        return node.replace(b',"/', b',"%b/' % address.encode())
    return _LOCAL.sub(rb"\g<1>%b/" % address.encode(), node) if may_refer(node) else node


def may_refer(node: bytes) -> bool:
    """Whether a node may have references to follow or text to unescape. Most have neither."""
    # Searching for the single byte first takes a fiftieth of the time, if it is a number.
    return _HASH in node and MARK in node


def links(node: bytes) -> list[str]:
    """Every reference in a node whose references are absolute."""
    if not may_refer(node):
        return []
    pattern = _RUN_LINK if node.startswith(_RUNS_START) else _LINK
    return [ref.decode() for ref in pattern.findall(node)]


def form_of(value: Any) -> str | None:
    """The form of a parsed array that is a reference; ``##`` for one to unescape.

    None for plain user data.
    """
    if type(value) is not list or not value:
        return None
    first = value[0]
    if type(first) is not str or first[:1] != "#":
        return None
    return "##" if first[:2] == "##" else first


def ref_in(value: list[Any]) -> str:
    """The reference in a value that has a form. Raises Corrupt if there is none."""
    if len(value) != 2 or type(value[1]) is not str:
        raise corrupt(f"{value[0]!r} stands without a reference")
    ref: str = value[1]
    return ref


def unescape(value: list[Any]) -> list[Any]:
    """An escaped array as the user had it."""
    return [value[0][1:], *value[1:]]


class Nodes:
    """Reads nodes by reference and keeps the packs that it has fetched.

    The references in its answers are absolute.
    """

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._packs: dict[str, Sequence[bytes]] = {}

    def expect(self, refs: Iterable[str]) -> None:
        """Fetch the packs of these references in one request, because they are about to be read."""
        addresses = dict.fromkeys([ref.rpartition("/")[0] for ref in refs])
        if "" in addresses:
            raise corrupt("a reference names no pack")
        wanted = [address for address in addresses if address not in self._packs]
        if wanted:
            self._packs.update(self._fetch(wanted))

    def read(self, ref: str) -> bytes:
        """The node's line, with absolute references. Raises Corrupt if there is none."""
        return absolute(*self._line(ref))

    def load(self, ref: str) -> Any:
        """The node's JSON. Raises Corrupt."""
        return parse(self.read(ref), ref)

    def open(self, ref: str) -> tuple[Any, bool]:
        """The node's JSON, and whether it has nothing to follow or to unescape. Raises Corrupt."""
        node, address = self._line(ref)
        if _HASH in node and MARK in node:
            return parse(absolute(node, address), ref), False
        try:  # as ``parse``: most nodes of a state come here, and a call would take as long as most of them
            return orjson.loads(node), True
        except orjson.JSONDecodeError:
            return parse(node, ref), True

    def _line(self, ref: str) -> tuple[bytes, str]:
        address, _, line = ref.rpartition("/")
        pack = self._packs.get(address)
        if pack is None:
            self.expect((ref,))
            pack = self._packs[address]
        if line.isdecimal() and (number := int(line)) < len(pack):
            return pack[number], address
        raise corrupt(f"pack {address} has {len(pack)} nodes, and node {line} is referred to")

    def items(self, ref: str) -> list[Any]:
        """The items of the run at ``ref`` and of all runs in it, in order."""
        runs = [ref]
        for level in range(self.level_of(ref), 0, -1):
            runs = [inner for run in runs for inner in self._inner(run, level)]
            self.expect(runs)
        return [item for run in runs for item in elements(self.load(run), run)]

    def _inner(self, run: str, level: int) -> list[str]:
        node = self.load(run)
        # Levels must fall one by one: otherwise a damaged node could refer back to itself without end.
        if form_of(node) != RUNS or level not in node[1:2]:
            raise corrupt(f"run {run} does not stand at level {level}")
        return [inner for inner, _ in runs_in(node, run)]

    def level_of(self, ref: str) -> int:
        """How many levels of runs are between the run at ``ref`` and the items."""
        node = self.load(ref)
        if form_of(node) != RUNS:
            return 0
        runs_in(node, ref)
        level: int = node[1]
        return level

    def reachable(self, root: Any) -> Iterator[tuple[str, bytes]]:
        """Every node below a root, once, with its reference."""
        todo = links(orjson.dumps(root))
        seen = set(todo)
        while todo:
            self.expect(todo)
            inner: list[str] = []
            for ref in todo:
                node = self.read(ref)
                yield ref, node
                inner += links(node)
            todo = [ref for ref in dict.fromkeys(inner) if ref not in seen]
            seen.update(todo)


def parse(data: bytes, ref: str) -> Any:
    """A node's JSON. Raises Corrupt."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise corrupt(f"node {ref} is not JSON ({error})") from error


def pairs(flat: list[Any], ref: str) -> dict[str, Any]:
    """The object from its keys and values in turn. Raises Corrupt."""
    keys = flat[::2]
    if len(flat) % 2 or not all(type(key) is str for key in keys):
        raise corrupt(f"run {ref} does not hold keys and values in turn")
    return dict(zip(keys, flat[1::2], strict=True))


def elements(node: Any, ref: str) -> list[Any]:
    """The items of a run of level 0. Raises Corrupt if it is something else."""
    form = form_of(node)
    if type(node) is not list or form not in {None, "##"}:
        raise corrupt(f"node {ref} is not a run")
    return unescape(node) if form else node


def runs_in(node: list[Any], ref: str) -> list[tuple[str, int]]:
    """The runs in a run of runs, with their counts. Raises Corrupt if it has another shape."""
    refs, counts = node[2::2], node[3::2]
    is_run = len(refs) == len(counts) and all(type(inner) is str for inner in refs)
    if not is_run or not refs or node[1] not in _LEVELS or not all(type(count) is int for count in counts):
        raise corrupt(f"node {ref} is not a run of runs")
    return list(zip(refs, counts, strict=True))


def corrupt(problem: str) -> Corrupt:
    """The error for damaged nodes. The caller, which knows the store, adds its name."""
    return Corrupt(store="", problem=f"the state cannot be put together: {problem}")
