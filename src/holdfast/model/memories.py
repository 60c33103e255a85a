"""Memory: a fact that outlives its run, what a search found, and where in a journal."""

from typing import Any, NamedTuple


class Fact(NamedTuple):
    """One fact. ``id`` is its key, or made of its text: the same text in the same scope is the same fact.

    ``scope`` says whom it is for, from the general to the particular: ``users/42``; empty for everybody who uses the store.
    ``value`` is data beside the text. ``run`` is where it comes from; empty where no run told it.
    """

    id: str
    text: str
    scope: str = ""
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    value: Any = None
    run: str = ""
    created_at: float = 0.0
    changed_at: float = 0.0


class Recalled(NamedTuple):
    """A fact that a search found; the higher the score, the better it fits. 0 where nothing was asked for."""

    fact: Fact
    score: float


class Hit(NamedTuple):
    """An event that a search over history found: ``text`` is what it says around the words that were asked for."""

    run: str
    seq: int
    kind: str
    name: str
    at: float
    text: str
    score: float
