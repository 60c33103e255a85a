"""Saves the state without a call of the program.

A save must say which call outcomes its state already contains: a restored program must not repeat those
calls, and the journal must answer all others. The program does not say so; autosave infers it. It looks at
the state when the program's own task begins a step and no other call is in flight (a *boundary*). If the
state has changed since the last boundary, it contains the outcomes in between. If not, an outcome may still
be in a local variable: then the state belongs to the first boundary at which it looked like this, and later
outcomes count as not received yet.

In the middle of a step the program waits, so a state taken there belongs to the beginning of that step. Only
a ``get_state`` that is declared thread-safe is called then, by a thread.

Crash windows: a save is flushed, and the next synced record makes it durable. If it is lost, the save before
it counts.
"""

from collections.abc import Callable
from itertools import count
from threading import Event as Flag
from threading import Thread
from typing import Any, Final

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
from holdfast.model.named_tuple import NamedTuple


class StatePosition(NamedTuple):
    """Which calls a state contains: those up to ``upto_seq``, the last of which is ``after``."""

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
        self._position: StatePosition | None = None
        self._saved_at = 0.0
        self._stopped = Flag()

    def begin(self, held: HeldRun) -> None:
        """Save from now on, instead of an earlier autosaver."""
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
        """The ``upto_seq`` that the next save would have, if it is known."""
        return None if self._position is None else self._position.upto_seq

    async def before(self, runtime: Runtime, work: Work) -> None:
        """Before a live step: save the state, if that is due and its position is known."""
        if not _is_boundary(work):
            return
        held = work.held
        states = STATES.of(held)
        await states.learn_first(runtime)
        taken = states.store.take(self._get_state())
        self._infer_position(work, taken.planted.identity)
        self._steps += 1
        if self._position is not None and self._is_due(held, work.call_options.effect):
            await self._save(runtime, held, taken, self._position)
            await checkpointed(held, runtime)

    def _infer_position(self, work: Work, identity: bytes) -> None:
        """Infer the position of a state that has this identity at the beginning of a step."""
        held = work.held
        if identity == self._identity:
            return
        if self._identity is not None or not held.has_replayed:
            assert held.journal is not None
            self._position = StatePosition(held.journal.head, work.asked.point.after, work.asked.point.path)
        # Else: the program has received recorded outcomes, and which of them are in the state is not known.
        self._identity = identity

    def _is_due(self, held: HeldRun, effect: str) -> bool:
        if held.journal is None or held.journal.head == self._head:
            return False
        if effect == "once" or (self._every_steps is not None and self._steps >= self._every_steps):
            return True
        return self._every_s is not None and held.clock.monotonic() - self._saved_at >= self._every_s

    async def _save(self, runtime: Runtime, held: HeldRun, taken: Taken, position: StatePosition) -> None:
        journal = held.require_journal(AUTOSAVE)
        key = f"{AUTOSAVE}.{held.number}.{next(self._numbers)}"
        with STATES.of(held).store.building:
            event, planted = draft_of(held, taken, AUTOSAVE, key, position._asdict())
            self._head = await journal.append(runtime, [event], held.clock.wall(), synced=False)
            settle(held, planted)
        self._steps, self._saved_at = 0, held.clock.monotonic()

    # -- in the middle of a step -----------------------------------------------------------------------------

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
            except (Exception, StopSignal) as error:  # noqa: BLE001 - the next boundary raises it in the program
                log().warning("the state of run %s could not be saved: %s", held.run, error)

    def save_inside(self, held: HeldRun) -> bool:
        """Save the state while the program waits for a step; False if it does not wait."""
        work, position = _waited_for(held), self._position
        if work is None or position is None:
            return False
        taken = STATES.of(held).store.take(self._get_state())
        if _waited_for(held) is not work:
            return False  # the step ended meanwhile: the state may be part old, part new
        drive(self._save(BLOCKING, held, taken, position))
        drive(checkpointed(held, BLOCKING, is_between_steps=False))
        return True


class Autosave(Feature):
    """The feature of a held run whose program uses autosave."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self.saver: Autosaver | None = None

    async def before(self, runtime: Runtime, work: Work) -> None:
        """Save before a live step, if that is due."""
        if self.saver is not None:
            await self.saver.before(runtime, work)

    def released(self) -> None:
        """Stop saving: the lease is about to be released."""
        if self.saver is not None:
            self.saver.stop()


AUTOSAVING: Final = Slot("autosave", Autosave)


def _is_boundary(work: Work) -> bool:
    return work.asked.here.depth == 0 and _is_programs_own(work) and len(work.held.in_flight()) == 1


def _is_programs_own(work: Work) -> bool:
    here = work.asked.here
    return here.task_calls.task == work.held.root.task


def _waited_for(held: HeldRun) -> Work | None:
    """The one call that the program's own task waits for, or None."""
    calls = [work for work in held.in_flight() if work.asked.here.depth == 0]
    if len(calls) == 1 and calls[0].intent_seq and _is_programs_own(calls[0]):
        return calls[0]
    return None
