"""What a prune plan is made of: a lineage, the runs that depend on it, and the points that must stay."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from holdfast.model.events import Event

Why = Literal["head", "label", "pin", "fork"]


class Root(NamedTuple):
    """A point that must stay as it is, and what for: the fork's, label's or pin's name."""

    seq: int
    why: Why
    name: str


class Dependent(NamedTuple):
    """A run whose history begins with events of this one, up to ``at_seq``. ``replays``: it needs all of them."""

    run: str
    at_seq: int
    replays: bool


class Lineage(NamedTuple):
    """A run as its journal stands: what it has borrowed, its own events, who depends on them, and what is pinned.

    ``waits`` says why nothing may be compacted now, if so; ``stands_at`` is where the state stands that the holder's
    autosave would save next.
    """

    run: str
    origin_seq: int
    borrowed: Sequence[Event]
    own: Sequence[Event]
    dependents: Sequence[Dependent] = ()
    pins: Mapping[int, str] = {}
    waits: str = ""
    stands_at: int | None = None
