"""Copies or moves runs from one store to another: exports each into the other store and reads it back there.

A plain copy changes nothing in the source. The copies are sealed, so that no run can act in two stores. A
repeated copy appends what is new to the sealed copies. A run moves with all of its descendants or not at all.

A move makes three passes over all runs. The first copies and verifies them, which is most of the work. The
second seals each run in the source; the seal is the last event of its journal, and the copy gets it together
with the inbox. The third lets the runs act in the target, children before parents: a parent that did not find
its child there would start it a second time.

Crash windows: after a kill, the same command continues the copy. A run that is sealed in the source and not
yet woken in the target can act in neither; its seal names the target, so the next move recognises it.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from holdfast.core.journal.run_row_facts import facts_of
from holdfast.engine.damage.damaged_runs import check_run
from holdfast.engine.journal.lease import check_is_free
from holdfast.engine.lineage.dependents import all_rows
from holdfast.engine.people.promises_apart import promises_apart
from holdfast.engine.run.sealed import find_seal
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.transfer import export as exporting
from holdfast.engine.transfer.run_records import FactsByRun
from holdfast.engine.transfer.store_as_export import DryWriter, Kept, StoreWriter
from holdfast.errors import (
    Corrupt,
    ExportError,
    LeaseLost,
    Misuse,
    RunRefused,
    TooLarge,
    UnknownRun,
)
from holdfast.model.event_fields import fields_of
from holdfast.model.exports import CopiedRun, CopyProgress, CopyReport
from holdfast.model.store_rows import RunRow, Status
from holdfast.stores.port import StorePort

Tell = Callable[[CopyProgress], None]

_REFUSALS = (RunRefused, Corrupt, ExportError, TooLarge, LeaseLost)
"""Errors that concern one run only: the report names them, and the copy continues with the next run."""
_WOKEN = "it was moved there before"


def select(store: StorePort, runs: Sequence[str], prefix: str) -> list[RunRow]:
    """The requested runs with their children, or all runs; parents and origins first.

    May raise UnknownRun.
    """
    rows = all_rows(store)
    for run in runs:
        if run not in rows:
            raise UnknownRun(run=run, store=store.url)
    found = [row for row in rows.values() if _is_wanted(row.run, runs, prefix)]
    return sorted(found, key=lambda row: (row.run.count("/"), _forks(rows, row), row.created_at, row.run))


def _is_wanted(run: str, runs: Sequence[str], prefix: str) -> bool:
    if not runs and not prefix:
        return True
    return bool(prefix and run.startswith(prefix)) or any(
        run == one or run.startswith(f"{one}/") for one in runs
    )


def _forks(rows: dict[str, RunRow], row: RunRow) -> int:
    """The number of forks between a run and the root of its lineage."""
    count = 0
    while not row.damage and row.origin is not None and row.origin in rows:
        row = rows[row.origin]
        count += 1
    return count


class Copying:
    """One copy, from one store to another."""

    def __init__(
        self, source: StoreSession, target: StoreSession, *, move: bool, dry_run: bool, tell: Tell | None
    ) -> None:
        """Misuse where both are the same store."""
        if source.store is target.store or source.store.url == target.store.url:
            raise Misuse(
                problem=f"{source.store.url} is both where the runs are and where they are to go",
                advice="name two stores, with --from and --to",
            )
        self._source = source
        self._target = target
        self._move = move
        self._dry_run = dry_run
        self._tell = tell or (lambda _: None)
        self._kept = Kept()
        self._verified: set[str] = set()
        self._now = CopyProgress("", "", 0, 0, 0)
        self._made = FactsByRun(source.store, ())

    def go(self, rows: Sequence[RunRow]) -> CopyReport:
        """Copy these runs, and report the refused ones. What was copied is durable and verified on return."""
        found: dict[str, CopiedRun] = {}
        self._made = FactsByRun(self._source.store, rows)
        wanted = frozenset(row.run for row in rows)
        for row in self._with_progress("copying", rows):
            found[row.run] = self._judged(row.run, partial(self._copy, row, wanted))
        if self._move:
            _refuse_parents(found)
            self._add_promises(found)
        if self._move and not self._dry_run:
            self._move_all([row for row in rows if found[row.run].outcome == "moved"], found)
        runs = tuple(
            done._replace(origins=tuple(run for run in done.origins if run not in found))
            for done in found.values()
        )
        return CopyReport(
            self._source.store.url,
            self._target.store.url,
            self._move,
            self._dry_run,
            runs,
            events=sum(run.events for run in runs),
            blobs=sum(run.blobs for run in runs),
            size_bytes=sum(run.size_bytes for run in runs),
            verified=len(self._verified),
            facts=sum(run.facts for run in runs),
            pins=sum(run.pins for run in runs),
            losses=tuple(dict.fromkeys(loss for run in runs for loss in run.losses)),
        )

    # -- one run ---------------------------------------------------------------------------------------------

    def _copy(self, row: RunRow, wanted: AbstractSet[str]) -> CopiedRun:
        """Write a sealed copy of a run. The outcome is ``moved`` if the later passes are to move it."""
        source = self._source
        check_is_free(source.store, source.clock, row)
        if not row.head:
            return CopiedRun(row.run, "empty", why="it has no event yet")
        check_run(source.store, row)  # first: a damaged run must leave nothing in the target
        moves, why = self._moves(row)
        if not moves and why == _WOKEN:
            return self._outcome(row, "there")._replace(why=why)
        for run in {run for run, _ in facts_of(row).get("children", {}).values()} - wanted - self._verified:
            # It may borrow that one when it acts there.
            exporting.export(source, run, self._writer(), alone=True, made=self._made)
        writer = self._writer()
        done = exporting.export(source, row.run, writer, alone=True, made=self._made)
        if not self._dry_run:
            writer.verify()
            self._verified.add(row.run)
        outcome = "moved" if moves else "there" if writer.is_there else "copied"
        return self._outcome(row, outcome, writer)._replace(why=why, losses=done.losses)

    def _add_promises(self, found: dict[str, CopiedRun]) -> None:
        """Add the open promises that the move separates, before it takes effect, to the losses."""

        def comes_along(other: str) -> bool:
            there = self._target.store.find_run(other)
            is_there = there is not None and there.status != Status.SEALED
            return is_there or (other in found and found[other].outcome == "moved")

        for run, done in found.items():
            if done.outcome == "moved":
                lost = promises_apart(self._source.store, run, comes_along)
                found[run] = done._replace(losses=(*done.losses, *lost))

    def _moves(self, row: RunRow) -> tuple[bool, str]:
        """Whether a run is to act in the target when all is done; if a move cannot take it, also why not."""
        if row.status != Status.SEALED:
            return self._move, ""
        # A sealed run moves only if an earlier move to this target sealed it and was killed before it woke.
        seal = find_seal(self._source.store, row)
        to = fields_of(seal.body)["to"] if seal is not None else ""
        if to != self._target.store.url:
            why = f"it was moved to {to}" if to else "it is the copy of a run that acts elsewhere"
            return False, why if self._move else ""
        there = self._target.store.find_run(row.run)
        if there is not None and there.birth == row.birth and _has_woken(there, row):
            return False, _WOKEN
        return self._move, ""

    def _outcome(self, row: RunRow, outcome: str, writer: StoreWriter | None = None) -> CopiedRun:
        there = self._target.store.find_run(row.run)
        done = CopiedRun(row.run, outcome, there.status if there else "", there.head if there else row.head)
        if writer is None:
            return done
        return done._replace(
            events=writer.events,
            blobs=writer.blobs,
            size_bytes=writer.size_bytes,
            origins=writer.origins,
            facts=writer.facts,
            pins=writer.pins,
        )

    # -- moving ----------------------------------------------------------------------------------------------

    def _move_all(self, rows: Sequence[RunRow], found: dict[str, CopiedRun]) -> None:
        writers: dict[str, StoreWriter] = {}

        def seal(row: RunRow) -> CopiedRun:
            writers[row.run] = writer = self._writer()
            exporting.move(self._source, row.run, writer, alone=True, made=self._made)
            writer.verify()
            return _sum(found[row.run], self._outcome(row, "moved", writer))

        def wake(row: RunRow) -> CopiedRun:
            writers[row.run].wake()
            return _sum(found[row.run], self._outcome(row, "moved"))

        # All are sealed before the first wakes: a woken run may call its children at once, and they must be
        # in the target by then.
        for row in self._with_progress("sealing", rows):
            found[row.run] = self._judged(row.run, partial(seal, row), found[row.run])
        sealed = [row for row in rows if found[row.run].outcome == "moved"]
        for row in self._with_progress("waking", sealed[::-1]):
            found[row.run] = self._judged(row.run, partial(wake, row), found[row.run])

    # -- the rest --------------------------------------------------------------------------------------------

    def _judged(self, run: str, act: Callable[[], CopiedRun], before: CopiedRun | None = None) -> CopiedRun:
        """The result of one pass over a run. An error that concerns only this run becomes its outcome."""
        try:
            return act()
        except _REFUSALS as refused:
            result = before or CopiedRun(run, "")
            return result._replace(outcome="refused", why=str(refused))

    def _writer(self) -> StoreWriter:
        kind = DryWriter if self._dry_run else StoreWriter
        return kind(self._source.store, self._target, self._kept, self._wrote)

    def _with_progress(self, doing: str, rows: Sequence[RunRow]) -> Iterator[RunRow]:
        """The runs one by one; reports progress before each and after the last."""
        for number, row in enumerate(rows):
            self._say(self._now._replace(doing=doing, run=row.run, done=number, total=len(rows)))
            yield row
        if rows:
            self._say(self._now._replace(done=len(rows)))

    def _wrote(self, size_bytes: int) -> None:
        self._say(self._now._replace(size_bytes=self._now.size_bytes + size_bytes))

    def _say(self, now: CopyProgress) -> None:
        self._now = now
        self._tell(now)


def _refuse_parents(found: dict[str, CopiedRun]) -> None:
    """A run moves with all of its descendants or not at all: it would start a missing one again."""
    for run, done in found.items():
        stays = next(
            (one for one in found if one.startswith(f"{run}/") and found[one].outcome == "refused"), ""
        )
        if stays and done.outcome == "moved":
            found[run] = done._replace(
                outcome="refused", why=f"its child {stays} cannot move: {found[stays].why}"
            )


def _has_woken(there: RunRow, row: RunRow) -> bool:
    """Whether a moved run acts in the target, or acted there and was moved on from there."""
    return there.status not in {Status.SEALED, Status.IMPORTING} or there.head > row.head


def _sum(before: CopiedRun, after: CopiedRun) -> CopiedRun:
    return after._replace(
        events=before.events + after.events,
        blobs=before.blobs + after.blobs,
        size_bytes=before.size_bytes + after.size_bytes,
        origins=before.origins,
        facts=before.facts + after.facts,
        pins=before.pins + after.pins,
        losses=before.losses,
    )
