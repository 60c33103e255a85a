"""Bodies of any size: short ones are in their item, long ones in parts that the item names, or in an object.

Parts are written once under a unique name, the stage, and never changed; an object's name ends in one. So a
reader that finds an item finds its complete body, or finds that the item has changed; and deleting a stage
deletes no other bytes.
"""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.dynamodb.table.actions import Action, put
from holdfast.stores.dynamodb.table.keys import new_id, part_key, trash_key
from holdfast.stores.dynamodb.table.table import Table

PART_BYTES_MAX: Final = 340_000
"""Below the service's 400 KB per item, with room for keys."""


class Body(NamedTuple):
    """A body to write: the attributes of the item, and the actions that write the parts."""

    attributes: dict[str, Any]
    parts: list[Action]


def bodied(body: bytes, inline_max: int) -> Body:
    """How to write a body of which so much may be in the item itself."""
    if len(body) <= inline_max:
        return Body({"body": body, "size": len(body)}, [])
    stage = new_id()
    starts = range(0, len(body), PART_BYTES_MAX)
    pieces = [body[start : start + PART_BYTES_MAX] for start in starts]
    parts = [
        put({**part_key(stage, number), "body": piece, "size": len(piece)})
        for number, piece in enumerate(pieces)
    ]
    return Body({"stage": stage, "parts": len(parts), "size": len(body)}, parts)


def read_body(table: Table, item: Mapping[str, Any]) -> bytes | None:
    """The body of an item; None if the item has changed meanwhile and must be read again."""
    if "stage" not in item:
        return bytes(item["body"])
    if "object" in item:
        content = table.objects.find(item["object"])
        return content if content is not None and len(content) == item["size"] else None
    parts = [bytes(part["body"]) for part in table.query(f"part/{item['stage']}")]
    return b"".join(parts) if len(parts) == item["parts"] else None


def discarded(item: Mapping[str, Any]) -> list[Action]:
    """Actions for the transaction that deletes an item: they mark its parts or its object for sweeping."""
    return [put(marker(item))] if "stage" in item else []


def marker(item: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The marker that says that the parts or the object of an item are to be swept."""
    told = {"object": item["object"], "size": item["size"]} if "object" in item else {}
    return {**trash_key(item["stage"]), "what": "part", **told, **more}
