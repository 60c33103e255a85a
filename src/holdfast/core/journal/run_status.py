"""The status that people see: the recorded one, corrected by whether the holder lives."""

from holdfast.model.store_rows import Lease, Liveness, Status


def status_seen(recorded: str, lease: Lease, holder: Liveness | None, now: float) -> str:
    """The status of a run as a person should read it.

    ``crashed``: recorded as running, and no live process holds it. ``stale``: held, but without a beat for
    longer than the lease allows. An idle run with a holder is in the middle of a step.
    """
    if recorded == Status.IDLE and holder is not None:
        recorded = Status.RUNNING
    if recorded != Status.RUNNING:
        return recorded
    if holder is None or holder == "dead":
        return "crashed"
    # The holder is not proven dead: it may be a stopped process, or one on another machine.
    if now - lease.beat_at > lease.lease_s:
        return "stale"
    return recorded
