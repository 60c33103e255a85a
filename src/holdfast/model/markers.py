"""Marks that a program puts on values and functions to tell Holdfast how to treat them."""

from typing import Any, Final, TypeVar, cast

T = TypeVar("T")


class Ephemeral:
    """A value that belongs to this process: it is handed to the function and left out of every record."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def ephemeral(value: T) -> T:
    """Mark an argument (a client, a connection) as belonging to this process.

    The called function gets the value itself; identity and journal do not see it.
    """
    return cast("T", Ephemeral(value))


class Neutral:
    """Base of Holdfast's own handles: capturing one in a closure does not change what a call is."""

    __slots__ = ()


class _KeyMarker(str):
    """The default of a tool's ``idempotency_key`` parameter; never reaches the function."""

    __slots__ = ()


KEY: Final[str] = _KeyMarker("holdfast.KEY")
"""Put this as the default of a tool's ``idempotency_key`` parameter: ``idempotency_key: str = holdfast.KEY``."""
