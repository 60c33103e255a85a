"""Values to bytes and back, exactly as they were: compact JSON that a person can read, with tags where JSON ends.

It knows the order of things: tag, write, check the size; find a tag, or read at once. What is tagged and how is the
business of ``tagging`` and ``untagging``. The invariant: ``decode(encode(value))`` is equal to ``value``, of the same
types all through, and shares nothing with it; what cannot be so is refused before a byte is written.

Two places that held the same object hold two equal ones afterwards: identity is not stored.
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from holdfast.codec.refusals import RefusedError, UnreadableError, member
from holdfast.codec.tag import (
    CAREFUL,
    CAREFUL_SORTED,
    EPHEMERAL,
    QUICK,
    QUICK_SORTED,
    Mode,
    of_state,
    tag,
)
from holdfast.codec.untag import Reading
from holdfast.errors import TooLarge, ValueUnreadable
from holdfast.limits import VALUE_SIZE_BYTES_MAX

_SHORT: Final = frozenset({type(None), bool, int, str})
_MARKER: Final = b'{"$":'
"""Every tag begins so, and nothing else does: in text the quotes are escaped, and a dict with that key is tagged."""


def encode(value: object, *, what: str) -> bytes:
    """The value as JSON, in insertion order. Raises NotStorable with the path to the fault, or TooLarge."""
    return _written(value, what, QUICK, CAREFUL, 0)


def canonical(value: object, *, what: str) -> bytes:
    """As ``encode``, but the order of dicts and sets does not count: the identity of a value.

    What can be told apart differs: 1, 1.0 and True; a tuple and a list; 0.0 and -0.0; Decimal 1.0 and 1.00.
    """
    return _written(value, what, QUICK_SORTED, CAREFUL_SORTED, orjson.OPT_SORT_KEYS)


def canonical_arguments(arguments: dict[str, Any], *, what: str) -> bytes:
    """As ``canonical``, for the arguments of a call, which are by name and mostly plain: those take the short way."""
    if _SHORT.issuperset(map(type, arguments.values())) and "$" not in arguments:
        try:
            return orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # an int or a text that orjson cannot write
            pass
    return canonical(arguments, what=what)


def decode(data: bytes, *, what: str, hint: object = None) -> Any:
    """The value of encoded bytes, made anew.

    ``hint`` is an annotation whose classes are looked at before registered and loaded ones; what it cannot resolve
    is ignored. Raises ValueUnreadable.
    """
    try:
        tree = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueUnreadable(what=what, type_name="JSON", problem=f"which it is not ({error})") from error
    # the single byte is looked for first: that takes a twentieth of the time
    return decode_tree(tree, what=what, hint=hint) if b"$" in data and _MARKER in data else tree


def encode_tree(value: object, *, what: str) -> Any:
    """The tree that ``encode`` would write, for a body that holds more than one value.

    It may share containers with ``value``: write it before the program goes on. Raises NotStorable.
    """
    try:
        return tag(value, 0, CAREFUL)
    except RefusedError as refused:
        raise refused.explain(what) from refused.__cause__


def encode_state(value: object, *, what: str, careful: bool = True) -> tuple[Any, list[str]]:
    """As ``encode_tree``; and the paths to the values in it that are marked ephemeral, which it leaves out.

    Not ``careful`` is quick: then orjson may raise TypeError over an int or a text that it cannot write.
    """
    mode = of_state(careful=careful)
    try:
        tree = tag(value, 0, mode)
    except RefusedError as refused:
        raise refused.explain(what) from refused.__cause__
    return tree, sorted(_left_out(tree, "")) if mode.left_out else []


def _left_out(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _left_out(item, f"{path}[{index}]")
    elif isinstance(tree, dict):
        kind = tree.get("$")
        if kind == EPHEMERAL:
            yield path.removeprefix(".") or "$"
        for key, item in tree.items():
            # what a tag wraps stands, for people, where the tag does
            yield from _left_out(item, path if kind is not None and key == "v" else path + member(key))


def decode_tree(tree: Any, *, what: str, hint: object = None) -> Any:
    """The value of a parsed tree, sharing nothing with it. Raises ValueUnreadable."""
    try:
        return Reading(hint).untag(tree)
    except UnreadableError as unreadable:
        raise unreadable.explain(what) from unreadable.__cause__


def _written(value: object, what: str, quick: Mode, careful: Mode, option: int) -> bytes:
    try:
        try:
            data = orjson.dumps(tag(value, 0, quick), option=option)
        except TypeError:
            # an int or a text that orjson cannot write: they are rare enough to walk a second time for
            data = orjson.dumps(tag(value, 0, careful), option=option)
    except RefusedError as refused:
        raise refused.explain(what) from refused.__cause__
    if len(data) > VALUE_SIZE_BYTES_MAX:
        raise TooLarge(what=what, size=len(data), size_max=VALUE_SIZE_BYTES_MAX, unit="bytes")
    return data
