"""Group commit: concurrent writers of one process share transactions; a lone writer pays no thread hop.

There is one queue and one gate per store. A writer leaves a ticket and goes through the gate; whoever does takes
everything that is queued as one batch, so that those who waited find their ticket answered. Inside an
event loop with several runs the queue is committed once per tick, so that all tasks of that tick share one sync.
There is no thread of its own.
"""

import time
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError, StoreError, StoreUnavailable
from holdfast.model.store_rows import Append, AppendOutcome
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    import asyncio

BATCH_ITEMS_MAX: Final = 512
SLOW_SYNC_S: Final = 0.003
"""Where syncing takes longer than this, commits leave the event loop for a thread; otherwise the hop costs more."""
ITEM_S: Final = 0.00002
"""What an item of a batch costs beside the sync."""


class Ticket:
    """One item on its way: answered with an outcome or with the error that its batch met."""

    __slots__ = ("error", "future", "item", "outcome")

    def __init__(self, item: Append) -> None:
        self.item = item
        self.outcome: AppendOutcome | None = None
        self.error: BaseException | None = None
        self.future: asyncio.Future[None] | None = None

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
        self.queue: deque[Ticket] = deque()
        self.gate = Lock()
        self.async_runs = 0
        """Runs that are open in event loops: with one, a commit is made directly; with more, by tick."""
        self._store = store
        self._sync_s = 0.0
        self._ticking: set[asyncio.AbstractEventLoop] = set()

    @property
    def may_block_loop(self) -> bool:
        """Whether a commit in the event loop's own thread is the cheapest way: one run, and a fast disk."""
        return self.async_runs <= 1 and self._sync_s < SLOW_SYNC_S

    def submit(self, item: Append) -> Ticket:
        """Queue an item. One run's items must be submitted in the order of their seqs, and each ticket finished."""
        ticket = Ticket(item)
        self.queue.append(ticket)
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Take back what is not committed yet: who was told that it failed must not find it written later."""
        with self.gate:
            if ticket in self.queue:
                self.queue.remove(ticket)

    def finish(self, ticket: Ticket) -> AppendOutcome:
        """Block until the ticket is answered."""
        with self.gate:
            queue = self.queue
            if len(queue) == 1 and queue[0] is ticket:  # alone: nothing to share, and no ceremony
                queue.popleft()
                began = time.perf_counter()
                try:
                    outcome = ticket.outcome = self._store.append((ticket.item,))[0]
                finally:  # a store that took its time to refuse must not hold an event loop up again
                    self._measure(began, 1)
                return outcome
            while ticket.outcome is None and ticket.error is None:
                self._commit(ticket)
        return ticket.read()

    async def finish_async(self, ticket: Ticket) -> AppendOutcome:
        """Wait until the ticket is answered, letting the other tasks of this tick add theirs."""
        import asyncio

        loop = asyncio.get_running_loop()
        ticket.future = loop.create_future()
        if ticket.outcome is None and ticket.error is None:
            if loop not in self._ticking:
                self._ticking.add(loop)
                loop.call_soon(self._tick, loop)
            try:
                await ticket.future
            except asyncio.CancelledError:
                # What happened must reach the disk, and the writer must know its fate, whoever is cancelled.
                with suppress(StoreError):  # then it is of unknown outcome; cancelled it is all the same
                    self.finish(ticket)
                raise
        return ticket.read()

    def _tick(self, loop: "asyncio.AbstractEventLoop") -> None:
        if self._sync_s < SLOW_SYNC_S:
            self._ticking.discard(loop)
            self._drain()
        else:
            loop.run_in_executor(None, self._drain).add_done_callback(lambda _: self._after_slow_tick(loop))

    def _after_slow_tick(self, loop: "asyncio.AbstractEventLoop") -> None:
        if self.queue:
            loop.call_soon(self._tick, loop)
        else:
            self._ticking.discard(loop)

    def _drain(self) -> None:
        with self.gate:
            while self.queue:
                self._commit(None)

    def _commit(self, mine: Ticket | None) -> None:
        """Commit what is queued as one batch. Only under the gate."""
        batch = self._next_batch()
        began = time.perf_counter()
        try:
            self._answer(batch, mine)
        finally:
            self._measure(began, len(batch))
            _wake([ticket.future for ticket in batch if ticket.future is not None])

    def _next_batch(self) -> list[Ticket]:
        """What is queued; of a mixture, first the hasty ones, so that they do not wait for the others' sync."""
        queue = self.queue
        batch = [queue.popleft()]
        while queue and len(batch) < BATCH_ITEMS_MAX:
            batch.append(queue.popleft())
        hasty: list[Ticket] = []
        others: list[Ticket] = []
        kept_runs: set[str] = set()  # one run's items stay in order
        for ticket in batch:
            if ticket.item.hasty and ticket.item.run not in kept_runs:
                hasty.append(ticket)
            else:
                kept_runs.add(ticket.item.run)
                others.append(ticket)
        if not hasty or not others:
            return batch
        queue.extendleft(reversed(others))
        return hasty

    def _answer(self, batch: list[Ticket], mine: Ticket | None) -> None:
        try:
            outcomes = self._store.append([ticket.item for ticket in batch])
        except StoreError as error:
            for ticket in batch:
                ticket.error = error
        except Exception:  # noqa: BLE001 - something that cannot even be bound must not take the others down with it
            for ticket in batch:
                self._commit_alone(ticket)
        except BaseException as interrupt:
            # Ctrl-C or SIGTERM in the middle: it is this thread's, but the fate of the batch is everybody's.
            for ticket in batch:
                unknown = StoreUnavailable(
                    store=self._store.url, problem="interrupted in the middle of a commit"
                )
                ticket.error = interrupt if ticket is mine else unknown
            raise
        else:
            for ticket, outcome in zip(batch, outcomes, strict=True):
                ticket.outcome = outcome

    def _commit_alone(self, ticket: Ticket) -> None:
        try:
            ticket.outcome = self._store.append((ticket.item,))[0]
        except Exception as error:  # noqa: BLE001 - this writer's to learn of
            ticket.error = error

    def _measure(self, began: float, items: int) -> None:
        taken = time.perf_counter() - began - items * ITEM_S
        self._sync_s += (taken - self._sync_s) * 0.2


def _wake(futures: "list[asyncio.Future[None]]") -> None:
    if not futures:
        return
    import asyncio

    here = asyncio._get_running_loop()  # noqa: SLF001 - see context.current_task
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, theirs in by_loop.items():
        if loop is here:
            _mark_done(theirs)
        elif not loop.is_closed():
            # In one call, so that they go on in one tick: then their next items are one batch again.
            loop.call_soon_threadsafe(_mark_done, theirs)


def _mark_done(futures: "list[asyncio.Future[None]]") -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
