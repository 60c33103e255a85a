"""Calls: how one is treated, and what is recorded of it."""

from collections.abc import Callable
from typing import Any, Literal, get_args

from holdfast.limits import SETTLE_S
from holdfast.model.loops import Manner
from holdfast.model.named_tuple import NamedTuple

Effect = Literal["read", "idempotent", "once"]
RecordedEffect = Literal["read", "idempotent", "once", "model"]
"""A model call that was cut off is repeated, like a read. It costs money, so drift there stops the run."""
InDoubtPolicy = Literal["stop", "tell", "retry"]

Approve = bool | str | Callable[[dict[str, Any]], str]
"""Whether a person is asked before the call.

With the default question, this one, or one from the arguments.
"""

EFFECTS: tuple[str, ...] = get_args(Effect)
IN_DOUBT_POLICIES: tuple[str, ...] = get_args(InDoubtPolicy)


class CallOptions(NamedTuple):
    """How a call is treated: what a tool declares, or ``run.options(...)`` sets."""

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
    """The wall time after which no try starts, and at which the last one ends."""
    approve: Approve = False
    approved_seq: int = 0
    """The event that approved this call; 0 if no approval was needed."""
    told: bytes = b"{}"
    """The recorded arguments of a call with a key: for people; they do not identify the call."""
    secrets: tuple[str, ...] = ()
    """The parameters whose values are secrets, besides those that are annotated so."""

    @property
    def is_once(self) -> bool:
        """Whether the call acts on the world, and must not be made twice."""
        return self.effect == "once"


READ = CallOptions()
ONCE = CallOptions(effect="once")
MODEL = CallOptions(effect="model", manner="off")
"""Loop detection ignores model calls. Each request is longer than the last, so each would count as new."""


class Outcome(NamedTuple):
    """How a call ended, as recorded.

    ``body`` is None until it is loaded. ``point`` is its number in the run.
    """

    seq: int
    good: bool
    point: int
    body: bytes | None


class Call:
    """The journal's records of one call. ``taken`` counts the outcomes that the program already got."""

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

    def __init__(
        self,
        key: str,
        name: str,
        seq: int = 0,
        started_at: float = 0.0,
        fence: int = 0,
        body: bytes | None = None,
        is_open: bool = False,
        early: bool = False,
    ) -> None:
        """Its intent, if there is one: where it is, and its body.

        ``early``: recorded before its attempt restored a state. A program that starts again repeats it before
        it restores.
        """
        self.key = key
        self.name = name
        self.seq = seq
        self.started_at = started_at
        self.fence = fence
        self.body = body
        self.outcomes: list[Outcome] = []
        self.taken = 0
        self.is_open = is_open
        self.doubt: str | None = None
        self.abandoned = False
        self.early = early

    def begin_again(self, seq: int, started_at: float, fence: int, body: bytes) -> None:
        """A second intent, of an attempt that repeats the call, replaces the first."""
        self.seq, self.started_at, self.fence, self.body = seq, started_at, fence, body
        self.is_open, self.doubt = True, None

    @property
    def is_waiting(self) -> bool:
        """Whether this attempt has not yet got an outcome or an unknown end of it."""
        return self.is_open or self.taken < len(self.outcomes)

    @property
    def is_spent(self) -> bool:
        """Whether its records answer no more: this attempt got them, and none is a success."""
        return not self.is_waiting and not any(outcome.good for outcome in self.outcomes)
