"""The registry: which class a recorded type name stands for, and the codecs that users bring.

A type name is ``module:Qual.Name``. It knows the hint of the reader, the registered classes and the modules that
are loaded; it refuses to import, and it refuses to trigger an import (a module's ``__getattr__`` is never asked).
The invariant: data can only ever name a class that the program itself has brought into the process, or one of ours.

Our own classes have fixed names (``model.stored_names``), so that a move of their files changes neither what is written nor the
identity of a call. They are found by that table alone, loaded or not; one of ours that is not in it is not stored.

The program that was started is called ``__main__`` by Python, whatever its file. Its classes are written under the
name it would be imported by: its spec's name (``python -m pkg.mod``), else its file's stem (``python job.py`` is
``job``). So a script that is run today and imported tomorrow finds its own records. A module inside a package
that is run by its path (``python pkg/mod.py``) is ``mod`` one day and ``pkg.mod`` the other: register such classes.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar, overload

from holdfast.codec.refusals import UnreadableError
from holdfast.codec.scalars import find_form
from holdfast.errors import Misuse
from holdfast.model.stored_names import PLACES, fixed_name, is_ours

T = TypeVar("T")

_MAIN_NAMES: Final = frozenset(
    {"__main__", "__mp_main__"}
)  # the second: a child that multiprocessing spawned
_PLAIN: Final = frozenset({type(None), bool, int, float, str, object, type})
_CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset, deque, OrderedDict, Counter, defaultdict})
_STORED_AS_THEMSELVES: Final = _PLAIN | _CONTAINERS
_HINT_CLASSES_MAX: Final = 1_000


class Registration(NamedTuple):
    """How a registered class is written: the name, and the user's functions if they gave any."""

    cls: type
    name: str
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None


_by_class: dict[type, Registration] = {}
_by_name: dict[str, Registration] = {}


@overload
def register(
    cls: type[T],
    *,
    name: str | None = None,
    encode: Callable[[T], Any] | None = None,
    decode: Callable[[Any], T] | None = None,
) -> type[T]: ...
@overload
def register(
    cls: None = None,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[type[T]], type[T]]: ...
def register(
    cls: type[Any] | None = None,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Any:
    """Make a class storable, or findable under ``name``; a plain call, or a decorator with or without options.

    With ``encode`` and ``decode`` any class can be stored: what ``encode(obj)`` returns is written, and
    ``decode`` turns it back. Without them the class must be a dataclass, an enum, a NamedTuple, a pydantic model or
    an exception, and becomes findable even if it is local to a function. The last ``name`` registered is the one
    written, earlier ones are still read; so a renamed class registered under its old name keeps both its records
    and the identity of the calls it was passed to. A subclass is not covered by its parent's registration.
    """
    if cls is None:
        return lambda cls: register(cls, name=name, encode=encode, decode=decode)
    _check(cls, encode, decode)
    entry = Registration(cls, name or natural_name(cls), encode, decode)
    taken = _by_name.get(entry.name)
    if taken is not None and natural_name(taken.cls) != natural_name(cls):
        raise Misuse(
            problem=f"type name {entry.name!r} is registered for {natural_name(taken.cls)} already",
            advice="choose another name=",
        )
    _by_name[entry.name] = entry
    _by_class[cls] = entry
    return cls


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
    """The name under which the class is written: its registered one, else ``module:Qual.Name``."""
    entry = _by_class.get(cls)
    return natural_name(cls) if entry is None else entry.name


def natural_name(cls: type) -> str:
    """``module:Qual.Name``, with the program that was started under the name it would be imported by; or our fixed name."""
    module = cls.__module__
    fixed = fixed_name(module, cls.__qualname__)
    if fixed is not None:
        return fixed
    return f"{main_name() if module in _MAIN_NAMES else module}:{cls.__qualname__}"


def is_nameless(cls: type) -> bool:
    """Whether the class is one of ours without a fixed name: part of the machinery, and nothing for a store."""
    module = cls.__module__
    return is_ours(module) and fixed_name(module, cls.__qualname__) is None and cls not in _by_class


def main_name() -> str:
    """The name under which ``__main__`` would be imported; ``__main__`` itself where there is no file."""
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
    """Whether a value of this class may be rebuilt from its fields without any code of the class running."""
    return (
        issubclass(cls, Enum) or hasattr(cls, "__dataclass_fields__") or is_namedtuple(cls) or is_model(cls)
    )


def is_namedtuple(cls: type) -> bool:
    """Whether the class was made by NamedTuple or namedtuple, or derives from such a one."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_model(cls: type) -> bool:
    """Whether the class is a pydantic model; pydantic itself is only looked at, never imported."""
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)


def resolve(name: str, hints: Mapping[str, type] | None = None) -> Registration:
    """The class a value was recorded with, among the hint's classes, the registered and the loaded ones.

    Raises UnreadableError when there is none, or when it is a class that no value may be built of.
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
    """What is registered under the name, else what stands under it in a loaded module."""
    entry = _by_name.get(name)
    return find_loaded(name) if entry is None else entry.cls


def _find_ours(name: str) -> object | None:
    """The class of ours under a fixed name. Its module may not be loaded yet: the table says which it is, not the data."""
    from importlib import import_module

    module, qualname = PLACES[name]
    return _walk(sys.modules.get(module) or import_module(module), qualname)


def find_loaded(name: str) -> object | None:
    """What stands under the name in the modules that are loaded; nothing is imported to find it."""
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
        # vars(), not getattr: a module's __getattr__ may import, a metaclass's may do anything
        home = getattr(home, "__dict__", {}).get(part)
    return _parametrised(home, qualname) if bracket else home


def _parametrised(origin: object, qualname: str) -> object | None:
    """``Box[int]`` of a generic pydantic model is a subclass that stands in no namespace; two of a name are none."""
    if not isinstance(origin, type):
        return None
    subclasses: list[type] = type.__subclasses__(origin)
    matches = [cls for cls in subclasses if cls.__qualname__ == qualname]
    return matches[0] if len(matches) == 1 else None


def hint_classes(hint: object) -> Mapping[str, type]:
    """Every class that an annotation speaks of, by type name: through unions, containers and the fields of classes.

    What cannot be resolved (a string, a forward reference) is passed over.
    """
    try:
        return _hint_classes(hint)
    except TypeError:  # Annotated[…, {}] cannot be hashed, and so not be kept
        return _hint_classes.__wrapped__(hint)


@lru_cache(maxsize=256)
def _hint_classes(hint: object) -> Mapping[str, type]:
    found: dict[str, type] = {}
    todo = [hint]
    seen: dict[int, object] = {}  # holds on to what it has seen: a freed part's id may come again
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
    """What a union, a container, a NewType or a ``type X = …`` alias is made of."""
    try:
        args = getattr(hint, "__args__", ())
        named: list[object] = [getattr(hint, "__supertype__", None), getattr(hint, "__value__", None)]
    except Exception:  # noqa: BLE001  an alias is evaluated when asked for, and may speak of what is not there
        return []
    return [*args, *named] if isinstance(args, tuple) else named
