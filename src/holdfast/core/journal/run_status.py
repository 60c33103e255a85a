"""What a run's status means once its holder has been looked at."""

from holdfast.model.store_rows import Lease, Liveness, Status


def status_seen(recorded: str, lease: Lease, holder: Liveness | None, now: float) -> str:
    """The status as a person should read it.

    ``crashed``: recorded as running, and nobody alive holds it. ``stale``: held, but without a beat for longer
    than the lease allows. An idle run that somebody holds is in the middle of a step.
    """
    if recorded == Status.IDLE and holder is not None:
        recorded = Status.RUNNING
    if recorded != Status.RUNNING:
        return recorded
    if holder is None or holder == "dead":
        return "crashed"
    if now - lease.beat_at > lease.lease_s:
        return "stale"
    return recorded
