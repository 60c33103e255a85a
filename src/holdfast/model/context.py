"""Contexts: what a model that knows nothing is told of a run, line by line."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, get_args

Style = Literal["summary", "full", "facts"]
STYLES: Final[tuple[str, ...]] = get_args(Style)

Count = Callable[[str], int]
"""A tokenizer: the tokens of a text."""

BUDGET_TOKENS: Final = 2_000


class Line(NamedTuple):
    """One sentence: its section, its text, the events it comes from, how valuable it is (more is more), and its tokens."""

    section: str
    text: str
    refs: tuple[int, ...]
    value: int
    tokens: int


class Left(NamedTuple):
    """How many lines of a section were left out, and the events that they come from."""

    section: str
    lines: int
    refs: tuple[int, ...]


class Context(NamedTuple):
    """What was found worth saying, in order, and what there was no room for. ``str`` gives the text."""

    style: Style
    lines: tuple[Line, ...]
    left: tuple[Left, ...]
    tokens: int
    text: str

    def __str__(self) -> str:
        return self.text
