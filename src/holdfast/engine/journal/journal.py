"""One run's journal under one lease: sequence, checksums, values, and what to do when a write's fate is unknown.

Invariant: ``head`` is the seq of the last event that this process submitted; items enter the queue in the order
of their seqs. A failed append is of unknown outcome: the journal is read again before anything else is said.
"""

from collections.abc import Iterator, Sequence
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.codec.blobs import address_of, pack
from holdfast.core.journal.event_check import event_problem
from holdfast.core.journal.lineage import segments
from holdfast.core.journal.run_row_facts import unchecked_upto
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.group_commit import Committer, Ticket
from holdfast.engine.log import log
from holdfast.engine.sync_async import Runtime, suppress_cancellation
from holdfast.errors import Cancelled, Corrupt, LeaseLost, StoreError, StoreUnavailable
from holdfast.limits import EVENT_PAGE_MAX, RUN_PAGE_MAX, VALUE_INLINE_BYTES_MAX
from holdfast.model.event_fields import blob_fields, filled, write
from holdfast.model.events import (
    Event,
    Kind,
    Links,
    checksum,
    covers_from,
    is_intact,
    link,
    link_behind,
)
from holdfast.model.store_rows import (
    Append,
    Appended,
    AppendOutcome,
    Blob,
    Lease,
    Refusal,
    RunRow,
    owner_name,
)
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from holdfast.engine.run.observers import AttemptObserver

_TRIES = 5


class Draft(NamedTuple):
    """An event before it has a place in the journal."""

    kind: str
    name: str
    key: str
    body: bytes
    blobs: tuple[Blob, ...] = ()


def draft(
    kind: str,
    name: str,
    key: str,
    fields: dict[str, Any],
    value: bytes | None = None,
    value_name: str = "value",
    *,
    parts: dict[str, Any] | None = None,
) -> Draft:
    """A draft whose value stands in the body while it is small, and in a blob when it is not.

    ``fields`` are Holdfast's own; what holds content of anybody else's is a part, see ``model.event_fields``.
    """
    if value is None or len(value) <= VALUE_INLINE_BYTES_MAX:
        return Draft(kind, name, key, write(fields, parts, value=value, value_name=value_name))
    address = address_of(value)
    fields[f"{value_name}_blob"] = address
    fields[f"{value_name}_bytes"] = len(value)
    return Draft(kind, name, key, write(fields, parts), (Blob(address, pack(value)),))


def placed_after(
    seq: int, before: int, drafts: Sequence[Draft], run: str, fence: int, at: float
) -> tuple[tuple[Event, ...], tuple[Blob, ...]]:
    """The drafts as events that follow this one, chained to ``before``, under a fence; and the blobs that come with them."""
    events = []
    blobs: tuple[Blob, ...] = ()
    for kind, name, key, body, attached in drafts:
        seq += 1
        crc = checksum(run, seq, at, kind, name, key, fence, body)
        before = link(before, crc)
        events.append(Event(seq, at, kind, name, key, fence, body, crc, before))
        if attached:
            blobs += attached
    return tuple(events), blobs


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
        """``before`` is what the next event is chained to, where the caller knows it; else it is looked up."""
        self.store = store
        self.run = run
        self.fence = fence
        self.head = head
        self._before = before
        self._committer = committer
        self._lock = Lock()
        self._is_sure = True
        """Whether ``head`` is what the store says. After a write of unknown outcome it may move once more, when that one
        arrives late; then the next append is waited for, whatever it is."""
        self._flushed: list[Append] = []
        """What was appended without a sync since the last one with it: a server that crashes while we live takes it back."""
        self.lost: Lease | None = None
        """The lease that stands instead of ours, once somebody took it."""
        self.cancelled: dict[str, Any] | None = None
        """The letter with which somebody cancelled the run, once it was noticed."""
        self.letters_taken: set[tuple[str, float]] = set()
        """The letters whose consequence this process has recorded, or is about to: by name and time."""
        self.observer: AttemptObserver | None = None
        """Whoever is told what is appended; None where nobody looks on."""
        self.is_drained = False
        """Whether the worker that runs it is shutting down: then nothing new begins."""
        self.drain_until = inf
        """Until when, by the monotonic clock, that worker waits for what has begun."""

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
        """Append; the seq of the last event, once it is as durable as asked. LeaseLost, or the store's error.

        A hasty writer may learn only by its next append that the lease is lost. ``unsure`` are earlier tries to append the
        same drafts, each of unknown outcome: where one of them has arrived after all, it counts. This try is added to them.
        """
        for _ in range(_TRIES):
            written = await self._written_before(runtime, unsure)
            if written is not None:
                return written
            ticket = self._submit(drafts, at, synced, hasty, status, consumed, unsure)
            if ticket is None:
                continue
            try:
                outcome = await self._finish(runtime, ticket)
            except StoreError as error:
                if unsure is not None:
                    unsure.append(ticket.item)
                if not await runtime.store(self._find, ticket.item, error):
                    raise
                self._note_appended(ticket.item)
                return ticket.item.events[-1].seq
            except BaseException as cut:
                with (
                    suppress_cancellation()
                ):  # a second one must not hide the first, which tells what was written
                    await runtime.store(self._note_fate, cut, ticket)
                raise
            item = ticket.item
            if isinstance(outcome, Appended):
                self._is_sure = True
            elif not await runtime.store(self._is_there_after, item, outcome):
                continue
            self._note_appended(item)
            return item.events[-1].seq if item.events else item.after_seq
        raise StoreUnavailable(
            store=self.store.url, problem=f"the journal of {self.run} keeps moving under its holder"
        )

    async def _written_before(self, runtime: Runtime, unsure: list[Append] | None) -> int | None:
        """What an earlier try has written after all. From here on it is known what the next event is chained to."""
        if self._before is None:
            await runtime.store(self._find_link)
        return await runtime.store(self._arrived, unsure) if unsure else None

    async def _finish(self, runtime: Runtime, ticket: Ticket) -> AppendOutcome:
        return await self._committer.finish_async(ticket) if runtime.waits else self._committer.finish(ticket)

    def _arrived(self, unsure: list[Append]) -> int | None:
        """The seq of the last event of the try that has arrived; those that never will are taken out.

        A try can only arrive at the place that was its own. Once the journal goes beyond that place, the answer is certain.
        Before that, the next try stands at the same place, and the store takes one of the two.
        """
        if self.lost is not None:
            return None
        head = self._reread()
        for item in unsure:
            if item.after_seq < head and self._is_there(item):
                self._note_appended(item)
                return item.events[-1].seq
        unsure[:] = [item for item in unsure if item.after_seq == head]
        return None

    def _is_there(self, item: Append) -> bool:
        there = self.store.read_events(self.run, after_seq=item.after_seq, limit=len(item.events))
        return there == list(item.events)

    def _submit(
        self,
        drafts: Sequence[Draft],
        at: float,
        synced: bool,
        hasty: bool,
        status: str | None,
        consumed: tuple[str, ...],
        unsure: list[Append] | None,
    ) -> Ticket | None:
        """The drafts in the queue, with their places in the journal. None where an earlier try may still take a place before it."""
        if self.lost is not None:
            raise self.lease_lost()
        with self._lock:  # one run's items enter the queue in the order of their seqs
            after, run, fence, before = self.head, self.run, self.fence, self._before
            assert before is not None, f"an event of {run} is chained to nothing"
            if unsure and after != unsure[-1].after_seq:
                return None
            events, blobs = placed_after(after, before, drafts, run, fence, at)
            if events:
                self.head, self._before = after + len(events), events[-1].chain
            is_hasty = hasty and self._is_sure
            return self._committer.submit(
                Append(run, fence, after, events, blobs, consumed, status, synced, is_hasty)
            )

    def _note_appended(self, item: Append) -> None:
        """Behind what is synced, all that came before is, too."""
        if self.observer is not None:
            self.observer.recorded(item.events)
        if item.synced and not self._flushed:
            return
        with self._lock:
            if not item.synced:
                self._flushed.append(item)
            else:
                self._flushed = [one for one in self._flushed if one.after_seq > item.after_seq]

    def _is_there_after(self, item: Append, outcome: Refusal) -> bool:
        """After a refusal: raise what it means, or tell whether an earlier try had written it after all."""
        if outcome.reason in {"fenced", "unknown"}:
            self.lost = outcome.lease
            raise self.lease_lost()
        if outcome.reason == "missing":
            raise Corrupt(
                store=self.store.url, problem=f"run {self.run} refers to absent blobs {outcome.missing}"
            )
        return self._find(item, None)

    def _note_fate(self, cut: BaseException, ticket: Ticket) -> None:
        """Interrupted or cancelled on the way: find out what became of the write, and let the exception tell."""
        self._committer.withdraw(ticket)
        try:
            if ticket.outcome is not None or self._find(ticket.item, None):
                note_written(cut, ticket.item.events[-1].seq)
        except StoreError as error:  # then nobody knows, and the next append looks again
            log().warning(
                "it is not known whether event #%d was written: %s", ticket.item.events[0].seq, error
            )

    def _find(self, item: Append, error: StoreError | None) -> bool:
        """Whether a write of unknown outcome is in the journal after all; the head is read anew either way."""
        try:
            is_there = self._is_there(item)
            self._reread()
        except StoreError as again:
            raise (error or again) from again
        return is_there

    def _find_link(self) -> None:
        """What the next event is chained to, before the first one of this process."""
        with self._lock:
            if self._before is not None:
                return
            # Until the link is known the head does not move. Read later, the head could already count an event that
            # another thread has submitted and the store does not have yet: a sound journal would look damaged.
            head = self.head
        found = link_at(self.store, self._row(), head)
        with self._lock:
            if self._before is None:  # else another thread was faster, and may have gone on since
                self._before = found

    def _reread(self) -> int:
        """The head as the store has it, from which the next append goes on."""
        row = self._row()
        # An outcome behind an intent that is not there any more would be a journal that nobody can read.
        for item in sorted(self._flushed, key=lambda one: one.after_seq):
            if item.after_seq == row.head and row.lease.fence == self.fence:
                log().warning("run %s: the store has lost event #%d; it is put back", self.run, row.head + 1)
                self.store.append((item._replace(synced=True),))
                row = self._row()
        before = link_at(self.store, row, row.head)
        with self._lock:
            self.head, self._before = row.head, before
            self._is_sure = False
        if row.lease.fence != self.fence:
            self.lost = row.lease
        return row.head

    def _row(self) -> RunRow:
        row = self.store.find_run(self.run)
        assert row is not None, f"run {self.run} vanished"
        return row

    def lease_lost(self) -> LeaseLost:
        """The stop-signal for a holder that is one no more."""
        lease = self.lost or Lease()
        return LeaseLost(
            run=self.run,
            owner=owner_name(lease.owner),
            fence_now=lease.fence,
            fence=self.fence,
            head=self.head + 1,
        )

    def cancel_signal(self) -> Cancelled:
        """The stop-signal for the holder of a run that was cancelled."""
        letter = self.cancelled or {"by": "somebody", "reason": ""}
        why = f": {letter['reason']}" if letter["reason"] else ""
        return Cancelled(run=self.run, by=letter["by"], why=why)


def note_written(cut: BaseException, seq: int) -> None:
    """Let the exception that cut an append off tell that it was written all the same."""
    cut.holdfast_written = seq  # type: ignore[attr-defined]


def written_despite(cut: BaseException) -> int | None:
    """The seq of what an append had written when this exception cut it off; None where it had not."""
    return getattr(cut, "holdfast_written", None)


def chain_of(store: StorePort, run: str) -> list[RunRow]:
    """The run's row and those of its origins, nearest first."""
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
    """What an event is chained to that follows this one of the run's history."""
    return link_behind(chain_at(store, row, seq), row.birth)


def chain_at(store: StorePort, row: RunRow, seq: int) -> int:
    """The chain of one event, wherever in the lineage it lies; 0 before the first."""
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
) -> list[Event]:
    """Every event of the run's history in order, each verified; Corrupt names the first that is not what was written.

    A fork's history begins with its origin's, up to the point of the fork. A compacted event has its view in it, wherever
    that lies, so that whoever folds reads no blobs. ``before`` is the chain of event ``after_seq``, where it is known.
    """
    row = store.find_run(run)
    links = Links(before if after_seq else 0, None if row is None else row.birth)
    if row is None or not row.origin or after_seq >= row.origin_seq:
        return with_views(store, run, _sound(store, row, read_own(store, run, after_seq, upto_seq, links)))
    events: list[Event] = []
    chain = chain_of(store, run)
    rows = {one.run: one for one in chain}
    for name, first, last in segments(chain):
        upto = last if upto_seq is None else min(last, upto_seq)
        if upto > max(first, after_seq):
            links = Links(links.before, rows[name].birth)
            own = _sound(store, rows[name], read_own(store, name, max(first, after_seq), upto, links))
            events += with_views(store, name, own)
            if name != run and upto == last and (not events or events[-1].seq != last):
                raise Corrupt(
                    store=store.url,
                    problem=f"run {run} was forked from event #{last} of {name}, which is missing",
                )
    return events


def read_own(
    store: StorePort, run: str, after_seq: int, upto_seq: int | None, links: Links | None = None
) -> list[Event]:
    """Own events, every seq covered: by an event, or by a later one that stands for a stretch that was removed.

    Each is chained to the one before it. ``links`` knows what the first is chained to; without it, that is not asked.
    """
    links = links or Links()
    events: list[Event] = []
    while True:
        page = store.read_events(run, after_seq=after_seq, upto_seq=upto_seq, limit=EVENT_PAGE_MAX)
        for event in page:
            seq = event[0]
            first = seq if seq == after_seq + 1 else covers_from(event)
            if first > after_seq + 1 or not is_intact(run, event):
                raise _damaged(store, run, after_seq + 1)
            if not links.fits(event):
                raise Corrupt(
                    store=store.url,
                    problem=f"event #{seq} of run {run} does not follow the one before it: events of it were lost, "
                    "or come from another copy of its journal",
                )
            if first <= after_seq:
                while events and events[-1].seq >= first:
                    events.pop()  # its stretch was replaced between two pages
            events.append(event)
            after_seq = seq
        if len(page) < EVENT_PAGE_MAX:
            return events


def own_links(row: RunRow) -> Links:
    """What a run's own events are compared with, from the first one on; of a fork, that lies in another journal."""
    return Links(None if row.origin_seq else 0, row.birth)


def _damaged(store: StorePort, run: str, seq: int) -> Corrupt:
    return Corrupt(store=store.url, problem=f"event #{seq} of run {run} is damaged or missing")


def _sound(store: StorePort, row: RunRow | None, events: list[Event]) -> list[Event]:
    """The events, if each can be read by what it says. Only what an import has let in unseen is looked at here."""
    upto_seq = 0 if row is None else unchecked_upto(row)
    for event in events if upto_seq else ():
        problem = event_problem(event) if event.seq <= upto_seq else ""
        if problem:
            raise Corrupt(
                store=store.url, problem=f"event #{event.seq} of run {row.run if row else ''}: {problem}"
            )
    return events


def with_views(store: StorePort, run: str, events: list[Event]) -> list[Event]:
    """The same events, in place; a compacted one has its view in it."""
    for number, event in enumerate(events):
        if event.kind == Kind.COMPACTED:
            events[number] = _with_view(store, run, event)
    return events


def _with_view(store: StorePort, run: str, event: Event) -> Event:
    address = blob_fields(event.body).get("view_blob")
    if address is None:
        return event
    body = filled(event.body, "view", read_blob(store, address))
    return event._replace(body=body, crc=checksum(run, *event[:6], body))


def all_runs(store: StorePort) -> Iterator[RunRow]:
    """Every run of the store, newest first."""
    before: RunRow | None = None
    while page := store.list_runs(limit=RUN_PAGE_MAX, before=before):
        yield from page
        before = page[-1]


def forks_of(store: StorePort, run: str) -> list[RunRow]:
    """The runs that were forked from this one, oldest first."""
    found: list[RunRow] = []
    while page := store.list_forks(run, after=found[-1].run if found else "", limit=RUN_PAGE_MAX):
        found += page
    return sorted(found, key=lambda row: (row.created_at, row.run))
