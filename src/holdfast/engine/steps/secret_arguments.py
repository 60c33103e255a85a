"""Declared secrets among a call's arguments: annotated ``holdfast.Secret[…]``, or named by ``secrets=``.

They count for identity by a keyed digest: another value is another call, and the value is not kept. From the
call on, their values are hidden wherever they appear.
"""

import re
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final, get_args

from holdfast.codec.values import canonical
from holdfast.core.steps.identity import site_of
from holdfast.engine.journal.lineage_names import lineage_named
from holdfast.engine.run.held_run import HeldRun
from holdfast.model.calls import CallOptions
from holdfast.model.markers import LINEAGE, SECRET, Act, SecretArgument

_WRITTEN: Final = re.compile(r"\bSecret\[")
_known: dict[CodeType, tuple[str, ...]] = {}


def annotated(fn: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a function that are annotated as secrets."""
    if type(fn) is FunctionType and not fn.__dict__ and (known := _known.get(fn.__code__)) is not None:
        return known  # most calls
    if isinstance(fn, Act):
        fn = fn.function or fn
    while isinstance(fn, partial):
        fn = fn.func
    fn = getattr(fn, "__wrapped__", fn)
    code: CodeType | None = getattr(fn, "__code__", None)
    if code is None:
        return ()
    found = _known.get(code)
    if found is None:
        hints = getattr(fn, "__annotations__", {})
        found = _known[code] = tuple(name for name, hint in hints.items() if _is_secret(hint))
    return found


def _is_secret(hint: object) -> bool:
    """Whether an annotation says so; one that is a text is not evaluated."""
    if isinstance(hint, str):
        return _WRITTEN.search(hint) is not None
    return SECRET in getattr(hint, "__metadata__", ()) or any(map(_is_secret, get_args(hint)))


def replaced(
    held: HeldRun, bound: dict[str, Any], call_options: CallOptions, fn: Callable[..., Any]
) -> dict[str, Any]:
    """The arguments with a name in place of each declared secret."""
    names = call_options.secrets + annotated(fn)
    if not names:
        return bound
    from holdfast.codec.secrets import declare, digest  # late: most calls declare none

    if not held.lineage:
        held.lineage = lineage_named(held.store, held.row)
    LINEAGE.set(held.lineage)
    made = dict(bound)
    for name in names:
        value = bound.get(name)
        if isinstance(value, str) and value:
            made[name] = SecretArgument(declare(value, name, held.lineage))
        elif value is not None and value != "":
            written = canonical(value, what=name).decode()
            made[name] = SecretArgument(f"{name}~{digest(written, held.lineage)}")
    return made


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
