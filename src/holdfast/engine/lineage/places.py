"""Finds places in runs without reading their journals: a point, a label, and the run that has an event now.

The store counts the kinds of events and finds the n-th of some kinds: both are columns in clear, also in a
store that is encrypted. What is found is verified; what is before it is only counted. The counts must cover
each seq, by kinds that are known, or there is no answer: then the caller reads the journal, which finds the
damage, the compacted event or whatever else it is. So a wrong answer would take a kind that was changed into
another valid kind, or an event that was replaced by a forged one.

Nor is there one while others change what is recorded: the rows of the run and its origins must have the
same revisions before and after.

What a rewind has left belongs to the branch that keeps it. Facts, search hits and lists of effects name an
event by its run and number. Numbers are never used twice in a run's journal, so the name stays unique; only
the run that shows the event may be another one.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from holdfast.core.journal.lineage import Segment, segments
from holdfast.core.lineage.standing_ranges import ODD, POINTS, Range, kinds_tell_all, standing_ranges
from holdfast.engine.journal.journal import chain_of, read_all
from holdfast.limits import EVENT_PAGE_MAX
from holdfast.model.event_fields import fields_of, is_hollow
from holdfast.model.events import Event, Kind, is_intact
from holdfast.model.store_rows import RunRow
from holdfast.stores.port import StorePort

_SIGNS: Final = frozenset({Kind.LOOP_NOTICED, Kind.LOOP_LEFT})


class _Piece:
    """A range of one run's own events, and how many there are of each kind."""

    def __init__(self, store: StorePort, part: Segment) -> None:
        self._store, self.part = store, part
        run, after, upto = part
        self.counts = store.count_kinds(run, after_seq=after, upto_seq=upto)
        self.is_whole = kinds_tell_all(self.counts, upto - after)

    def count(self, kinds: Collection[str]) -> int:
        return sum(self.counts.get(kind, 0) for kind in kinds)

    def read(self, kinds: Collection[str], *, skip: int = 0, limit: int = EVENT_PAGE_MAX) -> Iterator[Event]:
        """Its events of these kinds, without those that are damaged."""
        run, after, upto = self.part
        left = min(limit, self.count(kinds) - skip)
        while left > 0:
            page = self._store.read_events(
                run, after_seq=after, upto_seq=upto, limit=min(left, EVENT_PAGE_MAX), kinds=kinds, skip=skip
            )
            yield from (event for event in page if is_intact(run, event))
            if not page:
                return
            left, skip, after = left - len(page), 0, page[-1].seq


class Standing:
    """The events of a run's history that count, up to its head."""

    def __init__(self, store: StorePort, chain: Sequence[RunRow]) -> None:
        self._store, self._chain = store, chain
        self._parts = segments(chain)
        pieces = [_Piece(store, part) for part in self._parts]
        is_whole = bool(pieces) and not pieces[0].part.after_seq and all(piece.is_whole for piece in pieces)
        odd = [event for piece in pieces for event in piece.read(ODD)] if is_whole else []
        self.is_complete = is_whole and len(odd) == sum(piece.count(ODD) for piece in pieces)
        """Whether the kinds of events tell everything. Otherwise the rest of this must not be used."""
        self._odd = frozenset(event.seq for event in odd)
        self._ranges = standing_ranges(chain[0].head, odd) if self.is_complete else []
        self._pieces = pieces if self._ranges == [Range(0, chain[0].head)] else None

    def pieces(self) -> Iterator[_Piece]:
        """What counts, by runs, oldest first."""
        if self._pieces is not None:
            yield from self._pieces
            return
        for one in self._ranges:
            for run, first, last in self._parts:
                after, upto = max(first, one.after_seq), min(last, one.upto_seq)
                if after < upto:
                    yield _Piece(self._store, Segment(run, after, upto))

    def is_odd(self, seq: int) -> bool:
        """Whether it may count although no range has it."""
        return seq in self._odd

    def has(self, seq: int) -> bool:
        """Whether an event counts."""
        return any(one.after_seq < seq <= one.upto_seq for one in self._ranges)

    def end_of(self, event: Event) -> int | None:
        """The last event that belongs to this one, as ``end_of_point`` says.

        None if it is damaged, or if what was recorded has been replaced since the counts.
        """
        behind = event.seq + 1 if self.has(event.seq + 1) else event.seq
        found = read_all(
            self._store, self._chain[0].run, after_seq=event.seq - 1, upto_seq=behind, row=self._chain[0]
        )
        if len(found) != behind - event.seq + 1 or found[0] != event or not self._is_unchanged():
            return None
        is_sign = found[-1].kind in _SIGNS and found[-1].key == event.key
        return behind if is_sign else event.seq

    def _is_unchanged(self) -> bool:
        now = [self._store.find_run(row.run) for row in self._chain]
        return [row and (row.birth, row.revision) for row in now] == [
            (row.birth, row.revision) for row in self._chain
        ]


def find_point(store: StorePort, row: RunRow, number: int) -> int | None:
    """The event at which this point of a run ends; None if the journal has to be read to know it."""
    standing = _standing(store, row)
    if standing is None:
        return None
    before = 0
    for piece in standing.pieces():
        if number <= before + piece.count(POINTS):
            found = next(piece.read(POINTS, skip=number - before - 1, limit=1), None)
            return None if found is None else standing.end_of(found)
        before += piece.count(POINTS)
    return None


def find_label(store: StorePort, row: RunRow, label: str, named: Collection[int]) -> int | None:
    """The event at which the point of this label ends; None if the journal has to be read to know it.

    ``named`` are the events to which people gave the label.
    """
    standing = _standing(store, row)
    if standing is None or any(map(standing.is_odd, named)):
        return None
    found: dict[int, Event] = {}
    for piece in standing.pieces():
        checkpoints = list(piece.read({Kind.CHECKPOINT}, limit=piece.count({Kind.CHECKPOINT})))
        if len(checkpoints) != piece.count({Kind.CHECKPOINT}):
            return None
        found |= {one.seq: one for one in checkpoints if fields_of(one.body).get("label") == label}
    for seq in filter(standing.has, named):
        found |= {one.seq: one for one in read_all(store, row.run, after_seq=seq - 1, upto_seq=seq, row=row)}
    if len(found) != 1:  # several, perhaps of one point, or none
        return None
    (event,) = found.values()
    # A sign ends the point before it, which only the fold of both tells.
    return None if event.kind in _SIGNS else standing.end_of(event)


def has_state_at(store: StorePort, row: RunRow, seq: int) -> bool | None:
    """Whether the very state at this event exists; None if the journal has to be read to know it."""
    standing = _standing(store, row._replace(head=seq))
    if standing is None:
        return None
    saved = [piece for piece in standing.pieces() if piece.count({Kind.CHECKPOINT})]
    if not saved:
        return True
    count = saved[-1].count({Kind.CHECKPOINT})
    latest = next(saved[-1].read({Kind.CHECKPOINT}, skip=count - 1, limit=1), None)
    return None if latest is None else not is_hollow(latest.body)


def find_kinds(
    store: StorePort,
    row: RunRow,
    kinds: Collection[str],
    *,
    after_seq: int = 0,
    without: Collection[str] = (),
) -> list[Event] | None:
    """The events of these kinds behind an event, also those that a rewind has left.

    None if the journal has to be read to know them, or if there is an event of a kind in ``without``.
    """
    chain = _chain(store, row)
    tail = [part._replace(after_seq=max(part.after_seq, after_seq)) for part in segments(chain)]
    found: list[Event] = []
    count = 0
    for piece in (_Piece(store, part) for part in tail if part.after_seq < part.upto_seq):
        if not piece.is_whole or piece.count(without):
            return None
        count += piece.count(kinds)
        found += piece.read(kinds, limit=count)
    return found if len(found) == count else None


def run_with(store: StorePort, run: str, seq: int) -> str:
    """The run whose history has this event of a run: itself, or the branch that a rewind kept.

    The run itself if that branch was erased.
    """
    while (kept := _kept_in(store, run, seq)) and store.find_run(kept) is not None:
        run = kept
    return run


def _kept_in(store: StorePort, run: str, seq: int) -> str:
    """The branch of the first rewind that left the event; empty if none did."""
    if not store.list_forks(run, limit=1):  # it was never rewound: read nothing
        return ""
    row = store.find_run(run)
    rewinds = None if row is None else find_kinds(store, row, {Kind.RUN_REWOUND}, after_seq=seq)
    for event in read_all(store, run, after_seq=seq) if rewinds is None else rewinds:
        if event.kind == Kind.RUN_REWOUND and (left := fields_of(event.body))["to_seq"] < seq:
            return str(left["kept"])
    return ""


def _standing(store: StorePort, row: RunRow) -> Standing | None:
    standing = Standing(store, _chain(store, row)) if row.head else None
    return standing if standing is not None and standing.is_complete else None


def _chain(store: StorePort, row: RunRow) -> list[RunRow]:
    return [row] if row.origin is None else [row, *chain_of(store, row.origin)]
