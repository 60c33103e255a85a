"""Marks that a program puts on values and functions to tell Holdfast how to treat them."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Annotated, Any, Final, Self, TypeVar, cast

T = TypeVar("T")


class Ephemeral:
    """A value that belongs to this process: the function gets it, and every record leaves it out."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def ephemeral(value: T) -> T:
    """Mark an argument (a client, a connection) as belonging to this process.

    The called function gets the value itself; identity and journal do not see it.
    """
    return cast("T", Ephemeral(value))


KNOWN: Final[list[bytes]] = []
"""The values of all known secrets as JSON writes them, longest first. ``codec/secrets.py`` fills it.

The one test on the way of every value. It is here so that a process without secrets loads nothing for them.
"""
MASKS: Final[list[Callable[[str], str]]] = []
"""Puts masks into a text, where a secret is known: for errors, which every layer makes."""
LINEAGE: Final[ContextVar[str]] = ContextVar("holdfast_lineage", default="")
"""The lineage of the run that is at work here: declared secrets have a name of their own in each."""
SHAPES: Final[list[str]] = []
"""What happens to a token that is no known secret; empty where none is looked for."""


class _SecretMark:
    __slots__ = ()

    def __repr__(self) -> str:
        return "holdfast.Secret"


SECRET: Final = _SecretMark()
Secret = Annotated[T, SECRET]
"""The annotation of an argument whose value is never recorded: ``token: holdfast.Secret[str]``."""


class SecretArgument:
    """Stands for a declared secret in a call's identity and record. ``name`` has a digest of the value."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class MarkedText(str):
    """Text with a mark that only this process sees.

    It equals the plain text, and is pickled, serialized and recorded as plain text.
    """

    __slots__ = ("mark",)
    mark: str

    def __new__(cls, text: str, mark: str) -> Self:
        """The text with its mark."""
        made = super().__new__(cls, text)
        made.mark = mark
        return made

    def __eq__(self, other: object) -> bool:
        """As the plain text: a text class with an ``__eq__`` of its own is asked first."""
        return str(self) == other

    def __ne__(self, other: object) -> bool:
        """As ``__eq__``."""
        return str(self) != other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        """The plain text."""
        return str, (str(self),)

    def __copy__(self) -> Self:
        """Itself: a copy in this process keeps the mark."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """As ``__copy__``."""
        return self


class Neutral:
    """Base of Holdfast's own handles: capturing one in a closure does not change the identity of a call."""

    __slots__ = ()


class Act:
    """A call of a framework's tool. Only the arguments identify it, whatever ``perform`` has captured.

    ``function`` is the user's function, if it is known: the run relies on its signature and source.
    """

    __slots__ = ("function", "perform")

    def __init__(self, perform: Callable[[], Any], function: Callable[..., Any] | None = None) -> None:
        self.perform = perform
        self.function = function

    def __call__(self, /, **_: Any) -> Any:
        """Call it; it already has its arguments."""
        return self.perform()


class AwaitedAct(Act):
    """An act that is awaited."""

    __slots__ = ()
    perform: Callable[[], Awaitable[Any]]

    async def __call__(self, /, **_: Any) -> Any:
        """Call it; it already has its arguments."""
        return await self.perform()


class _KeyMarker(str):
    """The default of a tool's ``idempotency_key`` parameter; never reaches the function."""

    __slots__ = ()


KEY: Final[str] = _KeyMarker("holdfast.KEY")
"""The default of a tool's ``idempotency_key`` parameter: ``idempotency_key: str = holdfast.KEY``."""
