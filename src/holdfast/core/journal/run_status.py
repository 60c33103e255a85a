"""The status that people see: the recorded one, corrected by the holder and by what a row cannot record."""

from typing import Final

from holdfast.model.store_rows import Liveness, RunRow, Status

NOT_BEGUN: Final = "not_begun"
"""It waits for its program, not for a worker: a new fork, or an import."""
SET_ASIDE: Final = "set_aside"
"""A rewind kept this branch, and it has not been continued since."""


def row_status(row: RunRow, holder: Liveness | None, now: float) -> str:
    """The status of a run as a person should read it.

    ``crashed``: recorded as running, and no live process holds it. ``stale``: held, but without a beat for
    longer than the lease allows. An idle run with a holder is in the middle of a step.
    """
    if row.status == Status.QUEUED and row.due_at is None and holder is None:
        return NOT_BEGUN
    # An interrupted attempt has events of its own. A branch without any was made by a rewind.
    if row.status == Status.INTERRUPTED and row.origin is not None and row.head <= row.origin_seq:
        return SET_ASIDE
    is_running = row.status == Status.RUNNING or (row.status == Status.IDLE and holder is not None)
    if not is_running:
        return row.status
    if holder is None or holder == "dead":
        return "crashed"
    # The holder is not proven dead: it may be a stopped process, or one on another machine.
    return "stale" if now - row.lease.beat_at > row.lease.lease_s else Status.RUNNING
