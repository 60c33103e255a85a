"""Group commit: concurrent writers of one process share transactions; a lone writer pays no thread hop.

There is one queue and one gate per store. A writer leaves a ticket and goes through the gate; the one that does takes
everything that is queued as one batch, so that those that waited find their ticket answered. The tasks of an event loop
never go through the gate: one of the store's threads does it for them, once per tick, so that all tasks of that tick
share one sync, and the loop goes on meanwhile. There is no thread of its own.
"""

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
        self._store = store
        self._ticking: set[asyncio.AbstractEventLoop] = set()

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
                outcome = ticket.outcome = self._store.append((ticket.item,))[0]
                return outcome
            while ticket.outcome is None and ticket.error is None:
                self._commit(ticket)
        return ticket.read()

    async def finish_async(self, ticket: Ticket) -> AppendOutcome:
        """Wait until the ticket is answered, letting the other tasks of this tick add theirs."""
        import asyncio

        from holdfast.engine.store_threads import is_held_back, submit, to_its_end

        loop = asyncio.get_running_loop()
        ticket.future = loop.create_future()
        if ticket.outcome is None and ticket.error is None:
            if loop not in self._ticking:
                self._ticking.add(loop)
                loop.call_soon(self._tick, loop)
            try:
                await ticket.future
            except asyncio.CancelledError as cut:
                # What happened must reach the disk, and the writer must know its fate, whoever is cancelled.
                with suppress(StoreError, asyncio.CancelledError):  # unknown: it is cancelled all the same
                    await to_its_end(submit(self.finish, ticket))
                if not is_held_back(cut):
                    raise
        return ticket.read()

    def _tick(self, loop: "asyncio.AbstractEventLoop") -> None:
        from holdfast.engine.store_threads import begin

        begin(self._drain, loop)

    def _drain(self, loop: "asyncio.AbstractEventLoop") -> None:
        try:
            with self.gate:
                while self.queue:
                    self._commit(None)
        finally:
            # In this order: a task that leaves its ticket in between either finds no tick under way, or is seen here.
            self._ticking.discard(loop)
            if self.queue and not loop.is_closed():
                loop.call_soon_threadsafe(self._tick_again, loop)

    def _tick_again(self, loop: "asyncio.AbstractEventLoop") -> None:
        if self.queue and loop not in self._ticking:
            self._ticking.add(loop)
            self._tick(loop)

    def _commit(self, mine: Ticket | None) -> None:
        """Commit what is queued as one batch. Only under the gate."""
        batch = self._next_batch()
        try:
            self._answer(batch, mine)
        finally:
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
