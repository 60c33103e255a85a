"""The stored forms of user classes: dataclasses, NamedTuples, enums and pydantic models.

It knows where each kind keeps its state and how to restore it. It never runs a class's own code when it
reads: no ``__init__``, no ``__post_init__``, no validator. So the recorded value comes back, and replaying a
journal has no effects. The invariant: a record and a class with different fields are refused by name, never
adjusted; only a new field with a default is filled from it.

Attributes of an object besides its fields (``more``) come back too. A cached property does not: it is
computed again when it is read.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from enum import Enum, Flag
from functools import cached_property
from typing import Any, Final, cast

from holdfast.codec.object_attributes import put_state, state_of
from holdfast.codec.refusals import RefusedError, UnreadableError
from holdfast.codec.scalars import Fields
from holdfast.codec.type_registry import is_model, is_namedtuple, is_nameless, type_name

_HEAP_TYPE: Final = 1 << 9
_DROPPED: Final = frozenset({"__orig_class__"})  # set by Box[int](…); the class already has this information


def find_record(value: object, kind: type) -> Fields | None:
    """The tag and the parts of an object; None if it is of no such kind, or internal to Holdfast."""
    if is_nameless(kind):
        return None
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
    """The object of a record whose parts are already read."""
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


# -- enums ---------------------------------------------------------------------------------------------------


def _enum_record(value: Any) -> Fields:
    kind: Any = type(value)
    record: Fields = {"$": "enum", "type": type_name(kind)}
    if value._name_ in kind.__members__:
        return record | {"name": value._name_}
    if not isinstance(value, Flag):
        raise RefusedError(f"a nameless member of {kind.__qualname__}")
    # a composite is stored by its members' names, so that renumbering does not change it
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


# -- dataclasses and NamedTuples -----------------------------------------------------------------------------


def _dataclass_record(value: object, kind: type) -> Fields:
    _refuse_hidden_state(kind)
    state = state_of(value)
    names = [field.name for field in dataclass_fields(cast("Any", kind))]
    return _with_more(_record_of("dataclass", kind, names, state), state, kind)


def _record_of(tag: str, kind: type, names: Collection[str], state: dict[str, Any]) -> Fields:
    """A record of the fields that the class declares, taken out of the object's state."""
    record: Fields = {
        "$": tag,
        "type": type_name(kind),
        "v": {name: state.pop(name) for name in names if name in state},
    }
    if len(record["v"]) < len(names):
        record["unset"] = [name for name in names if name not in record["v"]]
    return record


def _rebuild_dataclass(fields: Fields, cls: Any) -> object:
    known = {field.name: field for field in dataclass_fields(cls)}
    values = _with_defaults(fields, known, lambda name: _dataclass_default(known[name]))
    value = object.__new__(cls)
    put_state(value, {**values, **fields.get("more", {})})
    return value


def _dataclass_default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _namedtuple_record(value: Any, kind: Any) -> Fields:
    items = list(tuple.__iter__(value))
    if len(items) != len(kind._fields):
        raise RefusedError(f"a malformed {kind.__qualname__}")
    record: Fields = {
        "$": "namedtuple",
        "type": type_name(kind),
        "v": dict(zip(kind._fields, items, strict=True)),
    }
    return _with_more(record, state_of(value), kind)


def _rebuild_namedtuple(fields: Fields, cls: Any) -> object:
    defaults = getattr(cls, "_field_defaults", {})
    values = _with_defaults(fields, cls._fields, lambda name: defaults.get(name, MISSING))
    value = tuple.__new__(cls, [values[name] for name in cls._fields])
    put_state(value, fields.get("more", {}))
    return value


# -- pydantic models -----------------------------------------------------------------------------------------


def _model_record(value: Any, kind: type) -> Fields:
    state = dict(value.__dict__)
    record = _record_of("model", kind, _model_fields(kind), state)
    given = value.__pydantic_fields_set__
    if given != record["v"].keys():
        record["set"] = sorted(given)
    # pydantic distinguishes {} and None here
    if value.__pydantic_extra__ is not None:
        record["extra"] = value.__pydantic_extra__
    if value.__pydantic_private__ is not None:
        record["private"] = value.__pydantic_private__
    return _with_more(record, state, kind)


def _rebuild_model(fields: Fields, cls: Any) -> object:
    known = _model_fields(cls)
    recorded: dict[str, Any] = fields["v"]
    values = _with_defaults(fields, known, lambda name: _model_default(known[name], recorded))
    value = cls.__new__(cls)
    put = object.__setattr__  # as pydantic's own __setstate__: bypasses validation and frozen=True
    put(value, "__dict__", {**values, **fields.get("more", {})})
    put(value, "__pydantic_fields_set__", set(fields.get("set", recorded)))
    put(value, "__pydantic_extra__", fields.get("extra"))
    put(value, "__pydantic_private__", fields.get("private"))
    return value


def _model_fields(cls: Any) -> dict[str, Any]:
    # before pydantic 2.10 only the public name existed, which warns on instances since 2.11
    fields: dict[str, Any] = getattr(cls, "__pydantic_fields__", None) or cls.model_fields
    return fields


def _model_default(field: Any, recorded: dict[str, Any]) -> Any:
    if field.is_required():
        return MISSING
    if getattr(field, "default_factory_takes_validated_data", False):
        return field.get_default(call_default_factory=True, validated_data=recorded)
    return field.get_default(call_default_factory=True)


# -- fields and state ----------------------------------------------------------------------------------------


def _with_defaults(fields: Fields, known: Iterable[str], default_of: Callable[[str], Any]) -> dict[str, Any]:
    """The recorded values, with the defaults of new fields. All other fields must match."""
    values: dict[str, Any] = dict(fields["v"])
    names = list(known)
    gone = [name for name in values if name not in names]
    if gone:
        raise UnreadableError(fields["type"], f"which has no field {', '.join(gone)}")
    if len(values) == len(names):
        return values
    unset = fields.get("unset", ())
    defaults = {name: default_of(name) for name in names if name not in values and name not in unset}
    missing = [name for name, default in defaults.items() if default is MISSING]
    if missing:
        raise UnreadableError(fields["type"], f"whose field {', '.join(missing)} is not in the record")
    return values | defaults


def _with_more(record: Fields, state: dict[str, Any], kind: type) -> Fields:
    """The record with the attributes besides its fields, except those it can compute again."""
    more = {
        name: part
        for name, part in state.items()
        if name not in _DROPPED and not isinstance(getattr(kind, name, None), cached_property)
    }
    return record | {"more": more} if more else record


def _refuse_hidden_state(kind: type) -> None:
    """A dataclass that is also a dict or an exception has state outside its attributes."""
    for base in kind.__mro__[:-1]:
        if not base.__flags__ & _HEAP_TYPE:
            raise RefusedError(f"a dataclass that is also a {base.__name__} ({kind.__qualname__})")
