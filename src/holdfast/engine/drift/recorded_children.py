"""The children that a run has recorded and its program has not asked for in this attempt, with their effects.

A child has a journal of its own, so a renamed one would make its effects again. What an unasked child has
recorded, and what its own children have, is unclaimed. Children that a worker runs have no mark in the
parent's journal, and are not looked at: the worker may be another program.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from holdfast.core.drift.drift_fold import DRIFT
from holdfast.core.drift.ledger import Effect, ledger_of
from holdfast.core.journal.fold import View
from holdfast.core.journal.recorded_calls import Bodies, is_answered
from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.lineage.children import CHILD, marked
from holdfast.engine.journal.lineage_names import lineage_names
from holdfast.engine.journal.load_view import bodies_in, load
from holdfast.model.event_fields import fields_of
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.model.calls import Call
    from holdfast.model.store_rows import RunRow
    from holdfast.stores.port import StorePort


class Recorded(NamedTuple):
    """What the journal of a run says that this process does not hold."""

    view: View
    effects: list[Effect]
    children: list[str]


class RecordedChildren:
    """The children of one held run. Claimed ones are forgotten: the program cannot ask for them less."""

    def __init__(self, held: "HeldRun") -> None:
        self._held = held
        self._known: dict[str, Recorded | None] = {}
        bodies = Bodies(held.intent_of, held.body_of)
        self._marks = list(_marks(held.store, held.row, held.view, bodies))

    def __bool__(self) -> bool:
        return bool(self._marks)

    def unasked(self, passed_seq: float, now: Mapping[str, str]) -> list[Effect]:
        """Their effects that were passed over, or that another program than ``now`` recorded."""
        self._marks = [pair for pair in self._marks if not self._is_asked(*pair)]
        return [
            effect
            for run, mark in self._marks
            for recorded in self._below(run)
            for effect in recorded.effects
            if mark.outcomes[0].seq >= passed_seq or DRIFT.of(recorded.view).is_changed(effect.call, now)
        ]

    def find(self, run: str, key: str) -> Effect | None:
        """One effect of a run; None if it is gone, or counts no more."""
        recorded = self._recorded(run)
        effects = [] if recorded is None else recorded.effects
        return next((effect for effect in effects if effect.call.key == key), None)

    def _is_asked(self, run: str, mark: "Call") -> bool:
        held, outcome = self._held, mark.outcomes[0]
        if run in held.tree.entered or mark.taken or outcome.seq <= held.cursor_seq:
            return True
        scope = fields_of(held.body_of(outcome)).get("in", "")
        return is_answered(scope, held.view.calls, held.intent_of)

    def _below(self, run: str) -> Iterator[Recorded]:
        recorded = self._recorded(run)
        if recorded is not None:
            yield recorded
            for child in recorded.children:
                yield from self._below(child)

    def _recorded(self, run: str) -> Recorded | None:
        if run not in self._known:
            self._known[run] = _read(self._held.store, run)
        return self._known[run]


def _read(store: "StorePort", run: str) -> Recorded | None:
    row = store.find_run(run)
    if row is None or not row.head:
        return None
    view, bodies = load(store, run), bodies_in(store, run)
    effects = [Effect(run, call, bodies) for call in ledger_of(view.calls.values(), bodies)]
    children = dict.fromkeys(child for child, _ in _marks(store, row, view, bodies))
    return Recorded(view, effects, [*children])


def _marks(store: "StorePort", row: "RunRow", view: View, bodies: Bodies) -> Iterator[tuple[str, "Call"]]:
    """The marks of children, each with the id that the child has below this run."""
    marks = [call for call in view.marked(CHILD) if call.outcomes]
    if not marks:
        return
    is_renamed = row.origin is not None or "was" in facts_of(row)
    names = lineage_names(store, row.run) if is_renamed else [row.run]
    for mark in marks:
        name, _ = marked(mark, names, bodies.body_of)
        if name is not None:
            yield f"{row.run}/{name}", mark
