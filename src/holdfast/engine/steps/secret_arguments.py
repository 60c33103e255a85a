"""Declared secrets among a call's arguments: annotated ``holdfast.Secret[…]``, or named by ``secrets=``.

They count for identity by a keyed digest: another value is another call, and the value is not kept. From the
call on, their values are hidden wherever they appear.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType
from typing import Any, Final, get_args

from holdfast.codec.values import canonical
from holdfast.core.steps.arguments import bind, has_parameter
from holdfast.core.steps.identity import site_of
from holdfast.engine.journal.lineage_names import lineage_named
from holdfast.engine.run.held_run import HeldRun
from holdfast.errors import Misuse
from holdfast.model.calls import CallOptions
from holdfast.model.markers import LINEAGE, SECRET, Act, SecretArgument

_WRITTEN: Final = re.compile(r"\bSecret\[")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_VARKEYWORDS: Final = 0x08
_PART_CHARS_MIN: Final = 8
"""A shorter text inside of a declared list or dict is a word, and no secret by itself."""
_known: dict[CodeType, tuple[str, ...]] = {}


def annotated(fn: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a function that are annotated as secrets."""
    inner = _innermost(fn)
    code: CodeType | None = getattr(inner, "__code__", None)
    if code is None:
        return ()
    found = _known.get(code)
    if found is None:
        hints, names = getattr(inner, "__annotations__", {}), getattr(inner, "__globals__", {})
        found = _known[code] = tuple(
            name for name, hint in hints.items() if _is_secret(hint, names) and name != "return"
        )
    return found


def _innermost(fn: Any) -> Any:
    """The function that a call ends in: of a tool, a wrapper, a partial, a class, an object, a method."""
    if isinstance(fn, Act):
        fn = fn.function or fn
    while (inner := fn.func if isinstance(fn, partial) else getattr(fn, "__wrapped__", None)) is not None:
        fn = inner
    if isinstance(fn, type):
        return _innermost(fn.__init__)  # type: ignore[misc]  # it is only looked at
    return fn if hasattr(fn, "__code__") else getattr(type(fn), "__call__", fn)  # noqa: B004


def _is_secret(hint: object, names: Mapping[str, Any]) -> bool:
    """Whether an annotation says so; one that is a text is not evaluated, but its names are looked up."""
    if isinstance(hint, str):
        found = (names.get(word) for word in _WORD.findall(hint))
        return _WRITTEN.search(hint) is not None or any(_is_secret(one, {}) for one in found)
    if SECRET in getattr(hint, "__metadata__", ()) or _is_alias_of_secret(hint):
        return True
    return any(_is_secret(part, names) for part in get_args(hint))


def _is_alias_of_secret(hint: object) -> bool:
    """Whether it was made by the statement ``type Card = holdfast.Secret[str]``."""
    return type(hint).__name__ == "TypeAliasType" and _is_secret(getattr(hint, "__value__", None), {})


def replaced(
    held: HeldRun, bound: dict[str, Any], call_options: CallOptions, fn: Callable[..., Any]
) -> dict[str, Any]:
    """The arguments with a name in place of each declared secret. Misuse for a name that is no parameter."""
    names = call_options.secrets + annotated(fn)
    if not names:
        return bound
    from holdfast.codec.secrets import declare, digest  # late: most calls declare none

    if not held.lineage:
        held.lineage = lineage_named(held.store, held.row)
    LINEAGE.set(held.lineage)
    made = dict(bound)
    for at in (each for declared in names for each in _bound_as(declared, bound, fn)):
        value, name = bound[at], at.lstrip("*")
        if isinstance(value, str) and value:
            made[at] = SecretArgument(declare(value, name, held.lineage))
        elif value is not None and value != "":
            for part in _texts(value):
                declare(part, name, held.lineage)
            written = canonical(value, what=name).decode()
            made[at] = SecretArgument(f"{name}~{digest(written, held.lineage)}")
    return made


def declare_all(
    held: HeldRun,
    call_options: CallOptions,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Hide the declared arguments of a call that another thing than its arguments identifies."""
    if call_options.secrets or annotated(fn):
        replaced(held, bind(fn, args, kwargs, call_options.ignore), call_options, fn)


def _bound_as(name: str, bound: dict[str, Any], fn: Callable[..., Any]) -> list[str]:
    """Under which names the arguments of a declared parameter are bound: those of a rest have others."""
    if name in bound or f"*{name}" in bound:
        return [name if name in bound else f"*{name}"]
    code: CodeType | None = getattr(_innermost(fn), "__code__", None)
    if code is None or isinstance(fn, Act) or has_parameter(fn, name):
        return []  # left out, as by ``ignore=``
    if name not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]:
        raise Misuse(
            problem=f"secrets={name!r}: {getattr(fn, '__name__', fn)!s} has no parameter of that name",
            advice="name the parameter as the function does; its value would be recorded in clear",
        )
    is_rest = code.co_flags & _VARKEYWORDS
    return [one for one in bound if is_rest and one.isidentifier() and not has_parameter(fn, one)]


def _texts(value: Any) -> Iterator[str]:
    """The texts in a declared value that is no text: they are hidden wherever they appear, as it is."""
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        if len(value) >= _PART_CHARS_MIN:
            yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value.values()])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from _texts(part)


def nameless(fn: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """The first declared argument that is no environment or registered secret; empty if there is none."""
    names = [name for name in annotated(fn) if given.get(name)]
    if not names:
        return ""
    from holdfast.codec.secrets import is_named, know_environment

    know_environment()
    return next((name for name in names if not is_named(given[name])), "")


def recorded_site(
    held: HeldRun, scope: str, name: str, arguments: bytes, site: str, clear_name: str = ""
) -> str:
    """The site of a call with secrets; the one that it had in clear, if its record is there.

    It was recorded before the secret was known. ``clear_name`` is the name as the program gives it.
    """
    if is_recorded(held, site):
        return site
    from holdfast.codec.filled_secrets import in_clear

    clear = in_clear(arguments)
    if clear is None and clear_name in {"", name}:
        return site
    before = site_of(scope, clear_name or name, arguments if clear is None else clear)
    return before if is_recorded(held, before) else site


def is_recorded(held: HeldRun, site: str) -> bool:
    """Whether the journal has a call of this site."""
    return site in held.view.sites or f"{site}.1" in held.view.calls
