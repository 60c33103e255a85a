"""Group commit: concurrent writers of one process share transactions; a single writer needs no other thread.

Each store has one queue and one lock, the gate. A writer queues a ticket and takes the gate; the writer that
has the gate commits everything queued as one batch, so that the writers behind it find their tickets
answered. Tasks of an event loop never take the gate. One of the store's threads takes it for them once per
tick: all tasks of that tick share one sync, and the loop is not blocked. Group commit has no thread of its
own.

Invariants: one run's items are committed in the order of their seqs, and every ticket is answered, with an
outcome or an error. A crash inside a commit leaves the transaction whole or absent; an error leaves its
outcome unknown, and ``Journal`` reads the journal again.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from sys import modules
from threading import Lock
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError, StoreError, StoreUnavailable
from holdfast.model.store_rows import Append, Appended, AppendOutcome, Refusal
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    import asyncio

    from holdfast.engine.journal.drafts import Draft

BATCH_ITEMS_MAX: Final = 512


class Ticket:
    """One queued item; later its outcome, or the error of its batch."""

    __slots__ = ("deferred", "epoch", "error", "future", "is_alone", "item", "outcome")

    def __init__(self, item: Append, deferred: "Sequence[Draft]", is_alone: bool, epoch: int) -> None:
        self.item = item
        self.outcome: AppendOutcome | None = None
        self.error: BaseException | None = None
        self.is_alone = is_alone
        self.epoch = epoch
        self.deferred = deferred
        """What the item took along, see ``Journal.defer``."""
        self.future: asyncio.Future[None] | None = None

    def read(self) -> AppendOutcome:
        """The outcome, or raise the error. Each thread of a batch raises its own copy of it."""
        if self.outcome is not None:
            return self.outcome
        assert self.error is not None
        if isinstance(self.error, HoldfastError):
            raise type(self.error)(**self.error.fields) from self.error
        raise self.error


class Committer:
    """Commits the appends of this process to one store."""

    def __init__(self, store: StorePort) -> None:
        self.queue: deque[Ticket] = deque()
        self.gate = Lock()
        self._store = store
        self._ticking: set[asyncio.AbstractEventLoop] = set()
        self._void_upto: dict[str, int] = {}
        """By run, the last epoch in which an item was not written."""
        self._is_mixed = False
        """Whether an item in the queue may be alone or hasty; else a batch is the queue, as it is."""
        self._is_lone = False
        """Whether the last batch had one item: then mostly one run writes, and waits for no other."""

    def submit(
        self, item: Append, *, deferred: "Sequence[Draft]" = (), is_alone: bool = False, epoch: int = 0
    ) -> Ticket:
        """Queue an item. The caller submits a run's items in order of seq, and finishes each ticket.

        An item ``is_alone`` shares no batch with others of its run: an earlier one may be refused. Items of
        one ``epoch`` were placed one behind the other, without a look at the store in between.
        """
        ticket = Ticket(item, deferred, is_alone, epoch)
        if is_alone or item[8]:  # hasty
            self._is_mixed = True
        self.queue.append(ticket)
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Remove a ticket that is not committed yet: after a reported failure, nothing may write it later."""
        with self.gate:
            if ticket in self.queue:
                self.queue.remove(ticket)

    def finish(self, ticket: Ticket) -> AppendOutcome:
        """Block until the ticket is answered."""
        with self.gate:
            queue = self.queue
            if len(queue) == 1 and queue[0] is ticket:  # the common case: a single writer, nothing to share
                queue.popleft()
                if self._void_upto and self._is_void(ticket):
                    ticket.outcome = Refusal("conflict")
                    return ticket.outcome
                try:
                    outcome = ticket.outcome = self._store.append((ticket.item,))[0]
                except BaseException as error:
                    ticket.error = error  # a cancelled task reads its ticket after this thread
                    self._note_unwritten([ticket])
                    raise
                if not isinstance(outcome, Appended):
                    self._note_unwritten([ticket])
                return outcome
            while ticket.outcome is None and ticket.error is None:
                self._commit(ticket)
        return ticket.read()

    def expect(self, ticket: Ticket) -> "asyncio.Future[None]":
        """A future that is done when the ticket is answered; other tasks of this tick join the same batch.

        An exception that ends the wait for it goes to ``finish_cut``.
        """
        loop: asyncio.AbstractEventLoop = modules["asyncio"].get_running_loop()
        # In this order: a thread that commits the ticket answers it first and then looks for the future.
        # Either we see the answer here, or that thread sees the future and wakes us.
        future = ticket.future = loop.create_future()
        if ticket.outcome is not None or ticket.error is not None:
            _mark_done([future])
        elif loop not in self._ticking:
            self._ticking.add(loop)
            if self._is_lone:  # the thread wakes up while the loop still has to do
                self._tick(loop)
            else:
                loop.call_soon(self._tick, loop)
        return future

    async def finish_cut(self, ticket: Ticket, cut: BaseException) -> None:
        """Wait for the answer of a ticket whose task was cancelled; raises the cancellation after it.

        Cancelled or not, an outcome must reach the disk, and the writer must learn whether it did.
        """
        import asyncio

        if not isinstance(cut, asyncio.CancelledError):
            raise cut
        from holdfast.engine.store_threads import is_held_back, submit, to_its_end

        with suppress(StoreError, asyncio.CancelledError):  # the cancellation is raised below
            await to_its_end(submit(self.finish, ticket))
        if not is_held_back(cut):
            raise cut

    def _tick(self, loop: "asyncio.AbstractEventLoop") -> None:
        from holdfast.engine.store_threads import begin

        begin(self._drain, loop)

    def _drain(self, loop: "asyncio.AbstractEventLoop") -> None:
        try:
            with self.gate:
                if self.queue:
                    self._commit(None)
        finally:
            # In this order: a task that queues a ticket now finds no tick under way, or is seen by this
            # check. The next batch is taken a tick later and not at once: the tasks that were just answered
            # are about to queue their next items, and would come one by one.
            self._ticking.discard(loop)
            if self.queue:
                with suppress(RuntimeError):  # the loop may close at any moment: a check before is no use
                    loop.call_soon_threadsafe(self._tick_again, loop)

    def _tick_again(self, loop: "asyncio.AbstractEventLoop") -> None:
        if self.queue and loop not in self._ticking:
            self._ticking.add(loop)
            loop.call_soon(self._tick, loop)  # behind the tasks that were just answered

    def _commit(self, mine: Ticket | None) -> None:
        """Commit one batch of the queue. Only under the gate. ``mine`` is the calling thread's ticket."""
        batch = self._next_batch()
        try:
            self._answer(batch)
        except BaseException as interrupt:
            # Ctrl-C or SIGTERM hits this thread, but the batch may hold items of other threads. Their outcome
            # is unknown, so they get an error that makes their journals read again.
            for ticket in batch:
                if ticket.outcome is None and ticket.error is None:
                    unknown = StoreUnavailable(
                        store=self._store.url, problem="interrupted in the middle of a commit"
                    )
                    ticket.error = interrupt if ticket is mine else unknown
            raise
        finally:
            if not all(type(ticket.outcome) is Appended for ticket in batch):
                self._note_unwritten(batch)
            _wake([ticket.future for ticket in batch if ticket.future is not None])

    def _note_unwritten(self, tickets: list[Ticket]) -> None:
        """Void what was placed with items that are not written: it is chained to them, now or later.

        The store compares numbers only: as soon as another event has taken the number of the missing one, it
        would accept an event that does not follow it.
        """
        for ticket in tickets:
            if ticket.item.events and not isinstance(ticket.outcome, Appended):
                run = ticket.item.run
                self._void_upto[run] = max(ticket.epoch, self._void_upto.get(run, 0))

    def _is_void(self, ticket: Ticket) -> bool:
        """Whether an item was placed behind one that was not written; then it is refused here."""
        if not self._void_upto or not ticket.item.events:
            return False
        return ticket.epoch <= self._void_upto.get(ticket.item.run, 0)

    def _refuses(self, ticket: Ticket) -> bool:
        if not self._is_void(ticket):
            return False
        ticket.outcome = Refusal("conflict")
        return True

    def _next_batch(self) -> list[Ticket]:
        """The next batch. Hasty items of a mixed queue come first, so that they do not wait for a sync."""
        queue = self.queue
        count = min(len(queue), BATCH_ITEMS_MAX)
        self._is_lone = count == 1
        # In this order: an item that is alone or hasty sets the flag before it is in the queue. What comes in
        # after the count is in no batch of this call.
        if not self._is_mixed:
            return [queue.popleft() for _ in range(count)]
        self._is_mixed = False
        batch = self._next_of_mixed()
        if queue:
            self._is_mixed = True
        return batch

    def _next_of_mixed(self) -> list[Ticket]:
        queue = self.queue
        batch: list[Ticket] = []
        hasty_count, alone, runs = 0, set[str](), set[str]()
        while queue and len(batch) < BATCH_ITEMS_MAX:
            ticket = queue[0]
            item = ticket.item
            if alone and item.run in alone:
                break
            if ticket.is_alone:
                if item.run in runs:
                    break
                alone.add(item.run)
            runs.add(item.run)
            hasty_count += item.hasty
            batch.append(queue.popleft())
        if not 0 < hasty_count < len(batch):
            return batch
        hasty: list[Ticket] = []
        others: list[Ticket] = []
        kept_runs: set[str] = set()  # a hasty item must not overtake an earlier item of its run
        for ticket in batch:
            if ticket.item.hasty and ticket.item.run not in kept_runs:
                hasty.append(ticket)
            else:
                kept_runs.add(ticket.item.run)
                others.append(ticket)
        if not hasty:
            return batch
        queue.extendleft(reversed(others))
        return hasty

    def _answer(self, batch: list[Ticket]) -> None:
        if self._void_upto:
            batch = [ticket for ticket in batch if not self._refuses(ticket)]
        if not batch:
            return
        try:
            outcomes = self._store.append([ticket.item for ticket in batch])
        except StoreError as error:
            for ticket in batch:
                ticket.error = error
        except Exception:  # noqa: BLE001 - such as a value that the driver cannot bind: only its own item may fail
            for ticket in batch:
                self._commit_alone(ticket)
        else:
            for ticket, outcome in zip(batch, outcomes, strict=True):
                ticket.outcome = outcome

    def _commit_alone(self, ticket: Ticket) -> None:
        try:
            ticket.outcome = self._store.append((ticket.item,))[0]
        except Exception as error:  # noqa: BLE001 - raised by the writer of this ticket
            ticket.error = error


def _wake(futures: "list[asyncio.Future[None]]") -> None:
    if not futures:
        return
    import asyncio

    here = asyncio._get_running_loop()  # noqa: SLF001 - see call_site.current_task
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, theirs in by_loop.items():
        if loop is here:
            _mark_done(theirs)
        else:
            # One call for all: the tasks continue in one tick, so that their next items are one batch again.
            with suppress(RuntimeError):  # the loop is closed, and its tasks are gone
                loop.call_soon_threadsafe(_mark_done, theirs)


def _mark_done(futures: "list[asyncio.Future[None]]") -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
