"""Bodies of earlier formats, brought to the present one step at a time.

It knows which version a body was written in and what changed after it. It refuses newer ones: they may say what this
code would lose. The invariant: old files open for ever, and the rest of the house sees only the present format.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.errors import NewerFormat

FORMAT: Final = 1
"""The format of bodies written now."""

Body = dict[str, Any]
Upcasters = Mapping[tuple[str, int], Callable[[Body], Body]]
"""By kind of event and the format it is brought *from*, to the next."""

_UPCASTERS: Final[Upcasters] = {}


def upcast(kind: str, body: Body, fmt: int) -> Body:
    """The body as the present format would have written it."""
    return _upcast(kind, body, fmt, _UPCASTERS, FORMAT)


def _upcast(kind: str, body: Body, fmt: int, table: Upcasters, now: int) -> Body:
    if fmt > now:
        raise NewerFormat(
            store="", problem=f"an event {kind!r} is of format {fmt}; this Holdfast knows {now}"
        )
    for version in range(fmt, now):
        step = table.get((kind, version))
        if step is not None:
            body = step(body)
    return body
