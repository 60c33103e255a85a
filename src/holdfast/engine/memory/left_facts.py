"""Facts that were remembered behind the point of a fork or a rewind, in the histories that a run has left.

When its program comes there again and remembers the same fact, the record answers, and memory stays as it is:
the fact may have been superseded, replaced or forgotten since. See docs/adr/035-facts-in-branches.md.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from holdfast.engine.journal.journal import chain_of, read_own
from holdfast.engine.log import log
from holdfast.engine.memory.facts import fact_from
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.call_identity import value_of
from holdfast.errors import Corrupt
from holdfast.model.events import REMEMBERED, Event, Kind
from holdfast.model.facts import Fact
from holdfast.stores.port import StorePort


class LeftFacts(Feature):
    """The marks of facts in the histories that one held run has left, by the keys of their calls."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self._marks: dict[str, Event] | None = None

    def find(self, key: str) -> Fact | None:
        """The fact that this call has remembered in a history that was left. It reads journals, once."""
        if self._marks is None:
            self._marks = {event.key: event for event in _left_marks(self.held.store, self.held.run)}
        mark = self._marks.get(key)
        if mark is None:
            return None
        fact = fact_from(value_of(self.held, mark.body, what=REMEMBERED))
        return fact._replace(event=fact.event or mark.seq)


LEFT_FACTS: Final = Slot("left_facts", LeftFacts)


def has_left_histories(held: HeldRun) -> bool:
    """Whether the run was forked or rewound, or may be a child of a run that was."""
    return bool(held.view.branches) or "/" in held.run


def _left_marks(store: StorePort, run: str) -> Iterator[Event]:
    for name, after_seq in _left(store, run):
        try:
            events = read_own(store, name, after_seq, None)
        except Corrupt as damage:  # of a history that this run does not need
            log().warning("run %s does not know which facts run %s has remembered: %s", run, name, damage)
            continue
        yield from (event for event in events if event.kind == Kind.MARK and event.name == REMEMBERED)


def _left(store: StorePort, run: str) -> list[tuple[str, int]]:
    """The journals with the histories that a run has left, and after which event; the oldest first.

    A child that a fork begins again has no origin. Its record is in the child of the same name that the
    origin of its parent has.
    """
    if store.find_run(run) is None:
        return []
    chain = chain_of(store, run)
    found = [(row.run, below.origin_seq) for below, row in pairwise(chain)]
    parent, _, child = chain[-1].run.rpartition("/")
    if parent:
        twins = [f"{other}/{child}" for other, _ in _left(store, parent) if other != parent]
        found += [(twin, 0) for twin in reversed(twins) if store.find_run(twin) is not None]
    return [*reversed(found), (run, chain[0].origin_seq)]
