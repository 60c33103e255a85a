"""What a store reports about its runs, for programs and people."""

from typing import Any

from holdfast.model.named_tuple import NamedTuple
from holdfast.model.questions import Wants
from holdfast.model.store_rows import Lease, Liveness, NotedCall


class EffectBehind(NamedTuple):
    """An effect of a run after a point: a history that starts there may repeat the same call."""

    step: str
    key: str
    effect: str
    how: str
    """``done``, or ``doubt`` if it is unknown."""
    run: str
    event: int
    """The event of its end, or of its start if it is in doubt."""
    idempotency_key: str


class MovedLetters(NamedTuple):
    """What a rewind did with letters."""

    kept: tuple[str, ...] = ()
    """The ids of the letters that went with the kept branch."""
    again: tuple[str, ...] = ()
    """The ids of messages and promise updates that had been read after the point, and are unread again."""


class Rewound(NamedTuple):
    """A run whose head was moved back, and the fork that keeps the old branch."""

    run: str
    to_seq: int
    kept: str
    behind: tuple[EffectBehind, ...] = ()
    """The effects after ``to_seq``."""
    later_children: tuple[str, ...] = ()
    """Descendants that were begun after it: the kept branch has them now."""
    letters: MovedLetters = MovedLetters()
    """Letters that went with the kept branch, and messages that are unread again."""
    taken_back: tuple[str, ...] = ()
    """The receivers of messages that were sent after it, and that are not delivered any more."""


class Past(NamedTuple):
    """Whether events that were read still count: if any of it differs, read the run from its beginning.

    ``origin_seq`` is the last event that a fork has borrowed. The revision also grows when the status
    changes, so it differs more often than the past does.
    """

    birth: str
    origin: str | None
    origin_seq: int
    revision: int


class RunInfo(NamedTuple):
    """One run. ``status`` includes what is not recorded: crashed, stale, not_begun, set_aside."""

    run: str
    status: str
    created_at: float
    head: int
    lease: Lease
    holder: Liveness | None
    """Whether the holder lives; None if no process holds the run."""
    behind: tuple[EffectBehind, ...] = ()
    """For a new fork: the effects of its origin, and of later children, after the point."""
    later_children: tuple[str, ...] = ()
    """For a new fork: the descendants of its origin that were begun after the point."""
    noted: NotedCall | None = None
    """Of one run that is looked at: the call under way that its journal does not have yet, if it is known."""


class Doubt(NamedTuple):
    """A step in doubt, and its resolution in the inbox, if there is one."""

    run: str
    step: str
    key: str
    started_at: float
    reason: str
    pending: str | None = None
    seq: int = 0
    """The event of its intent."""

    @property
    def id(self) -> str:
        """A short name for it, which stays the same: the number of its event."""
        return f"d{self.seq}"


class UnclaimedEffect(NamedTuple):
    """A recorded once effect that the program has not asked for. ``state`` is ``done`` or ``in doubt``."""

    step: str
    key: str
    seq: int
    state: str
    arguments: Any
    run: str = ""
    """The run that recorded it; empty if that is the run of the stopped call."""

    @property
    def id(self) -> str:
        """A short name for it, which stays the same: the number of its event, with its run if it has one."""
        return f"d{self.seq}@{self.run}" if self.run else f"d{self.seq}"


class StoppedCall(NamedTuple):
    """A once call that was not made, since it may be one of these effects; the most likely one is first."""

    run: str
    step: str
    key: str
    arguments: Any
    effects: tuple[UnclaimedEffect, ...]
    pending: str | None = None


class OpenQuestion(NamedTuple):
    """A question of a run, and its answer in the inbox, if there is one."""

    run: str
    id: str
    key: str
    seq: int
    question: str
    wants: Wants
    about: Any
    about_sha256: str
    asked_at: float
    expires_at: float | None
    is_expired: bool
    pending: Any = None
    """The answer that the run has not read yet, as plain data; None without one."""
    pending_by: str = ""
