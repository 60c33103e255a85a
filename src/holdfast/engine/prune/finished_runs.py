"""Deletes finished runs whole, many in one transaction, for the prune of a store.

No lease is taken: a run goes only if its fence and its revision are those of the row that was judged. Taking
the lease changes the fence; a fork, a pin or a label changes the revision. So what a holder would be kept
from, the store refuses.

Crash windows: a run goes with its records in one transaction. Killed behind it, its packs and its documents
in the index are left; the next prune sweeps those packs, and the next search those documents.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from holdfast.core.journal.run_row_facts import lineage_of
from holdfast.engine.damage.damaged_runs import as_damage
from holdfast.engine.lineage import kin
from holdfast.engine.lineage.dependents import Family
from holdfast.engine.memory.unindex import forget_runs
from holdfast.engine.prune.doomed_records import records_of
from holdfast.engine.prune.erase import delete_records
from holdfast.engine.prune.prune_run import Needs, batches, of_lineage, own_events
from holdfast.engine.run.maintenance_hold import holding
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import Corrupt, RunHeld, UnknownRun
from holdfast.limits import BLOB_GRACE_S, REMOVALS_MAX, REMOVED_RECORDS_MAX
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.prune_report import Part, RunPruned
from holdfast.model.store_rows import Removal, RunRow, RunSize

_EVENTS_AT_ONCE: Final = 20_000
"""Deleted by one transaction, unless a single run has more: other writers wait for it."""
_WHY: Final = "finished, and beyond the policy"


class _Doomed(NamedTuple):
    """A run that is to go: its row as it was judged, its packs, and the others of its lineage, if any."""

    row: RunRow
    packs: set[str]
    lineage: str
    needs: Needs | None


class FinishedRuns:
    """Deletes the finished runs of one prune."""

    def __init__(
        self,
        session: StoreSession,
        sizes: Mapping[str, RunSize],
        needs_of: Callable[[Family], Needs],
        began_at: float,
    ) -> None:
        """``sizes`` has all runs that are to go; ``began_at`` is a time before their rows were read."""
        self._session = session
        self._store = session.store
        self._sizes = sizes
        self._needs_of = needs_of
        self._began_at = began_at

    def delete(self, doomed: Sequence[tuple[RunRow, Family]]) -> Iterator[RunPruned]:
        """Delete these runs, each one of this lineage; says of each what became of it."""
        batch: list[tuple[RunRow, Family]] = []
        events = 0
        for row, family in doomed:
            events += self._sizes[row.run].events
            if batch and (len(batch) == REMOVALS_MAX or events > _EVENTS_AT_ONCE):
                yield from self._delete_batch(batch)
                batch, events = [], self._sizes[row.run].events
            batch.append((row, family))
        if batch:
            yield from self._delete_batch(batch)

    def _delete_batch(self, batch: Sequence[tuple[RunRow, Family]]) -> list[RunPruned]:
        lines: list[RunPruned] = []
        noted = kin.all_noted(self._store)
        doomed: list[_Doomed] = []
        shared: dict[int, Needs] = {}
        for row, family in batch:
            try:
                doomed.append(self._judged(row, family, noted, shared))
            except Corrupt as damage:
                lines.append(RunPruned(row.run, "skipped", str(damage)))
        gone = self._delete_judged(doomed, noted)
        forget_runs(self._store, [one.row.run for one in gone])
        self._free(gone)
        names = {one.row.run for one in gone}
        for one in doomed:
            run = one.row.run
            lines.append(deleted_line(run, self._sizes[run]) if run in names else self._kept_line(run))
        return lines

    def _judged(
        self, row: RunRow, family: Family, noted: Mapping[str, set[str]], shared: dict[int, Needs]
    ) -> _Doomed:
        """What goes with a run. Corrupt where it, or another run of its lineage, cannot be read."""
        store, run = self._store, row.run
        with as_damage(store, run):
            packs = of_lineage(store, own_events(store, row))
            lineage = lineage_of(family.path(run))
            others = noted.get(kin.digest_of(lineage), set()) - {run}
            if len(family.rows) == 1 and not others:
                return _Doomed(row, packs, lineage, None)
            if id(family) not in shared:
                # Only the notes lead to a tree that is being imported: its rows do not name a lineage yet.
                shared[id(family)] = Needs(store, family) if others else self._needs_of(family)
            needs = shared[id(family)]
            needs.renew(run)
            if needs.walk.family.is_whole:
                needs.of_others(run, packs)  # read now: later another one must not turn out unreadable
            needs.walk.drop_journals()
            return _Doomed(row, packs, lineage, needs)

    def _delete_judged(self, doomed: Sequence[_Doomed], noted: Mapping[str, set[str]]) -> list[_Doomed]:
        """Those that are gone. Records that do not fit beside a run go right after it."""
        records = records_of(self._store, [one.row.run for one in doomed])
        for run, lineage in ((one.row.run, one.lineage) for one in doomed):
            if run in noted.get(kin.digest_of(lineage), ()):
                records[run].append(kin.place_of(lineage, run))
        gone: list[_Doomed] = []
        for group in _within_bounds(doomed, records):
            removals = [
                Removal(row.run, row.lease.fence, row.revision, tuple(records[row.run][:REMOVED_RECORDS_MAX]))
                for row, _, _, _ in group
            ]
            answers = self._store.delete_runs(removals)
            gone += [one for one, is_gone in zip(group, answers, strict=True) if is_gone]
        for one in gone:
            if len(records[one.row.run]) > REMOVED_RECORDS_MAX:
                delete_records(self._store, one.row.run)
        return gone

    def _free(self, gone: Sequence[_Doomed]) -> None:
        """Delete the packs that no run of their lineages needs any more."""
        for one in gone:
            if one.needs is not None:
                one.needs.forget(one.row.run, is_gone=True)
        alone: set[str] = set()
        shared: set[str] = set()
        for one in gone:
            if one.needs is None:
                alone |= one.packs
            elif one.needs.walk.family.is_whole:
                with suppress(Corrupt):  # another run was damaged meanwhile: the sweep decides
                    shared |= one.packs - one.needs.of_others(one.row.run, one.packs)
        # The holder of another run of a lineage may be about to commit a pack with the same content.
        for packs, since in ((alone, self._began_at), (shared, self._began_at - BLOB_GRACE_S)):
            for batch in batches(sorted(packs)):
                self._store.delete_blobs(batch, untouched_since=since)

    def _kept_line(self, run: str) -> RunPruned:
        """What to say of a run that the store has kept."""
        try:
            with holding(self._session, run):
                return RunPruned(run, "kept", "it changed while it was to be deleted")
        except (Corrupt, RunHeld) as refused:
            return RunPruned(run, "skipped", str(refused))
        except UnknownRun:
            return RunPruned(run, "skipped", "it was deleted meanwhile")


def deleted_line(run: str, size: RunSize) -> RunPruned:
    """What to say of a run that is gone, or would be."""
    return RunPruned(run, "deleted", _WHY, (Part("events", size.events, size.bytes, _WHY),), (), size.bytes)


def _within_bounds(
    doomed: Sequence[_Doomed], records: Mapping[str, Sequence[tuple[str, str]]]
) -> Iterator[list[_Doomed]]:
    """The runs in groups with as many records as one call may delete."""
    group: list[_Doomed] = []
    room = REMOVED_RECORDS_MAX
    for one in doomed:
        count = min(len(records[one.row.run]), REMOVED_RECORDS_MAX)
        if count > room:
            yield group
            group, room = [], REMOVED_RECORDS_MAX
        group.append(one)
        room -= count
    if group:
        yield group
