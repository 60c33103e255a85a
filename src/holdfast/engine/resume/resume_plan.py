"""Makes the resume plan of a run: reads its journal and checks its premises.

The plan itself is decided in core.

From outside, the plan says what starting the run now would do. Inside a run, it says what this attempt began
with. Nothing is written.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.codec.secrets import digests
from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.journal.run_row_facts import lineage_of
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.core.premises.premises import act_on, judge
from holdfast.core.resume.recorded_command import whence
from holdfast.core.resume.resume_plan import ResumePlan, plan_resume
from holdfast.engine.drift.stopped_calls import stopped_calls
from holdfast.engine.journal import inbox as letters
from holdfast.engine.journal.journal import chain_of, read_all
from holdfast.engine.premises.premises import (
    ATTEMPT_PREMISES,
    CheckLocation,
    accepted_in,
    look_around,
    look_aside,
    look_from,
    with_orphans,
)
from holdfast.engine.resume.recorded_command import command_of
from holdfast.engine.run.inputs import roots_of
from holdfast.engine.sync_async import Runtime
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.premises import WORLD, Observation, Policies, Premise
from holdfast.model.run_info import Doubt, RunInfo
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun


def plan_of_entry(held: "HeldRun") -> ResumePlan:
    """What this attempt reused, what was in doubt, and which premises held when it began."""
    reliance, run = ATTEMPT_PREMISES.of(held), held.run
    upto = held.entered_seq
    events = effective(read_all(held.store, run, upto_seq=upto)) if upto else []
    view = fold(events)
    status = "crashed" if view.crashed_attempt is not None else view.status
    code = [premise for premise in PREMISES.of(view).values() if premise.kind not in WORLD]
    judged = (*reliance.judged, *look_around(code, look_from(view), reliance.policies))
    doubts = [
        Doubt(run, call.name, call.key, call.started_at, call.doubt or "never reported back", seq=call.seq)
        for call in view.open_calls()
        if is_once(call) and not call.abandoned
    ]
    stopped = stopped_calls(held.store, run, view)
    plan = plan_resume(run, status, events, doubts=doubts, judged=judged, stopped=stopped)
    return with_command(held.store, run, view, plan, events)


async def plan(held: "HeldRun", runtime: Runtime) -> ResumePlan:
    """The resume plan of this attempt."""
    found: ResumePlan = await look_aside(runtime, plan_of_entry, held)
    return found


def plan_from_outside(
    store: StorePort, info: RunInfo, events: list[Event], doubts: list[Doubt], now: float
) -> ResumePlan:
    """What starting this run now would do, as far as that is known without its program."""
    view = with_accepted(store, info.run, fold(events))
    attempt: dict[str, Any] = contents_of(view.attempts[-1].event.body) if view.attempts else {}
    policies: Policies = attempt.get("premises", {})
    judged = look_around(PREMISES.of(view).values(), _look_of(view, attempt), policies)
    if ARTIFACTS.of(view).under_way and info.holder != "alive":
        from holdfast.engine.artifacts.orphans import find_orphans

        judged = with_orphans(judged, [one for _, one in find_orphans(view, policies)])
    if view.last is not None:
        clock = Premise("clock", "wall", {"at": view.last.at}, seq=view.last.seq)
        judged = (*judged, act_on(judge(clock, Observation({"at": now})), policies))
    inbox = [letter for _, letter in letters.waiting(store, info.run)]
    answers = {letter["seq"]: str(letter.get("by", "")) for letter in inbox if letter["kind"] == "answer"}
    died_at = info.lease.beat_at
    plan = plan_resume(
        info.run,
        info.status,
        events,
        doubts=doubts,
        judged=judged,
        stopped=stopped_calls(store, info.run, view),
        answers=answers,
        died_at=died_at,
        noted=info.noted,
    )
    return with_command(store, info.run, view, plan, events)


def with_command(store: StorePort, run: str, view: View, plan: ResumePlan, events: list[Event]) -> ResumePlan:
    """The plan with the command that last started the run, where both came from, and its secrets."""
    if not view.attempts:
        return plan._replace(came_from=whence(chain_of(store, run), 1))
    last, chain = view.attempts[-1].event, chain_of(store, run)
    known: dict[str, str] = {}
    for attempt in view.attempts:
        known |= fields_of(attempt.event.body).get("secrets", {})
    told = tuple(_secrets(known, lineage_of(chain), events))
    return plan._replace(command=command_of(store, run, last), came_from=whence(chain, 1), secrets=told)


def _secrets(known: dict[str, str], lineage: str, events: list[Event]) -> Iterator[str]:
    """The secrets of earlier attempts that are not here and needed, or that were rotated."""
    now = digests(lineage)
    for name, before in known.items():
        if name not in now:
            written = f'"{name}"'.encode()
            if any(written in event.body for event in events if event.kind != Kind.ATTEMPT_STARTED):
                yield f"{name} is not here: what was recorded with it cannot be read"
        elif now[name] != before:
            yield f"{name} has another value than in the last attempt"


def with_accepted(store: StorePort, run: str, view: View) -> View:
    """The view with premises that a person has accepted and no attempt has recorded yet."""
    for _, letter in letters.waiting(store, run):
        if letter["kind"] == "accept":
            PREMISES.of(view).note(accepted_in(letter))
    return view


def look_at_one(view: View, premise: Premise) -> Observation:
    """Observe one premise of a run, from outside."""
    attempt: dict[str, Any] = contents_of(view.attempts[-1].event.body) if view.attempts else {}
    return _look_of(view, attempt).at(premise)


def _look_of(view: View, attempt: dict[str, Any]) -> CheckLocation:
    return CheckLocation((*roots_of(view), attempt.get("cwd", "")), attempt.get("python", ""))
