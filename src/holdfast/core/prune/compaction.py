"""Compaction: reduces the events before a checkpoint to what a program that restores it still needs.

That is: points, attempts, goal, plan, conversation, decisions and discoveries within the policy and the
limits, open waits and questions; calls whose end is not known; outcomes that the program can ask for again
(of an explicit key, or asked for before it restores); promises; the handoff; the list of effects with their
idempotency keys, without their results; and the counts of calls where they matter. The count of an effect
always matters, because no other call may get its idempotency key. The count of a read matters only while the
journal has a later call of the same site.

The body of a ``compacted`` event is that view as data. It is not a cache: once the events are gone, nothing
else has the data.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from orjson import dumps

from holdfast.core.journal.feature_fold import Compaction, Read
from holdfast.core.journal.fold import View
from holdfast.core.journal.folds import LOOK_BACK
from holdfast.core.journal.snapshots import dump, fill_base
from holdfast.core.journal.view_parts import Attempt, Site
from holdfast.core.reports.progress import latest_of_plan
from holdfast.core.steps.identity import enclosing, split_key
from holdfast.model.calls import Call
from holdfast.model.event_fields import fields_of, part_of, values_in
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple

ATTEMPTS_KEPT: Final = 5
"""How many of the latest attempts stay, with their command lines. Numbering continues in any case."""

UNCOUNTED: Final = frozenset({"", "read", "model"})
"""Effects of calls that may be repeated, so that no record of them must stay; empty is a mark."""


class Reduced(NamedTuple):
    """A reduced view as data without the counts of its sites.

    Apart from it, the counts and which must stay.
    """

    data: dict[str, Any]
    blobs: frozenset[str]
    sites: dict[str, Site]
    needed: frozenset[str]

    def view(self) -> View:
        """A new view of the data, without the counts."""
        view = View()
        fill_base(view, {**self.data, "sites": {}})
        return view

    def encode(self, also: AbstractSet[str] = frozenset()) -> bytes:
        """The data as JSON, with the counts of the needed sites and of the sites in ``also``."""
        wanted = self.needed | also
        sites = {site: [known.used, *known.free] for site, known in self.sites.items() if site in wanted}
        return dumps({**self.data, "sites": sites})


def reduce(
    view: View, later_sites: AbstractSet[str] | None, read: Read, *, reasoning_from: int = 0
) -> Reduced:
    """What stays of this view. ``later_sites`` are the sites with events after it; None keeps all counts.

    ``reasoning_from`` is the first event whose reasoning the policy keeps.
    """
    counts, free = view.consume_upto(view.head)
    sites = {site: Site(count, tuple(free.get(site, ()))) for site, count in counts.items()}
    whole = {call.key: call for call in _whole_calls(view)}
    effects = {c.key: c for c in view.calls.values() if c.key not in whole and effect_of(c) not in UNCOUNTED}
    kept = _reduced(view, Compaction(view, whole, read, reasoning_from))
    data = dump(kept, whole=True)
    del data["sites"]
    data["effects"] = [_dump_effect(call) for call in effects.values()]
    needed = set(sites) if later_sites is None else set(later_sites)
    asked_for = [key for fold in view.folds.values() for key in fold.call_keys()]
    needed |= {split_key(key)[0] for key in (*whole, *effects, *asked_for)}
    return Reduced(data, frozenset(_blobs(kept)), sites, frozenset(needed))


def effect_of(call: Call) -> str:
    """The recorded effect of a step; empty for a mark."""
    return str(fields_of(call.body).get("effect", "")) if call.seq and call.body is not None else ""


def _whole_calls(view: View) -> Iterator[Call]:
    yield from latest_of_plan(view)
    for call in view.calls.values():
        # ``early``: the program makes this call before it restores, so each attempt asks for it again. An
        # explicit key may be asked for at any time.
        if call.early or (call.key.endswith(".k") and call.outcomes and call.outcomes[-1].good):
            yield call
        elif call.is_open:
            yield call
            yield from _around(call, view)


def _around(call: Call, view: View) -> Iterator[Call]:
    """The steps around an open call.

    If one of them was answered, the program never asks for the open call.
    """
    scope = _scope(call)
    while scope:
        parent = view.calls.get(scope)
        if parent is None:
            scope = enclosing(scope)
        else:
            yield parent
            scope = _scope(parent)


def _scope(call: Call) -> str:
    return str(fields_of(call.body).get("in", "")) if call.body is not None else ""


def _reduced(view: View, compaction: Compaction) -> View:
    kept, whole = View(), compaction.calls
    kept.head = kept.base = view.head
    kept.status, kept.points, kept.last_outcome_seq = view.status, view.points, view.last_outcome_seq
    kept.started, kept.result, kept.last_step = view.started, view.result, view.last_step
    kept.restores, kept.branch, kept.branches = view.restores, view.branch, list(view.branches)
    kept.worked_s = view.worked_s
    kept.calls = dict(whole)
    kept.trailing_failures = [(call, seq) for call, seq in view.trailing_failures if call.key in whole]
    # These folds look back at attempts when they are made. Most attempts go now, so make the folds first.
    for name in LOOK_BACK:
        view.fold_of(name)
    kept.folds = {name: fold.reduced(compaction) for name, fold in view.folds.items()}
    kept.attempts = _attempts(view, {call.fence for call in whole.values() if call.is_open})
    kept.earlier_attempts = view.next_attempt - 1  # so that numbering continues
    return kept


def _attempts(view: View, fences: AbstractSet[int]) -> list[Attempt]:
    """The latest attempts, and those that began a call that is still open.

    The owner of such an attempt must stay known: if its process is alive, it can still finish the call.
    """
    old = [attempt for attempt in view.attempts[:-ATTEMPTS_KEPT] if attempt.event.fence in fences]
    return old + view.attempts[-ATTEMPTS_KEPT:]


def _blobs(view: View) -> Iterator[str]:
    for call in view.calls.values():
        yield from values_in(call.body or b"")
        for outcome in call.outcomes:
            yield from values_in(outcome.body or b"")
    yield from values_in(view.started.body if view.started else b"")
    yield from values_in(view.result or b"")
    for fold in view.folds.values():
        yield from fold.blobs()


# -- the list of effects: that they happened, without their results ------------------------------------------


def _dump_effect(call: Call) -> list[Any]:
    outcomes = [[o.seq, o.good, o.point] for o in call.outcomes]
    idempotency_key = fields_of(call.body or b"{}").get("idempotency_key", "")
    more = [idempotency_key] if idempotency_key else []
    return [call.key, call.name, effect_of(call), call.seq, call.started_at, call.fence, outcomes, *more]


def effects_in(event: Event) -> list[tuple[str, int]]:
    """The ``once`` effects that a compacted event lists as done: their names and the seqs of outcomes."""
    if event.kind != Kind.COMPACTED:
        return []
    view = part_of(event.body, "view") or {"effects": ()}
    return [
        (fields[1], seq)
        for fields in view["effects"]
        if fields[2] == "once"
        for seq, good, _ in fields[6]
        if good
    ]
