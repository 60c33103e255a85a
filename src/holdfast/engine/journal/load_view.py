"""Loads a run's view: from a cached snapshot if there is a usable one, then from the events after it.

A loader that had to fold many events writes a snapshot for the next one. A snapshot is only a cache: it is
flushed, not synced; it carries a checksum and the fold's version; and if any check fails, the loader folds
all events instead. A crash while it is written leaves chunks without a head record, or a head record whose
chunks do not match its checksum: both are ignored.
"""

from collections.abc import Iterable
from typing import Any

from orjson import dumps, loads

from holdfast.codec.blobs import address_of, pack, unpack
from holdfast.core.journal import snapshots
from holdfast.core.journal.event_check import UNSOUND
from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.fold import load as load_snapshot
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.recorded_calls import Bodies
from holdfast.core.journal.run_row_facts import facts_of
from holdfast.engine.journal.damaged_records import discard, find_sound
from holdfast.engine.journal.journal import chain_of, read_all, read_pages
from holdfast.engine.journal.pause_gc import without_collecting_what_is_made
from holdfast.engine.log import info
from holdfast.errors import Corrupt, HoldfastError, NewerFormat
from holdfast.limits import SNAPSHOT_CHUNK_BYTES, SNAPSHOT_EVENTS_MIN
from holdfast.model.events import Event, Kind
from holdfast.model.store_rows import RunRow
from holdfast.stores.port import StorePort

SPACE = "snapshots"
PAGE_EVENTS = 500
PAGES_KEPT = 4


@without_collecting_what_is_made()
def load(store: StorePort, run: str, row: RunRow | None = None) -> View:
    """The run's view up to its head. Corrupt if the journal is damaged.

    ``row`` is the run's row if the caller has read it under its lease: it cannot have changed since.
    """
    if row is not None and not row.head:
        return View()  # a new run: most stores are far away, and have nothing to say about it
    has_snapshot = row is None or row.head >= SNAPSHOT_EVENTS_MIN
    view = (_usable_snapshot(store, run) if has_snapshot else None) or View()
    behind = view.head
    if not _fold_pages(store, run, row, view):
        # From the first event: the run may have been rewound to before the snapshot, which then holds the old
        # branch.
        view, behind = View(), 0
        _fold_into(store, run, view, effective(read_all(store, run)))
    if view.head - behind >= SNAPSHOT_EVENTS_MIN and not view.base and not view.newer:
        _write_snapshot(store, run, view)
    return view


def check_known(store: StorePort, run: str, newer: str) -> None:
    """NewerFormat if, as ``newer`` says, the journal has something in it that this version does not know.

    What continues a run or removes a part of it checks this first: an unknown event may be a decision.
    """
    if newer:
        raise NewerFormat(
            store=store.url, problem=f"in run {run}, {newer}, which this Holdfast does not know"
        )


def _fold_pages(store: StorePort, run: str, row: RunRow | None, view: View) -> bool:
    """Verify and fold what is behind the view, page by page, so that no page is kept.

    False if it did not work, and the view is not to be used: a rewind left events behind that are folded, or
    a pruner replaced some meanwhile.
    """
    behind = view.head
    for page in read_pages(store, run, after_seq=behind, before=view.head_chain, row=row):
        if page.replaces:
            return False
        try:
            _fold_into(store, run, view, page.events)
        except Corrupt:
            # Events behind a rewind follow from those before its point.
            if view.branch > behind or any(event.kind == Kind.RUN_REWOUND for event in page.events):
                return False
            raise
    # A compacted event tells of rewinds, too, that it has covered: these are none.
    return view.branch <= max(behind, view.base)


def _fold_into(store: StorePort, run: str, view: View, events: Iterable[Event]) -> None:
    try:
        fold(events, view)
    except UNSOUND as error:  # such as an outcome without an intent: no program may continue from that
        cause = f"{type(error).__name__}: {error}"
        why = f"event #{view.head} of run {run} does not follow from those before it ({cause})"
        raise Corrupt(store=store.url, problem=why) from error


class Pager:
    """Reads bodies that a snapshot leaves out, in pages, when the program reaches their events.

    It keeps the last few pages. A replayed step asks for its outcome more than once, and tasks that recorded
    one after the other may replay in turns: neither may read a page again.
    """

    def __init__(self, store: StorePort, run: str) -> None:
        self._store = store
        self._run = run
        self._pages: tuple[dict[int, bytes], ...] = ()
        """The newest first. Never changed, only replaced: threads share it without a lock."""

    def find_read(self, seq: int) -> bytes | None:
        """The body of this event, if a page that was read has it: no store call."""
        for page in self._pages:
            body = page.get(seq)
            if body is not None:
                return body
        return None

    def body_of(self, seq: int) -> bytes:
        """The body of this event, verified. If no page has it, it reads the one that starts with it."""
        body = self.find_read(seq)
        if body is not None:
            return body
        # It starts with this event and not at a round number: an event before it, which the program never
        # asks for, may be damaged.
        events = read_all(self._store, self._run, after_seq=seq - 1, upto_seq=seq + PAGE_EVENTS - 1)
        bodies = {seq: body for seq, _, _, _, _, _, body, _, _ in events}
        body = bodies.get(seq)
        if body is None:
            raise Corrupt(store=self._store.url, problem=f"event #{seq} of run {self._run} is missing")
        self._pages = (bodies, *self._pages[: PAGES_KEPT - 1])
        return body


def bodies_in(store: StorePort, run: str) -> Bodies:
    """Reads the bodies that a view of this run does not hold."""
    pager = Pager(store, run)
    return Bodies(
        lambda call: pager.body_of(call.seq) if call.body is None else call.body,
        lambda outcome: pager.body_of(outcome.seq) if outcome.body is None else outcome.body,
    )


def is_flagged(row: RunRow) -> bool:
    """Whether the run's own journal may have been compacted."""
    return bool(facts_of(row).get("compacted"))


def forget_snapshot(store: StorePort, run: str) -> None:
    """Delete the cached snapshot of a run whose events are removed or replaced: it may still contain them."""
    try:
        head = store.get_record(SPACE, f"{run}@")
    except Corrupt:
        discard(store, SPACE, f"{run}@")
        return
    if head is not None and store.delete_record(SPACE, f"{run}@", revision=head.revision):
        _forget_chunks(store, run, loads(head.body))


def _usable_snapshot(store: StorePort, run: str) -> View | None:
    """The cached view, if it still agrees with the journal."""
    view = _read_snapshot(store, run)
    # A compacted journal counts calls differently from a snapshot that was made before the compaction.
    if view is None or any(is_flagged(row) for row in chain_of(store, run)):
        return None
    if [event.chain for event in _read_one(store, run, view.head)] != [view.head_chain]:
        return None  # a process died after it had deleted a run of this name, and before its snapshot
    if view.checkpoint is not None and _read_one(store, run, view.checkpoint.seq) != [view.checkpoint]:
        return None  # pruned since: the snapshot would refer to a state that is gone
    return view


def _read_one(store: StorePort, run: str, seq: int) -> list[Event]:
    return read_all(store, run, after_seq=seq - 1, upto_seq=seq)


def _read_snapshot(store: StorePort, run: str) -> View | None:
    head = find_sound(store, SPACE, f"{run}@")
    if head is None:
        return None
    about = loads(head.body)
    pieces = [find_sound(store, SPACE, key) for key in chunk_keys(run, about)]
    try:
        data = unpack(b"".join(piece.body for piece in pieces if piece is not None), address=about["address"])
    except Corrupt as damage:
        info("the snapshot of run %s is not used: %s", run, damage)
        return None
    return load_snapshot(loads(data))


def _write_snapshot(store: StorePort, run: str, view: View) -> None:
    data = dumps(snapshots.dump(view))
    try:
        packed = pack(data)
        pieces = [packed[i : i + SNAPSHOT_CHUNK_BYTES] for i in range(0, len(packed), SNAPSHOT_CHUNK_BYTES)]
        # Keyed by content: a snapshot that replaces one of the same head must not share its chunks.
        address = address_of(data)
        about = {"head": view.head, "chunks": len(pieces), "address": address, "key": address}
        old = find_sound(store, SPACE, f"{run}@")
        # Chunks first, so that a crash in between leaves the old snapshot in use.
        for key, piece in zip(chunk_keys(run, about), pieces, strict=True):
            store.put_record(SPACE, key, piece, revision=0, synced=False)
        revision = old.revision if old else 0
        is_written = store.put_record(SPACE, f"{run}@", dumps(about), revision=revision, synced=False)
        if is_written and old and loads(old.body) != about:
            _forget_chunks(store, run, loads(old.body))
    except HoldfastError as error:  # a cache that cannot be written must not stop the run
        info("no snapshot of run %s: %s", run, error)


def _forget_chunks(store: StorePort, run: str, about: dict[str, Any]) -> None:
    for key in chunk_keys(run, about):
        store.delete_record(SPACE, key, revision=1)


def chunk_keys(run: str, about: dict[str, Any]) -> list[str]:
    """The keys of the snapshot's chunks. ``about`` is what its head record says."""
    key = about.get("key", about["head"])  # earlier versions keyed them by head
    return [f"{run}@{key}.{number}" for number in range(about["chunks"])]
