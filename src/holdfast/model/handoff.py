"""What passes between runs: promises, messages, and handoffs with their losses."""

from typing import Any, Final, Literal

from holdfast.model.named_tuple import NamedTuple

PromiseState = Literal["open", "kept", "broken"]
TELL: Final = "tell of a promise"
"""The name of the steps that send promise updates to other runs: they are not effects of the program."""
Side = Literal["made", "received"]


class Promise(NamedTuple):
    """A promise of a run. ``by`` is the run that made it; a run that takes its work over has made it too.

    ``side`` says which side this run is on. ``note`` is the remark when it was kept or broken.
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
    """The events of this run's journal about it."""


class Promises(NamedTuple):
    """The promises that a run has made, and those it was given; oldest first."""

    made: tuple[Promise, ...] = ()
    received: tuple[Promise, ...] = ()


class Message(NamedTuple):
    """A message from another run: the sender, the content, and the time."""

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
    "fact",
    "list",
    "giver",
]


class Loss(NamedTuple):
    """Something that a handoff could not carry over: its sort, its name, the reason, and the advice."""

    what: LossKind
    name: str
    why: str
    advice: str


class Accepted(NamedTuple):
    """A run that was started with a handoff, and the losses. ``is_new``: it was started just now."""

    run: str
    giver: str
    store: str
    event: int
    to: str
    digest: str
    losses: tuple[Loss, ...]
    is_new: bool


class Handed(NamedTuple):
    """What a run started with: the giver's document, its state and messages, and the losses."""

    run: str
    store: str
    event: int
    document: dict[str, Any]
    state: Any
    messages: list[Any]
    losses: tuple[Loss, ...]
