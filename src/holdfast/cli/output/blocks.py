"""Output before its device is known: tables, facts, lists, paragraphs.

A block knows texts and moods. ``render`` knows the width of the screen, and which colour a mood has.
"""

from collections.abc import Sequence
from typing import Literal

from holdfast.model.named_tuple import NamedTuple

Mood = Literal["plain", "good", "bad", "doubt", "busy", "dim", "strong"]


class Span(NamedTuple):
    """A piece of text in one mood."""

    text: str
    mood: Mood = "plain"


class Column(NamedTuple):
    """A column of a table.

    ``grows``: takes the remaining room, and is cut first. ``drops``: left out on a narrow screen, the highest
    first; 0 never. ``least``: its minimum width, so that tables of one kind line up. ``wraps``: for the last
    column, which is then wrapped instead of cut.
    """

    title: str = ""
    right: bool = False
    grows: bool = False
    drops: int = 0
    least: int = 0
    wraps: bool = False


class Table(NamedTuple):
    """Rows under titles; in a pipe, one line per row, uncut.

    ``signs`` adds a glyph to each row on a screen.
    """

    columns: tuple[Column, ...]
    rows: Sequence[tuple[Span, ...]]
    signs: Sequence[Mood] | None = None
    indent: int = 0


class Heading(NamedTuple):
    """A title over what follows."""

    text: str
    note: str = ""


class Facts(NamedTuple):
    """Labels and values, aligned."""

    pairs: Sequence[tuple[str, Sequence[Span]]]
    indent: int = 0


class Lines(NamedTuple):
    """Lines of text. On a screen a long one wraps, and its continuation aligns with the start of its text.

    ``hangs``: the text starts after the first piece of the line.
    """

    lines: Sequence[Sequence[Span]]
    indent: int = 0
    hangs: bool = False


class Commands(NamedTuple):
    """Commands to type, each with its meaning: never cut and never wrapped, so that you can copy them."""

    choices: Sequence[tuple[str, str]]


class Verbatim(NamedTuple):
    """Recorded content, line by line: never cut, and wrapped only by the terminal itself."""

    lines: Sequence[str]
    indent: int = 2


class Check(NamedTuple):
    """One line of a checklist: the verdict as a word, the subject, the finding, the advice."""

    verdict: str
    mood: Mood
    subject: str
    text: str
    advice: str = ""


class Checks(NamedTuple):
    """A checklist."""

    checks: Sequence[Check]


class Gap(NamedTuple):
    """An empty line."""


Block = Table | Heading | Facts | Lines | Commands | Verbatim | Checks | Gap


def text(content: str, mood: Mood = "plain") -> Lines:
    """One line of text."""
    return Lines([[Span(content, mood)]])
