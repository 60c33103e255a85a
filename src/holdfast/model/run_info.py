"""What a store tells about its runs, for programs and people."""

from typing import Any, NamedTuple

from holdfast.model.questions import Wants
from holdfast.model.store_rows import Lease, Liveness


class EffectBehind(NamedTuple):
    """An effect that a run has behind a point: a history that begins there may come to the same call."""

    step: str
    key: str
    effect: str
    how: str
    """``done``, or ``doubt`` where nobody knows."""
    run: str
    event: int
    """Where its end stands recorded; of one in doubt, its beginning."""
    idempotency_key: str


class RunInfo(NamedTuple):
    """One run at a glance. ``status`` includes what only looking can tell: crashed, stale."""

    run: str
    status: str
    created_at: float
    head: int
    lease: Lease
    holder: Liveness | None
    """Whether the holder lives; None when nobody holds the run."""
    behind: tuple[EffectBehind, ...] = ()
    """Of a fork that was just made: the effects that its origin has behind the point."""


class Doubt(NamedTuple):
    """A step in doubt, and the resolution that already lies in the inbox, if any."""

    run: str
    step: str
    key: str
    started_at: float
    reason: str
    pending: str | None = None


class OpenQuestion(NamedTuple):
    """A question that a run has asked, and the answer that already lies in the inbox, if any."""

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
    """What was answered and is not taken in yet, as plain data; None where nobody has."""
    pending_by: str = ""
