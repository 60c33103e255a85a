"""Contexts: the briefing for a model that knows nothing of a run, line by line."""

from collections.abc import Callable
from typing import Final, Literal, get_args

from holdfast.model.named_tuple import NamedTuple

Style = Literal["summary", "full", "facts"]
STYLES: Final[tuple[str, ...]] = get_args(Style)

Count = Callable[[str], int]
"""A tokenizer: the number of tokens of a text."""


class Line(NamedTuple):
    """One sentence: its section, text, source events, value (higher is better), and number of tokens."""

    section: str
    text: str
    refs: tuple[int, ...]
    value: int
    tokens: int


class Left(NamedTuple):
    """How many lines of a section were left out, and their source events."""

    section: str
    lines: int
    refs: tuple[int, ...]


class Context(NamedTuple):
    """The chosen lines in order, and what did not fit. ``str`` gives the text."""

    style: Style
    lines: tuple[Line, ...]
    left: tuple[Left, ...]
    tokens: int
    text: str

    def __str__(self) -> str:
        return self.text
