"""Settles effects in doubt: they were started, and it is not known whether they happened.

A ``once`` call is in doubt in two cases: it raised or was cut off in this process, or the journal has its
intent without an outcome because an earlier process died. A settlement is recorded: by the tool's ``verify``,
by a letter in the inbox, or by declared policy. Otherwise ``StepInDoubt`` stops the attempt, and a person
decides.

Invariant: nothing is guessed. A verdict or a declared policy allows each repeat, and is recorded before it.
Crash windows: before the settlement is recorded, the next attempt finds the same doubt and asks ``verify``
again; after it, the settlement counts.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.codec.exceptions import describe_failure, encode_failure
from holdfast.core.journal.run_row_facts import is_from_elsewhere
from holdfast.core.steps.arguments import bind, choose
from holdfast.core.steps.in_doubt import Settlement, settle
from holdfast.core.text.times import moment
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import Draft, draft, written_despite
from holdfast.engine.journal.journal import chain_of, read_all
from holdfast.engine.log import log
from holdfast.engine.run.held_run import remember_failure
from holdfast.engine.steps import known_outcome
from holdfast.engine.steps.begun_elsewhere import is_for_a_person, is_over
from holdfast.engine.steps.call_identity import lost_of
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import (
    EffectUnknown,
    HoldfastError,
    LeaseLost,
    StepInDoubt,
    StopSignal,
    StoreError,
)
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Kind
from holdfast.model.verdicts import Done, NotDone, Unknown, Verdict

if TYPE_CHECKING:
    from holdfast.engine.steps.step import Work
    from holdfast.model.store_rows import Append


# -- in this process -----------------------------------------------------------------------------------------


async def record(work: "Work", reason: str) -> None:
    """Record that the call's outcome is unknown, and why. Durable when it returns."""
    keep_open(work, reason)
    doubted = draft(Kind.STEP_DOUBTED, work.asked.name, work.asked.key, {}, parts={"reason": reason})
    await known_outcome.append(work, work.written_with(doubted))


def keep_open(work: "Work", reason: str | None) -> None:
    """Mark the call as open in the view: a program that swallows the stop must not repeat it."""
    held, key = work.held, work.asked.key
    assert held.journal is not None
    call = held.view.calls.setdefault(key, Call(key, work.asked.name))
    call.is_open, call.doubt = True, reason
    held.unasked[key] = call
    call.body, call.seq = work.intent, work.intent_seq
    call.started_at, call.fence = work.started_at, held.journal.fence


async def settle_live(work: "Work", error: Exception) -> Any:
    """Settle a ``once`` call that raised an error not declared harmless. Its value, if it happened."""
    from holdfast.engine.steps.step import Again

    reason = f"raised {describe_failure(encode_failure(error))}"
    # The doubt first: killed while ``verify`` runs, the next attempt knows that the call had ended.
    await record(work, reason)
    held = work.held
    # "Dead" means that the call can act no more. It has raised, so that is certain.
    decision = await _settle(work, since=held.clock.wall(), owner_dead=True)
    if decision.act == "done":
        await work.conclude(_settled(work, "done", via="verify", value=decision.value), good=True)
        return decision.value
    if decision.act in {"not_done", "retry"}:
        if work.may_retry(error):
            raise Again(error)
        failed = _settled(
            work, "failed", via="verify" if decision.act == "not_done" else "policy", error=error
        )
        remember_failure(error, held, work.asked.key, await work.conclude(failed, good=False))
        raise error
    if decision.act == "tell":
        raise await _tell(work, held.clock.wall()) from error
    raise in_doubt(work, reason + _and(decision)) from error


def follow(work: "Work", result: Callable[[], Any]) -> None:
    """Record the end of a ``once`` call whose caller stopped waiting, without blocking an event loop."""
    if not work.runtime.waits:
        drive(_finish_late(work, result))
        return
    import asyncio

    try:
        asyncio.get_running_loop().run_in_executor(None, lambda: drive(_finish_late(work, result)))
    except RuntimeError:  # the loop shuts down: blocking it is better than losing the outcome
        drive(_finish_late(work, result))


async def _finish_late(work: "Work", result: Callable[[], Any]) -> None:
    """Record how a ``once`` call ended whose caller stopped waiting."""
    work.runtime = BLOCKING
    try:
        try:
            value = result()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the effect is in doubt
            await record(work, f"raised {describe_failure(encode_failure(error))}")
        else:
            await work.conclude(_settled(work, "done", via="late", value=value), good=True)
    except (StopSignal, HoldfastError) as refused:  # no caller is left to raise it in
        log().warning("the late end of %r was not recorded: %s", work.asked.name, refused)
    finally:
        work.held.leave_call(work.asked.key)


# -- from an earlier process ---------------------------------------------------------------------------------


async def settle_recorded(work: "Work", call: Call) -> Outcome | None:
    """Settle a call whose intent has no outcome. None if it may run again under the same key."""
    held = work.held
    # A resolution, or a late outcome of the former holder, may have arrived since the run was entered.
    await inbox.drain(held, work.runtime)
    if not call.is_open:
        return held.next_outcome(call)
    if call.abandoned:
        await _take_up_again(work, call)
    if is_for_a_person(held.intent_of(call)):
        raise in_doubt(work, call.doubt or "is to be asked about", call)
    owner_dead = await work.runtime.store(_owner_is_dead, work, call)
    decision = await _settle(work, since=call.started_at, owner_dead=owner_dead)
    if decision.act == "done":
        return await _apply(work, call, _settled(work, "done", via="verify", value=decision.value), good=True)
    if decision.act in {"not_done", "retry"}:
        via = "verify" if decision.act == "not_done" else "policy"
        await work.append(_settled(work, "retry", via=via, reason=decision.reason))
        call.is_open = False
        return None
    if decision.act == "tell":
        raise await _tell(work, call.started_at)
    raise in_doubt(work, (call.doubt or "never reported back") + _and(decision), call)


_MADE_AGAIN: Final = "; it was abandoned, and the program makes it again"


async def _take_up_again(work: "Work", call: Call) -> None:
    """Record that the program makes a call that a person had given up: it is in doubt again."""
    before = (call.doubt or "never reported back").removesuffix(_MADE_AGAIN)  # it may be given up twice
    call.doubt, call.abandoned = before + _MADE_AGAIN, False
    parts = {"reason": call.doubt}
    await work.append(draft(Kind.STEP_DOUBTED, work.asked.name, work.asked.key, {}, parts=parts))


def _owner_is_dead(work: "Work", call: Call) -> bool:
    """Whether the call can act no more: its process saw it end, or is proven dead."""
    was_given = is_over(work.held.store, work.held.intent_of(call))
    if was_given is not None:
        return was_given
    if call.doubt is not None:
        return True
    for attempt in reversed(work.held.view.attempts):
        if attempt.event.seq < call.seq:  # the attempt that made the call
            if _is_from_elsewhere(work, attempt.event.seq):
                return _was_proven_dead(work, attempt.number, attempt.event.seq)
            return work.held.store.probe(fields_of(attempt.event.body)["owner"]) == "dead"
    return False


def _is_from_elsewhere(work: "Work", seq: int) -> bool:
    """Whether the attempt ran on another store, whose processes this store cannot probe."""
    return is_from_elsewhere(chain_of(work.held.store, work.held.run), seq)


def _was_proven_dead(work: "Work", number: int, seq: int) -> bool:
    """Whether the other store recorded a proof that its process died, before the run was moved here."""
    for event in read_all(work.held.store, work.held.run, after_seq=seq):
        if event.kind == Kind.ATTEMPT_CRASHED:
            body = fields_of(event.body)
            if body["attempt"] == number:
                return bool(body["proof"] == "dead")
    return False


# -- helpers -------------------------------------------------------------------------------------------------


async def _settle(work: "Work", *, since: float, owner_dead: bool) -> Settlement:
    call_options, clock = work.call_options, work.held.clock
    # The clock may have been ahead when the call was made: what is left is at most all of settle_s.
    waited_s, began = max(0.0, clock.wall() - since), clock.monotonic()
    while True:
        decision = settle(
            await _verdict(work),
            policy=call_options.in_doubt,
            owner_dead=owner_dead,
            waited_s=waited_s + clock.monotonic() - began,
            settle_s=call_options.settle_s,
        )
        if decision.act != "wait":
            return decision
        await work.runtime.sleep(clock, decision.wait_s)


async def _verdict(work: "Work") -> Verdict | None:
    verify = work.call_options.verify
    if verify is None:
        return None
    known = {
        **bind(work.fn, work.args, work.kwargs, ()),
        "idempotency_key": work.idem,
        "idempotency_owner": work.held.recorded(work.asked.key, "owner") or "",
    }
    try:
        verdict = await work.runtime.invoke(verify, (), choose(verify, known), None)
    except Exception as error:  # noqa: BLE001 - a verifier that fails says nothing about the effect
        log().warning("verify of %r failed: %s", work.asked.name, error)
        return Unknown(f"verify raised {type(error).__name__}: {error}")
    if not isinstance(verdict, (Done, NotDone, Unknown)):
        log().warning("verify of %r returned %r, which is no verdict", work.asked.name, verdict)
        return Unknown(f"verify returned {type(verdict).__name__}, not Done, NotDone or Unknown")
    return verdict


def _settled(
    work: "Work",
    how: str,
    *,
    via: str,
    value: Any = None,
    error: BaseException | None = None,
    reason: str = "",
) -> Draft:
    fields = {"how": how, "via": via}
    parts: dict[str, Any] = {}
    data = None
    if reason:
        parts["reason"] = reason
    if error is not None:
        parts["error"] = encode_failure(error)
    elif how == "done":
        data, refused = work.encode(value)
        if refused is not None:
            parts["lost"] = lost_of(refused)
    return draft(Kind.STEP_SETTLED, work.asked.name, work.asked.key, fields, data, parts=parts)


async def _apply(work: "Work", call: Call, event: Draft, *, good: bool) -> Outcome:
    await work.conclude(event, good=good)
    return call.outcomes[-1]


async def _tell(work: "Work", started_at: float) -> EffectUnknown:
    """Record the doubt as a failure that the program, or the model, gets: ``in_doubt="tell"``."""
    unknown = EffectUnknown(step=work.asked.name, started_at=moment(started_at))
    seq = await work.conclude(_settled(work, "failed", via="policy", error=unknown), good=False)
    remember_failure(unknown, work.held, work.asked.key, seq)
    return unknown


def in_doubt(work: "Work", reason: str, call: Call | None = None) -> StepInDoubt:
    """The stop-signal that asks a person."""
    at = call.started_at if call else work.held.clock.wall()
    return StepInDoubt(
        run=work.held.run, step=work.asked.name, key=work.asked.key, started_at=moment(at), reason=reason
    )


def _and(decision: Settlement) -> str:
    return f" ({decision.reason})" if decision.reason else ""


async def post_late_outcome(work: "Work", event: Draft, *, good: bool) -> None:
    """Post the outcome of a call to the inbox, because this process has lost the lease."""
    key = work.asked.key
    content = {
        "kind": "outcome",
        "key": key,
        "how": "done" if good else "failed",
        "body": contents_of(event.body),
    }
    await known_outcome.post(work, f"late-{key}", content, event)


async def write_outcome(
    work: "Work",
    cut: BaseException,
    event: Draft,
    events: tuple[Draft, ...],
    at: float,
    unsure: "list[Append]",
    *,
    good: bool,
    behind: int = 0,
) -> int:
    """The rest of the append of an outcome, whose first try raised ``cut``: the seq of the last event.

    If the lease is lost, the outcome is posted. If an interrupt leaves it written, it answers the next such
    call; if not, a ``once`` effect is in doubt. So many of the events are ``behind`` the outcome.
    """
    try:
        if not isinstance(cut, StoreError):
            raise cut
        return await known_outcome.hold(work, events, at, unsure, cut)
    except LeaseLost:
        if work.call_options.effect != "read":  # the new holder simply makes a read again
            await post_late_outcome(work, event, good=good)
        raise
    except BaseException as last:
        seq = written_despite(last)
        if seq is not None:
            work.conclude_at(event, seq - behind, good=good, is_given=False)
        elif work.acted and work.call_options.effect == "once":
            keep_open(work, f"ended, and its outcome could not be written ({type(last).__name__})")
        raise
