"""Binds a call's arguments by parameter name, together with what its function captured, for its identity.

Plain functions are read from their code objects: that is 60 times faster than ``inspect.signature``, and
importing Holdfast does not import ``inspect``. Other callables use ``inspect``. Nothing here calls the
function.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from holdfast.errors import Misuse
from holdfast.model.markers import Act, Ephemeral, Neutral
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.stored_names import fixed_name

CLOSURE = "closure:"
GLOBAL = "global:"
"""A value that the function reads from its module: see ``engine/steps/module_data.py``."""
NOT_GIVEN = (CLOSURE, GLOBAL)
"""Names of values that the caller has not given."""
_VARARGS = 0x04
_VARKEYWORDS = 0x08


class _Shape(NamedTuple):
    positional: tuple[str, ...]
    varargs: str | None
    varkeywords: str | None
    named: tuple[str, ...]
    whole: int
    """How many arguments make a complete call by position alone; -1 if keywords are needed."""

    def accepts(self, name: str) -> bool:
        return name in self.named or self.varkeywords is not None


_shapes: dict[CodeType, _Shape] = {}
_declaring: dict[CodeType, bool] = {}


def bind(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], ignore: tuple[str, ...]
) -> dict[str, Any]:
    """The arguments by name with defaults filled in, and captured values as ``closure:name``.

    Left out: ``self``, the names in ``ignore``, values marked ephemeral, and the idempotency key. Raises the
    TypeError of the call if the arguments do not fit.
    """
    if type(fn) is FunctionType:
        shape = _shapes.get(fn.__code__)
        # The fast path of most calls: a plain function with all arguments by position, no closure, no
        # wrapper.
        if (
            shape is not None
            and len(args) == shape.whole
            and not kwargs
            and not ignore
            and fn.__closure__ is None
            and not fn.__dict__  # ``functools.wraps`` leaves ``__wrapped__`` there
            and Ephemeral not in map(type, args)
        ):
            return dict(zip(shape.positional, args, strict=True))
        bound = _bind_function(fn, args, kwargs)
    else:
        bound = _bind_callable(fn, args, kwargs)
    for name in tuple(bound):
        if (
            type(bound[name]) is Ephemeral
            or name == "idempotency_key"
            or (ignore and name.removeprefix(CLOSURE) in ignore)
        ):
            del bound[name]
    return bound


def require_function(name: str, fn: object) -> None:
    """Raises Misuse if a step is given no function, but most often its result: it was called too early."""
    if not callable(fn):
        kind = type(fn).__name__
        raise Misuse(
            problem=f"step {name!r} was given a value of type {kind} where its function belongs",
            advice=f"pass the function and its arguments apart: run.step({name!r}, fn, …), "
            f"not run.step({name!r}, fn(…))",
        )


def by_position(fn: FunctionType) -> tuple[str, ...] | None:
    """The parameters of a function, if a call that gives them all by position has nothing else to bind.

    None for a closure, and for a function with keyword parameters or an idempotency key. Depends on its code
    alone; ``bind`` knows a wrapper by its ``__dict__``.
    """
    shape = _shape_of(fn.__code__)
    return shape.positional if shape.whole >= 0 and not fn.__code__.co_freevars else None


def unwrap(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that the function gets: without the ephemeral marks."""
    for value in args:
        if type(value) is Ephemeral:
            args = tuple(a.value if type(a) is Ephemeral else a for a in args)
            break
    if kwargs:
        kwargs = {k: v.value if type(v) is Ephemeral else v for k, v in kwargs.items()}
    return args, kwargs


def defaults_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a function that have a default, with it."""
    function = _function_in(fn)
    if function is None:
        return {}
    named = named_function(function)
    positional = _shape_of(named.__code__).positional
    found = dict(zip(reversed(positional), reversed(named.__defaults__ or ()), strict=False))
    return {**found, **(named.__kwdefaults__ or {})}


def may_declare(fn: Callable[..., Any]) -> bool:
    """Whether a parameter may be annotated ``holdfast.Secret``: looked at once for a plain function."""
    if type(fn) is not FunctionType or fn.__dict__:
        return type(fn) is not BuiltinFunctionType
    known = _declaring.get(fn.__code__)
    if known is None:
        hints = fn.__annotations__
        known = "Secret" in repr(hints) or any(_may_be_alias(hint, fn) for hint in hints.values())
        _declaring[fn.__code__] = known
    return known


def _may_be_alias(hint: object, fn: FunctionType) -> bool:
    """Whether an annotation may be another name for ``holdfast.Secret[…]``, itself or in a text."""
    if isinstance(hint, str):
        known = map(fn.__globals__.get, re.findall(r"\w+", hint))
        return any(_may_be_alias(one, fn) for one in known if not isinstance(one, str))
    return hasattr(hint, "__metadata__") or hasattr(hint, "__value__")


def takes(fn: Callable[..., Any], parameter: str) -> bool:
    """Whether the function has a parameter of that name, or takes any keyword."""
    function = _function_in(fn)
    return function is not None and _shape_of(function.__code__).accepts(parameter)


def has_parameter(fn: Callable[..., Any], parameter: str) -> bool:
    """Whether the function has a parameter of exactly that name."""
    if type(fn) is FunctionType and not fn.__dict__:
        return parameter in fn.__code__.co_varnames and parameter in _shape_of(fn.__code__).named
    found = _function_in(fn)
    return found is not None and parameter in _shape_of(named_function(found).__code__).named


def _function_in(fn: Callable[..., Any]) -> FunctionType | None:
    """The function behind a partial, a method or an object that can be called; None if it is built in."""
    while isinstance(fn, partial):
        fn = fn.func
    fn = getattr(fn, "__func__", fn)
    if not isinstance(fn, FunctionType):
        fn = getattr(type(fn), "__call__", fn)  # noqa: B004 - the function itself is wanted
    return fn if isinstance(fn, FunctionType) else None


def choose(fn: Callable[..., Any], available: Mapping[str, Any]) -> dict[str, Any]:
    """The available values that the function has parameters for."""
    return {
        name: value for name, value in available.items() if not name.startswith(NOT_GIVEN) and takes(fn, name)
    }


def _bind_callable(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    while isinstance(fn, partial):
        args, kwargs = (*fn.args, *args), {**fn.keywords, **kwargs}
        fn = fn.func
    if isinstance(fn, Act):
        return dict(kwargs)
    if isinstance(fn, MethodType) and isinstance(fn.__func__, FunctionType):
        bound = _bind_function(fn.__func__, (fn.__self__, *args), kwargs)
        # ``self`` has no stable value. Two objects with the same method and arguments make the same call.
        del bound[named_function(fn.__func__).__code__.co_varnames[0]]
        return bound
    return _bind_function(fn, args, kwargs) if isinstance(fn, FunctionType) else _bind_other(fn, args, kwargs)


def _bind_function(fn: FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    named = named_function(fn)
    shape = _shape_of(named.__code__)
    positional = shape.positional
    bound: dict[str, Any] = {}
    # Defaults are part of the identity: a call that spells out a default is the same call.
    if named.__defaults__:
        bound.update(zip(reversed(positional), reversed(named.__defaults__), strict=False))
    if named.__kwdefaults__:
        bound.update(named.__kwdefaults__)
    bound.update(zip(positional, args, strict=False))
    if kwargs:
        given = positional[: len(args)]
        if any(name in given or not shape.accepts(name) for name in kwargs):
            _explain_mismatch(fn, args, kwargs)
        bound.update(kwargs)
    for name in shape.named:
        if name not in bound:
            _explain_mismatch(fn, args, kwargs)
    if len(args) > len(positional):
        if shape.varargs is None:
            _explain_mismatch(fn, args, kwargs)
        bound[f"*{shape.varargs}"] = args[len(positional) :]
    if named.__closure__:
        bound.update(_captured(named, seen={id(named)}))
    return bound


def named_function(fn: FunctionType) -> FunctionType:
    """The innermost function under ``functools.wraps`` and tools: people see its signature."""
    while isinstance(wrapped := getattr(fn, "__wrapped__", None), FunctionType):
        fn = wrapped
    return fn


def _shape_of(code: CodeType) -> _Shape:
    shape = _shapes.get(code)
    if shape is None:
        names = code.co_varnames
        positional, end = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        varargs = names[end] if code.co_flags & _VARARGS else None
        rest = end + (1 if varargs else 0)
        whole = positional if end == positional and "idempotency_key" not in names[:end] else -1
        varkeywords = names[rest] if code.co_flags & _VARKEYWORDS else None
        shape = _shapes[code] = _Shape(names[:positional], varargs, varkeywords, names[:end], whole)
    return shape


def _captured(fn: FunctionType, *, seen: set[int], prefix: str = CLOSURE) -> Iterator[tuple[str, Any]]:
    """Captured values as named arguments.

    Functions, classes and modules count by name, because their code is not data. A captured function may
    capture values itself, and recursive functions capture themselves: hence ``seen``.
    """
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell: the name is not assigned yet
            continue
        if isinstance(value, (Ephemeral, Neutral)) or id(value) in seen:
            continue
        if isinstance(value, FunctionType):
            value = named_function(value)
            seen.add(id(value))
            yield f"{prefix}{name}", _name_of(value.__module__, value.__qualname__)
            yield from _captured(value, seen=seen, prefix=f"{prefix}{name}.")
        elif isinstance(value, (type, ModuleType, BuiltinFunctionType)):
            yield f"{prefix}{name}", _name_of(str(getattr(value, "__module__", "")), value.__name__)
        else:
            yield f"{prefix}{name}", value


def _name_of(module: str, name: str) -> str:
    """The name that counts for identity.

    Holdfast's own functions have a fixed name, so that moving a file is safe.
    """
    return fixed_name(module, name) or f"{module}:{name}"


def _bind_other(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    from inspect import signature

    try:
        bound = signature(fn).bind(*args, **kwargs)
    except ValueError:  # a builtin without a signature
        return {**{str(i): value for i, value in enumerate(args)}, **kwargs}
    bound.apply_defaults()
    return dict(bound.arguments)


def _explain_mismatch(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise the TypeError that the call would raise, before anything is recorded."""
    from inspect import signature

    signature(fn).bind(*args, **kwargs)
