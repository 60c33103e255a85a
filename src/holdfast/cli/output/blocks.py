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
    """A table's column.

    ``grows``: takes the room that is left, and is cut first. ``drops``: left out on a narrow screen, the highest
    first; 0 never. ``least``: its width where the content is narrower, so that tables of one kind line up.
    ``wraps``: for the last one, which then is wrapped instead of cut.
    """

    title: str = ""
    right: bool = False
    grows: bool = False
    drops: int = 0
    least: int = 0
    wraps: bool = False


class Table(NamedTuple):
    """Rows under titles; in a pipe, one line a row and nothing cut. ``signs`` puts a glyph before each row on a screen."""

    columns: tuple[Column, ...]
    rows: Sequence[tuple[Span, ...]]
    signs: Sequence[Mood] | None = None
    indent: int = 0


class Heading(NamedTuple):
    """A title over what follows."""

    text: str
    note: str = ""


class Facts(NamedTuple):
    """Labels and what they say, aligned."""

    pairs: Sequence[tuple[str, Sequence[Span]]]
    indent: int = 0


class Lines(NamedTuple):
    """Lines as they are; a long one wraps on a screen, below where its text began.

    ``hangs``: the text begins after the first piece of the line.
    """

    lines: Sequence[Sequence[Span]]
    indent: int = 0
    hangs: bool = False


class Commands(NamedTuple):
    """Things to type, each with what it does: never cut and never wrapped, so that they can be copied."""

    choices: Sequence[tuple[str, str]]


class Verbatim(NamedTuple):
    """Recorded content, line by line: never cut, and wrapped only by the terminal itself."""

    lines: Sequence[str]
    indent: int = 2


class Check(NamedTuple):
    """One line of a checklist: the verdict as a word, what was looked at, what was seen, what to do about it."""

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
