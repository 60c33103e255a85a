"""Packs of nodes, from which a state is put together: the input's first line is the root, the others are nodes of one pack.

A root that is a JSON value is planted as well, and must be gathered as it was.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from orjson import JSONDecodeError, dumps, loads

from holdfast.codec.blobs import address_of, pack, unpack
from holdfast.core.state.assemble import gather, packs_of
from holdfast.core.state.nodes import absolute, unpack_nodes
from holdfast.core.state.tree import StoredNodes
from holdfast.errors import Corrupt, HoldfastError

ADDRESS = "ab" * 32


def check(data: bytes) -> None:
    """Corrupt, or a state; a value is gathered as it was planted; a frame is unpacked or refused."""
    first, _, rest = data.partition(b"\n")
    with suppress(Corrupt):
        assert unpack(data, address=address_of(data)) == data
    assert unpack(pack(data), address=address_of(data)) == data
    try:
        root = loads(absolute(first, ADDRESS))
        given = loads(first)
    except JSONDecodeError:
        return

    def fetch(addresses: Sequence[str]) -> dict[str, list[bytes]]:
        if set(addresses) - {ADDRESS}:
            raise Corrupt(store="", problem=f"there is no {addresses}")
        return {ADDRESS: unpack_nodes(rest)}

    with suppress(Corrupt):
        packs_of(root, fetch)
    with suppress(Corrupt):
        dumps(gather(root, fetch))
    _plant(given)


def _plant(value: Any) -> None:
    packs: dict[str, bytes] = {}
    nodes = StoredNodes(address_of)
    with suppress(HoldfastError):
        planted = nodes.plant(value)
        packs |= dict(planted.packs)

        def fetch(addresses: Sequence[str]) -> dict[str, list[bytes]]:
            return {address: unpack_nodes(packs[address]) for address in addresses}

        assert dumps(gather(planted.root, fetch)) == dumps(value)
