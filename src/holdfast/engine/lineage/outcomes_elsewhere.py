"""Settles effects that were in flight where a fork or a rewind begins, if another history has their outcome.

A fork looks at its origin whenever it is entered, since the origin may learn the outcome later. A rewound run
looks once, at what it leaves behind: the outcome is recorded in the append that moves its head.
"""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.core.journal.fold import View
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.lineage.outcomes_elsewhere import Awaited, outcomes_in
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.journal.journal import read_all
from holdfast.engine.run.features import Feature
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import Runtime
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import fields_of, rewritten, values_in
from holdfast.model.events import Event, Kind
from holdfast.model.store_rows import Blob, RunRow


class Forks(Feature):
    """The feature of a held run that is a fork."""

    async def entered(self, runtime: Runtime) -> None:
        """Settle effects that were in flight at the point of the fork."""
        await settle_from_origin(self.held, runtime, self.held.row)


async def settle_from_origin(held: HeldRun, runtime: Runtime, row: RunRow) -> None:
    """Settle effects that were in flight at the fork, if the origin's journal has their outcome."""
    awaited = _awaited(held.view, row.origin_seq)
    if row.origin is None or not awaited:
        return
    assert held.journal is not None
    later = await runtime.store(read_all, held.store, row.origin, after_seq=row.origin_seq)
    for key, event, how in outcomes_in(later, awaited):
        call = held.view.calls[key]
        settled = _settled(call, event, how, row.origin)
        seq = await held.journal.append(runtime, [settled], held.clock.wall())
        call.is_open = False
        held.view.add_outcome(call, Outcome(seq, how == "done", held.add_point(), settled.body))


def settled_behind(view: View, later: Sequence[Event], to_seq: int, kept: str) -> Iterator[Draft]:
    """The outcomes of effects that were in flight at a point, from the events that a rewind leaves behind.

    ``view`` is that at the point. ``kept`` is the run that keeps those events.
    """
    for key, event, how in outcomes_in(later, _awaited(view, to_seq)):
        yield _settled(view.calls[key], event, how, kept)


def _awaited(view: View, upto_seq: int) -> Mapping[str, Awaited]:
    """The ``once`` effects in flight at a point."""
    return {
        call.key: Awaited(call.seq, str(fields_of(call.body).get("idempotency_key", "")))
        for call in view.open_calls()
        if call.body is not None and is_once(call) and call.seq <= upto_seq
    }


def _settled(call: Call, event: Event, how: str, run: str) -> Draft:
    body = rewritten(event.body, how=how, via="origin", seq=event.seq, **{"from": run})
    return Draft(Kind.STEP_SETTLED, call.name, call.key, body, tuple(Blob(one) for one in values_in(body)))
