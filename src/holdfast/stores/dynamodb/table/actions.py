"""Items and actions in the service's form, made from plain values.

Expressions use ``#name`` and ``:value``: every attribute is aliased, because the service reserves some 600
words, ``status`` and ``owner`` among them.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.dynamodb.table.keys import Key

_NAME: Final = re.compile(r"#(\w+)")
_NUMBER_MAX: Final = 9e125
"""The largest number of the service; it stands for an infinite time."""


class Action(NamedTuple):
    """One action of a transaction, and about how many bytes it sends."""

    kind: str
    request: dict[str, Any]
    size: int


def put(item: Mapping[str, Any], when: str = "", **values: Any) -> Action:
    """Write the complete item."""
    return Action(
        "Put", {"Item": encoded(item), **_expressions({"ConditionExpression": when}, values)}, size_of(item)
    )


def update(key: Key, change: str, when: str = "", **values: Any) -> Action:
    """Change some attributes of the item, or create it."""
    expressions = {"UpdateExpression": change, "ConditionExpression": when}
    return Action(
        "Update", {"Key": encoded(key), **_expressions(expressions, values)}, size_of({**key, **values})
    )


def delete(key: Key, when: str = "", **values: Any) -> Action:
    """Remove the item; a missing one is not an error."""
    return Action("Delete", {"Key": encoded(key), **_expressions({"ConditionExpression": when}, values)}, 200)


def check(key: Key, when: str, **values: Any) -> Action:
    """Write nothing, but make the transaction depend on this condition."""
    expressions = _expressions({"ConditionExpression": when}, values)
    return Action("ConditionCheck", {"Key": encoded(key), **expressions}, 200)


def projection(attributes: Iterable[str]) -> dict[str, Any]:
    """Request these attributes only."""
    return _expressions({"ProjectionExpression": ", ".join(f"#{name}" for name in attributes)}, {})


def encoded(item: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values as typed ones; None is left out."""
    return {name: _typed(value) for name, value in item.items() if value is not None}


def decoded(item: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse; numbers with a fraction are floats."""
    return {name: _plain(value) for name, value in item.items()}


def size_of(item: Mapping[str, Any]) -> int:
    """About how many bytes an item takes on the wire, where bytes are base64."""
    return sum(
        len(name) + (len(value) * 4 // 3 if isinstance(value, bytes) else len(str(value)) + 16)
        for name, value in item.items()
    )


def _expressions(expressions: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {kind: text for kind, text in expressions.items() if text}
    names = {f"#{name}": name for text in told.values() for name in _NAME.findall(text)}
    if names:
        told["ExpressionAttributeNames"] = names
    if values:
        told["ExpressionAttributeValues"] = {f":{name}": _typed(value) for name, value in values.items()}
    return told


def _typed(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case int():
            return {"N": str(value)}
        case float():
            return {"N": repr(min(max(value, -_NUMBER_MAX), _NUMBER_MAX))}
        case list():
            return {"L": [_typed(one) for one in value]}
        case dict():
            return {"M": encoded(value)}
    raise AssertionError(f"{type(value).__name__} has no place in an item")


def _plain(typed: Mapping[str, Any]) -> Any:
    ((kind, value),) = typed.items()
    if kind == "N":
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if kind == "L":
        return [_plain(one) for one in value]
    if kind == "M":
        return decoded(value)
    return bytes(value) if kind == "B" else value
