"""Contents and trees of states without a secret: what replaces each, under which address.

Nothing is written here. ``made`` has the new contents, which must be in the store before an event refers to
them.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from orjson import dumps

from holdfast.codec.blobs import address_of, pack, unpack
from holdfast.codec.recorded_secrets import hidden, may_have_tags
from holdfast.core.state.assemble import gather
from holdfast.core.state.nodes import TEXT, Nodes, links, unpack_nodes
from holdfast.core.state.tree import StoredNodes
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.state.state_store import fetcher
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Blob
from holdfast.stores.port import StorePort

_PACKS_KEPT: Final = 64
_FORMED: Final = re.compile(rb'\["#(list|dict|text)?","([^"]*)"\]')
_TEXT: Final = TEXT.removeprefix("#").encode()

Change = Callable[[bytes], bytes]


class Moved(NamedTuple):
    """A content that is replaced by another."""

    address: str
    size: int


class MovedTree(NamedTuple):
    """The root and the size of a state that is replaced by another."""

    root: Any
    size: int


class Contents:
    """The contents of a store, and what replaces those that have the secret."""

    def __init__(self, store: StorePort, has_secret: Callable[[bytes], bool], files: frozenset[str]) -> None:
        self.made: dict[str, Blob] = {}
        self.moved: dict[str, str] = {}
        """Old addresses to new ones, of values and views."""
        self.in_files: set[str] = set()
        """Contents of files with the secret that are values, too: they stay."""
        self._store = store
        self._has_secret = has_secret
        self._files = files
        self._values: dict[tuple[str, str], Moved | None] = {}
        self._nodes: dict[str, StoredNodes] = {}
        self._clean: set[str] = set()
        """References to nodes without the secret, with all below them."""

        @lru_cache(_PACKS_KEPT)
        def kept(address: str) -> Sequence[bytes]:
            return fetcher(store)((address,))[address]

        def fetch(addresses: Sequence[str]) -> dict[str, Sequence[bytes]]:
            return {address: kept(address) for address in addresses}

        self._fetch = fetch

    def fetch_new(self, addresses: Sequence[str]) -> dict[str, Sequence[bytes]]:
        """The nodes of packs, new and old."""
        made = {
            one: unpack_nodes(unpack(blob.data, address=one))
            for one in addresses
            if (blob := self.made.get(one)) is not None and blob.data is not None
        }
        return {**self._fetch([one for one in addresses if one not in made]), **made}

    def value(self, address: str, how: str, change: Change) -> Moved | None:
        """What replaces a content that is changed by ``change``, which ``how`` names; None if it stays."""
        place = (address, how)
        if place not in self._values:
            self._values[place] = self._changed(address, change)
        return self._values[place]

    def _changed(self, address: str, change: Change) -> Moved | None:
        data = read_blob(self._store, address)
        made = change(data)
        if made == data:
            return None
        if address in self._files:
            self.in_files.add(address)
            return None
        return self._move(address, made)

    def _move(self, address: str, data: bytes) -> Moved:
        new = address_of(data)
        self.made[new] = Blob(new, pack(data))
        self.moved[address] = new
        return Moved(new, len(data))

    def tree(self, root: Any, lineage: str) -> MovedTree | None:
        """What replaces a state, or a request to a model; None if it stays."""
        if not self._may_have(root):
            return None
        tree = gather(root, self._fetch)
        changed = hidden(tree)
        if changed == tree:
            return None
        nodes = self._nodes.get(lineage)
        if nodes is None or nodes.is_overgrown:
            nodes = self._nodes[lineage] = StoredNodes(address_of, lineage)
        planted = nodes.plant(changed)
        nodes.settle(planted)
        for address, data in planted.packs:
            self.made[address] = Blob(address, pack(data))
        return MovedTree(planted.root, planted.size)

    def _may_have(self, root: Any) -> bool:
        """Whether a state may have the secret. What it shares with an earlier one is not read again."""
        nodes = Nodes(self._fetch)
        seen: set[str] = set()
        todo = [dumps(root)]
        while todo:
            node = todo.pop()
            if self._has_secret(node) or may_have_tags(node):
                return True
            for form, found in _FORMED.findall(node):
                ref = found.decode()
                # A long text is cut into pieces, and the secret with it.
                if form == _TEXT and ref not in self._clean and self._has_secret(self._text(ref)):
                    return True
            for ref in links(node):
                if ref not in self._clean and ref not in seen:
                    seen.add(ref)
                    todo.append(nodes.read(ref))
        self._clean |= seen
        return False

    def _text(self, ref: str) -> bytes:
        return dumps(gather([TEXT, ref], self._fetch))
