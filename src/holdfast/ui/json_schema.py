"""JSON schemas of read models, made from their types: what ``views.json_shape`` writes, described.

A NamedTuple and a TypedDict become an object under a name; a type that JSON does not know says nothing.
"""

from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

_PLAIN: Final[dict[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}

Schema = dict[str, Any]


class Schemas:
    """The schemas of named types, in the order in which they were met."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a type; a reference for one with a name."""
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in {Union, UnionType}:
            return {"anyOf": [self.of(one) for one in inner]}
        if not isinstance(origin or kind, type):
            return {}
        return self._of_class(kind, origin or kind, inner)

    def _of_class(self, kind: Any, made_by: type, inner: tuple[Any, ...]) -> Schema:
        if is_typeddict(kind) or hasattr(kind, "_fields"):
            return self._reference(kind)
        if issubclass(made_by, Mapping):
            return {"type": "object"}
        if issubclass(made_by, Collection) and not issubclass(made_by, bytes):
            is_even = len({one for one in inner if one is not Ellipsis}) == 1
            return {"type": "array", "items": self.of(inner[0]) if is_even else {}}
        return {}

    def _reference(self, kind: type) -> Schema:
        name = self._names.get(kind)
        if name is None:
            name = self._names[kind] = kind.__name__.lstrip("_") + "_" * (kind.__name__ in self.named)
            self.named[name] = {}  # before its fields, one of which may be of the same type
            fields = {one: kind for one, kind in get_type_hints(kind).items() if one != "mood"}
            self.named[name] = {
                "type": "object",
                "required": list(fields),
                "properties": {one: self._field(one, kind) for one, kind in fields.items()},
            }
        return {"$ref": f"#/components/schemas/{name}"}

    def _field(self, name: str, kind: Any) -> Schema:
        inner = get_args(kind) or (kind,)
        if (name == "at" or name.endswith("_at")) and float in inner:
            # A whole number, as a store may have it, stays one.
            return {"type": ["string", "number", *["null"] * (NoneType in inner)], "description": "ISO 8601"}
        return self.of(kind)
