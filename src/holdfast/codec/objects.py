"""The stored forms of users' classes: dataclasses, NamedTuples, enums and pydantic models.

It knows where each kind keeps its state and how to put it back. It refuses to run a class's own code on the way
back: no ``__init__``, no ``__post_init__``, no validator, so that what stands recorded is what comes back, and
replaying a journal has no effects. The invariant: a record and a class that do not agree on the fields are refused
by name, never patched over; only a new field with a default is filled from it.

What was left in an object beside its fields (``more``) comes back too. A cached property does not: it is computed
again when asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from enum import Enum, Flag
from functools import cached_property
from typing import Any, Final

from holdfast.codec.refusals import RefusedError, UnreadableError
from holdfast.codec.scalars import Fields
from holdfast.codec.state import put_state, state_of
from holdfast.codec.types import is_model, is_namedtuple, type_name

_HEAP_TYPE: Final = 1 << 9
_DROPPED: Final = frozenset({"__orig_class__"})  # left by Box[int](…); says nothing that the class does not


def find_record(value: object, kind: type) -> Fields | None:
    """The tag and the parts of an object, or None if it is of none of these kinds."""
    if issubclass(kind, Enum):
        return _enum_record(value)
    if hasattr(kind, "__dataclass_fields__"):
        return _dataclass_record(value, kind)
    if is_namedtuple(kind):
        return _namedtuple_record(value, kind)
    if is_model(kind):
        return _model_record(value, kind)
    return None


def rebuild(fields: Fields, cls: type) -> object:
    """The object of a record whose parts have been read."""
    tag = fields["$"]
    if tag == "enum" and issubclass(cls, Enum):
        return _rebuild_enum(fields, cls)
    if tag == "dataclass" and hasattr(cls, "__dataclass_fields__"):
        return _rebuild_dataclass(fields, cls)
    if tag == "namedtuple" and is_namedtuple(cls):
        return _rebuild_namedtuple(fields, cls)
    if tag == "model" and is_model(cls):
        return _rebuild_model(fields, cls)
    raise UnreadableError(fields["type"], f"which is no longer a {tag}")


# -- enums ----------------------------------------------------------------------------------------------------


def _enum_record(value: Any) -> Fields:
    kind = type(value)
    record: Fields = {"$": "enum", "type": type_name(kind)}
    if value._name_ in kind.__members__:
        return record | {"name": value._name_}
    if not isinstance(value, Flag):
        raise RefusedError(f"a nameless member of {kind.__qualname__}")
    # a composite is kept by its members' names, so that renumbering them does not change it
    members = [member for member in kind if member in value]
    rest = value.value & ~sum(member.value for member in members)
    return record | {"names": [member._name_ for member in members]} | ({"rest": rest} if rest else {})


def _rebuild_enum(fields: Fields, cls: Any) -> object:
    names = [fields["name"]] if "name" in fields else fields["names"]
    missing = [name for name in names if name not in cls.__members__]
    if missing:
        raise UnreadableError(fields["type"], f"which has no member {', '.join(missing)}")
    if "name" in fields:
        return cls.__members__[fields["name"]]
    value = cls(fields.get("rest", 0))
    for name in names:
        value |= cls.__members__[name]
    return value


# -- dataclasses and NamedTuples --------------------------------------------------------------------------------


def _dataclass_record(value: object, kind: type) -> Fields:
    names = _dataclass_fields(kind)
    _refuse_hidden_state(kind)
    state = _state(value, kind)
    record: Fields = {
        "$": "dataclass",
        "type": type_name(kind),
        "v": {name: state.pop(name) for name in names if name in state},
    }
    unset = [name for name in names if name not in record["v"]]
    return record | ({"unset": unset} if unset else {}) | ({"more": state} if state else {})


def _rebuild_dataclass(fields: Fields, cls: Any) -> object:
    known = _dataclass_fields(cls)
    values = _completed(fields, known, {name: field for name, field in known.items() if _has_default(field)})
    value = object.__new__(cls)
    put_state(value, {**values, **fields.get("more", {})})
    return value


def _dataclass_fields(kind: Any) -> dict[str, Any]:
    return {field.name: field for field in dataclass_fields(kind)}


def _has_default(field: Any) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _namedtuple_record(value: Any, kind: Any) -> Fields:
    if len(value) != len(kind._fields):
        raise RefusedError(f"a malformed {kind.__qualname__}")
    state = _state(value, kind)
    record: Fields = {
        "$": "namedtuple",
        "type": type_name(kind),
        "v": dict(zip(kind._fields, tuple.__iter__(value), strict=True)),
    }
    return record | ({"more": state} if state else {})


def _rebuild_namedtuple(fields: Fields, cls: Any) -> object:
    values = _completed(fields, cls._fields, getattr(cls, "_field_defaults", {}))
    value = tuple.__new__(cls, [values[name] for name in cls._fields])
    put_state(value, fields.get("more", {}))
    return value


def _completed(fields: Fields, known: Iterable[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded values, with the defaults of fields that the class has got since; all else must agree."""
    values: dict[str, Any] = dict(fields["v"])
    names = list(known)
    gone = [name for name in values if name not in names]
    if gone:
        raise UnreadableError(fields["type"], f"which has no field {', '.join(gone)}")
    absent = [name for name in names if name not in values and name not in fields.get("unset", ())]
    missing = [name for name in absent if name not in defaults]
    if missing:
        raise UnreadableError(fields["type"], f"whose field {', '.join(missing)} is not in the record")
    for name in absent:
        values[name] = _default(defaults[name])
    return values


def _default(source: Any) -> Any:
    if not hasattr(source, "default_factory"):
        return source
    return source.default_factory() if source.default is MISSING else source.default


# -- pydantic models --------------------------------------------------------------------------------------------


def _model_record(value: Any, kind: Any) -> Fields:
    known = kind.__pydantic_fields__
    state = _without_cached(dict(value.__dict__), kind)
    record: Fields = {
        "$": "model",
        "type": type_name(kind),
        "v": {name: state.pop(name) for name in known if name in state},
    }
    unset = [name for name in known if name not in record["v"]]
    given = sorted(value.__pydantic_fields_set__)
    parts = {
        "unset": unset,
        "set": None if given == sorted(record["v"]) else given,
        "extra": value.__pydantic_extra__,
        "private": value.__pydantic_private__,
        "more": state,
    }
    return record | {
        name: part for name, part in parts.items() if part or (name in _KEPT_EMPTY and part is not None)
    }


_KEPT_EMPTY: Final = frozenset({"set", "extra", "private"})  # {} and None are not the same to pydantic


def _rebuild_model(fields: Fields, cls: Any) -> object:
    known = cls.__pydantic_fields__
    optional = {name: field for name, field in known.items() if not field.is_required()}
    recorded = dict(fields["v"])
    values = _completed({**fields, "v": recorded}, known, dict.fromkeys(optional))
    for name in values.keys() - recorded.keys():
        values[name] = optional[name].get_default(call_default_factory=True, validated_data=recorded)
    value = cls.__new__(cls)
    put = object.__setattr__  # as pydantic's own __setstate__ does: neither validation nor frozen=True apply
    put(value, "__dict__", {**values, **fields.get("more", {})})
    put(value, "__pydantic_fields_set__", set(fields.get("set", recorded)))
    put(value, "__pydantic_extra__", fields.get("extra"))
    put(value, "__pydantic_private__", fields.get("private"))
    return value


# -- state ------------------------------------------------------------------------------------------------------


def _state(value: object, kind: type) -> dict[str, Any]:
    return _without_cached(state_of(value), kind)


def _without_cached(state: dict[str, Any], kind: type) -> dict[str, Any]:
    return {
        name: part
        for name, part in state.items()
        if name not in _DROPPED and not isinstance(getattr(kind, name, None), cached_property)
    }


def _refuse_hidden_state(kind: type) -> None:
    """A dataclass that is also a dict or an exception holds more than its attributes tell."""
    for base in kind.__mro__[:-1]:
        if not base.__flags__ & _HEAP_TYPE:
            raise RefusedError(f"a dataclass that is also a {base.__name__} ({kind.__qualname__})")
