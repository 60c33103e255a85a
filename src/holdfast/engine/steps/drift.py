"""Noticing drift as the program runs: at once in straight code, when joined for tasks started side by side."""

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
    """A live call that began a task beside others; judged when they are all there."""

    asked: RequestedCall
    stops: bool


async def judge(held: HeldRun, runtime: Runtime, asked: RequestedCall, *, stops: bool) -> None:
    """Find out whether a call that is not in the journal stands in the place of another.

    Once effects and model calls stop with ``Diverged``; others run, and the drift is recorded.
    """
    standing = held.standing()
    if standing is None or asked.point.after == UNKNOWN_AFTER:
        return
    await judge_joined(held, runtime, asked)
    if asked.point.forked:
        held.unjudged.append(Arrival(asked, stops))
        return
    call = standing.find(asked.point, asked.name)
    if call is not None:
        await _drifted(held, runtime, asked, call, stops=stops)


async def judge_joined(held: HeldRun, runtime: Runtime, asked: RequestedCall | None) -> None:
    """Judge the tasks started side by side, if they are joined: their parent went on, or (None) the block ends."""
    if not held.unjudged:
        return
    standing = held.standing()
    assert standing is not None
    waiting: list[Any] = []
    arrivals, held.unjudged = held.unjudged, []
    for arrival in arrivals:
        if asked is not None and not _is_joined(held, standing, arrival, asked):
            waiting.append(arrival)
            continue
        call = standing.find(arrival.asked.point, arrival.asked.name)
        if call is not None:
            held.unjudged = waiting
            await _drifted(held, runtime, arrival.asked, call, stops=arrival.stops)
    held.unjudged += waiting


def _is_joined(held: HeldRun, standing: RecordedPoints, arrival: Arrival, asked: RequestedCall) -> bool:
    """Whether the task that started them goes on, and as many have arrived as stand recorded there."""
    if asked.here.task_calls is not arrival.asked.here.task_calls.parent:
        return False
    scope, after, _ = arrival.asked.point
    return held.arrivals_at(scope, after) >= standing.forked_count(scope, after)


async def _drifted(held: HeldRun, runtime: Runtime, asked: RequestedCall, call: Call, *, stops: bool) -> None:
    diff = arguments_diff(*_arguments(held, asked, call))
    fields = {"recorded": call.key, "recorded_seq": call.seq}
    journal = held.require_journal(asked.name)
    drifted = draft(Kind.DRIFTED, asked.name, asked.key, fields, parts={"diff": diff})
    await journal.append(runtime, [drifted], held.clock.wall(), synced=False)
    if stops and held.drift_stops:
        raise Diverged(run=held.run, step=asked.name, key=call.key, seq=call.seq, diff=diff)
    log().warning("run %s drifted at step %r (recorded as #%d):\n%s", held.run, asked.name, call.seq, diff)


def _arguments(held: HeldRun, asked: RequestedCall, call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is recorded and what is asked for now, by its parts; of a request that is compacted, what its intent tells."""
    body = contents_of(held.intent_of(call))
    if "request" in body and asked.compare is not None:
        return asked.compare(body)
    if "args_blob" in body:
        body["args"] = loads(read_blob(held.store, body["args_blob"]))
    return body.get("args", {}), loads(asked.arguments)
