"""Appends to one run's journal under one lease, and reads journals: seqs, checksums, chains, lineage.

Invariants: ``head`` is the seq of the last event that this process submitted, and a run's items enter the
commit queue in the order of their seqs. The store accepts an item whole or not at all: only under our fence
and only at its ``after_seq``. So a crash leaves a prefix of what was submitted.

An append that fails while the process lives has an unknown outcome: it is read back before the caller hears.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any

from holdfast import limits
from holdfast.core.journal.event_check import event_problem
from holdfast.core.journal.lineage import Page, segments
from holdfast.core.journal.run_row_facts import unchecked_upto
from holdfast.engine.journal.blob_content import with_views
from holdfast.engine.journal.deferred_intents import watch
from holdfast.engine.journal.drafts import Draft, note_written, placed_after
from holdfast.engine.journal.group_commit import Committer, Ticket
from holdfast.engine.log import log
from holdfast.engine.sync_async import BLOCKING, Runtime, drive, suppress_cancellation
from holdfast.errors import Cancelled, Corrupt, LeaseLost, StoreError, StoreUnavailable
from holdfast.limits import DEFERRED_BYTES_MAX, EVENT_PAGE_MAX
from holdfast.model.events import Event, Links, covers_from, is_intact, link_behind
from holdfast.model.store_rows import Append, Appended, Lease, Refusal, RunRow, owner_name
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from holdfast.engine.run.observers import AttemptObserver

_TRIES = 5
_new = tuple.__new__
_EPOCHS = count(1)
"""Of the process: a later journal of the same run has later ones."""


class Journal:
    """Appends for one run, in order, under one fence."""

    def __init__(
        self,
        store: StorePort,
        committer: Committer,
        run: str,
        fence: int,
        head: int,
        *,
        before: int | None = None,
    ) -> None:
        """``before`` is what the next event is chained to; if None, the first append looks it up."""
        self.store = store
        self.run = run
        self.fence = fence
        self.head = head
        self._before = before
        self.committer = committer
        self._lock = Lock()
        self._is_sure, self._epoch = True, next(_EPOCHS)
        """Whether ``head`` is certain: no write of unknown outcome is on its way. If not, none is hasty."""
        self.deferred: deque[Draft] = deque()
        """Intents that wait for the next append of the run, which takes them along, in order.
        Changed by one operation at a time, so that a call leaves its intent without a lock."""
        self.is_watched = False
        """Whether ``deferred_intents`` looks at them."""
        self._flushed: list[Append] = []
        """Items appended since the last sync: a server that crashes while we live loses them."""
        self.lost: Lease | None = None
        """The lease that replaced ours; also set when we release it, so that a late call cannot append."""
        self.cancelled: dict[str, Any] | None = None
        """The letter that cancels the run, once the heartbeat or a waiter has seen it."""
        self.letters_taken: set[tuple[str, float]] = set()
        """The letters that this process has recorded or is recording: by name and time."""
        self.observer: AttemptObserver | None = None
        """Gets every appended event; None if no observer is installed."""
        self.is_drained = False
        """Whether the worker that runs it shuts down: then no new call begins."""
        self.drain_until = inf
        """The monotonic time until which that worker waits for calls in flight."""

    def defer(self, intent: Draft) -> bool:
        """Let the run's next append write this intent; it is written by itself if that does not come soon.

        False if too much waits already. For intents that a crash may lose: see ``deferred_intents``.
        """
        is_large = len(intent.body) > DEFERRED_BYTES_MAX
        if is_large or intent.blobs or len(self.deferred) >= limits.DEFERRED_MAX:
            return False
        self.deferred.append(intent)
        if not self.is_watched:
            watch(self)
        return True

    async def write_deferred(self, runtime: Runtime) -> None:
        """Write the deferred intents, flushed. LeaseLost; StoreError."""
        if self.deferred:
            await self.append(runtime, (), 0.0, synced=False)

    async def append(
        self,
        runtime: Runtime,
        drafts: Sequence[Draft],
        at: float,
        *,
        synced: bool = True,
        hasty: bool = False,
        status: str | None = None,
        consumed: tuple[str, ...] = (),
        unsure: list[Append] | None = None,
    ) -> int:
        """Append; returns the seq of the last event when it is as durable as asked. LeaseLost; StoreError.

        A hasty writer may learn of a lost lease only from its next append. ``unsure`` are earlier tries to
        append these drafts, of unknown outcome: if one has arrived, it counts. A failed try is added to them.
        """
        for _ in range(_TRIES):
            if self._before is None:
                await runtime.store(self._find_link)
            if unsure and (written := await runtime.store(self._arrived, unsure)) is not None:
                return written
            ticket = self.submit(drafts, at, synced, hasty, status, consumed, unsure)
            if ticket is None:
                continue  # the head moved since: ask again whether an earlier try has arrived
            try:
                if runtime.waits:
                    await self.committer.expect(ticket)
                else:
                    self.committer.finish(ticket)
            except BaseException as cut:  # noqa: BLE001 - raised by it, if it is to be raised
                seq = await self.settled(runtime, ticket, cut, unsure)
            else:
                seq = self.written(ticket)
                if seq is None:
                    seq = await self.settled(runtime, ticket, None, unsure)
            if seq is not None:
                return seq
        raise StoreUnavailable(
            store=self.store.url, problem=f"the journal of {self.run} keeps moving under its holder"
        )

    def write(self, drafts: Sequence[Draft], at: float, unsure: list[Append]) -> int:
        """As ``append``, synced, in a thread that waits: without a coroutine, unless something is unusual."""
        ticket = None if unsure else self.submit(drafts, at)
        if ticket is None:
            return drive(self.append(BLOCKING, drafts, at, unsure=unsure))
        try:
            self.committer.finish(ticket)
        except BaseException as cut:  # noqa: BLE001 - as above
            seq = drive(self.settled(BLOCKING, ticket, cut, unsure))
        else:
            seq = self.written(ticket) or drive(self.settled(BLOCKING, ticket, None, unsure))
        return seq or drive(self.append(BLOCKING, drafts, at, unsure=unsure))

    def written(self, ticket: Ticket) -> int | None:
        """The seq of the last event of an answered item, if it was simply written; None: see ``settled``."""
        item = ticket.item
        if type(ticket.outcome) is not Appended:
            return None
        self._is_sure = True  # the place of an earlier write is taken: it cannot arrive any more
        if self._flushed or self.observer is not None or not item[7]:
            self._note_appended(item)
        return item[3][-1][0] if item[3] else item.upto_seq

    async def settled(
        self, runtime: Runtime, ticket: Ticket, cut: BaseException | None, unsure: list[Append] | None
    ) -> int | None:
        """What became of an item: the seq of its last event; None if it was not written.

        ``cut`` ended the wait for it.
        """
        try:
            if cut is not None and not runtime.waits:
                raise cut
            if cut is not None:
                await self.committer.finish_cut(ticket, cut)
            outcome = ticket.read()
        except StoreError as error:
            if unsure is not None:
                unsure.append(ticket.item)
            if not await runtime.store(self._find, ticket.item, error):
                self._defer_again(ticket)
                raise
        except BaseException as interrupt:
            # The first cancellation carries whether the write arrived; a second one must not replace it.
            with suppress_cancellation():
                await runtime.store(self._note_fate, interrupt, ticket)
            raise
        else:
            if isinstance(outcome, Appended):
                return self.written(ticket)
            if not await runtime.store(self._is_there_after, ticket, outcome):
                return None
        self._note_appended(ticket.item)
        return ticket.item.upto_seq

    def _arrived(self, unsure: list[Append]) -> int | None:
        """The seq of the last event of a try that has arrived, or None; removes the tries that never can.

        A try can arrive only at its own ``after_seq``. If the journal has grown past it, the answer is
        certain. If not, the next try has the same ``after_seq``, and the store accepts only one of them.
        """
        if self.lost is not None:
            return None
        head = self._reread()
        for item in unsure:
            if item.after_seq < head and self._is_there(item):
                written = {(event.kind, event.key, event.at) for event in item.events}
                for one in [one for one in tuple(self.deferred) if (one.kind, one.key, one.at) in written]:
                    self.deferred.remove(one)
                self._note_appended(item)
                return item.upto_seq
        unsure[:] = [item for item in unsure if item.after_seq == head]
        return None

    def _is_there(self, item: Append) -> bool:
        if not item.events:  # a status alone: to write it twice does no harm, so equal is enough
            return self._row().status == item.status
        there = self.store.read_events(self.run, after_seq=item.after_seq, limit=len(item.events))
        return there == list(item.events)

    def submit(
        self,
        drafts: Sequence[Draft],
        at: float,
        synced: bool = True,
        hasty: bool = False,
        status: str | None = None,
        consumed: tuple[str, ...] = (),
        unsure: list[Append] | None = None,
    ) -> Ticket | None:
        """Number the drafts and queue them. None if ``append`` must look at the journal first. LeaseLost."""
        if self.lost is not None:
            raise self.lease_lost()
        with self._lock:  # one run's items enter the queue in the order of their seqs
            after, run, fence, before = self.head, self.run, self.fence, self._before
            if before is None or (unsure and after != unsure[-1].after_seq):
                return None  # an earlier try may still arrive
            deferred: tuple[Draft, ...] = ()
            while self.deferred:
                deferred += (self.deferred.popleft(),)
            if deferred:
                drafts = (*deferred, *drafts)
            events, blobs = placed_after(after, before, drafts, run, fence, at)
            if events:
                last = events[-1]
                self.head, self._before = last[0], last[-1]
            is_sure = self._is_sure
            # The refusal of a hasty item may show late, so the head must be certain.
            item = _new(
                Append, (run, fence, after, events, blobs, consumed, status, synced, hasty and is_sure)
            )
            return self.committer.submit(item, deferred=deferred, is_alone=not is_sure, epoch=self._epoch)

    def _defer_again(self, ticket: Ticket) -> None:
        """The item was not written: what it took along waits for the next one."""
        if ticket.deferred:
            with self._lock:
                self.deferred.extendleft(reversed(ticket.deferred))
                ticket.deferred = ()

    def _note_appended(self, item: Append) -> None:
        """Keep a flushed item until a later one is synced: a sync covers everything before it."""
        if self.observer is not None:
            self.observer.recorded(item.events)
        if item.synced and not self._flushed:
            return  # the common case, without the lock
        with self._lock:
            if not item.synced:
                self._flushed.append(item)
            else:
                self._flushed = [one for one in self._flushed if one.after_seq > item.after_seq]

    def _is_there_after(self, ticket: Ticket, outcome: Refusal) -> bool:
        """After a refusal: raise what it means, or return whether the item is in the journal."""
        if outcome.reason in {"fenced", "unknown"}:
            self.lost = outcome.lease
            raise self.lease_lost()
        if outcome.reason == "missing":
            raise Corrupt(
                store=self.store.url, problem=f"run {self.run} refers to absent blobs {outcome.missing}"
            )
        # A conflict: a store that sent the item twice refuses the second one.
        if self._find(ticket.item, None):
            return True
        self._defer_again(ticket)
        return False

    def _note_fate(self, cut: BaseException, ticket: Ticket) -> None:
        """After an interrupt or a cancellation: note on the exception whether the item was written."""
        self.committer.withdraw(ticket)
        try:
            if ticket.outcome is not None or self._find(ticket.item, None):
                note_written(cut, ticket.item.upto_seq)
            else:
                self._defer_again(ticket)
        except (StoreError, LeaseLost) as error:  # unknown; the store checks the place of the next append
            log().warning("it is not known whether event #%d was written: %s", ticket.item.upto_seq, error)

    def _find(self, item: Append, error: StoreError | None) -> bool:
        """Whether a write of unknown outcome is in the journal; the head is read again in any case."""
        try:
            is_there = self._is_there(item)
            self._reread()
        except StoreError as again:
            raise (error or again) from again
        return is_there

    def _find_link(self) -> None:
        """Read what the next event is chained to, before the first append of this process."""
        with self._lock:
            if self._before is not None:
                return
            # The head does not move while the link is unknown. Read outside the lock, it could count an event
            # that another thread has submitted and the store does not have: the journal would look damaged.
            head = self.head
        found = link_at(self.store, self._row(), head)
        with self._lock:
            if self._before is None:  # else another thread was faster, and may have appended since
                self._before = found

    def _reread(self) -> int:
        """Set ``head`` and link to what the store has, after writing flushed items that it has lost."""
        row = self._row()
        # Without this, the next outcome would follow an intent that is gone: a journal that cannot be folded.
        for item in sorted(self._flushed, key=lambda one: one.after_seq):
            if item.after_seq == row.head and row.lease.fence == self.fence:
                log().warning("run %s: the store lost event #%d; writing it again", self.run, row.head + 1)
                self.store.append((item._replace(synced=True),))
                row = self._row()
        before = link_at(self.store, row, row.head)
        with self._lock:
            self.head, self._before = row.head, before
            self._is_sure, self._epoch = False, next(_EPOCHS)
        if row.lease.fence != self.fence:
            self.lost = row.lease
        return row.head

    def _row(self) -> RunRow:
        row = self.store.find_run(self.run)
        if row is None:  # another process took the lease and erased the run
            self.lost = self.lost or Lease()
            raise self.lease_lost()
        return row

    def lease_lost(self) -> LeaseLost:
        """The stop-signal for a process that has lost the lease."""
        lease = self.lost or Lease()
        fences = {"fence_now": lease.fence, "fence": self.fence}
        return LeaseLost(run=self.run, owner=owner_name(lease.owner), head=self.head + 1, **fences)

    def cancel_signal(self) -> Cancelled:
        """The stop-signal for the holder of a cancelled run."""
        letter = self.cancelled or {"by": "a person", "reason": ""}
        why = f": {letter['reason']}" if letter["reason"] else ""
        return Cancelled(run=self.run, by=letter["by"], why=why)


def chain_of(store: StorePort, run: str) -> list[RunRow]:
    """The run's row and those of its origins, nearest first. Corrupt if one is missing."""
    chain: list[RunRow] = []
    name: str | None = run
    while name is not None:
        row = store.find_run(name)
        if row is None:
            raise Corrupt(store=store.url, problem=f"run {run} was forked from {name}, which is not there")
        chain.append(row)
        name = row.origin
    return chain


def link_at(store: StorePort, row: RunRow, seq: int) -> int:
    """What the event after ``seq`` of the run's history is chained to."""
    return link_behind(chain_at(store, row, seq), row.birth)


def chain_at(store: StorePort, row: RunRow, seq: int) -> int:
    """The chain of event ``seq``, which may be an origin's; 0 before the first. Corrupt if it is damaged."""
    if not seq:
        return 0
    holder = row if seq > row.origin_seq else next(r for r in chain_of(store, row.run) if seq > r.origin_seq)
    found = store.read_events(holder.run, after_seq=seq - 1, upto_seq=seq, limit=1)
    if not found or not is_intact(holder.run, found[0]) or not Links().fits(found[0]):
        raise _damaged(store, holder.run, seq)
    return found[0].chain


def read_all(
    store: StorePort,
    run: str,
    *,
    after_seq: int = 0,
    upto_seq: int | None = None,
    before: int | None = None,
    row: RunRow | None = None,
) -> list[Event]:
    """Every event of the run's history in order, each verified. Corrupt names the first that is damaged.

    The history of a fork begins with that of its origin, up to the fork. A compacted event is returned with
    its view, so that folding reads no blobs. ``before`` is the chain of event ``after_seq``, if known, and
    ``row`` the run's row.
    """
    events: list[Event] = []
    for page in read_pages(store, run, after_seq=after_seq, upto_seq=upto_seq, before=before, row=row):
        page.join(events)
    return events


def read_pages(
    store: StorePort,
    run: str,
    *,
    after_seq: int = 0,
    upto_seq: int | None = None,
    before: int | None = None,
    row: RunRow | None = None,
) -> Iterator[Page]:
    """As ``read_all``, in pages: a caller that needs each event once need not keep them."""
    row = row or store.find_run(run)
    links = Links(before if after_seq else 0, None if row is None else row.birth)
    if row is None or not row.origin or after_seq >= row.origin_seq:
        yield from _sound_pages(store, row, run, after_seq, upto_seq, links)
        return
    chain = chain_of(store, run)
    rows = {one.run: one for one in chain}
    read_upto = 0
    for name, first, last in segments(chain):
        upto = last if upto_seq is None else min(last, upto_seq)
        if upto > max(first, after_seq):
            links = Links(links.before, rows[name].birth)
            for page in _sound_pages(store, rows[name], name, max(first, after_seq), upto, links):
                read_upto = page.events[-1].seq
                yield page
            if name != run and upto == last and read_upto != last:
                raise Corrupt(
                    store=store.url,
                    problem=f"run {run} was forked from event #{last} of {name}, which is missing",
                )


def read_own(
    store: StorePort, run: str, after_seq: int, upto_seq: int | None, links: Links | None = None
) -> list[Event]:
    """The run's own events. Each seq is covered by an event, or by a later one that replaces a range.

    Each is verified and chained to the one before it; the first only if ``links`` knows its link. Corrupt.
    """
    events: list[Event] = []
    for page in _own_pages(store, run, after_seq, upto_seq, links or Links()):
        page.join(events)
    return events


def _own_pages(
    store: StorePort, run: str, after_seq: int, upto_seq: int | None, links: Links
) -> Iterator[Page]:
    while True:
        events = store.read_events(run, after_seq=after_seq, upto_seq=upto_seq, limit=EVENT_PAGE_MAX)
        sound = links.count_sound(run, after_seq, events)
        if sound < len(events):
            raise _unsound(store, run, events[sound - 1].seq if sound else after_seq, events[sound])
        if events:
            yield Page(after_seq, events)
            after_seq = events[-1].seq
        if len(events) < EVENT_PAGE_MAX:
            return


def _unsound(store: StorePort, run: str, after_seq: int, event: Event) -> Corrupt:
    """What is wrong with an event that is not sound behind this one."""
    first = event.seq if event.seq == after_seq + 1 else covers_from(event)
    if first > after_seq + 1 or not is_intact(run, event):
        return _damaged(store, run, after_seq + 1)
    return Corrupt(
        store=store.url,
        problem=f"event #{event.seq} of run {run} does not follow the one before it: events of it were "
        "lost, or come from another copy of its journal",
    )


def _damaged(store: StorePort, run: str, seq: int) -> Corrupt:
    return Corrupt(store=store.url, problem=f"event #{seq} of run {run} is damaged or missing")


def _sound_pages(
    store: StorePort, row: RunRow | None, run: str, after_seq: int, upto_seq: int | None, links: Links
) -> Iterator[Page]:
    """The run's own pages; the shape of events that an import brought in unchecked is checked. Corrupt."""
    unchecked = 0 if row is None else unchecked_upto(row)
    for page in _own_pages(store, run, after_seq, upto_seq, links):
        for event in page.events if page.after_seq < unchecked else ():
            problem = event_problem(event) if event.seq <= unchecked else ""
            if problem:
                raise Corrupt(store=store.url, problem=f"event #{event.seq} of run {run}: {problem}")
        with_views(store, run, page.events)
        yield page
