"""Leaves a run's block: finishes the run or records how the attempt ended, and releases the lease.

Invariants: calls in flight are waited for first, so that their outcomes are recorded. The lease is released
whatever happens. An end that cannot be recorded (a lost lease, a full disk) never hides the error that led
here.

A block that is left without an error finishes its run and ends its attempt in one append: both are durable,
or neither is. A result that the program records itself is durable before the block is left.

Crash windows: before the end is recorded, the next holder records this attempt as crashed. Between that
record and the release, the lease expires or its holder is proven dead.
"""

from collections.abc import Callable
from typing import Any

from holdfast.codec.exceptions import encode_failure
from holdfast.codec.values import encode
from holdfast.core.journal.recorded_calls import is_inside_answered, is_once
from holdfast.core.text.times import moment
from holdfast.engine.journal.drafts import Draft, draft, written_despite
from holdfast.engine.journal.inbox import CANCEL, find_cancel
from holdfast.engine.journal.lease import give_back
from holdfast.engine.log import log
from holdfast.engine.run import cancel, observers
from holdfast.engine.run.entry import Entry
from holdfast.engine.run.held_run import HeldRun, failures_behind
from holdfast.engine.sync_async import Runtime, is_cancellation
from holdfast.errors import (
    Cancelled,
    Diverged,
    HoldfastError,
    LeaseLost,
    NeverAwaited,
    Parked,
    PremiseMissing,
    StepInDoubt,
    StopSignal,
)
from holdfast.model.events import Kind
from holdfast.model.store_rows import Lease, Status

_POLL_S = 0.01


async def finish(held: HeldRun, runtime: Runtime, result: Any) -> None:
    """Record the run's result. Durable when it returns; after that the run takes no new work."""
    await _finish(held, runtime, result, ends=False)


async def _finish(held: HeldRun, runtime: Runtime, result: Any, *, ends: bool) -> None:
    """The same; with ``ends``, the end of the attempt is in the same append."""
    held.check_usable()
    if held.is_finished:
        if held.hooks.finished_again:
            data = encode(result, what=f"result of run {held.run}")
            for told in held.hooks.finished_again:
                told(data)
        return
    forgotten = await _unawaited(held, runtime)
    if forgotten is not None:
        raise forgotten
    data = encode(result, what=f"result of run {held.run}")
    _check_settled(held)
    journal = held.require_journal("finish", begins=False)
    # In the same append, so that a crash cannot separate them from the end of the run.
    reports = [event for finishing in held.hooks.finishing for event in await finishing(runtime)]
    drafts = [*reports, draft(Kind.RUN_FINISHED, "", "", {}, data)]
    if ends:
        drafts.append(_end_of(held, Status.FINISHED, Status.FINISHED, None))
    try:
        await journal.append(runtime, drafts, held.clock.wall(), status=Status.FINISHED)
    except BaseException as cut:
        if written_despite(cut) is not None:
            _is_finished(held, data)
            held.has_ended = ends
        raise
    _is_finished(held, data)
    held.has_ended = ends


async def _unawaited(held: HeldRun, runtime: Runtime) -> NeverAwaited | None:
    """The refusal to finish, if the program called methods of an async run and never awaited them."""
    if held.unawaited is None or not held.unawaited.left():
        return None
    await runtime.sleep(held.clock, 0)  # a task that was just made of such a call begins now
    left = held.unawaited.left()
    if not left:
        return None
    held.unawaited.forget()
    verb = "was" if len(left) == 1 else "were"
    return NeverAwaited(run=held.run, calls=" and ".join(left), verb=verb)


def _is_finished(held: HeldRun, result: bytes) -> None:
    held.is_finished = True
    held.result = result
    held.status = Status.FINISHED


async def leave(
    held: HeldRun,
    runtime: Runtime,
    entry: Entry,
    error: BaseException | None,
    *,
    finishes: bool = True,
    is_hurried: Callable[[], bool] = lambda: True,
) -> BaseException | None:
    """End the attempt. Returns the exception to raise: the given one, the stop-signal in it, or a new one.

    Without an error the run is finished, unless ``finishes`` is off: then it can be resumed.
    """
    if held.is_closed:
        return error
    error = stop_signal_in(error) or error  # a task group wraps the stop-signal of one of its tasks
    if isinstance(error, StopSignal):
        error.store = error.store or held.store.url
    if held.journal is None or held.sealed is not None:
        error = _left(held, error)
        return error if held.sealed is None else await _closed(held, runtime, error)
    for closing in held.hooks.closing:
        closing()
    try:
        if error is None:
            error = await _unawaited(held, runtime)
        hurry = await _drain(held, runtime, entry.drain_s, is_hurried)
        error = error or hurry
        if error is None and finishes and not held.is_finished:
            await _finish(held, runtime, None, ends=True)
    except BaseException as refused:  # noqa: BLE001 - the caller raises it, after the end is recorded
        error = error or refused
    try:
        # Not interruptible by a cancellation: a lease that is released before the run is due again would
        # leave a run that no worker finds.
        error = await runtime.whole(_end(held, runtime, error))
    except BaseException as cut:
        if not is_cancellation(cut):
            raise
        error = error or cut
    finally:
        observers.gone(held.observer, held.status, error)
    return await _closed(held, runtime, error)


async def _closed(held: HeldRun, runtime: Runtime, error: BaseException | None) -> BaseException | None:
    """Let features wait for what they do after the end. Returns the exception to raise."""
    try:
        for closed in held.hooks.closed:
            await closed(runtime)
    except BaseException as cut:
        if not is_cancellation(cut):
            raise
        error = error or cut
    return error


def _left(held: HeldRun, error: BaseException | None) -> BaseException | None:
    """The block of a run in which nothing can be recorded any more is over."""
    held.is_closed = True
    for left in held.hooks.left:
        left(error)
    return error


async def _end(held: HeldRun, runtime: Runtime, error: BaseException | None) -> BaseException | None:
    """Record how the attempt ended, and release the run. Returns the exception to raise."""
    try:
        if not held.has_ended:
            await _record_end(held, runtime, error)
        for ended in held.hooks.ended:
            await ended(runtime, error)
    except LeaseLost as lost:
        error = error or lost
        held.status = "lost"
    except HoldfastError as failed:
        if error is None:
            error = failed
        else:
            error.add_note(f"holdfast could not record the end of this attempt: {failed}")
    finally:
        await runtime.store(let_go, held)
    return error


def stop_signal_in(error: BaseException | None) -> StopSignal | None:
    """The first stop-signal in an exception or in the groups that task groups wrap it in."""
    if isinstance(error, StopSignal):
        return error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            found = stop_signal_in(inner)
            if found is not None:
                found.__context__ = None
                return found
    return None


def how_it_ended(error: BaseException | None) -> str:
    """One word for the end of an attempt; it is the run's status too."""
    if error is None:
        return Status.FINISHED
    if isinstance(error, StepInDoubt):
        return Status.IN_DOUBT
    if isinstance(error, Diverged):
        return Status.DIVERGED
    if isinstance(error, Cancelled):
        return Status.CANCELLED
    if isinstance(error, (Parked, PremiseMissing)):
        return Status.PARKED
    # Ctrl-C, SIGTERM, a cancelled task and a closed generator are no Exception.
    return Status.FAILED if isinstance(error, Exception) else Status.INTERRUPTED


async def _drain(
    held: HeldRun, runtime: Runtime, drain_s: float, is_hurried: Callable[[], bool]
) -> BaseException | None:
    """Wait for calls in flight. Returns the interrupt that ended the wait, if one did.

    A loop that shuts down cancels its tasks a second time; that alone must not leave a payment in doubt.
    """
    assert held.journal is not None
    deadline = min(held.clock.monotonic() + drain_s, held.journal.drain_until)
    while held.in_flight():
        if held.clock.monotonic() >= deadline:
            names = ", ".join(sorted({work.asked.name for work in held.in_flight()}))
            log().warning("leaving run %s while %s still runs", held.run, names)
            break
        try:
            await runtime.sleep(held.clock, _POLL_S)
        except BaseException as interrupt:  # noqa: BLE001 - returned to the caller
            if not is_cancellation(interrupt) or is_hurried():
                return interrupt
    return None


async def _record_end(held: HeldRun, runtime: Runtime, error: BaseException | None) -> None:
    how = how_it_ended(error) if error is not None or held.is_finished else "closed"
    status = Status.FINISHED if held.is_finished else Status.INTERRUPTED if how == "closed" else how
    # An interrupted run can simply be started again; one with an effect in doubt may need a person first.
    if status == Status.INTERRUPTED and unsettled(held):
        status = Status.IN_DOUBT
    journal = held.journal
    assert journal is not None
    letter = None if held.is_finished else await _cancelled(held, runtime)
    if letter is not None:  # a cancellation ends the run, however this attempt ended
        status = Status.CANCELLED
    event = _end_of(held, how, status, error)
    drafts = [event] if letter is None else [cancel.event_of(letter), event]
    consumed = () if letter is None else (CANCEL,)
    await journal.append(runtime, drafts, held.clock.wall(), status=status, consumed=consumed)
    held.status = status


def _end_of(held: HeldRun, how: str, status: str, error: BaseException | None) -> Draft:
    """The event that ends this attempt."""
    fields: dict[str, Any] = {"how": how, "status": status, "took_s": round(held.took_s, 6)}
    parts: dict[str, Any] = {}
    if error is not None:
        parts["error"] = encode_failure(error)
        again = failures_behind(error, held)
        if again:
            fields["again"] = again
    return draft(Kind.ATTEMPT_ENDED, "", "", fields, parts=parts)


async def _cancelled(held: HeldRun, runtime: Runtime) -> dict[str, Any] | None:
    """The letter that cancels the run, if there is one, even if the heartbeat has not seen it yet."""
    assert held.journal is not None
    return held.journal.cancelled or await runtime.store(find_cancel, held.store, held.run)


def let_go(held: HeldRun) -> None:
    """Close the handle, stop the heartbeat and release the lease."""
    held.is_closed = True
    release(held)


def release(held: HeldRun) -> None:
    """Stop the heartbeat and release the lease; the program may still be in the run's block."""
    for released in held.hooks.released:
        released()
    journal = held.journal
    assert journal is not None
    held.session.heartbeat.remove(journal)
    if journal.lost is None:
        # A call that still runs in a thread must not append after the end of the attempt: it gets LeaseLost,
        # and its outcome goes to the inbox.
        journal.lost = Lease(fence=journal.fence)
        give_back(held.store, held.run, journal.fence)


def unsettled(held: HeldRun) -> dict[str, tuple[str, float]]:
    """The effects in doubt that the program has not asked for again: key to name and time."""
    found = {
        w.asked.key: (w.asked.name, w.started_at) for w in held.in_flight() if w.call_options.effect == "once"
    }
    for call in held.view.open_calls():
        if (
            is_once(call)
            and not call.abandoned
            and not is_inside_answered(call, held.view.calls, held.intent_of)
        ):
            found[call.key] = (call.name, call.started_at)
    return found


def _check_settled(held: HeldRun) -> None:
    for key, (name, at) in unsettled(held).items():
        raise StepInDoubt(
            run=held.run,
            step=name,
            key=key,
            started_at=moment(at),
            reason="is still in doubt, and the program ended without asking for it again",
        )
