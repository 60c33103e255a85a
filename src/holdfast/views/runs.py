"""The table of runs: each at a glance."""

from typing import NamedTuple

from orjson import loads

from holdfast.core.fold import View
from holdfast.core.recorded import is_once
from holdfast.model.infos import RunInfo
from holdfast.model.rows import Liveness, Status, owner_name
from holdfast.views.words import one_line


class RunLine(NamedTuple):
    """One run. ``status`` includes what only looking can tell: ``crashed``, ``stale``, and ``damaged``."""

    run: str
    status: str
    goal: str
    point: int
    attempts: int
    in_doubt: int
    events: int
    created_at: float
    age_s: float
    last_sign_at: float
    quiet_s: float
    holder: str
    liveness: Liveness | None


def run_line(info: RunInfo, view: View | None, *, in_doubt: int, now: float) -> RunLine:
    """The line of a run; without a view, its journal cannot be read, or is not whole yet."""
    last_at = max(info.created_at, info.lease.beat_at, view.last.at if view and view.last else 0.0)
    return RunLine(
        run=info.run,
        status=info.status if view is not None or info.status == Status.IMPORTING else "damaged",
        goal=goal_of(view),
        point=view.points if view else 0,
        attempts=len(view.attempts) if view else 0,
        in_doubt=in_doubt,
        events=info.head,
        created_at=info.created_at,
        age_s=round(max(0.0, now - info.created_at), 3),
        last_sign_at=last_at,
        quiet_s=round(max(0.0, now - last_at), 3),
        holder=owner_name(info.lease.owner) if info.lease.owner else "",
        liveness=info.holder,
    )


def may_be_in_doubt(view: View) -> bool:
    """Whether it is worth asking the store which steps are in doubt."""
    return any(is_once(call) and not call.abandoned for call in view.open_calls())


def goal_of(view: View | None) -> str:
    """The run's goal in one line; where it has none, the agent that it is a run of."""
    if view is None or view.started is None:
        return ""
    body = loads(view.started.body)
    return one_line(body.get("goal") or (f"agent {body['agent']}" if body.get("agent") else ""))
