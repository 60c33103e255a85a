"""The codec: JSON with tags, as a store, an export or another program may have it."""

import dataclasses
import enum
from typing import Any

from orjson import JSONDecodeError, loads

import holdfast
from holdfast.codec.exceptions import decode_failure, encode_failure
from holdfast.codec.values import canonical, decode, decode_tree, encode, encode_tree
from holdfast.core.journal.event_check import event_problem
from holdfast.errors import NotStorable, TooLarge, ValueUnreadable
from holdfast.model.event_fields import write
from holdfast.model.events import Event, Kind


@holdfast.register
@dataclasses.dataclass
class Point:
    """A class that a value may name."""

    x: int
    y: Any = None


@holdfast.register
class Colour(enum.Enum):
    """Another one."""

    RED = 1
    BLUE = "b"


def check(data: bytes) -> None:
    """ValueUnreadable, or a value that is written and read as itself, over and over, in both forms."""
    _check_failure(data)
    try:
        value = decode(data, what="it")
    except ValueUnreadable:
        return
    try:
        written = encode(value, what="it")
    except (NotStorable, TooLarge):
        # Only what is too deep, or a value that a class of somebody's refuses: nothing is written then.
        return
    again = decode(written, what="it")
    assert encode(again, what="it") == written, (data, written)
    assert type(again) is type(value)
    name = canonical(value, what="it")
    assert canonical(again, what="it") == name
    assert canonical(decode(name, what="it"), what="it") == name, (data, name)
    assert encode(decode_tree(encode_tree(value, what="it"), what="it"), what="it") == written
    assert encode(value, what="it") == written, "reading or writing changed it"


def _check_failure(data: bytes) -> None:
    """A recorded failure that an import would take: an exception comes of it, which is written again."""
    try:
        tree = loads(data)
    except JSONDecodeError:
        return
    body = write({"reruns": False}, {"error": tree})
    if isinstance(tree, dict) and not event_problem(Event(1, 1.0, Kind.STEP_FAILED, "a", "k", 1, body, 0)):
        error = decode_failure(tree)
        assert isinstance(error, BaseException), error
        encode_failure(error)
