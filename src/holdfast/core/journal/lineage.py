"""Which events make up the history of a fork or of a rewound run.

A fork is a row that names its origin and a seq. Its history is the origin's events up to that seq, then its
own. A rewind is an event that names an earlier seq: the events in between no longer count for this run, and
stay readable through the fork that keeps the old branch. No event is copied or removed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind, Links, covers_from
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import RunRow


class Segment(NamedTuple):
    """A range of one run's own events: after one seq, up to and including another."""

    run: str
    after_seq: int
    upto_seq: int


def own_links(row: RunRow) -> Links:
    """The links to verify a run's own events with; a fork's first one is in its origin and is left open."""
    return Links(None if row.origin_seq else 0, row.birth)


def segments(chain: Sequence[RunRow]) -> list[Segment]:
    """Where the events of a run's history are, oldest first.

    ``chain`` is the run and its origins, nearest first.
    """
    found: list[Segment] = []
    upto = chain[0].head
    for row in chain:
        # A fork may be taken from borrowed history: then the run between the two contributes no event.
        if upto > row.origin_seq:
            found.append(Segment(row.run, row.origin_seq, upto))
        upto = min(upto, row.origin_seq)
    return found[::-1]


def meeting(a: tuple[Sequence[RunRow], int], b: tuple[Sequence[RunRow], int]) -> int:
    """The seq up to which two points have the same history; 0 if their lineages differ.

    Each argument is a chain as for ``segments``, and the seq of the point. Rewinds are not taken into
    account.
    """
    reach: dict[str, int] = {}
    upto = a[1]
    for row in a[0]:
        reach[row.run] = upto
        upto = min(upto, row.origin_seq)
    upto = b[1]
    for row in b[0]:
        if row.run in reach:
            return min(reach[row.run], upto)
        upto = min(upto, row.origin_seq)
    return 0


def effective(events: Iterable[Event]) -> list[Event]:
    """The events that count: without those that rewinds have left behind."""
    kept: list[Event] = []
    for event in events:
        if event.kind == Kind.RUN_REWOUND:
            to_seq = fields_of(event.body)["to_seq"]
            while kept and kept[-1].seq > to_seq:
                kept.pop()
        kept.append(event)
    return kept


class Page(NamedTuple):
    """Events that were read together, at least one. ``after_seq`` is the last one of the page before."""

    after_seq: int
    events: list[Event]

    @property
    def replaces(self) -> bool:
        """Whether an event of it replaces others before it: a pruner was at work while pages were read."""
        if self._is_unbroken:
            return False
        before = (self.after_seq, *(event.seq for event in self.events))
        return any(_covered(event, after) <= after for event, after in zip(self.events, before, strict=False))

    def join(self, events: list[Event]) -> None:
        """Add it to the events of the pages before it, without those that it replaces."""
        after = self.after_seq
        for event in () if self._is_unbroken else self.events:
            first = _covered(event, after)
            while first <= after and events and events[-1].seq >= first:
                events.pop()
            events.append(event)
            after = event.seq
        if self._is_unbroken:
            events += self.events

    @property
    def _is_unbroken(self) -> bool:
        return self.events[-1].seq == self.after_seq + len(self.events)


def _covered(event: Event, after_seq: int) -> int:
    """The first seq that an event covers, which stands behind this one."""
    return event.seq if event.seq == after_seq + 1 else covers_from(event)


class Branch(NamedTuple):
    """One run in the tree that forks make."""

    run: str
    at_seq: int
    children: "tuple[Branch, ...]"

    def names(self) -> Iterator[str]:
        """The run, and all runs below it."""
        yield self.run
        for child in self.children:
            yield from child.names()


def tree(rows: Mapping[str, tuple[str | None, int]], run: str) -> Branch:
    """The whole tree of forks that a run belongs to, from its oldest ancestor.

    ``rows`` maps a run to (origin, seq).
    """
    root = run
    # An origin that was erased is not in ``rows``: then the tree begins below it.
    while (origin := rows.get(root, (None, 0))[0]) is not None and origin in rows:
        root = origin
    by_origin: dict[str, list[str]] = {}
    for name, (parent, _) in rows.items():
        if parent is not None:
            by_origin.setdefault(parent, []).append(name)

    def grow(name: str, depth: int) -> Branch:
        assert depth < len(rows) + 1, "forks make a tree: no run is its own ancestor"
        below = sorted(by_origin.get(name, ()), key=lambda child: (rows[child][1], child))
        return Branch(name, rows.get(name, (None, 0))[1], tuple(grow(child, depth + 1) for child in below))

    return grow(root, 0)
