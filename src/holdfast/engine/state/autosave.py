"""Autosave: the state, saved by itself as the program goes on.

A save says what state there was and which calls it already knows the outcomes of: those must not be made again, and all
others must be answered from the journal. Nobody tells, so it is found out. The state is looked at when the program's
own task begins a step and no other call is in flight (a *boundary*). Where it has changed since the boundary before, the
program has taken in what came back in between. Where it has not, the outcome may still be in a variable: then the state
stands where it first looked like this, and what was recorded since counts as not given yet.

In the middle of a step the program waits, so a state taken there stands where that step began; only a ``get_state``
declared thread-safe is asked then, by a thread.

Crash windows: a save is flushed like a beat and made durable by the next synced record; lost, the one before it stands.
"""

from collections.abc import Callable
from itertools import count
from threading import Event as Flag
from threading import Thread
from typing import Any, Final, NamedTuple

from holdfast.engine.log import log
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.state.checkpoints import checkpointed, draft_of, settle
from holdfast.engine.state.held_states import STATES
from holdfast.engine.state.state_store import Taken
from holdfast.engine.steps.step import Work
from holdfast.engine.sync_async import BLOCKING, Runtime, drive
from holdfast.errors import Misuse, StopSignal
from holdfast.model.events import AUTOSAVE


class StatePosition(NamedTuple):
    """Where a state stands in the journal: the calls up to ``upto_seq`` are in it, and the last of them is ``after``."""

    upto_seq: int
    after: str
    path: int


class Autosaver:
    """Saves one held run's state when it is due."""

    def __init__(
        self,
        get_state: Callable[[], Any],
        every_s: float | None,
        every_steps: int | None,
        *,
        thread_safe: bool,
    ) -> None:
        for name, given in (("every_s", every_s), ("every_steps", every_steps)):
            if given is not None and given <= 0:
                raise Misuse(
                    problem=f"autosave({name}={given!r}) would save all the time",
                    advice="give a number above 0, or None for never",
                )
        self._get_state = get_state
        self._every_s = every_s
        self._every_steps = every_steps
        self._thread_safe = thread_safe
        self._steps = 0
        self._numbers = count(1)
        self._head = -1
        self._identity: bytes | None = None
        self._standing: StatePosition | None = None
        self._saved_at = 0.0
        self._stopped = Flag()

    def begin(self, held: HeldRun) -> None:
        """Save from now on, in place of the one before."""
        place = AUTOSAVING.of(held)
        place.released()
        self._saved_at = held.clock.monotonic()
        place.saver = self
        if self._thread_safe and self._every_s is not None:
            Thread(target=self._watch, args=(held,), name="holdfast-autosave", daemon=True).start()

    def stop(self) -> None:
        """Save no more."""
        self._stopped.set()

    @property
    def stands_at(self) -> int | None:
        """The event that the state which would be saved next stands at, as far as that is known."""
        return None if self._standing is None else self._standing.upto_seq

    async def before(self, runtime: Runtime, work: Work) -> None:
        """A live step is about to begin: save the state first, if that is due and the state agrees with the journal."""
        if not _is_boundary(work):
            return
        held = work.held
        states = STATES.of(held)
        await states.learn_first(runtime)
        taken = states.store.take(self._get_state())
        self._stand(work, taken.planted.identity)
        self._steps += 1
        if self._standing is not None and self._is_due(held, work.call_options.effect):
            await self._save(runtime, held, taken, self._standing)
            await checkpointed(held, runtime)

    def _stand(self, work: Work, identity: bytes) -> None:
        """Find out where the state stands, now that it looks like this at the beginning of a step."""
        held = work.held
        if identity == self._identity:
            return
        if self._identity is not None or not held.has_replayed:
            assert held.journal is not None
            self._standing = StatePosition(held.journal.head, work.asked.point.after, work.asked.point.path)
        # else: recorded outcomes were given since the last look, and it is not known which of them are in the state
        self._identity = identity

    def _is_due(self, held: HeldRun, effect: str) -> bool:
        if held.journal is None or held.journal.head == self._head:
            return False
        if effect == "once" or (self._every_steps is not None and self._steps >= self._every_steps):
            return True
        return self._every_s is not None and held.clock.monotonic() - self._saved_at >= self._every_s

    async def _save(self, runtime: Runtime, held: HeldRun, taken: Taken, standing: StatePosition) -> None:
        journal = held.require_journal(AUTOSAVE)
        key = f"{AUTOSAVE}.{held.number}.{next(self._numbers)}"
        with STATES.of(held).store.building():
            event, planted = draft_of(held, taken, AUTOSAVE, key, standing._asdict())
            self._head = await journal.append(runtime, [event], held.clock.wall(), synced=False)
            settle(held, planted)
        self._steps, self._saved_at = 0, held.clock.monotonic()

    # -- in the middle of a step ------------------------------------------------------------------------------

    def _watch(self, held: HeldRun) -> None:
        assert self._every_s is not None
        wait_s = self._every_s
        while not self._stopped.wait(wait_s) and not held.is_closed:
            since_s = held.clock.monotonic() - self._saved_at
            wait_s = max(self._every_s - since_s, self._every_s / 10)
            if since_s < self._every_s:
                continue
            try:
                self.save_inside(held)
            except (Exception, StopSignal) as error:  # noqa: BLE001 - the step goes on; the next boundary tells the program
                log().warning("the state of run %s could not be saved: %s", held.run, error)

    def save_inside(self, held: HeldRun) -> bool:
        """Save the state while the program waits for a step; False where it does not, or just stopped waiting."""
        work, standing = _waited_for(held), self._standing
        if work is None or standing is None:
            return False
        taken = STATES.of(held).store.take(self._get_state())
        if _waited_for(held) is not work:
            return False  # part of it may be from before the step's end, part from after
        drive(self._save(BLOCKING, held, taken, standing))
        drive(checkpointed(held, BLOCKING, is_between_steps=False))
        return True


class Autosave(Feature):
    """The autosaver of a held run, where its program has one."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self.saver: Autosaver | None = None

    async def before(self, runtime: Runtime, work: Work) -> None:
        """A live step is about to begin."""
        if self.saver is not None:
            await self.saver.before(runtime, work)

    def released(self) -> None:
        """The lease goes: save no more."""
        if self.saver is not None:
            self.saver.stop()


AUTOSAVING: Final = Slot("autosave", Autosave)


def _is_boundary(work: Work) -> bool:
    return work.asked.here.depth == 0 and _is_programs_own(work) and len(work.held.in_flight()) == 1


def _is_programs_own(work: Work) -> bool:
    here = work.asked.here
    return here.task_calls.task == work.held.root.task


def _waited_for(held: HeldRun) -> Work | None:
    """The one call that the program waits for."""
    calls = [work for work in held.in_flight() if work.asked.here.depth == 0]
    if len(calls) == 1 and calls[0].intent_seq and _is_programs_own(calls[0]):
        return calls[0]
    return None
