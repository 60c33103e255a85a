"""Detects drift while the program runs: at once in sequential code, at the join for concurrent tasks.

A call that is not in the journal is drift if the journal has another call of that name at the same point.
Concurrent tasks may arrive in another order than before, so their first calls are judged only when as many
have arrived as are recorded there. A drift is recorded as a flushed event; losing it in a crash loses only
the report.
"""

from typing import Any, NamedTuple

from orjson import loads

from holdfast.core.steps.drift import UNKNOWN_AFTER, RecordedPoints, arguments_diff
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.journal import draft
from holdfast.engine.log import log
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.call_identity import RequestedCall
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Diverged
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


class Arrival(NamedTuple):
    """The first live call of a concurrent task; judged when all its siblings have arrived."""

    asked: RequestedCall
    stops: bool


async def judge(held: HeldRun, runtime: Runtime, asked: RequestedCall, *, stops: bool) -> None:
    """Find out whether a call that is not in the journal takes the place of a recorded one.

    ``once`` effects and model calls stop with ``Diverged``; others run, and the drift is recorded.
    """
    points = held.recorded_points()
    if points is None or asked.point.after == UNKNOWN_AFTER:
        return
    await judge_joined(held, runtime, asked)
    if asked.point.forked:
        # Siblings may arrive in another order than the recorded one: judged when all are there.
        held.unjudged.append(Arrival(asked, stops))
        return
    call = points.find(asked.point, asked.name)
    if call is not None:
        await _drifted(held, runtime, asked, call, stops=stops)


async def judge_joined(held: HeldRun, runtime: Runtime, asked: RequestedCall | None) -> None:
    """Judge concurrent tasks that are joined: their parent makes a call, or (None) the block ends."""
    if not held.unjudged:
        return
    points = held.recorded_points()
    assert points is not None
    waiting: list[Any] = []
    arrivals, held.unjudged = held.unjudged, []
    for arrival in arrivals:
        if asked is not None and not _is_joined(held, points, arrival, asked):
            waiting.append(arrival)
            continue
        call = points.find(arrival.asked.point, arrival.asked.name)
        if call is not None:
            held.unjudged = waiting
            await _drifted(held, runtime, arrival.asked, call, stops=arrival.stops)
    held.unjudged += waiting


def _is_joined(held: HeldRun, points: RecordedPoints, arrival: Arrival, asked: RequestedCall) -> bool:
    """Whether their parent task makes this call, and as many siblings have arrived as are recorded there."""
    if asked.here.task_calls is not arrival.asked.here.task_calls.parent:
        return False
    scope, after, _ = arrival.asked.point
    return held.arrivals_at(scope, after) >= points.forked_count(scope, after)


async def _drifted(held: HeldRun, runtime: Runtime, asked: RequestedCall, call: Call, *, stops: bool) -> None:
    diff = arguments_diff(*_arguments(held, asked, call))
    fields = {"recorded": call.key, "recorded_seq": call.seq}
    journal = held.require_journal(asked.name)
    drifted = draft(Kind.DRIFTED, asked.name, asked.key, fields, parts={"diff": diff})
    # Before the stop: the report has to outlive this process.
    await journal.append(runtime, [drifted], held.clock.wall(), synced=False)
    if stops and held.drift_stops:
        raise Diverged(run=held.run, step=asked.name, key=call.key, seq=call.seq, diff=diff)
    log().warning("run %s drifted at step %r (recorded as #%d):\n%s", held.run, asked.name, call.seq, diff)


def _arguments(held: HeldRun, asked: RequestedCall, call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
    """The recorded arguments and those of the call now, for a diff."""
    body = contents_of(held.intent_of(call))
    if "request" in body and asked.compare is not None:
        return asked.compare(body)
    if "args_blob" in body:
        body["args"] = loads(read_blob(held.store, body["args_blob"]))
    return body.get("args", {}), loads(asked.arguments)
