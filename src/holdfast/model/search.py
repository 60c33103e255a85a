"""The documents and queries of a search index: documents made of facts and events, and their matches.

An index is derived data: every hit is looked up in the store before it is reported.
"""

from typing import Final

from holdfast.model.named_tuple import NamedTuple

FACTS: Final = "facts"
EVENTS: Final = "events"
SPACES: Final = (FACTS, EVENTS)
ITEM_VECTORS: Final = f"{FACTS}:items."
"""The start of the note that facts have further vectors, of the embedder whose model follows."""
BETWEEN: Final = "\x1f"
"""Separates the parts of a key; no name can contain it, and it sorts before all characters of names."""


class Query(NamedTuple):
    """A query: terms of which any may match, and phrases whose terms must be adjacent.

    ``quotes`` are the phrases as they were typed: an index finds candidates, and ``core.memory.terms.holds``
    checks them.
    """

    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    quotes: tuple[tuple[str, ...], ...] = ()


class Document(NamedTuple):
    """One searchable thing. ``version`` identifies its content: a document of another version is outdated.

    ``terms`` are its search terms, in order. ``vector`` has one signed byte per dimension; empty if there is
    none; it belongs to the embedder ``model``. ``at`` is its last use, ``uses`` the number of uses,
    ``importance`` as the user set it.
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
    """Where to search: under any of these key prefixes, or everywhere.

    Only documents with all of these tags.
    """

    prefixes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


EVERYWHERE: Final = Within()


class Match(NamedTuple):
    """A matching document: by words with a score, by meaning with its cosine."""

    key: str
    version: str
    score: float
    at: float
    uses: int
    importance: float


def run_prefix(run: str) -> str:
    """The prefix of the keys of a run's events."""
    return f"{run}{BETWEEN}"


def run_note(run: str) -> str:
    """The name of the note that has a run's indexed head."""
    return f"{EVENTS}:{run}"
