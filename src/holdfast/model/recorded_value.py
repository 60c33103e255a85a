"""A value in the form in which Holdfast records it."""

from typing import Any


class Recorded:
    """Plain JSON, with ``{"$": …}`` for what has a type of its own, as ``holdfast show --json`` prints it.

    A person edits that form. So an object or a date in it stays one, without its class being loaded here.
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    def __repr__(self) -> str:
        return f"Recorded({self.tree!r})"
