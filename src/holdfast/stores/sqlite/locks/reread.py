"""Reading again where the file was folded under a read whose lock may be lost."""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from holdfast.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

LOOKS_MAX: Final = 50


class LostWhileReading(Exception):
    """The file was folded during a read, and the lock against that may be lost: ``reread`` reads again."""


def reread(verb: Callable[P, T]) -> Callable[P, T]:
    """A verb that reads, and reads again where the file did not hold still. It writes nothing twice."""

    @wraps(verb)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        store = ""
        for _ in range(LOOKS_MAX):
            try:
                return verb(*args, **kwargs)
            except LostWhileReading as lost:
                store = str(lost)
        raise StoreUnavailable(store=store, problem="its WAL is folded again and again while it is read")

    return reading
