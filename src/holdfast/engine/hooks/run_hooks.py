"""The hooks of a run that this process holds: looks at the right moments, from a thread of its own.

A step is never delayed: the thread is woken when a person is asked, and when the attempt has ended. Leaving
the block waits a few seconds for the first try of each delivery, after the lease is released, so that a
person who answers at once finds the run free. What is not delivered by then is tried again while this process
lives, and else by the next process that looks.

Invariant: nothing here fails a run.
"""

from threading import Condition, Thread
from typing import Final

from holdfast.clock import SystemClock
from holdfast.core.hooks.notices import first_seq
from holdfast.engine.hooks import delivery_records as records
from holdfast.engine.hooks.declared import hooks_for
from holdfast.engine.hooks.deliver import deliver_run
from holdfast.engine.hooks.delivery_records import Noticed
from holdfast.engine.log import log
from holdfast.engine.run.features import Feature
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import Runtime
from holdfast.errors import HandleClosed, HoldfastError
from holdfast.limits import HOOK_PAUSE_S, HOOK_WAIT_S
from holdfast.model.hooks import Hook
from holdfast.model.store_rows import RunRow

_POLL_S: Final = 0.01
_IDLE_S: Final = 30.0
"""How long the thread stays without work."""


class RunHooks(Feature):
    """The hooks of one held run."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        entry = held.entry
        self._hooks = hooks_for(entry.hooks if entry is not None else ())
        self._deliverer = held.session.part(Deliverer)

    async def entered(self, runtime: Runtime) -> None:
        """Note from where the program's hooks know this run, and look at what earlier attempts left."""
        if self._hooks:
            try:
                await runtime.store(_begin, self.held, self._hooks)
            except HoldfastError as error:
                log().warning("the hooks of run %s cannot be noted: %s", self.held.run, error)
        if self.held.resumed:
            self._look()

    def person_asked(self) -> None:
        """A person is asked: the program may wait for the answer in this process."""
        self._look()

    async def closed(self, runtime: Runtime) -> None:
        """The attempt has ended: wait for the first try of each delivery, but not long."""
        held = self.held
        ticket = self._look()
        clock = SystemClock()  # a real thread is waited for, whatever the run's clock says
        until = clock.monotonic() + HOOK_WAIT_S
        while not self._deliverer.has_done(ticket):
            if clock.monotonic() >= until:
                log().warning("run %s is left while its notices are still being delivered", held.run)
                return
            await runtime.sleep(clock, _POLL_S)

    def _look(self) -> int:
        return self._deliverer.look(self.held.session, self.held.run, self._hooks)


def _begin(held: HeldRun, hooks: tuple[Hook, ...]) -> None:
    """A hook of the program that does not know this run knows it from the start of this attempt.

    The crash of the attempt before is recorded behind ``entered_seq``, so that a process that is killed
    before this record loses nothing.
    """
    row: RunRow = held.row
    for hook in hooks:
        if records.noticed(held.store, row, hook.id) is None:
            start = max(held.entered_seq, first_seq(row))
            records.move_on(held.store, row, hook.id, Noticed(start))


class Deliverer:
    """Delivers the notices of this process's runs on one store, in one thread that ends when it is idle."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._wanted: dict[str, tuple[StoreSession, tuple[Hook, ...]]] = {}
        """The runs to look at, oldest first."""
        self._retries: dict[str, tuple[StoreSession, tuple[Hook, ...]]] = {}
        """The runs with notices whose next try is later."""
        self._tickets = 0
        self._done = 0
        self._is_running = False

    def look(self, session: StoreSession, run: str, hooks: tuple[Hook, ...]) -> int:
        """Look at a run soon. Returns a ticket for ``has_done``."""
        with self._changed:
            self._tickets += 1
            self._wanted[run] = session, hooks
            if not self._is_running:
                self._is_running = True
                Thread(target=self._work, name="holdfast-hooks", daemon=True).start()
            self._changed.notify_all()
            return self._tickets

    def has_done(self, ticket: int) -> bool:
        """Whether everything that was asked for up to this ticket was tried once."""
        with self._changed:
            return self._done >= ticket

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._wanted:
                    self._changed.wait(HOOK_PAUSE_S if self._retries else _IDLE_S)
                if not self._wanted and not self._retries:
                    self._is_running = False
                    return
                batch = self._wanted or self._retries
                ticket = self._tickets
                self._wanted, self._retries = {}, ({} if batch is self._retries else self._retries)
            for run, (session, hooks) in batch.items():
                if self._deliver(session, run, hooks):
                    with self._changed:
                        self._retries[run] = session, hooks
            with self._changed:
                self._done = max(self._done, ticket)

    def _deliver(self, session: StoreSession, run: str, hooks: tuple[Hook, ...]) -> bool:
        """One pass over a run. Returns whether something is left for later."""
        try:
            counts = deliver_run(session, run, hooks)
        except HandleClosed:
            return False
        except HoldfastError as error:
            log().warning("the notices of run %s cannot be delivered now: %s", run, error)
            return True
        except Exception as error:  # noqa: BLE001 - a defect here must not end the thread
            log().warning("the notices of run %s cannot be delivered", run, exc_info=error)
            return False
        return bool(counts.failed or counts.waiting)
