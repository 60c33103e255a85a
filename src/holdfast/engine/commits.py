"""Group commit: concurrent writers of one process share transactions; a lone writer pays no thread hop.

There is one queue per store. Whoever holds the gate takes everything that is queued and commits it as one
batch; those who waited for the gate find their ticket answered. Inside an event loop with several runs the
queue is committed once per tick, so that all tasks of that tick share one sync. No thread of its own.
"""

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.model.rows import Append, AppendOutcome
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    import asyncio

BATCH_ITEMS_MAX: Final = 512
SLOW_COMMIT_S: Final = 0.003
"""A commit slower than this leaves the event loop for a thread; a faster one costs less than the hop."""


class Ticket:
    """One item on its way: answered with an outcome or with the error that its batch met."""

    __slots__ = ("error", "future", "item", "outcome")

    def __init__(self, item: Append) -> None:
        self.item = item
        self.outcome: AppendOutcome | None = None
        self.error: BaseException | None = None
        self.future: asyncio.Future[None] | None = None

    @property
    def is_answered(self) -> bool:
        return self.outcome is not None or self.error is not None

    def read(self) -> AppendOutcome:
        """The outcome, or raise the error: one of its own, since several threads may raise the batch's."""
        if self.outcome is not None:
            return self.outcome
        assert self.error is not None
        if isinstance(self.error, HoldfastError):
            raise type(self.error)(**self.error.fields) from self.error
        raise self.error


class Committer:
    """The way into one store's journals."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._queue: deque[Ticket] = deque()
        self._gate = Lock()
        self._commit_s = 0.0
        self._ticks: dict[asyncio.AbstractEventLoop, bool] = {}
        self.async_runs = 0
        """Runs that are open in event loops: with one, a commit is made directly; with more, by tick."""

    def submit(self, item: Append) -> Ticket:
        """Queue an item. The caller must submit one run's items in order of their seq, and then finish the ticket."""
        ticket = Ticket(item)
        self._queue.append(ticket)
        return ticket

    def finish(self, ticket: Ticket) -> AppendOutcome:
        """Block until the ticket is answered."""
        with self._gate:
            while not ticket.is_answered:
                self._commit(ticket)
        return ticket.read()

    async def finish_async(self, ticket: Ticket) -> AppendOutcome:
        """Wait until the ticket is answered, letting the other tasks of this tick add theirs."""
        if self.async_runs <= 1 and self._commit_s < SLOW_COMMIT_S:
            return self.finish(ticket)
        import asyncio

        loop = asyncio.get_running_loop()
        ticket.future = loop.create_future()
        if not ticket.is_answered:
            if not self._ticks.get(loop):
                self._ticks[loop] = True
                loop.call_soon(self._tick, loop)
            # Shielded: what happened must reach the disk, and its fate must be known, whoever is cancelled.
            await asyncio.shield(ticket.future)
        return ticket.read()

    def _tick(self, loop: "asyncio.AbstractEventLoop") -> None:
        if self._commit_s < SLOW_COMMIT_S:
            self._drain()
            self._ticks.pop(loop, None)
        else:
            work = loop.run_in_executor(None, self._drain)
            work.add_done_callback(lambda _: self._after_slow_tick(loop))

    def _after_slow_tick(self, loop: "asyncio.AbstractEventLoop") -> None:
        self._ticks.pop(loop, None)
        if self._queue:
            self._ticks[loop] = True
            loop.call_soon(self._tick, loop)

    def _drain(self) -> None:
        with self._gate:
            while self._queue:
                self._commit()

    def _commit(self, mine: Ticket | None = None) -> None:
        """Commit what is queued as one batch. Only under the gate."""
        queue = self._queue
        batch = [queue.popleft()]
        while queue and len(batch) < BATCH_ITEMS_MAX:
            batch.append(queue.popleft())
        began = time.perf_counter()
        try:
            outcomes = self._store.append([ticket.item for ticket in batch])
        except Exception as error:  # noqa: BLE001 - every waiting writer must learn of it
            for ticket in batch:
                ticket.error = error
        except BaseException as interrupt:
            # Ctrl-C or SIGTERM in the middle: it is this thread's, but the fate of the batch is everybody's.
            for ticket in batch:
                unknown = StoreUnavailable(store=self._store.url, problem="interrupted in the middle of a commit")
                ticket.error = interrupt if ticket is mine else unknown
            raise
        else:
            for ticket, outcome in zip(batch, outcomes, strict=True):
                ticket.outcome = outcome
        self._commit_s += (time.perf_counter() - began - self._commit_s) * 0.2
        for ticket in batch:
            if ticket.future is not None:
                _wake(ticket.future)


def _wake(future: "asyncio.Future[None]") -> None:
    loop = future.get_loop()
    done: Callable[[], None] = lambda: None if future.done() else future.set_result(None)  # noqa: E731 - one line, used twice
    import asyncio

    if asyncio._get_running_loop() is loop:  # noqa: SLF001 - see context.current_task
        done()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(done)
