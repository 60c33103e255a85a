"""Writes known outcomes: an outcome that the store refuses for now is held back and tried again.

An intent may fail at once, since nothing has happened yet. An outcome that is dropped would leave an effect
in doubt although this process knows how it ended. So the calling thread or task keeps the outcome and tries
again, with growing pauses. It gives up at the first of these: the call's deadline, the end of a worker's
drain, the end of the run's block, a cancellation, an interrupt, ``OUTCOME_HOLD_S``. If the lease is lost, the
outcome goes to the inbox.

Crash window: a crash while an outcome is held back, or giving up, leaves an intent without an outcome. The
next attempt repeats a ``read`` and finds a ``once`` effect in doubt, as after any crash.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import limits
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import Draft, note_written
from holdfast.engine.log import log
from holdfast.errors import StoreError
from holdfast.limits import OUTCOME_BACKOFF_S, OUTCOME_BACKOFF_S_MAX, OUTCOME_TELL_S
from holdfast.model.events import Kind

if TYPE_CHECKING:
    from holdfast.engine.steps.step import Work
    from holdfast.model.store_rows import Append

T = TypeVar("T")

_TOLD = {
    Kind.STEP_FINISHED: "done",
    Kind.STEP_FAILED: "failed",
    Kind.STEP_DOUBTED: "in doubt",
    Kind.STEP_SETTLED: "settled",
}


async def append(work: "Work", events: tuple[Draft, ...]) -> int:
    """Append a call's outcome, durably; the seq of the last event. LeaseLost; StoreError when it gives up."""
    journal, at = work.held.journal, work.held.clock.wall()
    assert journal is not None
    unsure: list[Append] = []
    try:
        return await journal.append(work.runtime, events, at, unsure=unsure)
    except StoreError as refused:
        return await hold(work, events, at, unsure, refused)


async def hold(
    work: "Work", events: tuple[Draft, ...], at: float, unsure: "list[Append]", refused: StoreError
) -> int:
    """The rest of ``append``, where the first try was refused."""
    journal = work.held.journal
    assert journal is not None
    what = next(_TOLD[event.kind] for event in events if event.kind in _TOLD)
    # Each try has the same events with the same time: if one arrives late, the next try recognises it.
    return await _hold(work, what, refused, lambda: journal.append(work.runtime, events, at, unsure=unsure))


async def post(work: "Work", letter: str, content: dict[str, Any], event: Draft) -> None:
    """Post the outcome of a call to the inbox, durably, for the process that holds the run now."""
    held = work.held

    async def leave() -> None:
        at = held.clock.wall()
        await work.runtime.store(inbox.post, held.store, held.run, letter, content, event.blobs, at=at)

    try:
        await leave()
    except StoreError as refused:
        await _hold(work, _TOLD[event.kind], refused, leave)


async def _hold(work: "Work", what: str, error: StoreError, write: Callable[[], Awaitable[T]]) -> T:
    """Write again while the error may pass. Raises the last error, with what was given up."""
    clock, name, run = work.held.clock, work.asked.name, work.held.run
    began = tell_at = clock.monotonic()
    wait_s = OUTCOME_BACKOFF_S
    while True:
        now = clock.monotonic()
        left_s = _left_s(work, began) if error.may_pass else 0.0
        if left_s <= 0:
            raise _given_up(work, what, now - began, error) from error
        if now >= tell_at:
            tell_at = now + OUTCOME_TELL_S
            log().warning(
                "run %s: step %r has ended (%s), and that cannot be written: %s. "
                "It is held back, and tried again for %.0f s at most",
                run, name, what, error, left_s,
            )  # fmt: skip
        try:
            await work.runtime.sleep(clock, min(wait_s, left_s))
        except BaseException as cut:
            await _try_once_more(cut, write)
            raise
        wait_s = min(wait_s * 2, OUTCOME_BACKOFF_S_MAX)
        try:
            written = await write()
        except StoreError as again:
            error = again
            continue
        held_s = clock.monotonic() - began
        log().warning(
            "run %s: how step %r ended (%s) was held back for %.1f s, and is written", run, name, what, held_s
        )
        return written


async def _try_once_more(cut: BaseException, write: Callable[[], Awaitable[object]]) -> None:
    """After an interrupt or a cancellation: one last try without a wait."""
    with suppress(StoreError):
        written = await write()
        if isinstance(written, int):
            note_written(cut, written)


def _left_s(work: "Work", began: float) -> float:
    """How long the outcome may still be held back; 0 or less means: give up."""
    held, journal = work.held, work.held.journal
    assert journal is not None
    # A closed run has no lease any more; a cancelled one should end soon.
    if held.is_closed or journal.cancelled is not None:
        return 0.0
    now = held.clock.monotonic()
    by_deadline = inf if work.deadline is None else work.deadline - held.clock.wall()
    return min(began + limits.OUTCOME_HOLD_S - now, journal.drain_until - now, by_deadline)


def _given_up(work: "Work", what: str, held_s: float, error: StoreError) -> StoreError:
    """The store's error, with what it means for the step."""
    then = "it is in doubt" if work.call_options.effect == "once" else "it will be made again"
    held = f" after {held_s:.0f} s" if held_s >= 1 else ""
    ended = f"step {work.asked.name!r} of run {work.held.run} has ended ({what})"
    problem = f"{error.fields['problem']}; {ended}, and that is not recorded{held}: {then}"
    return type(error)(**{**error.fields, "problem": problem})
