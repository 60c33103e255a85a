"""Takes secrets out of what was recorded before they were known.

New records never have them: ``secrets.hide`` is on the way of each. Old ones also have forms that only an
encoder sees: bytes as base64, broken text with escapes. The invariant: what comes back is what the codec
would have written had it known the secret, so it is decoded as any other record.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.codec.secrets import hide_tree, mask_known, masked, split, split_bytes
from holdfast.model.secret_forms import other_forms

_DATA: Final = frozenset({"args", "state"})
"""The parts of a recorded failure that are data of the program; the others are text for people."""
_DATA_OF_DOCUMENT: Final = frozenset({"state", "messages", "inputs"})
_STEPS_OF_DOCUMENT: Final = frozenset({"effects", "pending", "in_doubt", "last_step", "failed", "questions"})
_DATA_OF_STEPS: Final = frozenset({"arguments", "result", "captured", "module_data", "about"})
"""What of a handoff document, and of the steps in it, is data."""
_TAGGED: Final = (b'"bytes"', b'"bytearray"', b'"str"')


def written_forms(value: str) -> tuple[bytes, ...]:
    """The bytes that show that a record may have the value in clear: as JSON writes it, alone and nested."""
    found, texts = [], [value, *other_forms(value)]
    for text in texts:
        nested = text
        for _ in range(4):  # a body in a view, with the arguments of a tool, which are JSON, too
            nested = dumps(nested)[1:-1].decode()
            found.append(nested.encode())
    return tuple(dict.fromkeys([value.encode(), *found]))


def may_have_tags(data: bytes) -> bool:
    """Whether JSON may have content that is not written as it is."""
    return any(tag in data for tag in _TAGGED)


def hidden(tree: Any) -> Any:
    """A recorded tree with references in place of values. The same object if it has none."""
    decoded = _with_tags(tree) if may_have_tags(dumps(tree)) else tree
    return hide_tree(decoded)


def hidden_failure(record: Any) -> Any:
    """A recorded exception, with its causes: references in its data, masks in its texts."""
    if type(record) is not dict:
        return masked(record)
    made: dict[str, Any] = {}
    for name, part in record.items():
        if name in _DATA:
            made[name] = hidden(part)
        elif name == "cause":
            made[name] = hidden_failure(part)
        elif name == "group" and type(part) is list:
            made[name] = [hidden_failure(one) for one in part]
        else:
            made[name] = masked(part)
    return made


def hidden_document(document: Any) -> Any:
    """A handoff document: references in its data, masks in what it tells."""
    if type(document) is not dict:
        return masked(document)
    made: dict[str, Any] = {}
    for name, part in document.items():
        if name in _DATA_OF_DOCUMENT:
            made[name] = hidden(part)
        elif name in _STEPS_OF_DOCUMENT:
            made[name] = [_hidden_step(one) for one in part] if type(part) is list else _hidden_step(part)
        else:
            made[name] = masked(part)
    return made


def _hidden_step(step: Any) -> Any:
    if type(step) is not dict:
        return masked(step)
    made = {name: hidden(part) if name in _DATA_OF_STEPS else masked(part) for name, part in step.items()}
    if "error" in step:
        made["error"] = hidden_failure(step["error"])
    return made


def hidden_json(data: bytes, change: Callable[[Any], Any] = hidden) -> bytes:
    """JSON, changed; the same bytes if nothing changes. What is no JSON is changed as text."""
    try:
        tree = loads(data)
    except JSONDecodeError:
        text = data.decode("utf-8", "surrogateescape")
        shown = mask_known(text)
        return data if shown == text else shown.encode("utf-8", "surrogateescape")
    made = change(tree)
    return data if made == tree else dumps(made)


def _with_tags(tree: Any) -> Any:
    if type(tree) is list:
        return [_with_tags(part) for part in tree]
    if type(tree) is not dict:
        return tree
    kind, content = tree.get("$"), tree.get("v")
    if kind in {"bytes", "bytearray"} and type(content) is str:
        parts = split_bytes(decoded_bytes(content))
        return tree if parts is None else {**tree, "v": _in_turn(parts, lambda one: b64encode(one).decode())}
    if kind == "str" and type(content) is str:
        found = split(content.encode("ascii", "replace").decode("unicode_escape", "replace"))
        return tree if found is None else {**tree, "v": _in_turn(found, _escaped)}
    return {name: _with_tags(part) for name, part in tree.items()}


def decoded_bytes(text: str) -> bytes:
    """What bytes are written as; empty if the codec did not write it."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _in_turn(parts: list[Any], change: Callable[[Any], str]) -> list[Any]:
    return [one if number % 2 else change(one) for number, one in enumerate(parts)]
