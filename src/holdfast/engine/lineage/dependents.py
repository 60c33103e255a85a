"""Finds what depends on a run's events, from the rows and journals of its lineage: for prune and erase.

Packs of states are shared within one lineage and never beyond it, so a removal has to read these runs only.
Invariant: what cannot be read counts as a dependent that needs everything.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective, segments
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.journal.run_row_facts import lineages
from holdfast.core.prune.roots import Dependent, Lineage
from holdfast.core.threads.chains import leans_of
from holdfast.engine.damage.damaged_runs import as_damage
from holdfast.engine.journal.blob_content import with_views
from holdfast.engine.journal.journal import read_own
from holdfast.engine.journal.lineage_names import all_runs
from holdfast.engine.lineage.pins import kept_of
from holdfast.errors import Corrupt
from holdfast.limits import PRUNE_MEMORY_BYTES_MAX
from holdfast.model.event_fields import fields_of
from holdfast.model.events import CHAINED, Event, Kind
from holdfast.model.store_rows import RunRow, Status
from holdfast.stores.port import StorePort

_EVENT_BYTES = 200
"""A rough estimate of the memory of an event beside its body."""


class Family:
    """The runs of one lineage, by name: one tree of forks, or several trees of the same lineage."""

    def __init__(self, rows: Mapping[str, RunRow]) -> None:
        # Sorted: a plan must not depend on the order in which the runs were found.
        self.rows: Mapping[str, RunRow] = dict(sorted(rows.items()))

    @cached_property
    def _forks(self) -> dict[str, list[RunRow]]:
        found: dict[str, list[RunRow]] = {}
        for row in self.rows.values():
            if row.origin is not None:
                found.setdefault(row.origin, []).append(row)
        return found

    @property
    def is_whole(self) -> bool:
        """Whether every journal is complete. What an importing or damaged run needs is not known."""
        return all(row.status != Status.IMPORTING and not row.damage for row in self.rows.values())

    def path(self, run: str) -> list[RunRow]:
        """The run and its origins, nearest first."""
        found = [self.rows[run]]
        while (origin := found[-1].origin) is not None and origin in self.rows:
            found.append(self.rows[origin])
        return found

    def below(self, run: str) -> Iterator[tuple[RunRow, RunRow]]:
        """Every run that shares this one's history, with the direct fork of this one that leads to it."""
        for through in self._forks.get(run, ()):
            found = [through]
            while found:
                row = found.pop()
                yield row, through
                found += self._forks.get(row.run, ())


def all_rows(store: StorePort) -> dict[str, RunRow]:
    """Every run of the store."""
    return {row.run: row for row in all_runs(store)}


def families(rows: Mapping[str, RunRow]) -> list[Family]:
    """The lineages of a store; ``rows`` are all of its runs."""
    found: dict[str, dict[str, RunRow]] = {}
    for run, name in lineages(rows).items():
        found.setdefault(name, {})[run] = rows[run]
    return [Family(kin) for kin in found.values()]


class Walk:
    """The journals of one lineage, for a prune plan. Each is read once, as long as they fit in memory.

    ``renew`` lets several prunes of the lineage share it: what has not changed is not read again.
    """

    def __init__(self, store: StorePort, family: Family) -> None:
        self.store = store
        self.family = family
        self._kept: dict[str, list[Event]] = {}
        self._size = 0
        self._ends: dict[str, tuple[bool, str]] = {}

    def own(self, run: str) -> list[Event]:
        """The run's own events, verified. Corrupt."""
        found = self._kept.pop(run, None)
        if found is None:
            found = read_own(self.store, run, self.family.rows[run].origin_seq, None)
            self._size += _room_for(found)
        self._kept[run] = found  # at the end: the least recently used one is dropped first
        while self._size > PRUNE_MEMORY_BYTES_MAX and len(self._kept) > 1:
            self._size -= _room_for(self._kept.pop(next(iter(self._kept))))
        return found

    def history(self, run: str) -> list[Event]:
        """The run's history as ``read_all`` returns it, made from journals that are in memory."""
        path = self.family.path(run)
        self._check_is_whole(run, path)
        events: list[Event] = []
        for name, _, last in segments(path):
            own = self.own(name)
            part = own[: len(own) if name == run else bisect_right(own, last, key=_seq)]
            events += with_views(self.store, name, part)
            if name != run and (not events or events[-1].seq != last):
                problem = f"run {run} was forked from event #{last} of {name}, which is missing"
                raise Corrupt(store=self.store.url, problem=problem)
        return events

    def _check_is_whole(self, run: str, path: list[RunRow]) -> None:
        if path[-1].origin is not None:
            problem = f"run {run} was forked from {path[-1].origin}, which is not there"
            raise Corrupt(store=self.store.url, problem=problem)

    def renew(self, family: Family) -> list[str]:
        """Take the lineage as it is now, and drop what is known of runs that changed. Returns their names."""
        rows = self.family.rows
        changed = [run for run in rows if not _is_same(rows[run], family.rows.get(run))]
        for run in changed:
            self.forget(run)
        self.family = family
        return changed

    def drop_journals(self) -> None:
        """Drop all journals from memory. Each is read again when it is needed."""
        self._kept.clear()
        self._size = 0

    def forget(self, run: str, *, is_gone: bool = False) -> None:
        """Drop what is known of a run whose journal was changed, or which is gone."""
        self._size -= _room_for(self._kept.pop(run, []))
        self._ends.pop(run, None)
        if is_gone:
            self.family = Family({name: row for name, row in self.family.rows.items() if name != run})

    def end(self, run: str, events: list[Event]) -> tuple[bool, str]:
        """Whether the run restores its state, and what it may still need from its origin's journal."""
        if run not in self._ends:
            view = fold(effective(events))
            self._ends[run] = view.restores, _waits(run, view, self.family.rows[run].origin_seq)
        return self._ends[run]


def _is_same(row: RunRow, now: RunRow | None) -> bool:
    """Whether the run's own events are the same: an append moves the head, a prune the revision."""
    return now is not None and (row.birth, row.head, row.revision) == (now.birth, now.head, now.revision)


def _seq(event: Event) -> int:
    return event.seq


def _room_for(events: list[Event]) -> int:
    return sum(_EVENT_BYTES + len(event.body) for event in events)


def lineage_at(store: StorePort, walk: Walk, run: str, *, stands_at: int | None = None) -> Lineage:
    """The run's journal now, with everything that depends on it."""
    row = walk.family.rows[run]
    raw = walk.history(run)
    borrowed = [event for event in raw if event.seq <= row.origin_seq]
    own = raw[len(borrowed) :]
    dependents: list[Dependent] = []
    waits = ""
    for below, through in walk.family.below(run):
        found, reason = _dependents(walk, run, below, through)
        dependents += found
        waits = waits or reason
    kept = {seq: one.why for seq, one in kept_of(store, run).items()}
    return Lineage(run, row.origin_seq, borrowed, own, dependents, kept, waits, stands_at)


def _dependents(walk: Walk, run: str, below: RunRow, through: RunRow) -> tuple[list[Dependent], str]:
    """Up to which events a run below needs this one, and a reason if it forbids every compaction."""
    origin_seq = walk.family.rows[run].origin_seq
    at_seq = through.origin_seq
    try:
        with as_damage(walk.store, below.run):
            events = walk.history(below.run)
    except Corrupt:  # what it needs is not known, so it needs everything
        return [Dependent(below.run, at_seq, replays=True)], ""
    later = [event for event in events if event.seq > at_seq]
    restores, waits = walk.end(below.run, events)
    replays = _replays(later, restores=restores)
    # A rewind may lead back to before the fork: then its history leaves this one there.
    points = {at_seq, *(seq for seq in (*_rewound_to(later), *_leant_on(later)) if origin_seq < seq < at_seq)}
    found = [Dependent(below.run, seq, replays) for seq in sorted(points)]
    return found, waits


def _replays(own: Iterable[Event], *, restores: bool) -> bool:
    """Whether the run needs all shared events: it never restored a state, or outcomes were overridden."""
    kinds = {event.kind for event in own}
    has_run = bool(kinds & {Kind.ATTEMPT_STARTED, Kind.COMPACTED})
    return not has_run or not restores or Kind.STEP_OVERRIDDEN in kinds


def _rewound_to(events: Iterable[Event]) -> Iterator[int]:
    return (fields_of(event.body)["to_seq"] for event in events if event.kind == Kind.RUN_REWOUND)


def _leant_on(events: Iterable[Event]) -> Iterator[int]:
    return (seq for event in events if event.name == CHAINED for seq in leans_of(event.body).values())


def _waits(run: str, view: View, origin_seq: int) -> str:
    """A reason to keep the origin's events: an effect in flight at the fork is settled from that journal."""
    for call in view.open_calls():
        if call.seq <= origin_seq and is_once(call):
            return f"fork {run} may find in them how {call.name!r} ended"
    return ""
