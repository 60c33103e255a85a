"""``NamedTuple`` as in ``typing``, made in a tenth of the time.

A process that enters a run makes a class for each noun that it loads. ``typing.NamedTuple`` compiles a
constructor and makes five methods for every one of them: 100 µs each. Here the methods are inherited, and a
constructor of n fields is compiled once: the others of that size are the same code with other names. Those of
up to ten fields are compiled with this module.

The invariant: instances are what ``typing.NamedTuple`` makes, immutable tuples with named fields, defaults,
``_make``, ``_replace`` and ``_asdict``, and no operation on them is slower.
"""

import sys
from collections.abc import Callable, Iterable
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Self

try:
    from collections import _tuplegetter as _field  # type: ignore[attr-defined]  # in C, and twice as fast
except ImportError:
    from operator import itemgetter

    def _field(index: int, doc: str) -> property:
        return property(itemgetter(index), doc=doc)


__all__ = ["NamedTuple"]

_tuple_new = tuple.__new__
_CONSTRUCTORS: Final[tuple[Callable[..., Any], ...]] = (
    lambda _cls: _tuple_new(_cls, ()),
    lambda _cls, a: _tuple_new(_cls, (a,)),
    lambda _cls, a, b: _tuple_new(_cls, (a, b)),
    lambda _cls, a, b, c: _tuple_new(_cls, (a, b, c)),
    lambda _cls, a, b, c, d: _tuple_new(_cls, (a, b, c, d)),
    lambda _cls, a, b, c, d, e: _tuple_new(_cls, (a, b, c, d, e)),
    lambda _cls, a, b, c, d, e, f: _tuple_new(_cls, (a, b, c, d, e, f)),
    lambda _cls, a, b, c, d, e, f, g: _tuple_new(_cls, (a, b, c, d, e, f, g)),
    lambda _cls, a, b, c, d, e, f, g, h: _tuple_new(_cls, (a, b, c, d, e, f, g, h)),
    lambda _cls, a, b, c, d, e, f, g, h, i: _tuple_new(_cls, (a, b, c, d, e, f, g, h, i)),
    lambda _cls, a, b, c, d, e, f, g, h, i, j: _tuple_new(_cls, (a, b, c, d, e, f, g, h, i, j)),
)  # fmt: skip


@cache
def _constructor(count: int) -> CodeType:
    """The code of ``__new__`` for that many fields."""
    if count < len(_CONSTRUCTORS):
        return _CONSTRUCTORS[count].__code__
    names = [f"field_{index}" for index in range(count)]
    values = "".join(f"{name}, " for name in names)
    source = f"lambda {', '.join(['_cls', *names])}: _tuple_new(_cls, ({values}))"
    code: CodeType = eval(source).__code__  # noqa: S307 - nothing in it comes from outside
    return code


class _NamedTupleType(type):
    """Makes the classes: fields are the annotations of the class body, and its values their defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        """The class. One that derives from a class with fields, or is made of its parts, has those fields."""
        if bases == (tuple,) or "_fields" in namespace or any(hasattr(base, "_fields") for base in bases):
            return super().__new__(cls, name, bases, namespace)
        hints = namespace.get("__annotations__", {})
        fields = tuple(hints)
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"{name}: a field without a default follows a field with one")
        if any(field.startswith("_") for field in fields):
            raise ValueError(f"{name}: a field's name must not start with an underscore")
        code = _constructor(len(fields)).replace(
            co_name="__new__",
            co_varnames=("_cls", *fields),
            co_qualname=f"{namespace.get('__qualname__', name)}.__new__",
        )
        for index, field in enumerate(fields):
            namespace[field] = _field(index, field)
        namespace["__new__"] = new = FunctionType(code, globals(), "__new__", tuple(defaults.values()))
        new.__annotations__ = hints
        namespace["__slots__"] = ()
        namespace["__match_args__"] = namespace["_fields"] = fields
        namespace["_field_defaults"] = defaults
        return super().__new__(cls, name, bases, namespace)


class _NamedTuple(tuple[Any, ...], metaclass=_NamedTupleType):
    """The methods that all of them share."""

    __slots__ = ()
    if TYPE_CHECKING:
        _fields: tuple[str, ...]

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        """An instance out of its values, in the order of the fields."""
        made = _tuple_new(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changed: Any) -> Self:
        """The same with other values in these fields."""
        made = self._make(map(changed.pop, self._fields, self))
        if changed:
            raise ValueError(f"got unexpected field names: {list(changed)!r}")
        return made

    __replace__ = _replace  # for copy.replace of Python 3.13

    def _asdict(self) -> dict[str, Any]:
        """The values by the names of their fields."""
        return dict(zip(self._fields, self))  # noqa: B905 - they are as many, and strict takes longer

    def __repr__(self) -> str:
        """As a call of the class."""
        told = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({told})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        """For pickling and copying: the constructor takes the values one by one."""
        return tuple(self)


if TYPE_CHECKING or sys.version_info >= (3, 14):
    from typing import NamedTuple  # the class body of Python 3.14 has no annotations until they are asked for
else:
    NamedTuple = _NamedTuple
