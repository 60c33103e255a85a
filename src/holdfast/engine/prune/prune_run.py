"""Prunes one run: carries a plan out page by page, under the run's own lease.

The order: apply the plan in memory and compare every root; record which packs may become unneeded; replace
events page by page; read the journal back and compare it again; delete packs that no state needs any more.

Crash windows: every page leaves a valid journal. Killed anywhere, the next prune finds the recorded packs and
plans the rest. A fork and a prune cannot interleave: each is refused if the run's revision has changed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from orjson import dumps, loads

from holdfast.clock import Clock
from holdfast.codec.blobs import address_of, pack
from holdfast.core.journal.lineage import own_links
from holdfast.core.journal.run_row_facts import with_facts
from holdfast.core.journal.snapshots import newer_problem
from holdfast.core.prune.prune_plan import Compacting, Plan, apply, mismatch, plan
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.journal import read_all, read_own
from holdfast.engine.journal.load_view import check_known, forget_snapshot, is_flagged
from holdfast.engine.lineage.dependents import Family, Walk, lineage_at
from holdfast.engine.lineage.kin import family_of, note_all
from holdfast.engine.log import info
from holdfast.engine.memory.unindex import forget_run
from holdfast.engine.state.blob_references import references
from holdfast.errors import PruneMismatch, StoreError, UnknownRun
from holdfast.limits import (
    BLOB_GRACE_S,
    PRUNE_PAGE_EVENTS,
    RECORD_PAGE_MAX,
    VALUE_INLINE_BYTES_MAX,
)
from holdfast.model.event_fields import fields_of, parts_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.retention import Keep, Retention
from holdfast.model.store_rows import Blob, Record, RunRow
from holdfast.stores.port import StorePort

DOOMED = "pruning"
"""The record space of the packs that a prune may delete, by run."""
_TRIES = 20
_BATCH = 5_000
_READ_AT_ONCE = 100

Write = Callable[[AbstractSet[str]], bool]
Compact = Callable[[Compacting, Write], bool]
"""Writes a compacted event.

A holder adds the call sites whose counts it needs, and adjusts its own counters.
"""


class Moved(Exception):
    """The run has changed since the plan was made."""


class Pruned(NamedTuple):
    """The result of pruning one run, real or foreseen: the plan, and the packs of states that it deletes.

    ``events`` and ``states`` are what its journal has afterwards: own events, and checkpoints with states.
    """

    plan: Plan
    packs: int
    packs_bytes: int
    events: int
    states: int
    reclaimed_bytes: int = 0


def _outright(_: Compacting, write: Write) -> bool:
    return write(frozenset())


def find_row(store: StorePort, run: str) -> RunRow:
    """The run's row. UnknownRun where there is none."""
    row = store.find_run(run)
    if row is None:
        raise UnknownRun(run=run, store=store.url)
    return row


class Needs:
    """Which packs each run of a lineage needs for its own events. Reads each journal once.

    ``find`` finds the lineage again, for a prune that others of the lineage follow.
    """

    def __init__(self, store: StorePort, family: Family, find: Callable[[str], Family] | None = None) -> None:
        self._store = store
        self.walk = Walk(store, family)
        self._find = find or partial(family_of, store)
        self._found: dict[str, set[str]] = {}
        self._times: Counter[str] = Counter()
        """For each pack, the number of runs that need it."""

    def renew(self, run: str) -> None:
        """Look at the lineage of this run again. What has changed since is read again when it is needed."""
        for name in self.walk.renew(self._find(run)):
            self._times.subtract(self._found.pop(name, ()))

    def forget(self, run: str, *, is_gone: bool) -> None:
        """This run was pruned or deleted."""
        self.walk.forget(run, is_gone=is_gone)
        self._times.subtract(self._found.pop(run, ()))

    def of_others(self, run: str, packs: AbstractSet[str]) -> set[str]:
        """Those of these packs that another run of the lineage needs. Corrupt where a run cannot be read."""
        if not packs:
            return set()
        for name in self.walk.family.rows:
            if name != run and name not in self._found:
                found = of_lineage(self._store, self.walk.own(name))
                self._found[name] = found
                self._times.update(found)
        return {pack for pack in packs if self._times[pack] > (pack in self._found.get(run, ()))}


class Pruning:
    """The prune of one run, from the plan to the freed bytes.

    ``needs`` are those of its lineage, if the caller has them already. ``renews`` looks at the lineage again:
    only what is read under the lease counts.
    """

    def __init__(
        self,
        store: StorePort,
        clock: Clock,
        run: str,
        policy: Retention | Mapping[str, Keep],
        stands_at: int | None = None,
        needs: Needs | None = None,
        *,
        renews: bool = False,
    ) -> None:
        # Before anything is read: a pack that another run uses after it was read is touched after this.
        self.began_at = clock.wall()
        if needs is not None and renews:
            needs.renew(run)
        self.row = find_row(store, run) if needs is None else needs.walk.family.rows[run]
        self._store = store
        self._needs = needs or Needs(store, family_of(store, run))
        self.family: Family = self._needs.walk.family
        self._lineage = lineage_at(store, self._needs.walk, run, stands_at=stands_at)
        check_known(store, run, next(filter(None, map(newer_problem, self._lineage.own)), ""))
        self.plan = plan(self._lineage, policy, self.began_at, lambda address: read_blob(store, address))
        self.after = apply(self.plan, self._lineage.own)
        self._leftover = _doomed(store, run)
        self._candidates: set[str] | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do, including what a killed prune has left."""
        return not self.plan.is_empty or self._leftover is not None

    def foresee(self) -> Pruned:
        """What ``carry_out`` would do. Writes nothing."""
        doomed: set[str] = set()
        if self.is_needed and self.family.is_whole:
            doomed = self._candidate_packs() - of_lineage(self._store, self.after)
            doomed -= self._needs.of_others(self.row.run, doomed)
        return self._pruned(*_measure(self._store, doomed))

    def _pruned(self, packs: int, packs_bytes: int) -> Pruned:
        return Pruned(self.plan, packs, packs_bytes, len(self.after), sum(1 for _ in states(self.after)))

    def carry_out(self, fence: int, compact: Compact = _outright) -> Pruned:
        """Prune under this fence.

        Moved where the run has changed; PruneMismatch before anything is written.
        """
        store, run, plan = self._store, self.row.run, self.plan
        problem = self._compared(self.after)
        if problem:
            raise PruneMismatch(run=run, what=problem, state="it was left alone")
        if self.row.lease.fence != fence:
            raise Moved
        self._note_candidates()  # before the first page: see the crash windows above
        revision = self._flag(self.row)
        for name in (run, *(below.run for below, _ in self.family.below(run))):
            forget_snapshot(store, name)
        for page in plan.hollowings:
            revision = self._replace(revision, page.after_seq, page.upto_seq, fence, page.events)
        for compacting in plan.compactings:
            revision = self._compact(revision, fence, compacting, compact)
        forget_run(store, run)
        return self._free()

    # -- writing ---------------------------------------------------------------------------------------------

    def _flag(self, row: RunRow) -> int:
        """Flag the row before the first compaction: some shortcuts do not work for a compacted journal."""
        if not self.plan.compactings or is_flagged(row):
            return row.revision
        body = with_facts(row, compacted=True)
        if not self._store.swap_run(row.run, revision=row.revision, status=row.status, body=body):
            raise Moved
        return row.revision + 1

    def _replace(
        self,
        revision: int,
        after_seq: int,
        upto_seq: int,
        fence: int,
        events: Sequence[Event],
        blobs: Sequence[Blob] = (),
    ) -> int:
        place = {"fence": fence, "revision": revision, "after_seq": after_seq, "upto_seq": upto_seq}
        if not self._store.replace_events(
            self.row.run, **place, events=events, blobs=blobs, at=self.began_at
        ):
            raise Moved
        return revision + 1

    def _compact(self, revision: int, fence: int, compacting: Compacting, compact: Compact) -> int:
        """Compact a range of events, page by page, from its end backwards.

        The first page already writes the view of the whole range, and the later ones only remove the events
        before it. So every page leaves a journal that folds to the same view.
        """
        firsts = [e.seq for e in self._lineage.own if compacting.after_seq < e.seq <= compacting.upto_seq]
        ends = [*range(len(firsts) - PRUNE_PAGE_EVENTS, 0, -PRUNE_PAGE_EVENTS), 0]
        also: AbstractSet[str] = frozenset()

        def write(page: Compacting, sites: AbstractSet[str]) -> bool:
            event, blobs = stored(self.row.run, page, page.reduced.encode(sites))
            self._replace(revision, page.after_seq, page.upto_seq, fence, [event], blobs)
            return True

        is_last = compacting is self.plan.compactings[-1]
        for number, end in enumerate(ends):
            page = compacting._replace(after_seq=firsts[end] - 1 if end else compacting.after_seq)
            # The counters of the holder change with the newest compacted event only.
            if number == 0 and is_last:

                def write_first(sites: AbstractSet[str], page: Compacting = page) -> bool:
                    nonlocal also
                    also = sites
                    return write(page, sites)

                compact(compacting, write_first)
            else:
                write(page, also)
            revision += 1
        return revision

    # -- comparing, and freeing ------------------------------------------------------------------------------

    def _compared(self, own: Sequence[Event]) -> str:
        lineage = self._lineage
        before, after = ([*lineage.borrowed, *events] for events in (lineage.own, own))
        return mismatch(self.plan.roots, before, after)

    def _free(self) -> Pruned:
        store, run = self._store, self.row.run
        now = [event for event in read_all(store, run) if event.seq > self.row.origin_seq]
        problem = self._compared([event for event in now if event.seq <= self.plan.head])
        if problem:
            state = "its events were replaced already, and no content was removed"
            raise PruneMismatch(run=run, what=problem, state=state)
        if not self.family.is_whole:  # what the other runs need is not known: the recorded packs stay
            return self._pruned(0, 0)
        # What is kept is read here: that proves that its states are complete.
        doomed = self._candidate_packs() - of_lineage(store, now)
        doomed -= self._needs.of_others(run, doomed)
        count, size = _measure(store, doomed)
        # The holder of another run of the lineage may be about to commit a pack with the same content.
        others = any(row.lease.owner for name, row in self.family.rows.items() if name != run)
        since = self.began_at - (BLOB_GRACE_S if others else 0.0)
        for batch in batches(sorted(doomed)):
            store.delete_blobs(batch, untouched_since=since)
        for record in _noted(store, run):
            store.delete_record(DOOMED, record.key, revision=record.revision)
        return self._pruned(count, size)._replace(reclaimed_bytes=reclaimed(store))

    def _candidate_packs(self) -> set[str]:
        if self._candidates is None:
            left = {(event.seq, event.crc) for event in self.after}
            gone = [event for event in self._lineage.own if (event.seq, event.crc) not in left]
            self._candidates = of_lineage(self._store, gone) | set(self._leftover or ())
        return self._candidates

    def _note_candidates(self) -> None:
        note_doomed(self._store, self.row.run, self._candidate_packs() - set(self._leftover or ()))


def prune_run(
    store: StorePort,
    clock: Clock,
    run: str,
    policy: Retention | Mapping[str, Keep],
    fence: int,
    *,
    needs: Needs | None = None,
    stands_at: Callable[[], int | None] = lambda: None,
    ready: Callable[[], bool] = lambda: True,
    compact: Compact = _outright,
) -> Pruned | None:
    """Prune a run under this fence. Plans again, a bounded number of times, if the run changes in between.

    None where it was not pruned: the lease is lost, the holder is not ``ready``, or the run kept changing.
    ``needs`` are those of its lineage, from before the lease was taken.
    """
    note_all(store)
    for _ in range(_TRIES):
        pruning = Pruning(store, clock, run, policy, stands_at(), needs, renews=True)
        if pruning.row.lease.fence != fence:
            return None
        if not pruning.is_needed:
            return pruning.foresee()
        if not ready():
            return None
        try:
            return pruning.carry_out(fence, compact)
        except Moved:
            continue
    return None


def own_events(store: StorePort, row: RunRow) -> list[Event]:
    """The run's own events, verified."""
    return read_own(store, row.run, row.origin_seq, None, own_links(row))


def reclaimed(store: StorePort) -> int:
    """Return free space to the file system. Returns the number of bytes."""
    try:
        return store.reclaim()
    except StoreError as error:  # a reader is in the way: the next prune returns the space
        info("the space that was freed stays in %s for now: %s", store.url, error)
        return 0


def of_lineage(store: StorePort, events: Sequence[Event]) -> set[str]:
    """The blobs that only one lineage can need: packs of states, and views of compacted events."""
    found = references(store, *states(events))
    for event in events:
        if event.kind == Kind.COMPACTED:
            view = fields_of(event.body).get("view_blob")
            found |= {view} if view else set()
    return found


def states(events: Iterable[Event]) -> Iterator[Event]:
    """The checkpoints that have their state."""
    return (event for event in events if event.kind == Kind.CHECKPOINT and "state" in parts_of(event.body))


def stored(run: str, compacting: Compacting, view: bytes) -> tuple[Event, tuple[Blob, ...]]:
    """The compacted event to store. A large view goes into a blob."""
    if len(view) <= VALUE_INLINE_BYTES_MAX:
        return compacting.event(run, compacting.body(view=view)), ()
    address = address_of(view)
    body = compacting.body(fields={"view_blob": address, "view_bytes": len(view)})
    return compacting.event(run, body), (Blob(address, pack(view)),)


def note_doomed(store: StorePort, run: str, addresses: AbstractSet[str]) -> None:
    """Record packs that a prune may delete, for the next prune of the run.

    Moved if another prune does the same.
    """
    first = len(_noted(store, run))
    for number, batch in enumerate(batches(sorted(addresses)), first):
        if not store.put_record(DOOMED, f"{run}@{number:06}", dumps(batch), revision=0):
            raise Moved


def _noted(store: StorePort, run: str) -> list[Record]:
    return store.scan_records(DOOMED, prefix=f"{run}@", limit=RECORD_PAGE_MAX)


def _doomed(store: StorePort, run: str) -> list[str] | None:
    """The packs that a killed prune has recorded; None where there was none."""
    records = _noted(store, run)
    return [address for record in records for address in loads(record.body)] if records else None


def _measure(store: StorePort, addresses: AbstractSet[str]) -> tuple[int, int]:
    found = [
        len(data)
        for batch in batches(sorted(addresses), _READ_AT_ONCE)
        for data in store.get_blobs(batch).values()
    ]
    return len(found), sum(found)


def batches(addresses: Sequence[str], size: int = _BATCH) -> Iterator[Sequence[str]]:
    """The addresses in batches for one call of the store."""
    return (addresses[at : at + size] for at in range(0, len(addresses), size))
