"""The input of a prune plan: a lineage, the runs that depend on it, and the points that must stay."""

from collections.abc import Mapping, Sequence
from typing import Literal

from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple

Why = Literal["head", "label", "pin", "fork"]


class Root(NamedTuple):
    """A point that must stay as it is, why, and the name of the fork, label or pin."""

    seq: int
    why: Why
    name: str


class Dependent(NamedTuple):
    """A run whose history begins with events of this one, up to ``at_seq``.

    ``replays``: it needs all of them.
    """

    run: str
    at_seq: int
    replays: bool


class Lineage(NamedTuple):
    """A run's history: the events it borrows, its own events, the runs that depend on them, and the pins.

    ``waits`` says why nothing may be compacted now; empty if it may. ``stands_at`` is the seq of the state
    that the holder's autosave would save next: later events are needed by it.
    """

    run: str
    origin_seq: int
    borrowed: Sequence[Event]
    own: Sequence[Event]
    dependents: Sequence[Dependent] = ()
    pins: Mapping[int, tuple[str, str]] = {}
    """The own events that people keep: pinned, or named with a label."""
    waits: str = ""
    stands_at: int | None = None
