"""Waiting: for a time, for an answer, for a provider. One mechanism for all of them.

That the run waits is a record, from ``wait.started`` to ``wait.ended``: a process that comes back to it goes on with the
same wait. In the process, a ``Vigil`` lets time pass: a letter wakes it at once, one that cancels the run ends it, and it
looks up every few seconds, so that a wall clock that jumps is noticed.

A sleep of so many seconds lasts these by the monotonic clock, whatever the wall clock does. What is left of it after a
restart only the wall clock can tell: never less than nothing, and never more than the whole.
"""

from collections.abc import Callable
from datetime import datetime
from math import isfinite
from typing import Any, Final, Literal

from orjson import dumps

from holdfast.core.people.wait_fold import WAITS
from holdfast.core.text.times import moment
from holdfast.engine.journal import inbox
from holdfast.engine.journal.journal import Draft, draft
from holdfast.engine.run.held_run import Tenure
from holdfast.engine.steps import marks
from holdfast.engine.steps.call_identity import Asked
from holdfast.engine.steps.call_options import wall_time
from holdfast.engine.sync_async import Hands
from holdfast.errors import Misuse, Sleeping
from holdfast.limits import WAIT_LOOK_S
from holdfast.model.calls import Outcome
from holdfast.model.events import Kind
from holdfast.model.store_rows import Cursor, Record
from holdfast.model.waits import SLEEP, Waiting

How = Literal["over", "cancelled", "expired"]
Letter = tuple[Record, dict[str, Any]]

_UNTIL: Final = b"until"


# -- for a time ------------------------------------------------------------------------------------------------------


async def sleep(tenure: Tenure, hands: Hands, seconds: float, wait_s: float | None) -> None:
    """Wait so long, across restarts. Sleeping (parked) where more than ``wait_s`` is left."""
    if not isfinite(seconds) or seconds < 0:
        raise Misuse(problem=f"run.sleep({seconds!r}) cannot be", advice="give seconds, 0 or more")
    clock = tenure.clock

    def until(wall: float) -> float:
        return wall + seconds

    def left_of(waiting: Waiting, *, is_new: bool) -> Callable[[], float]:
        left_s = seconds if is_new else min(max(waiting.until or 0.0, clock.wall()) - clock.wall(), seconds)
        end = clock.monotonic() + left_s
        return lambda: end - clock.monotonic()

    # Its length is part of what it is: of sleeps side by side, each finds its own record again.
    await _sleep(tenure, hands, dumps(seconds), until, left_of, wait_s)


async def sleep_until(tenure: Tenure, hands: Hands, when: datetime | float, wait_s: float | None) -> None:
    """Wait for a time of the wall clock, across restarts. Sleeping (parked) where it is further away than ``wait_s``."""
    at = wall_time(when, "run.sleep_until")
    clock = tenure.clock

    def left_of(waiting: Waiting, *, is_new: bool) -> Callable[[], float]:
        del is_new
        return lambda: (waiting.until or 0.0) - clock.wall()

    # The time is no part of what it is: a program that computes it anew each time keeps the first.
    await _sleep(tenure, hands, _UNTIL, lambda _: at, left_of, wait_s)


async def _sleep(
    tenure: Tenure,
    hands: Hands,
    identity: bytes,
    until: Callable[[float], float],
    left_of: Callable[..., Callable[[], float]],
    wait_s: float | None,
) -> None:
    asked = ask(tenure, SLEEP, identity)
    try:
        if marks.given(tenure, asked) is not None:
            return
        is_new = asked.key not in WAITS.of(tenure.view).open
        waiting = await begin(tenure, hands, asked, until(tenure.clock.wall()))
        await _sit(tenure, hands, left_of(waiting, is_new=is_new), waiting, wait_s)
        await end(tenure, hands, waiting, "over")
        asked.here.trail.last = asked.key
    except BaseException:
        tenure.unclaim(asked.site, asked.n)
        raise
    finally:
        tenure.land(asked.site)


async def _sit(
    tenure: Tenure, hands: Hands, left: Callable[[], float], waiting: Waiting, wait_s: float | None
) -> None:
    vigil = Vigil(tenure, hands, SLEEP)
    park_at = None if wait_s is None else tenure.clock.monotonic() + wait_s
    while (left_s := left()) > 0:
        await vigil.look()
        if park_at is not None and left_s > park_at - tenure.clock.monotonic():
            assert waiting.until is not None, "a sleep knows its end"
            raise Sleeping(run=tenure.run, reason=f"until {moment(waiting.until)}", until=waiting.until)
        await vigil.pause(left_s)


# -- the record ------------------------------------------------------------------------------------------------------


async def begin(
    tenure: Tenure,
    hands: Hands,
    asked: Asked,
    until: float | None,
    *,
    name: str = SLEEP,
    reason: Literal["time", "provider"] = "time",
    what: str = "",
    why: str = "",
) -> Waiting:
    """Record that this call waits, unless it is recorded already. Durable when it returns."""
    known = WAITS.of(tenure.view).open.get(asked.key)
    if known is not None:
        return known
    since = tenure.clock.wall()
    fields = marks.placed(asked, {"for": reason, "since": since, "until": until})
    event = draft(Kind.WAIT_STARTED, name, asked.key, fields, parts={"what": what, "why": why})
    seq = await _append(tenure, hands, event)
    waiting = Waiting(asked.key, name, seq, reason, what, why, since, until)
    WAITS.of(tenure.view).open[asked.key] = waiting
    return waiting


async def end(tenure: Tenure, hands: Hands, waiting: Waiting, how: How) -> None:
    """Record that the wait is over. Durable when it returns."""
    waited_s = round(max(0.0, tenure.clock.wall() - waiting.since), 3)
    event = draft(Kind.WAIT_ENDED, waiting.name, waiting.key, {"how": how, "waited_s": waited_s})
    seq = await _append(tenure, hands, event)
    WAITS.of(tenure.view).open.pop(waiting.key, None)
    if waiting.name == SLEEP:
        tenure.remember(waiting.key, SLEEP, Outcome(seq, True, tenure.points, event.body), is_given=True)


async def _append(tenure: Tenure, hands: Hands, event: Draft) -> int:
    journal = tenure.require_journal(event.name)
    return await journal.append(hands, [event], tenure.clock.wall())


def ask(tenure: Tenure, name: str, identity: bytes) -> Asked:
    """Who a call that waits is. Misuse inside of a once effect: whether that happened, nobody would know meanwhile."""
    asked = marks.ask(tenure, name, identity)
    if asked.here.leaf:
        tenure.unclaim(asked.site, asked.n)
        tenure.land(asked.site)
        raise Misuse(
            problem=f"run.{name} was called inside {asked.here.leaf!r}, whose effect is once",
            advice="a once effect is a leaf: wait before or after it",
        )
    return asked


# -- in the process --------------------------------------------------------------------------------------------------


class Vigil:
    """One wait in this process: looks into the inbox, and lets time pass until there is something new in it."""

    def __init__(self, tenure: Tenure, hands: Hands, what: str) -> None:
        """``what`` names who waits."""
        self._tenure = tenure
        self._hands = hands
        self._what = what
        self._seen = Cursor(0, 0)

    async def look(self) -> list[Letter]:
        """The letters that lie there. Cancelled, if one of them says so; LeaseLost."""
        tenure, hands = self._tenure, self._hands
        journal = tenure.require_journal(self._what)
        found, count = await hands.store(inbox.looked_through, tenure.store, tenure.run)
        self._seen = await hands.store(tenure.workshop.bell.standing, tenure.run, count)
        if self._seen.fence != journal.fence:
            row = await hands.store(tenure.store.find_run, tenure.run)
            journal.lost = row.lease if row is not None else journal.lost
        for record, letter in found:
            if record.key == inbox.CANCEL:
                journal.cancelled = letter
        tenure.require_journal(self._what)
        return found

    async def pause(self, seconds: float) -> None:
        """Let time pass after a look: at most so long, and no longer than until the next look is due."""
        tenure = self._tenure
        timeout_s = max(0.0, min(seconds, WAIT_LOOK_S))
        await self._hands.listen(tenure.workshop.bell, tenure.run, self._seen, timeout_s)
