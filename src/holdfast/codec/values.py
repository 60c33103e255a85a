"""Values to bytes and back, unchanged: compact JSON that a person can read, with tags for what JSON lacks.

It orders the work: tag, write, check the size; or find a tag, else read directly. ``tag`` and ``untag``
decide about tags. The invariant: ``decode(encode(value))`` is equal to ``value``, of the same types
throughout, and shares nothing with it; a value that cannot be is refused before a byte is written.

Two references to one object become two equal objects: identity is not stored.
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from holdfast.codec.refusals import RefusedError, UnreadableError, member, too_deep
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
from holdfast.limits import VALUE_DEPTH_MAX, VALUE_SIZE_BYTES_MAX
from holdfast.model.markers import KNOWN
from holdfast.model.recorded_value import Recorded

SHORT: Final = frozenset({type(None), bool, int, str})
"""The types that are written as they are, unless orjson refuses one."""
_TAG: Final = ord("$")
_MARKER: Final = b'{"$":'
"""Every tag starts so, and nothing else does: text escapes the quotes, and a dict with that key is tagged."""


def encode(value: object, *, what: str) -> bytes:
    """The value as JSON, in insertion order. Raises NotStorable with the path to the fault, or TooLarge."""
    return _written(value, what, QUICK, CAREFUL, 0)


def canonical(value: object, *, what: str) -> bytes:
    """As ``encode``, but ignores the order of dicts and sets: the identity of a value.

    Different values stay different: 1, 1.0 and True; a tuple and a list; 0.0 and -0.0; Decimal 1.0 and 1.00.
    """
    return _written(value, what, QUICK_SORTED, CAREFUL_SORTED, orjson.OPT_SORT_KEYS)


def canonical_arguments(arguments: dict[str, Any], *, what: str) -> bytes:
    """As ``canonical``, for a call's arguments, which are named and mostly plain: those take a fast path."""
    return plain_arguments(arguments) or canonical(arguments, what=what)


def plain_arguments(arguments: dict[str, Any]) -> bytes | None:
    """Arguments that are plain, as ``canonical`` writes them; None for others."""
    if SHORT.issuperset(map(type, arguments.values())) and "$" not in arguments:
        try:
            data = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # an int or a text that orjson cannot write
            return None
        return _hidden(data, sorts=True) if KNOWN else data
    return None


def encode_quickly(value: object) -> bytes | None:
    """As ``encode``; None for a value that is refused or needs a second look, which ``encode`` takes.

    It needs no name of the value: the name would be made for every result of a step, for nothing.
    """
    try:
        data = orjson.dumps(value if type(value) in SHORT else tag(value, 0, QUICK))
    except (TypeError, RefusedError):
        return None
    data = _hidden(data) if KNOWN else data
    return data if len(data) <= VALUE_SIZE_BYTES_MAX else None


def decode(data: bytes, *, what: str, hint: object = None) -> Any:
    """A new value from encoded bytes.

    ``hint`` is an annotation whose classes are tried before registered and loaded ones; unresolvable parts of
    it are ignored. Raises ValueUnreadable.
    """
    try:
        tree = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueUnreadable(what=what, type_name="JSON", problem=f"which it is not ({error})") from error
    # search for the single byte first, as a number: it takes a twentieth of the time
    return decode_tree(tree, what=what, hint=hint) if _TAG in data and _MARKER in data else tree


def encode_tree(value: object, *, what: str) -> Any:
    """The tree that ``encode`` would write, for a body with several values.

    It may share containers with ``value``: write it before the program continues. Raises NotStorable.
    """
    try:
        tree = tag(value, 0, CAREFUL)
    except RefusedError as refused:
        raise refused.explain(what) from refused.__cause__
    return _hidden_tree(tree) if KNOWN else tree


def encode_state(value: object, *, what: str, careful: bool = True) -> tuple[Any, list[str]]:
    """As ``encode_tree``, and the paths of the ephemeral values, which it leaves out.

    Without ``careful`` it is faster, but orjson may raise TypeError for an int or a text that it cannot
    write.
    """
    mode = of_state(careful=careful)
    try:
        tree = tag(value, 0, mode)
    except RefusedError as refused:
        raise refused.explain(what) from refused.__cause__
    return _hidden_tree(tree) if KNOWN else tree, left_out(tree) if mode.left_out else []


def left_out(tree: Any) -> list[str]:
    """The paths in a tree of the ephemeral values that were left out of it."""
    return sorted(_left_out(tree, ""))


def recorded_tree(value: object, *, what: str) -> Any:
    """As ``encode_tree``; a value that comes in the recorded form stays as it is. NotStorable, TooLarge."""
    if not isinstance(value, Recorded):
        return encode_state(value, what=what)[0]
    try:
        tree = _as_recorded(value.tree, 0)
    except RefusedError as refused:
        raise refused.explain(what) from refused.__cause__
    return _hidden_tree(tree) if KNOWN else tree


def _as_recorded(tree: Any, depth: int) -> Any:
    """Tags are left as they are; a number that orjson would change gets one."""
    if depth > VALUE_DEPTH_MAX:
        raise too_deep()
    if type(tree) is dict:
        return {name: _as_recorded(part, depth + 1) for name, part in tree.items()}
    if type(tree) is list:
        return [_as_recorded(part, depth + 1) for part in tree]
    return tag(tree, depth, CAREFUL)


def recorded_bytes(value: object, *, what: str, sorts: bool = False) -> bytes:
    """As ``encode``, or as ``canonical`` if it ``sorts``; also for a value in the recorded form."""
    if not isinstance(value, Recorded):
        return canonical(value, what=what) if sorts else encode(value, what=what)
    data = orjson.dumps(recorded_tree(value, what=what), option=orjson.OPT_SORT_KEYS if sorts else 0)
    if len(data) > VALUE_SIZE_BYTES_MAX:
        raise TooLarge(what=what, size=len(data), size_max=VALUE_SIZE_BYTES_MAX, unit="bytes")
    return data


def _left_out(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _left_out(item, f"{path}[{index}]")
    elif isinstance(tree, dict):
        kind = tree.get("$")
        if kind == EPHEMERAL:
            yield path.removeprefix(".") or "$"
        for key, item in tree.items():
            # the content of a tag has, for people, the same path as the tag
            yield from _left_out(item, path if kind is not None and key == "v" else path + member(key))


def may_have_tags(data: bytes) -> bool:
    """Whether JSON, or a part of it, may have a tag. Without one, its tree is the value.

    Not ``_MARKER``: the nodes of a state have the keys and values of a long object in an array.
    """
    return _TAG in data and b'"$"' in data


def decode_tree(tree: Any, *, what: str, hint: object = None) -> Any:
    """The value of a parsed tree; shares nothing with it. Raises ValueUnreadable."""
    try:
        return Reading(hint).untag(tree)
    except UnreadableError as unreadable:
        raise unreadable.explain(what) from unreadable.__cause__


def _written(value: object, what: str, quick: Mode, careful: Mode, option: int) -> bytes:
    try:
        try:
            data = orjson.dumps(tag(value, 0, quick), option=option)
        except TypeError:
            # orjson refused an int or a text: rare enough to walk a second time
            data = orjson.dumps(tag(value, 0, careful), option=option)
    except RefusedError as refused:
        raise refused.explain(what) from refused.__cause__
    data = _hidden(data, sorts=bool(option)) if KNOWN else data
    if len(data) > VALUE_SIZE_BYTES_MAX:
        raise TooLarge(what=what, size=len(data), size_max=VALUE_SIZE_BYTES_MAX, unit="bytes")
    return data


def _hidden(data: bytes, *, sorts: bool = False) -> bytes:
    from holdfast.codec.secrets import hide  # late: most processes know no secret

    return hide(data, sorts=sorts)


def _hidden_tree(tree: Any) -> Any:
    from holdfast.codec.secrets import hide_tree

    return hide_tree(tree)
