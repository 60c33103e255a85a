"""The registry: maps recorded type names to classes, and holds the codecs of users.

A type name is ``module:Qual.Name``. It knows the reader's hint, the registered classes and the loaded
modules. It never imports, and never triggers an import (a module's ``__getattr__`` is not called). The
invariant: data can only name a class that the program itself brought into the process, or one of ours.

Our own classes have fixed names (``model.stored_names``), so that moving a file changes neither the stored
bytes nor the identity of a call. They are found by that table alone, loaded or not; a class of ours that is
not in it is not stored.

Python names the started program ``__main__``, whatever its file. Its classes are written under the name it
would be imported by: its spec's name (``python -m pkg.mod``), else its file's stem (``python job.py`` is
``job``). So a script that runs today and is imported tomorrow finds its own records. A module inside a
package that is run by its path (``python pkg/mod.py``) is ``mod`` in one case and ``pkg.mod`` in the other:
register its classes.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeVar, overload

from holdfast.codec.refusals import UnreadableError
from holdfast.codec.scalars import find_form
from holdfast.errors import Misuse
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.stored_names import PLACES, fixed_name, is_ours

T = TypeVar("T")

_MAIN_NAMES: Final = frozenset(
    {"__main__", "__mp_main__"}
)  # the second name: a child that multiprocessing spawned
_PLAIN: Final = frozenset({type(None), bool, int, float, str, object, type})
_CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset, deque, OrderedDict, Counter, defaultdict})
_STORED_AS_THEMSELVES: Final = _PLAIN | _CONTAINERS
_HINT_CLASSES_MAX: Final = 1_000


class Registration(NamedTuple):
    """How a registered class is written: its name, and the user's functions, if there are any."""

    cls: type
    name: str
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None
    upgrade: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None


_by_class: dict[type, Registration] = {}
_by_name: dict[str, Registration] = {}


@overload
def register(
    cls: type[T],
    *,
    name: str | None = None,
    encode: Callable[[T], Any] | None = None,
    decode: Callable[[Any], T] | None = None,
    upgrade: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
) -> type[T]: ...
@overload
def register(
    cls: None = None,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    upgrade: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
) -> Callable[[type[T]], type[T]]: ...
def register(
    cls: type[Any] | None = None,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    upgrade: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
) -> Any:
    """Make a class storable, or findable under ``name``.

    A plain call, or a decorator with or without options.

    With ``encode`` and ``decode`` any class can be stored: what ``encode(obj)`` returns is written, and
    ``decode`` turns it back. Without them the class must be a dataclass, an enum, a NamedTuple, a pydantic
    model or an exception, and becomes findable even if it is local to a function. The last ``name``
    registered is the one written, earlier ones are still read; so a renamed class registered under its old
    name keeps both its records and the identity of the calls it was passed to. A subclass is not covered by
    its parent's registration.

    ``upgrade`` is for a class whose fields have changed: it gets the fields of an older record, and returns
    those of today's class. It is called only if the names differ. A new field with a default needs none.
    """
    if cls is None:
        return lambda cls: register(cls, name=name, encode=encode, decode=decode, upgrade=upgrade)
    _check(cls, encode, decode)
    if upgrade is not None and (encode is not None or not field_names(cls)):
        raise Misuse(
            problem=f"{cls.__qualname__} was registered with upgrade=, and has no fields to upgrade",
            advice="upgrade= is for dataclasses, NamedTuples and pydantic models; else use decode=",
        )
    entry = Registration(cls, name or natural_name(cls), encode, decode, upgrade)
    taken = _by_name.get(entry.name)
    if taken is not None and natural_name(taken.cls) != natural_name(cls):
        raise Misuse(
            problem=f"type name {entry.name!r} is registered for {natural_name(taken.cls)} already",
            advice="choose another name=",
        )
    _by_name[entry.name] = entry
    _by_class[cls] = entry
    return cls


def upgraded(cls: type, fields: dict[str, Any]) -> dict[str, Any]:
    """The recorded fields as today's class has them, by its registered ``upgrade`` if it has one."""
    entry = _by_class.get(cls)
    if entry is None or entry.upgrade is None or fields.keys() == field_names(cls):
        return fields
    try:
        return dict(entry.upgrade(dict(fields)))
    except Exception as error:
        problem = f"which its registered upgrade refused ({type(error).__name__}: {error})"
        raise UnreadableError(entry.name, problem) from error


def field_names(cls: Any) -> set[str]:
    """The names of the fields of a dataclass, NamedTuple or pydantic model; empty for other classes."""
    if hasattr(cls, "__dataclass_fields__"):
        from dataclasses import fields  # late: it brings `inspect` along

        return {field.name for field in fields(cls)}
    if is_namedtuple(cls):
        return set(cls._fields)
    return set(getattr(cls, "__pydantic_fields__", None) or cls.model_fields) if is_model(cls) else set()


def _check(cls: object, encode: object, decode: object) -> None:
    if not isinstance(cls, type) or cls in _STORED_AS_THEMSELVES or find_form(cls) is not None:
        raise Misuse(problem=f"{cls!r} cannot be registered", advice="register classes of your own")
    if (encode is None) != (decode is None):
        raise Misuse(
            problem=f"{cls.__qualname__} was registered with only one of encode= and decode=",
            advice="give both: what is written must be readable",
        )
    if encode is None and not (is_buildable(cls) or issubclass(cls, BaseException)):
        raise Misuse(
            problem=f"{cls.__qualname__} is not a dataclass, enum, NamedTuple, pydantic model or exception",
            advice="give encode= and decode= functions",
        )


def registration_of(cls: type) -> Registration | None:
    """The registration of exactly this class."""
    return _by_class.get(cls)


def type_name(cls: type) -> str:
    """The stored name of the class: its registered name, else ``module:Qual.Name``."""
    entry = _by_class.get(cls)
    return natural_name(cls) if entry is None else entry.name


def natural_name(cls: type) -> str:
    """``module:Qual.Name``, or our fixed name. ``__main__`` becomes the name it would be imported by."""
    module = cls.__module__
    fixed = fixed_name(module, cls.__qualname__)
    if fixed is not None:
        return fixed
    return f"{main_name() if module in _MAIN_NAMES else module}:{cls.__qualname__}"


def is_nameless(cls: type) -> bool:
    """Whether the class is one of ours without a fixed name: internal, and never stored."""
    module = cls.__module__
    return is_ours(module) and fixed_name(module, cls.__qualname__) is None and cls not in _by_class


def main_name() -> str:
    """The import name of ``__main__``; ``__main__`` itself if there is no file."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    if not file:
        return "__main__"
    base = str(file).replace("\\", "/").rpartition("/")[2]
    return base.rpartition(".")[0] or base


def is_buildable(cls: type) -> bool:
    """Whether a value of this class may be rebuilt from its fields without running code of the class."""
    return (
        issubclass(cls, Enum) or hasattr(cls, "__dataclass_fields__") or is_namedtuple(cls) or is_model(cls)
    )


def is_namedtuple(cls: type) -> bool:
    """Whether the class was made by NamedTuple or namedtuple, or derives from one."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_model(cls: type) -> bool:
    """Whether the class is a pydantic model; checks without importing pydantic."""
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)


def resolve(name: str, hints: Mapping[str, type] | None = None) -> Registration:
    """The class of a recorded value, among the hint's classes, the registered and the loaded ones.

    Raises UnreadableError if there is none, or if no value may be built of it.
    """
    if hints and name in hints:
        found: object = hints[name]
    elif name in _by_name:
        return _by_name[name]
    elif name in PLACES:
        found = _find_ours(name)
    else:
        found = find_loaded(name)
    if found is None:
        raise UnreadableError(name, "which is not defined in any loaded module")
    if not isinstance(found, type):
        raise UnreadableError(name, "which is not a class")
    entry = _by_class.get(found)
    if entry is not None:
        return entry
    if not is_buildable(found):
        raise UnreadableError(
            name, "which is not a dataclass, enum, NamedTuple or pydantic model, nor registered"
        )
    return Registration(found, name, None, None)


def find_class(name: str) -> object | None:
    """The class registered under the name, else the one in a loaded module."""
    entry = _by_name.get(name)
    return find_loaded(name) if entry is None else entry.cls


def _find_ours(name: str) -> object | None:
    """The class of ours with a fixed name. It may import our module: the table names it, not the data."""
    from importlib import import_module

    module, qualname = PLACES[name]
    return _walk(sys.modules.get(module) or import_module(module), qualname)


def find_loaded(name: str) -> object | None:
    """The object of that name in the loaded modules; imports nothing."""
    module, _, qualname = name.partition(":")
    if name in PLACES:
        module, qualname = PLACES[name]
    homes = [sys.modules.get("__main__")] if module in _MAIN_NAMES or module == main_name() else []
    homes.append(sys.modules.get(module))
    for home in homes:
        found = _walk(home, qualname)
        if found is not None:
            return found
    return None


def _walk(home: object, qualname: str) -> object | None:
    plain, bracket, _ = qualname.partition("[")
    for part in plain.split("."):
        # the dict, not getattr: a module's __getattr__ may import, and a metaclass's may do anything
        home = getattr(home, "__dict__", {}).get(part)
    return _parametrised(home, qualname) if bracket else home


def _parametrised(origin: object, qualname: str) -> object | None:
    """``Box[int]`` of a generic pydantic model is a subclass in no namespace.

    Two of one name count as none.
    """
    if not isinstance(origin, type):
        return None
    subclasses: list[type] = type.__subclasses__(origin)
    matches = [cls for cls in subclasses if cls.__qualname__ == qualname]
    return matches[0] if len(matches) == 1 else None


def hint_classes(hint: object) -> Mapping[str, type]:
    """Every class in an annotation, by type name: through unions, containers and the fields of classes.

    Parts that cannot be resolved (a string, a forward reference) are skipped.
    """
    try:
        return _hint_classes(hint)
    except TypeError:  # Annotated[…, {}] is not hashable, so it cannot be cached
        return _hint_classes.__wrapped__(hint)


@lru_cache(maxsize=256)
def _hint_classes(hint: object) -> Mapping[str, type]:
    found: dict[str, type] = {}
    todo = [hint]
    seen: dict[int, object] = {}  # keeps the parts alive: the id of a freed part may be reused
    while todo and len(seen) < _HINT_CLASSES_MAX:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, type) and part not in _STORED_AS_THEMSELVES:
            found.setdefault(type_name(part), part)
            found.setdefault(natural_name(part), part)
            todo.extend(_field_hints(part))
        todo.extend(_parts(part))
    return found


def _field_hints(cls: type) -> list[object]:
    fields = getattr(cls, "__dataclass_fields__", None) or getattr(cls, "__pydantic_fields__", None)
    if isinstance(fields, dict):
        return [
            getattr(field, "annotation", None) or getattr(field, "type", None) for field in fields.values()
        ]
    return list(getattr(cls, "__annotations__", {}).values()) if is_namedtuple(cls) else []


def _parts(hint: object) -> list[object]:
    """The parts of a union, a container, a NewType or a ``type X = …`` alias."""
    try:
        args = getattr(hint, "__args__", ())
        named: list[object] = [getattr(hint, "__supertype__", None), getattr(hint, "__value__", None)]
    except Exception:  # noqa: BLE001  an alias is evaluated when asked for, and may speak of what is not there
        return []
    return [*args, *named] if isinstance(args, tuple) else named
