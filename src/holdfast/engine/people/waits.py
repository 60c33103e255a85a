"""Waits for a time, an answer, a message or a provider, with one mechanism.

``wait.started`` and ``wait.ended`` record a wait; a later attempt continues an open one. In the process,
``InboxWait`` waits: a letter wakes it at once, a cancellation ends it, and it looks up every few seconds to
notice a wall clock that jumps.

A sleep of so many seconds is measured by the monotonic clock. What is left after a restart is known by the
wall clock only; it is bounded to between zero and the whole length.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Literal

from orjson import dumps

from holdfast.core.people.wait_fold import WAITS
from holdfast.core.text.times import moment
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps import marks
from holdfast.engine.steps.call_identity import RequestedCall
from holdfast.engine.steps.call_options import wall_time
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Misuse, Sleeping
from holdfast.limits import CLOCK_BACK_S, SLEEP_S_MAX, WAIT_LOOK_S
from holdfast.model.calls import Outcome
from holdfast.model.events import Kind
from holdfast.model.store_rows import Cursor, Lease, Record
from holdfast.model.waits import SLEEP, Waiting

How = Literal["over", "cancelled", "expired"]
Letter = tuple[Record, dict[str, Any]]

_UNTIL: Final = b"until"


# -- for a time ----------------------------------------------------------------------------------------------


async def sleep(held: HeldRun, runtime: Runtime, seconds: float, wait_s: float | None) -> None:
    """Wait so long, across restarts. Sleeping parks the run where more than ``wait_s`` is left."""
    if not 0 <= seconds <= SLEEP_S_MAX:  # also refuses NaN
        advice = f"give seconds, from 0 to {SLEEP_S_MAX:,.0f}"
        raise Misuse(problem=f"run.sleep({str(seconds)[:40]}) cannot be", advice=advice)
    clock = held.clock

    def until(wall: float) -> float:
        return wall + seconds

    def left_of(waiting: Waiting, *, is_new: bool) -> Callable[[], float]:
        left_s = seconds if is_new else min(max(waiting.until or 0.0, clock.wall()) - clock.wall(), seconds)
        end = clock.monotonic() + left_s
        return lambda: end - clock.monotonic()

    # The length is part of the identity, so that concurrent sleeps find their own records in a replay.
    await _sleep(held, runtime, dumps(seconds), until, left_of, wait_s)


async def sleep_until(held: HeldRun, runtime: Runtime, when: datetime | float, wait_s: float | None) -> None:
    """Wait for a time of the wall clock, across restarts.

    Sleeping parks the run where that is too far away.
    """
    at = wall_time(when, "run.sleep_until")
    clock = held.clock

    def left_of(waiting: Waiting, *, is_new: bool) -> Callable[[], float]:
        del is_new
        return lambda: (waiting.until or 0.0) - clock.wall()

    # The time is not part of the identity: a program that computes it in each attempt keeps the first one.
    await _sleep(held, runtime, _UNTIL, lambda _: at, left_of, wait_s)


async def _sleep(
    held: HeldRun,
    runtime: Runtime,
    identity: bytes,
    until: Callable[[float], float],
    left_of: Callable[..., Callable[[], float]],
    wait_s: float | None,
) -> None:
    asked = ask(held, SLEEP, identity)
    try:
        if marks.given(held, asked) is not None:
            return
        is_new = asked.key not in WAITS.of(held.view).open
        waiting = await begin(held, runtime, asked, until(held.clock.wall()))
        left = left_of(waiting, is_new=is_new)
        if wait_s is not None:
            waiting = await _told_anew(held, runtime, asked, waiting, left())
        await _sit(held, runtime, left, waiting, wait_s)
        await end(held, runtime, waiting, "over")
        asked.here.task_calls.last = asked.key
    except BaseException:
        held.unclaim(asked.site, asked.n)
        raise
    finally:
        held.land(asked.site)


async def _told_anew(
    held: HeldRun, runtime: Runtime, asked: RequestedCall, waiting: Waiting, left_s: float
) -> Waiting:
    """The wait with an end that this clock can come to, if it was recorded by one that was ahead.

    A parked run is due at the recorded end: by that clock's time, each attempt would park it again.
    """
    end = held.clock.wall() + left_s
    if waiting.until is None or waiting.until - end <= CLOCK_BACK_S:
        return waiting
    WAITS.of(held.view).open.pop(asked.key, None)
    return await begin(held, runtime, asked, end)


async def _sit(
    held: HeldRun, runtime: Runtime, left: Callable[[], float], waiting: Waiting, wait_s: float | None
) -> None:
    wait = InboxWait(held, runtime, SLEEP)
    park_at = None if wait_s is None else held.clock.monotonic() + wait_s
    while (left_s := left()) > 0:
        await wait.look()
        if park_at is not None and left_s > park_at - held.clock.monotonic():
            assert waiting.until is not None, "a sleep knows its end"
            raise Sleeping(run=held.run, reason=f"until {moment(waiting.until)}", until=waiting.until)
        await wait.pause(left_s)


# -- the record ----------------------------------------------------------------------------------------------


async def begin(
    held: HeldRun,
    runtime: Runtime,
    asked: RequestedCall,
    until: float | None,
    *,
    name: str = SLEEP,
    reason: Literal["time", "provider"] = "time",
    what: str = "",
    why: str = "",
) -> Waiting:
    """Record that this call waits, unless it is recorded already. Durable on return."""
    known = WAITS.of(held.view).open.get(asked.key)
    if known is not None:
        return known
    since = held.clock.wall()
    fields = marks.placed(asked, {"for": reason, "since": since, "until": until})
    event = draft(Kind.WAIT_STARTED, name, asked.key, fields, parts={"what": what, "why": why})
    seq = await _append(held, runtime, event)
    waiting = Waiting(asked.key, name, seq, reason, what, why, since, until)
    WAITS.of(held.view).open[asked.key] = waiting
    return waiting


async def end(held: HeldRun, runtime: Runtime, waiting: Waiting, how: How) -> None:
    """Record that the wait is over. Durable on return."""
    waited_s = round(max(0.0, held.clock.wall() - waiting.since), 3)
    event = draft(Kind.WAIT_ENDED, waiting.name, waiting.key, {"how": how, "waited_s": waited_s})
    seq = await _append(held, runtime, event)
    WAITS.of(held.view).open.pop(waiting.key, None)
    if waiting.name == SLEEP:
        held.remember(waiting.key, SLEEP, Outcome(seq, True, held.points, event.body), is_given=True)


async def _append(held: HeldRun, runtime: Runtime, event: Draft) -> int:
    journal = held.require_journal(event.name)
    return await journal.append(runtime, [event], held.clock.wall())


def ask(held: HeldRun, name: str, identity: bytes) -> RequestedCall:
    """The identity of a call that waits.

    Misuse inside a once effect, which would be in doubt all the while.
    """
    asked = marks.ask(held, name, identity)
    if asked.here.leaf:
        held.unclaim(asked.site, asked.n)
        held.land(asked.site)
        raise Misuse(
            problem=f"run.{name} was called inside {asked.here.leaf!r}, whose effect is once",
            advice="a once effect is a leaf: wait before or after it",
        )
    return asked


# -- in the process ------------------------------------------------------------------------------------------


class InboxWait:
    """One wait in this process: reads the inbox, and pauses until it changes."""

    def __init__(self, held: HeldRun, runtime: Runtime, what: str) -> None:
        """``what`` names the call that waits."""
        self._held = held
        self._runtime = runtime
        self._what = what
        self._seen = Cursor(0, 0)

    async def look(self) -> list[Letter]:
        """The letters in the inbox. Cancelled if one of them cancels the run; LeaseLost."""
        held, runtime = self._held, self._runtime
        journal = held.require_journal(self._what)
        found, count = await runtime.store(inbox.looked_through, held.store, held.run)
        self._seen = await runtime.store(held.session.wakeup.cursor_of, held.run, count)
        if self._seen.fence != journal.fence:
            row = await runtime.store(held.store.find_run, held.run)
            journal.lost = row.lease if row is not None else Lease()  # no row: it was erased
        for record, letter in found:
            if record.key == inbox.CANCEL:
                journal.cancelled = letter
        held.require_journal(self._what)
        return found

    async def pause(self, seconds: float) -> None:
        """Wait for a new letter: at most so long, and at most until the next look is due."""
        held = self._held
        timeout_s = max(0.0, min(seconds, WAIT_LOOK_S))
        await self._runtime.listen(held.session.wakeup, held.run, self._seen, timeout_s)
