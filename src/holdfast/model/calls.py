"""Calls: how one is to be treated, and what stands recorded of it."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from holdfast.limits import SETTLE_S
from holdfast.model.loops import Manner

Effect = Literal["read", "idempotent", "once"]
RecordedEffect = Literal["read", "idempotent", "once", "model"]
"""A model call is made again when it was cut off, like a read; that it costs money is why drift at it stops."""
InDoubtPolicy = Literal["stop", "tell", "retry"]

Approve = bool | str | Callable[[dict[str, Any]], str]
"""Whether a person is asked before the call: with the usual question, this one, or one made from the arguments."""

EFFECTS: tuple[str, ...] = get_args(Effect)
IN_DOUBT_POLICIES: tuple[str, ...] = get_args(InDoubtPolicy)


class Treatment(NamedTuple):
    """How a call is to be treated: what a tool declares, or ``run.options(...)`` says."""

    effect: RecordedEffect = "read"
    key: str | None = None
    ignore: tuple[str, ...] = ()
    verify: Callable[..., Any] | None = None
    harmless: tuple[type[BaseException], ...] = ()
    settle_s: float = SETTLE_S
    in_doubt: InDoubtPolicy = "stop"
    retries: int = 0
    timeout_s: float | None = None
    manner: Manner = None
    is_tool: bool = False
    refetchable: bool = False
    deadline: float | None = None
    """The wall time after which no try begins, and at which the last one ends."""
    approve: Approve = False
    approved_seq: int = 0
    """The event with which somebody approved this call; 0 where nobody had to."""
    told: bytes = b"{}"
    """Of a call with a key, the arguments as they are recorded: for people, and no part of which call it is."""


READ = Treatment()
ONCE = Treatment(effect="once")
MODEL = Treatment(effect="model", manner="off")
"""Each request is longer than the last one: as news, they would hide every circle of the calls between them."""


class Outcome(NamedTuple):
    """How a call ended, as recorded. ``body`` is None until it is paged in. ``point`` is its number in the run."""

    seq: int
    good: bool
    point: int
    body: bytes | None


class Call:
    """What the journal tells of one call. ``taken`` counts the outcomes that the program was already given."""

    __slots__ = (
        "abandoned",
        "body",
        "doubt",
        "early",
        "fence",
        "is_open",
        "key",
        "name",
        "outcomes",
        "seq",
        "started_at",
        "taken",
    )

    def __init__(self, key: str, name: str) -> None:
        self.key = key
        self.name = name
        self.seq = 0
        self.started_at = 0.0
        self.fence = 0
        self.body: bytes | None = None
        self.outcomes: list[Outcome] = []
        self.taken = 0
        self.is_open = False
        self.doubt: str | None = None
        self.abandoned = False
        self.early = False
        """Recorded before its attempt restored a state: whoever begins again asks for it before it restores."""

    @property
    def is_waiting(self) -> bool:
        """Something of it is left that this attempt was not given: an outcome, or an unknown end."""
        return self.is_open or self.taken < len(self.outcomes)
