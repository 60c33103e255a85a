"""Prunes a store: each run under its own lease, finished runs beyond the policy, and unreferenced blobs.

All runs share values by content. So it marks every blob that a journal or an inbox refers to, and deletes the
rest, except blobs touched lately: their writer may not have committed the event yet.

The rows are read once, and the journals lineage by lineage. Planning takes time in proportion to the store;
memory holds the journals of one lineage and the addresses of the referenced blobs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from orjson import loads

from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.prune.policy_bounds import within
from holdfast.core.prune.prune_plan import Plan
from holdfast.engine.damage.damaged_runs import as_damage, check_row
from holdfast.engine.journal.damaged_records import find_sound
from holdfast.engine.journal.inbox import waiting
from holdfast.engine.journal.journal import read_own
from holdfast.engine.journal.lineage_names import descendants
from holdfast.engine.journal.load_view import SPACE, chunk_keys
from holdfast.engine.lineage import kin
from holdfast.engine.lineage.dependents import Family, all_rows, families
from holdfast.engine.lineage.pins import all_kept
from holdfast.engine.prune.erase import forget_settlements
from holdfast.engine.prune.finished_runs import FinishedRuns, deleted_line
from holdfast.engine.prune.prune_run import (
    Needs,
    Pruned,
    Pruning,
    batches,
    find_row,
    own_events,
    prune_run,
    reclaimed,
)
from holdfast.engine.run.maintenance_hold import holding
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.state.blob_references import references
from holdfast.errors import Corrupt, RunHeld
from holdfast.limits import BLOB_GRACE_S, BLOB_PAGE_MAX, RECORD_PAGE_MAX
from holdfast.model.event_fields import blobs_named
from holdfast.model.events import Event
from holdfast.model.prune_report import Part, PruneReport, RunPruned
from holdfast.model.retention import Keep, Retention
from holdfast.model.store_rows import BlobInfo, RunRow, RunSize, Status, owner_name
from holdfast.stores.port import StorePort

_ROWS_AT_ONCE = 50
"""About so many rows are read, a page at a time, in the time of one look at the forks of a run."""


class Sweep:
    """One prune of a store, or of one run in it."""

    def __init__(
        self, session: StoreSession, policy: Retention | Mapping[str, Keep], *, dry_run: bool
    ) -> None:
        """``policy`` is for all runs, or changes what the program of each run declared."""
        self._session = session
        self._store: StorePort = session.store
        self._policy = policy
        self._dry_run = dry_run
        self._began_at = session.clock.wall()
        self._after: Sequence[Event] | None = None
        """The own events that the last planned run would have after the prune."""
        self._marks = _Marks(session.store)
        self._notes: list[str] = []
        self._reclaimed = 0

    def run(self, name: str) -> PruneReport:
        """Prune one run and its descendants."""
        rows = [find_row(self._store, name), *reversed(descendants(self._store, name))]
        names = [row.run for row in rows]
        before = self._size(names)
        if not self._dry_run:
            kin.note_all(self._store)
        find = kin.finder(self._store)
        pruned = [self._prune(row, Needs(self._store, find(row.run))) for row in rows]
        return self._report(pruned, before, 0 if self._dry_run else self._size(names), 0, 0)

    def store(self) -> PruneReport:
        """Prune every run without a live holder, and unreferenced blobs."""
        rows = all_rows(self._store)
        if not self._dry_run:
            kin.note_all(self._store, rows)
        sizes = {run: self._store.measure(run) for run in rows}
        before = self._blob_bytes() + sum(size.bytes for size in sizes.values())
        lineages = families(rows)
        lines = {line.run: line for line in self._delete(rows, sizes, lineages)}
        gone = {run for run, line in lines.items() if line.outcome == "deleted"}
        left = rows if self._dry_run else {run: row for run, row in rows.items() if run not in gone}
        for family in lineages:
            kept = Family({run: row for run, row in family.rows.items() if run in left})
            lines |= {line.run: line for line in self._family(kept, lines, len(left))}
        report = sorted(lines.values(), key=lambda line: (-rows[line.run].created_at, line.run))
        count, size = self._sweep(left)
        if self._dry_run:
            return self._report(report, before, 0, count, size)
        self._sweep_snapshots(left)
        if gone:
            forget_settlements(self._store)
        self._reclaimed += reclaimed(self._store)
        return self._report(report, before, self._size(all_rows(self._store)), count, size)

    def _delete(
        self, rows: Mapping[str, RunRow], sizes: Mapping[str, RunSize], lineages: Sequence[Family]
    ) -> Iterator[RunPruned]:
        """Delete the finished runs beyond the policy, of lineages that can be read."""
        policy = self._policy
        # A run declares how its own records go. When it goes itself is for the person who prunes to say.
        keep = policy.finished if isinstance(policy, Retention) else policy.get("finished", Keep())
        doomed = {row.run for row in _deletable(self._store, rows, keep, self._began_at, sizes)}
        going: list[tuple[RunRow, Family]] = []
        for family in lineages:
            if any(row.damage for row in family.rows.values()):
                continue
            for row in (row for row in _newest_first(family) if row.run in doomed):
                held = self._holder(row)
                if held:
                    yield RunPruned(row.run, "skipped", held)
                else:
                    going.append((row, family))
        if self._dry_run:
            yield from (deleted_line(row.run, sizes[row.run]) for row, _ in going)
        else:
            needs = partial(self._needs, runs=len(rows))
            yield from FinishedRuns(self._session, sizes, needs, self._began_at).delete(going)

    def _needs(self, family: Family, *, runs: int) -> Needs:
        return Needs(self._store, family, self._find if _is_wide(family, runs) else None)

    def _family(self, family: Family, done: Mapping[str, RunPruned], runs: int) -> Iterator[RunPruned]:
        """Prune the runs of one lineage, newest first, except those that are ``done``.

        With a damaged one among them, all stay: it may need any of them.
        """
        needs = self._needs(family, runs=runs)
        damaged = next((row for row in family.rows.values() if row.damage), None)
        for row in _newest_first(family):
            self._after = None
            line = done.get(row.run)
            if damaged is not None:
                line = RunPruned(row.run, "skipped", _beside(row, damaged))
            elif line is None:
                line = self._prune(row, needs)
            elif line.outcome == "deleted":  # it would be
                self._after = ()
            if self._dry_run:
                own = partial(_marked, self._store, row) if row.damage else partial(needs.walk.own, row.run)
                self._marks.add(row.run, self._after, own)
            elif line.outcome == "pruned":
                needs.forget(row.run, is_gone=False)
            yield line

    def _find(self, run: str) -> Family:
        """The lineage of a run, found among all rows."""
        return kin.finder_among(all_rows(self._store))(run)

    def _report(self, lines: list[RunPruned], before: int, after: int, count: int, size: int) -> PruneReport:
        freed = sum(line.freed_bytes for line in lines) + size
        return PruneReport(
            self._dry_run,
            tuple(lines),
            count,
            size,
            before,
            max(0, before - freed) if self._dry_run else after,
            self._reclaimed,
            tuple(self._notes),
        )

    # -- one run ---------------------------------------------------------------------------------------------

    def _prune(self, row: RunRow, needs: Needs) -> RunPruned:
        held = self._holder(row)
        if held:
            return RunPruned(row.run, "skipped", held)
        try:
            check_row(self._store, row)
            with as_damage(self._store, row.run):
                foreseen = Pruning(self._store, self._session.clock, row.run, self._policy, needs=needs)
                self._after = foreseen.after
                if self._dry_run or not foreseen.is_needed:
                    return _line(foreseen.foresee())
                return self._prune_held(row, needs)
        except (Corrupt, RunHeld) as refused:
            return RunPruned(row.run, "skipped", str(refused))

    def _prune_held(self, row: RunRow, needs: Needs) -> RunPruned:
        store, clock = self._store, self._session.clock
        with holding(self._session, row.run) as hold:
            pruned = prune_run(store, clock, row.run, self._policy, hold.fence, needs=needs)
        if pruned is None:
            return RunPruned(
                row.run, "skipped", "it was taken over, or changed all the time, while it was pruned"
            )
        self._reclaimed += pruned.reclaimed_bytes
        return _line(pruned)

    def _holder(self, row: RunRow) -> str:
        """Why the run cannot be pruned from here (held, sealed or incomplete); empty where it can."""
        if row.status in {Status.SEALED, Status.IMPORTING}:
            return "sealed: it goes on elsewhere" if row.status == Status.SEALED else "not whole yet"
        if not row.lease.owner or self._store.probe(row.lease.owner) == "dead":
            return ""
        return f"held by {owner_name(row.lease.owner)}, which prunes it as it goes on"

    # -- unreferenced blobs ----------------------------------------------------------------------------------

    def _sweep(self, rows: Mapping[str, RunRow]) -> tuple[int, int]:
        # An import puts its blobs before the events that refer to them, and may outlast the grace time.
        if any(row.status == Status.IMPORTING for row in rows.values()):
            self._notes.append("contents are left as they are, since a run is not whole yet")
            return 0, 0
        if not self._dry_run:  # a dry run has marked the planned events in ``_family``
            for name in rows:
                row = self._store.find_run(name, damaged=True)
                if row is not None:
                    self._marks.add(name, None, partial(_marked, self._store, row))
        if self._marks.damage is not None:
            self._notes.append(
                f"contents are left as they are, since not every journal can be read: {self._marks.damage}"
            )
            return 0, 0
        before = self._began_at - BLOB_GRACE_S
        needed = set(map(self._store.blob_name, self._marks.found))
        found = [b for b in self._blobs() if b.address not in needed and b.touched_at < before]
        if not self._dry_run:
            for batch in batches([blob.address for blob in found]):
                self._store.delete_blobs(batch, untouched_since=before)
        return len(found), sum(blob.size for blob in found)

    def _blobs(self) -> Iterator[BlobInfo]:
        after = ""
        while page := self._store.scan_blobs(after=after, limit=BLOB_PAGE_MAX):
            yield from page
            after = page[-1].address

    def _sweep_snapshots(self, rows: Iterable[str]) -> None:
        """Delete the pieces of cached snapshots that no head names.

        A process was killed between the two writes.
        """
        if self._dry_run:
            return
        known, after = set(rows), ""
        while page := self._store.scan_records(SPACE, after=after, limit=RECORD_PAGE_MAX, damaged=True):
            for record in page:
                run, _, piece = record.key.rpartition("@")
                head = find_sound(self._store, SPACE, f"{run}@") if piece else None
                is_wanted = (
                    not record.damage
                    and run in known
                    and (not piece or (head is not None and record.key in chunk_keys(run, loads(head.body))))
                )
                if not is_wanted:
                    self._store.delete_record(SPACE, record.key, revision=record.revision)
            after = page[-1].key

    def _size(self, runs: Iterable[str]) -> int:
        return sum(self._store.measure(run).bytes for run in runs) + self._blob_bytes()

    def _blob_bytes(self) -> int:
        return sum(blob.size for blob in self._blobs())


class _Marks:
    """The blobs that the events and the inbox of any run refer to."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self.found: set[str] = set()
        self.damage: Corrupt | None = None
        """Why they are not all known, where a run cannot be read."""

    def add(self, run: str, events: Sequence[Event] | None, read: Callable[[], Sequence[Event]]) -> None:
        """Add the blobs of a run's inbox and of its own events: ``events``, or else what ``read`` returns."""
        if self.damage is not None:
            return
        try:
            with as_damage(self._store, run):
                self.found |= references(self._store, *(read() if events is None else events))
        except Corrupt as damage:
            self.damage = damage
        for _, letter in waiting(self._store, run):
            self.found |= blobs_named(letter.get("body") or {})


def _is_wide(family: Family, runs: int) -> bool:
    """Whether a lineage is faster found among all rows, a page at a time, than fork by fork."""
    return len(family.rows) * _ROWS_AT_ONCE > runs


def _beside(row: RunRow, damaged: RunRow) -> str:
    why = f"{damaged.damage}; `holdfast doctor` tells more"
    return why if row is damaged else f"of one lineage with a damaged run, which may need it: {why}"


def _marked(store: StorePort, row: RunRow) -> list[Event]:
    """The run's own events."""
    if not row.damage:
        return own_events(store, row)
    # The origin in a damaged row cannot be trusted; the first stored event is the run's first own one.
    first = store.read_events(row.run, limit=1)
    return read_own(store, row.run, first[0].seq - 1, None) if first else []


def _line(pruned: Pruned) -> RunPruned:
    plan: Plan = pruned.plan
    goes = plan.goes
    if pruned.packs:
        goes += (
            Part("packs of states", pruned.packs, pruned.packs_bytes, "no state that is kept needs them"),
        )
    freed = plan.freed_bytes + pruned.packs_bytes
    return RunPruned(plan.run, "pruned" if goes else "kept", "", goes, plan.stays, freed)


def _newest_first(family: Family) -> list[RunRow]:
    return sorted(family.rows.values(), key=lambda row: (-row.created_at, row.run))


def _deletable(
    store: StorePort, rows: Mapping[str, RunRow], keep: Keep, now: float, measured: Mapping[str, RunSize]
) -> list[RunRow]:
    """The finished runs beyond the policy that have no fork, no pin or label, and no parent that stays."""
    if keep == Keep():
        return []
    finished = [row for row in rows.values() if row.status == Status.FINISHED and row.head and not row.damage]
    ends = {row.run: _ended_at(store, row) for row in finished}
    finished.sort(key=lambda row: ends[row.run])
    kept = within([(ends[row.run], measured[row.run].bytes) for row in finished], keep, now)
    origins = {row.origin for row in rows.values()}
    for row in rows.values():  # forks that may still borrow a child need it as they need their origin
        if not row.damage:
            origins |= {run for run, _ in facts_of(row).get("children", {}).values()}
    pinned = {one.run for one in all_kept(store)}
    going = {
        row.run: row
        for number, row in enumerate(finished)
        if number not in kept and row.run not in origins and row.run not in pinned
    }
    # A run and its children are deleted together: a replaying parent would start a deleted child again.
    tops = {name: _top(rows, name) for name in rows}
    stay = {tops[name] for name in rows if name not in going}
    return [row for name, row in going.items() if tops[name] not in stay]


def _top(rows: Mapping[str, RunRow], run: str) -> str:
    """The outermost parent of a run, or the run itself. Runs with the same one are deleted together."""
    names = run.split("/")
    parents = ("/".join(names[:count]) for count in range(1, len(names)))
    return next((parent for parent in parents if parent in rows), run)


def _ended_at(store: StorePort, row: RunRow) -> float:
    last = store.read_events(row.run, after_seq=row.head - 1, limit=1)
    return last[0].at if last else row.created_at
