"""Noticing drift as the program runs: at once in straight code, when joined for tasks started side by side."""

from typing import Any, NamedTuple

from orjson import loads

from holdfast.core.steps.drift import UNKNOWN_AFTER, Standing, arguments_diff
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.journal import draft
from holdfast.engine.log import log
from holdfast.engine.run.held_run import Tenure
from holdfast.engine.steps.call_identity import Asked
from holdfast.engine.sync_async import Hands
from holdfast.errors import Diverged
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


class Arrival(NamedTuple):
    """A live call that began a task beside others; judged when they are all there."""

    asked: Asked
    stops: bool


async def judge(tenure: Tenure, hands: Hands, asked: Asked, *, stops: bool) -> None:
    """Find out whether a call that is not in the journal stands in the place of another.

    Once effects and model calls stop with ``Diverged``; others run, and the drift is recorded.
    """
    standing = tenure.standing()
    if standing is None or asked.point.after == UNKNOWN_AFTER:
        return
    await judge_joined(tenure, hands, asked)
    if asked.point.forked:
        tenure.unjudged.append(Arrival(asked, stops))
        return
    call = standing.find(asked.point, asked.name)
    if call is not None:
        await _drifted(tenure, hands, asked, call, stops=stops)


async def judge_joined(tenure: Tenure, hands: Hands, asked: Asked | None) -> None:
    """Judge the tasks started side by side, if they are joined: their parent went on, or (None) the block ends."""
    if not tenure.unjudged:
        return
    standing = tenure.standing()
    assert standing is not None
    waiting: list[Any] = []
    arrivals, tenure.unjudged = tenure.unjudged, []
    for arrival in arrivals:
        if asked is not None and not _is_joined(tenure, standing, arrival, asked):
            waiting.append(arrival)
            continue
        call = standing.find(arrival.asked.point, arrival.asked.name)
        if call is not None:
            tenure.unjudged = waiting
            await _drifted(tenure, hands, arrival.asked, call, stops=arrival.stops)
    tenure.unjudged += waiting


def _is_joined(tenure: Tenure, standing: Standing, arrival: Arrival, asked: Asked) -> bool:
    """Whether the task that started them goes on, and as many have arrived as stand recorded there."""
    if asked.here.trail is not arrival.asked.here.trail.parent:
        return False
    scope, after, _ = arrival.asked.point
    return tenure.arrivals_at(scope, after) >= standing.forked_count(scope, after)


async def _drifted(tenure: Tenure, hands: Hands, asked: Asked, call: Call, *, stops: bool) -> None:
    diff = arguments_diff(*_arguments(tenure, asked, call))
    fields = {"recorded": call.key, "recorded_seq": call.seq}
    journal = tenure.require_journal(asked.name)
    drifted = draft(Kind.DRIFTED, asked.name, asked.key, fields, parts={"diff": diff})
    await journal.append(hands, [drifted], tenure.clock.wall(), synced=False)
    if stops and tenure.drift_stops:
        raise Diverged(run=tenure.run, step=asked.name, key=call.key, seq=call.seq, diff=diff)
    log().warning("run %s drifted at step %r (recorded as #%d):\n%s", tenure.run, asked.name, call.seq, diff)


def _arguments(tenure: Tenure, asked: Asked, call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is recorded and what is asked for now, by its parts; of a request that is compacted, what its intent tells."""
    body = contents_of(tenure.intent_of(call))
    if "request" in body and asked.compare is not None:
        return asked.compare(body)
    if "args_blob" in body:
        body["args"] = loads(read_blob(tenure.store, body["args_blob"]))
    return body.get("args", {}), loads(asked.arguments)
