"""Memory: a fact that outlives its run, what a search found, and where in a journal."""

from typing import Any

from holdfast.model.named_tuple import NamedTuple


class Fact(NamedTuple):
    """One fact. ``id`` is its key, or derived from its text: equal texts in one scope are one fact.

    ``scope`` says whom it is for, from the general to the particular: ``users/42``. An empty one is for all
    users of the store. ``value`` is data beside the text; an ``UnreadValue`` where this process does not know
    its class. ``run`` and ``event`` say which run recorded it, and where; empty where no run did.
    ``supersedes`` is the id of the fact that this one replaced, ``superseded_by`` the id of the one that
    replaced it.
    """

    id: str
    text: str
    scope: str = ""
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    value: Any = None
    run: str = ""
    event: int = 0
    created_at: float = 0.0
    changed_at: float = 0.0
    recalled_at: float = 0.0
    recalls: int = 0
    supersedes: str = ""
    superseded_by: str = ""

    @property
    def used_at(self) -> float:
        """When it was last used: recalled, changed or made."""
        return max(self.recalled_at, self.changed_at, self.created_at)


class UnreadValue(NamedTuple):
    """In the place of a fact's value whose class ``type_name`` this process does not know, and why.

    ``stored`` is the value as it is kept: JSON. Changing or exporting the fact leaves it as it is.
    """

    type_name: str
    problem: str
    stored: str


class Recalled(NamedTuple):
    """A fact that a search found; a higher score is a better match, 0 for an empty query."""

    fact: Fact
    score: float


class Hit(NamedTuple):
    """An event that a search over history found: ``text`` is the passage around the matching words."""

    run: str
    seq: int
    kind: str
    name: str
    at: float
    text: str
    score: float
