"""What an index keeps and what it is asked: documents made of facts and events, and how well they match.

An index is derived: whatever it says is looked up where the truth is before anybody is told.
"""

from typing import Final, NamedTuple

FACTS: Final = "facts"
EVENTS: Final = "events"
SPACES: Final = (FACTS, EVENTS)
BETWEEN: Final = "\x1f"
"""Stands between the parts of a key; no name can hold it, and it sorts before all that one can."""


class Query(NamedTuple):
    """What is asked for: terms of which any may match, and runs of terms that must stand beside each other.

    ``quotes`` are the phrases as they were typed: an index finds what could hold them, and ``core.memory.terms.holds`` tells what does.
    """

    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    quotes: tuple[tuple[str, ...], ...] = ()


class Document(NamedTuple):
    """One findable thing. ``version`` tells of what content it was made: one of another version is not the thing any more.

    ``terms`` is what it is found by, in order. ``vector`` is a byte a dimension, signed; empty where there is none, and of
    the embedder ``model``. ``at`` is when it was last of use, ``uses`` how often, ``importance`` what somebody said of it.
    """

    key: str
    version: str
    terms: tuple[str, ...]
    vector: bytes = b""
    model: str = ""
    at: float = 0.0
    uses: int = 0
    importance: float = 0.5
    tags: tuple[str, ...] = ()


class Within(NamedTuple):
    """Where to look: under any of these beginnings of a key, or everywhere; among what has all of these tags."""

    prefixes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


EVERYWHERE: Final = Within()


class Match(NamedTuple):
    """A document that fits: by words the higher the better, by meaning its cosine."""

    key: str
    version: str
    score: float
    at: float
    uses: int
    importance: float


def run_prefix(run: str) -> str:
    """How the keys of a run's events begin."""
    return f"{run}{BETWEEN}"


def run_note(run: str) -> str:
    """The name of the note that says how far a run is indexed."""
    return f"{EVENTS}:{run}"
