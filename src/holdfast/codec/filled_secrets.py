"""Reads the references to secrets of recorded data: the values of this process in their places.

Nothing here writes. The invariant: a reference is filled or ``SecretMissing`` names it; a mask in a text is
never read back, but to find what was recorded in clear.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from holdfast.codec.secrets import NAME, find_value
from holdfast.errors import SecretMissing
from holdfast.model.secret_text import MASKED, TAG
from holdfast.model.token_shapes import names_a_place

_REFERRED: Final = b'":["'
_TAG: Final = ord("$")  # one byte is found in a fiftieth of the time, if it is a number
_TAGGED: Final = b'"$":'
"""Encoded data have it exactly where an object has that key."""
_MASKS: Final = re.compile(f"<secret ({NAME})>")


def refill(parts: Iterable[Any]) -> str:
    """The text of a reference. SecretMissing names the secret that this process does not have."""
    return "".join(_value_of(str(one)) if number % 2 else str(one) for number, one in enumerate(parts))


def filled(words: Sequence[str], hidden: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of a recorded command; ``hidden`` has those with secrets, by their place. SecretMissing."""
    return tuple(refill(hidden[str(at)]) if str(at) in hidden else word for at, word in enumerate(words))


def in_clear(data: bytes) -> bytes | None:
    """What identified a call before the secrets in it were known; None if it has none."""
    if MASKED not in data and _REFERRED not in data:
        return None
    try:
        tree = orjson.loads(data)
        made = clear_tree(tree)
    except orjson.JSONDecodeError:
        return None
    # Sorted if it was: a key may stand in another place than its reference.
    is_sorted = orjson.dumps(tree, option=orjson.OPT_SORT_KEYS) == data
    return None if made is None else orjson.dumps(made, option=orjson.OPT_SORT_KEYS if is_sorted else 0)


def may_be_hidden(data: bytes) -> bool:
    """Whether written JSON may have a reference or a mask: most has neither, and is not walked."""
    return MASKED in data or (_TAG in data and _TAGGED in data)


def clear_tree(tree: Any) -> Any:
    """A tree with the values of its references and masks; None if it has none, or one is not there."""
    try:
        made = unmasked(revealed(tree))
    except SecretMissing:
        return None
    return None if made == tree else made


def revealed(tree: Any) -> Any:
    """A tree with the values of its references, for the program that recorded it. SecretMissing."""
    if type(tree) is list:
        return [revealed(part) for part in tree]
    if type(tree) is not dict:
        return tree
    kind, content = tree.get("$"), tree.get("v")
    if kind == TAG:
        return refill(tree["v"])
    if kind in {"bytes", "bytearray"} and type(content) is list:
        return {**tree, "v": _joined_bytes(content)}
    if kind == "dict" and type(content) is list:
        return _plain_dict(tree, [revealed(pair) for pair in content])
    return {name: revealed(part) for name, part in tree.items()}


def _plain_dict(tree: dict[str, Any], pairs: list[Any]) -> dict[str, Any]:
    """A dict that has only a tag because a secret is one of its keys."""
    is_plain = all(type(key) is str and key != "$" for key, _ in pairs)
    return dict(pairs) if is_plain else {**tree, "v": pairs}


def _joined_bytes(parts: Sequence[str]) -> str:
    pieces = (
        _value_of(one).encode("utf-8", "surrogateescape") if number % 2 else b64decode(one)
        for number, one in enumerate(parts)
    )
    return b64encode(b"".join(pieces)).decode()


def unmasked(tree: Any) -> Any:
    """Plain data with values in place of masks. Only to find what was recorded in clear."""
    if type(tree) is str:
        return (
            _MASKS.sub(lambda found: find_value(found[1]) or found[0], tree) if "<secret " in tree else tree
        )
    if type(tree) is list:
        return [unmasked(part) for part in tree]
    return {unmasked(name): unmasked(part) for name, part in tree.items()} if type(tree) is dict else tree


def _value_of(name: str) -> str:
    found = find_value(name)
    if found is not None:
        return found
    variable = name.partition("|")[0].removesuffix(".raw").removesuffix(".password")
    if names_a_place(variable):
        raise SecretMissing(
            name=name, advice=f"set the environment variable {variable}, with the password in it"
        )
    if "~" not in name:
        raise SecretMissing(name=name.partition("|")[0])  # which says how to set it
    parameter = name.partition("~")[0]
    advice = f"it was given as the argument {parameter!r} of a call: make that call before this"
    raise SecretMissing(name=name, advice=advice)
