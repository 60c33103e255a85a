"""Known outcomes: what a call came to is held and written again and again, while the store refuses in a way that may pass.

An intent may fail at once, since nothing has happened yet. An outcome that is dropped leaves an effect in doubt that this
process knows the end of. So it is kept here, in the calling thread or task, with growing pauses, until it is written or
one of these comes first: the call's own deadline, the end of a worker's drain, the end of the run's block, a lost lease (the
outcome then goes to the inbox), a cancellation, an interrupt, ``OUTCOME_HOLD_S``. Given up, it is what it was without all this:
an intent without an outcome, which the next attempt finds in doubt.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import limits
from holdfast.engine.journal import inbox
from holdfast.engine.journal.journal import Draft, note_written
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
    """Append what a call came to; the seq of the last event. Synced when it returns. LeaseLost; the store's error, once given up."""
    journal, at = work.held.journal, work.held.clock.wall()
    assert journal is not None
    unsure: list[Append] = []
    try:
        return await journal.append(work.runtime, events, at, unsure=unsure)
    except StoreError as refused:
        what = next(_TOLD[event.kind] for event in events if event.kind in _TOLD)
        # The same events at each try, time included: one that arrives late is known again.
        return await _hold(
            work, what, refused, lambda: journal.append(work.runtime, events, at, unsure=unsure)
        )


async def post(work: "Work", letter: str, content: dict[str, Any], event: Draft) -> None:
    """The lease is gone but the call came to an end: leave that in the inbox, for the holder of the run now."""
    held = work.held

    async def leave() -> None:
        at = held.clock.wall()
        await work.runtime.store(inbox.post, held.store, held.run, letter, content, event.blobs, at=at)

    try:
        await leave()
    except StoreError as refused:
        await _hold(work, _TOLD[event.kind], refused, leave)


async def _hold(work: "Work", what: str, error: StoreError, write: Callable[[], Awaitable[T]]) -> T:
    """Write again while that may help. The last error, told with what was given up."""
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
                "run %s: step %r has ended (%s), and that cannot be written: %s. It is held back, and tried again for %.0f s at most",
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
    """Interrupted or cancelled while waiting: there is no waiting any more, but the store may be back just now."""
    with suppress(StoreError):
        written = await write()
        if isinstance(written, int):
            note_written(cut, written)


def _left_s(work: "Work", began: float) -> float:
    """How long the outcome may still be held back; 0 where that is over."""
    held, journal = work.held, work.held.journal
    assert journal is not None
    if held.is_closed or journal.cancelled is not None:
        return 0.0
    now = held.clock.monotonic()
    by_deadline = inf if work.deadline is None else work.deadline - held.clock.wall()
    return min(began + limits.OUTCOME_HOLD_S - now, journal.drain_until - now, by_deadline)


def _given_up(work: "Work", what: str, held_s: float, error: StoreError) -> StoreError:
    """The store's error, with what it cost."""
    then = "it is in doubt" if work.call_options.effect == "once" else "it will be made again"
    held = f" after {held_s:.0f} s" if held_s >= 1 else ""
    told = f"step {work.asked.name!r} of run {work.held.run} has ended ({what}), and that is not recorded{held}: {then}"
    return type(error)(**{**error.fields, "problem": f"{error.fields['problem']}; {told}"})
