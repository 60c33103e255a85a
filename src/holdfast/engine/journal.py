"""One run's journal under one lease: sequence, checksums, values, and what to do when a write's fate is unknown.

Invariant: ``head`` is the seq of the last event that this process submitted; items enter the queue in the order
of their seqs. A failed append is of unknown outcome: the journal is read again before anything else is said.
"""

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from orjson import dumps, loads

from holdfast.codec.blobs import address_of, pack, unpack
from holdfast.codec.bodies import pack_body
from holdfast.core.lineage import segments
from holdfast.engine.commits import Committer, Ticket
from holdfast.engine.hands import Hands
from holdfast.engine.voice import log
from holdfast.errors import Cancelled, Corrupt, LeaseLost, StoreError, StoreUnavailable
from holdfast.limits import EVENT_PAGE_MAX, RUN_PAGE_MAX, VALUE_INLINE_BYTES_MAX
from holdfast.model.events import Event, Kind, checksum, covers_from, is_intact
from holdfast.model.rows import Append, Appended, Blob, Lease, Refusal, RunRow, owner_name
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from holdfast.engine.onlookers import Attendant

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
) -> Draft:
    """A draft whose value stands in the body while it is small, and in a blob when it is not."""
    if value is None or len(value) <= VALUE_INLINE_BYTES_MAX:
        return Draft(kind, name, key, pack_body(fields, value=value, value_name=value_name))
    address = address_of(value)
    fields[f"{value_name}_blob"] = address
    fields[f"{value_name}_bytes"] = len(value)
    return Draft(kind, name, key, pack_body(fields), (Blob(address, pack(value)),))


def placed_after(
    seq: int, drafts: Sequence[Draft], run: str, fence: int, at: float
) -> tuple[tuple[Event, ...], tuple[Blob, ...]]:
    """The drafts as events that follow this one, under a fence; and the blobs that come with them."""
    events = []
    blobs: tuple[Blob, ...] = ()
    for kind, name, key, body, attached in drafts:
        seq += 1
        crc = checksum(run, seq, at, kind, name, key, fence, body)
        events.append(Event(seq, at, kind, name, key, fence, body, crc))
        if attached:
            blobs += attached
    return tuple(events), blobs


class Journal:
    """Appends for one run, in order, under one fence."""

    def __init__(self, store: StorePort, committer: Committer, run: str, fence: int, head: int) -> None:
        self.store = store
        self.run = run
        self.fence = fence
        self.head = head
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
        self.attendant: Attendant | None = None
        """Whoever is told what is appended; None where nobody looks on."""
        self.is_drained = False
        """Whether the worker that runs it is shutting down: then nothing new begins."""

    async def append(
        self,
        hands: Hands,
        drafts: Sequence[Draft],
        at: float,
        *,
        synced: bool = True,
        hasty: bool = False,
        status: str | None = None,
        consumed: tuple[str, ...] = (),
    ) -> int:
        """Append; the seq of the last event, once it is as durable as asked. LeaseLost, or the store's error.

        A hasty writer may learn only by its next append that the lease is lost.
        """
        committer = self._committer
        for _ in range(_TRIES):
            if self.lost is not None:
                raise self.lease_lost()
            with self._lock:  # one run's items enter the queue in the order of their seqs
                item = self._next_item(drafts, at, synced, hasty and self._is_sure, status, consumed)
                ticket = committer.submit(item)
            try:
                if hands.waits and not committer.may_block_loop:
                    outcome = await committer.finish_async(ticket)
                else:
                    outcome = committer.finish(ticket)
            except StoreError as error:
                if not self._find(item, error):
                    raise
                self._note_appended(item)
                return item.events[-1].seq
            except BaseException as cut:
                self._note_fate(cut, ticket)
                raise
            if isinstance(outcome, Appended):
                self._is_sure = True
            elif not self._is_there_after(item, outcome):
                continue
            self._note_appended(item)
            return item.events[-1].seq if item.events else item.after_seq
        raise StoreUnavailable(
            store=self.store.url, problem=f"the journal of {self.run} keeps moving under its holder"
        )

    def _next_item(
        self,
        drafts: Sequence[Draft],
        at: float,
        synced: bool,
        hasty: bool,
        status: str | None,
        consumed: tuple[str, ...],
    ) -> Append:
        """The drafts with their places in the journal; only under the lock, and submitted before it is let go."""
        after, run, fence = self.head, self.run, self.fence
        events, blobs = placed_after(after, drafts, run, fence, at)
        self.head = after + len(events)
        return Append(run, fence, after, events, blobs, consumed, status, synced, hasty)

    def _note_appended(self, item: Append) -> None:
        """Behind what is synced, all that came before is, too."""
        if self.attendant is not None:
            self.attendant.recorded(item.events)
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
                cut.holdfast_written = ticket.item.events[-1].seq  # type: ignore[attr-defined]
        except StoreError as error:  # then nobody knows, and the next append looks again
            log().warning(
                "it is not known whether event #%d was written: %s", ticket.item.events[0].seq, error
            )

    def _find(self, item: Append, error: StoreError | None) -> bool:
        """Whether a write of unknown outcome is in the journal after all; the head is read anew either way."""
        try:
            there = self.store.read_events(self.run, after_seq=item.after_seq, limit=len(item.events))
            self._reread()
        except StoreError as again:
            raise (error or again) from again
        return there == list(item.events)

    def _reread(self) -> None:
        row = self._row()
        # An outcome behind an intent that is not there any more would be a journal that nobody can read.
        for item in sorted(self._flushed, key=lambda one: one.after_seq):
            if item.after_seq == row.head and row.lease.fence == self.fence:
                log().warning("run %s: the store has lost event #%d; it is put back", self.run, row.head + 1)
                self.store.append((item._replace(synced=True),))
                row = self._row()
        with self._lock:
            self.head = row.head
            self._is_sure = False
        if row.lease.fence != self.fence:
            self.lost = row.lease

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


def read_all(store: StorePort, run: str, *, after_seq: int = 0, upto_seq: int | None = None) -> list[Event]:
    """Every event of the run's history in order, each verified; Corrupt names the first that is not what was written.

    A fork's history begins with its origin's, up to the point of the fork. A compacted event has its view in it, wherever
    that lies, so that whoever folds reads no blobs.
    """
    row = store.find_run(run)
    if row is None or not row.origin or after_seq >= row.origin_seq:
        return _with_views(store, run, read_own(store, run, after_seq, upto_seq))
    events: list[Event] = []
    for name, first, last in segments(chain_of(store, run)):
        upto = last if upto_seq is None else min(last, upto_seq)
        if upto > max(first, after_seq):
            events += _with_views(store, name, read_own(store, name, max(first, after_seq), upto))
            if name != run and upto == last and (not events or events[-1].seq != last):
                raise Corrupt(
                    store=store.url,
                    problem=f"run {run} was forked from event #{last} of {name}, which is missing",
                )
    return events


def read_own(store: StorePort, run: str, after_seq: int, upto_seq: int | None) -> list[Event]:
    """Own events, every seq covered: by an event, or by a later one that stands for a stretch that was removed."""
    events: list[Event] = []
    while True:
        page = store.read_events(run, after_seq=after_seq, upto_seq=upto_seq, limit=EVENT_PAGE_MAX)
        for event in page:
            seq = event[0]
            first = seq if seq == after_seq + 1 else covers_from(event)
            if first > after_seq + 1 or not is_intact(run, event):
                raise Corrupt(
                    store=store.url, problem=f"event #{after_seq + 1} of run {run} is damaged or missing"
                )
            if first <= after_seq:
                while events and events[-1].seq >= first:
                    events.pop()  # its stretch was replaced between two pages
            events.append(event)
            after_seq = seq
        if len(page) < EVENT_PAGE_MAX:
            return events


def _with_views(store: StorePort, run: str, events: list[Event]) -> list[Event]:
    for number, event in enumerate(events):
        if event.kind == Kind.COMPACTED:
            events[number] = _with_view(store, run, event)
    return events


def _with_view(store: StorePort, run: str, event: Event) -> Event:
    fields = loads(event.body)
    if "view_blob" not in fields:
        return event
    body = pack_body(fields, value=read_blob(store, fields["view_blob"]), value_name="view")
    return event._replace(body=body, crc=checksum(run, *event[:6], body))


def all_runs(store: StorePort) -> Iterator[RunRow]:
    """Every run of the store, newest first."""
    before: RunRow | None = None
    while page := store.list_runs(limit=RUN_PAGE_MAX, before=before):
        yield from page
        before = page[-1]


def forks_of(store: StorePort, run: str) -> list[RunRow]:
    """The runs that were forked from this one, oldest first."""
    return [row for row in all_runs(store) if row.origin == run][::-1]


def read_blob(store: StorePort, address: str) -> bytes:
    """A blob's content, verified against its address."""
    ((_, content),) = read_blobs(store, [address])
    return content


def content_in(store: StorePort, event: Event) -> bytes:
    """The value in an event, as JSON, wherever it lies. Corrupt where it is missing or damaged."""
    return content_at(store, event.body)


def content_at(store: StorePort, body: bytes) -> bytes:
    """The value that a body holds, or tells where it is."""
    fields = loads(body)
    address = fields.get("value_blob")
    return dumps(fields.get("value")) if address is None else read_blob(store, address)


def read_blobs(store: StorePort, addresses: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Blobs asked for together and unpacked one by one, each verified. Corrupt names one that is missing or damaged."""
    packed = store.get_blobs(addresses)
    for address in addresses:
        if address not in packed:
            raise Corrupt(store=store.url, problem=f"blob {address} is missing")
        yield address, unpack(packed.pop(address), address=address)
