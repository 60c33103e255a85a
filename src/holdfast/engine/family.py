"""Who depends on a run's events: read from the rows and journals of its lineage, for whoever wants to remove some.

Packs of states are shared within one lineage and never beyond it, so whoever removes states asks these runs only.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from orjson import loads

from holdfast.core.chains import leans_of
from holdfast.core.facts import kin_of
from holdfast.core.fold import View, fold
from holdfast.core.lineage import effective
from holdfast.core.prune import Dependent, Lineage
from holdfast.core.recorded import is_once
from holdfast.engine.journal import all_runs, read_all
from holdfast.errors import Corrupt
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.events import CHAINED, Event, Kind
from holdfast.model.rows import Record, RunRow, Status
from holdfast.stores.port import StorePort

PINS = "pins"
"""The record space of pins; a key is ``RUN@#44``."""


class Family(NamedTuple):
    """The runs of one lineage, by name: one tree of forks, or several that go by the same name."""

    rows: dict[str, RunRow]

    @property
    def is_whole(self) -> bool:
        """Whether every journal is all there: of one that is being brought in, nobody knows yet what it needs."""
        return all(row.status != Status.IMPORTING for row in self.rows.values())

    def path(self, run: str) -> list[RunRow]:
        """The run and its origins, nearest first."""
        found = [self.rows[run]]
        while (origin := found[-1].origin) is not None and origin in self.rows:
            found.append(self.rows[origin])
        return found

    def below(self, run: str) -> Iterator[tuple[RunRow, RunRow]]:
        """Every run that has borrowed from this one, and the fork of this one that it did so through."""
        for name in self.rows:
            path = self.path(name)
            names = [row.run for row in path]
            if run in names[1:]:
                yield path[0], path[names.index(run) - 1]


def all_rows(store: StorePort) -> dict[str, RunRow]:
    """Every run of the store."""
    return {row.run: row for row in all_runs(store)}


def family_of(rows: dict[str, RunRow], run: str) -> Family:
    """The lineage that a run belongs to, out of all runs."""
    return Family(kin_of(rows, run))


def lineage_at(store: StorePort, family: Family, run: str, *, stands_at: int | None = None) -> Lineage:
    """The run as its journal stands, with everything that depends on it."""
    row = family.rows[run]
    raw = read_all(store, run)
    borrowed = [event for event in raw if event.seq <= row.origin_seq]
    own = raw[len(borrowed) :]
    dependents: list[Dependent] = []
    waits = ""
    for below, through in family.below(run):
        found, reason = _dependents(store, family, run, below, through)
        dependents += found
        waits = waits or reason
    return Lineage(run, row.origin_seq, borrowed, own, dependents, pins_of(store, run), waits, stands_at)


def pins_of(store: StorePort, run: str) -> dict[int, str]:
    """The pinned events of this run's own, and the name that each was pinned by."""
    return {seq_of(record): loads(record.body)["place"] for record in pin_records(store, run)}


def pin_records(store: StorePort, run: str) -> Iterator[Record]:
    """The pins of this run's own events, as they are kept."""
    after = ""
    while page := store.scan_records(PINS, prefix=f"{run}@#", after=after, limit=RECORD_PAGE_MAX):
        yield from page
        after = page[-1].key


def seq_of(record: Record) -> int:
    """The event that a pin is about."""
    return int(record.key.rpartition("#")[2])


def _dependents(
    store: StorePort, family: Family, run: str, below: RunRow, through: RunRow
) -> tuple[list[Dependent], str]:
    """Where a run leaves the events of this one, and why nothing may be compacted because of it, if so."""
    origin_seq = family.rows[run].origin_seq
    at_seq = through.origin_seq
    try:
        events = read_all(store, below.run)
    except Corrupt:  # who knows what it needs
        return [Dependent(below.run, at_seq, replays=True)], ""
    later = [event for event in events if event.seq > at_seq]
    replays = _replays(fold(effective(events)), later)
    # A rewind may have led back to before the fork: then that is where its history leaves this one.
    points = {at_seq, *(seq for seq in (*_rewound_to(later), *_leant_on(later)) if origin_seq < seq < at_seq)}
    found = [Dependent(below.run, seq, replays) for seq in sorted(points)]
    return found, _waits(below.run, fold(effective(events)), below.origin_seq)


def _replays(view: View, own: Iterable[Event]) -> bool:
    """Whether it needs all that it has borrowed: it has not shown that it restores, or answers were put in."""
    kinds = {event.kind for event in own}
    has_run = bool(kinds & {Kind.ATTEMPT_STARTED, Kind.COMPACTED})
    return not has_run or not view.restores or Kind.STEP_OVERRIDDEN in kinds


def _rewound_to(events: Iterable[Event]) -> Iterator[int]:
    return (loads(event.body)["to_seq"] for event in events if event.kind == Kind.RUN_REWOUND)


def _leant_on(events: Iterable[Event]) -> Iterator[int]:
    return (seq for event in events if event.name == CHAINED for seq in leans_of(event.body).values())


def _waits(run: str, view: View, origin_seq: int) -> str:
    """An effect under way at the point of the fork is settled from the origin's journal: then its end must be there."""
    for call in view.open_calls():
        if call.seq <= origin_seq and is_once(call):
            return f"fork {run} may find in them how {call.name!r} ended"
    return ""
