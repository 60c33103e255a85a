"""Writes a recorded state as JSON for people: types that JSON lacks show their content.

It is never read back, so that a tuple may look like a list, and a time like a text.
"""

from typing import Any, Final

from orjson import OPT_INDENT_2, JSONEncodeError, dumps

from holdfast.core.text.value_text import literal
from holdfast.model.secret_text import masked_text

_PAIRS: Final = frozenset({"dict", "ordered-dict", "defaultdict", "counter"})
_KEY_CHARS_MAX: Final = 200


def state_json(tree: Any) -> bytes:
    """A state's tree as indented JSON, with a line feed at its end."""
    plain = plain_of(tree)
    try:
        return dumps(plain, option=OPT_INDENT_2) + b"\n"
    except JSONEncodeError:  # half a surrogate pair, or a number that is too large
        from json import dumps as slow_dumps

        return slow_dumps(plain, indent=2).encode("ascii") + b"\n"


def plain_of(tree: Any) -> Any:
    """The tree without tags."""
    if isinstance(tree, list):
        return [plain_of(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    kind = tree.get("$")
    if (text := masked_text(tree)) is not None:
        return text
    if kind is None:
        return {name: plain_of(part) for name, part in tree.items()}
    content = tree.get("v")
    if kind == "enum":
        return str(tree.get("name", content))
    if kind in _PAIRS and isinstance(content, list):
        return {_key(pair[0]): plain_of(pair[1]) for pair in content}
    if kind == "int" and isinstance(content, str):
        return content
    return plain_of(content)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else literal(key, _KEY_CHARS_MAX)
