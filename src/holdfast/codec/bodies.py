"""The body of an event: a small readable JSON object, with a value spliced in that was encoded before.

It knows nothing of what the fields mean. The invariant: an encoded value enters and leaves a body bit for bit; it
is not parsed or written a second time on the way in.
"""

from typing import Any

import orjson

from holdfast.codec.values import decode_tree, encode_tree

__all__ = ["decode_tree", "encode_tree", "pack_body", "unpack_body"]


def pack_body(fields: dict[str, Any], *, value: bytes | None = None, value_name: str = "value") -> bytes:
    """A body of plain fields (or trees), and of an encoded value under ``value_name``, which comes last."""
    if value is None:
        return orjson.dumps(fields)
    assert value_name not in fields, value_name
    return orjson.dumps({**fields, value_name: orjson.Fragment(value)})


def unpack_body(body: bytes) -> dict[str, Any]:
    """The fields of a body; a value in it is a tree, for ``decode_tree`` to read."""
    fields = orjson.loads(body)
    assert type(fields) is dict, type(fields)
    return fields
