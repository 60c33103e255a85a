"""What a command has to say, before it is known where it is shown: tables, facts, lists, paragraphs.

A block knows texts and moods. How wide the screen is, which colour a mood has and whether there are colours at all
is ``render``'s business.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Mood = Literal["plain", "good", "bad", "doubt", "busy", "dim", "strong"]


class Span(NamedTuple):
    """A piece of text in one mood."""

    text: str
    mood: Mood = "plain"


class Column(NamedTuple):
    """A table's column. ``grows``: takes the room that is left and is cut first. ``drops``: left out on a narrow
    screen, the highest first; 0 never."""

    title: str
    right: bool = False
    grows: bool = False
    drops: int = 0


class Table(NamedTuple):
    """Rows under titles; in a pipe, one line a row and nothing cut. ``sign`` is an extra first cell of one glyph."""

    columns: tuple[Column, ...]
    rows: list[tuple[Span, ...]]
    signs: list[Mood] | None = None
    indent: int = 0


class Heading(NamedTuple):
    """A title over what follows."""

    text: str
    note: str = ""


class Facts(NamedTuple):
    """Labels and what they say, aligned."""

    pairs: list[tuple[str, Sequence[Span]]]
    indent: int = 0


class Lines(NamedTuple):
    """Lines as they are; a long one wraps on a screen, below where its text began."""

    lines: list[Sequence[Span]]
    indent: int = 0


class Command(NamedTuple):
    """Something to type: never cut and never wrapped, so that it can be copied."""

    text: str
    meaning: str = ""


class Gap(NamedTuple):
    """An empty line."""


Block = Table | Heading | Facts | Lines | Command | Gap


def text(content: str, mood: Mood = "plain") -> Lines:
    """One line of text."""
    return Lines([[Span(content, mood)]])
