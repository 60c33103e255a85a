"""What passes between runs: promises, messages, and work that is handed over with what could not come along."""

from typing import Any, Final, Literal, NamedTuple

PromiseState = Literal["open", "kept", "broken"]
TELL: Final = "tell of a promise"
"""The name of the steps that tell another run of a promise: they are no effects of the program's own."""
Side = Literal["made", "received"]


class Promise(NamedTuple):
    """Something that a run has promised. ``by`` is the run that said so; whoever takes its work over has promised it, too.

    ``side`` tells which end of it this run is at. ``note`` is what was said when it was kept or broken.
    """

    id: str
    text: str
    by: str
    to: str
    state: PromiseState
    at: float
    side: Side = "made"
    due: float | None = None
    note: str = ""
    settled_at: float | None = None
    seqs: tuple[int, ...] = ()
    """The events of this run's journal that tell of it."""


class Promises(NamedTuple):
    """The promises that a run has made, and those that it was given; oldest first."""

    made: tuple[Promise, ...] = ()
    received: tuple[Promise, ...] = ()


class Message(NamedTuple):
    """What another run has sent: by whom, what, and when that was."""

    sender: str
    value: Any
    at: float


LossKind = Literal[
    "artifact",
    "dependency",
    "effect",
    "value",
    "step",
    "question",
    "promise",
    "messages",
    "state",
    "budget",
    "list",
    "giver",
]


class Loss(NamedTuple):
    """Something that a handoff could not carry over: of which sort, its name, why, and what to do about it."""

    what: LossKind
    name: str
    why: str
    advice: str


class Accepted(NamedTuple):
    """A run that was begun with a handoff, and what could not be carried over. ``is_new``: it was begun just now."""

    run: str
    giver: str
    store: str
    event: int
    to: str
    digest: str
    losses: tuple[Loss, ...]
    is_new: bool


class Handed(NamedTuple):
    """What a run began with: the document of the giver, its state and messages as they were, and what was lost on the way."""

    run: str
    store: str
    event: int
    document: dict[str, Any]
    state: Any
    messages: list[Any]
    losses: tuple[Loss, ...]
