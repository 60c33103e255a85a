"""Compaction: the events before a checkpoint, replaced by what a program that restores it still needs of them.

What that is: everything that is asked for without looking back (points, attempts, goal, plan, conversation, open waits
and questions), calls whose end is not known, outcomes that can be asked for again (of an explicit key, or asked for
before the program restores), promises, what a handoff brought, the ledger of effects, and how far calls were counted where that matters. An effect's count always matters: another
call must never get its idempotency key. A read's matters only while the journal holds a later call of the same site.

The body of a ``compacted`` event is that view as data. It is no cache: nothing else has it.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from orjson import dumps, loads

from holdfast.core.journal.fold import View
from holdfast.core.journal.hollow import COMPACTED
from holdfast.core.journal.snapshots import dump, rebuild
from holdfast.core.journal.view_parts import Attempt, Said, Site
from holdfast.core.reports.progress import latest_of_plan
from holdfast.core.steps.identity import enclosing, split_key
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import (
    contents_of,
    fields_of,
    part_of,
    rewritten,
    values_in,
    write,
)
from holdfast.model.events import Event, Kind

ATTEMPTS_KEPT: Final = 5
"""The latest attempts that stay with their command lines; the numbers go on in any case."""

UNCOUNTED: Final = frozenset({"", "read", "model"})
"""What is made again when it is asked for again: nobody has to remember that it happened."""

_GONE: Final = write({"pruned": COMPACTED})

Read = Callable[[str], bytes]
"""The content at an address."""


class Reduced(NamedTuple):
    """A view to be kept as data, without the counts of its sites; and these, with the ones that must stay."""

    data: dict[str, Any]
    blobs: frozenset[str]
    sites: dict[str, Site]
    needed: frozenset[str]

    def view(self) -> View:
        """The view that the data stand for, made anew; of the counts, only those of effects and whole calls matter."""
        return _view_of({**self.data, "sites": {}})

    def encode(self, also: AbstractSet[str] = frozenset()) -> bytes:
        """The data as JSON, with the counts of the sites that are needed, and of those that somebody needs ``also``."""
        wanted = self.needed | also
        sites = {site: [known.used, *known.free] for site, known in self.sites.items() if site in wanted}
        return dumps({**self.data, "sites": sites})


def reduce(view: View, later_sites: AbstractSet[str] | None, read: Read) -> Reduced:
    """What stays of this view. ``later_sites`` are those with events after it; None keeps the counts of all."""
    counts, free = view.consume_upto(view.head)
    sites = {site: Site(count, tuple(free.get(site, ()))) for site, count in counts.items()}
    whole = {call.key: call for call in _whole_calls(view)}
    effects = {c.key: c for c in view.calls.values() if c.key not in whole and effect_of(c) not in UNCOUNTED}
    kept = _reduced(view, whole, read)
    data = dump(kept, whole=True)
    del data["sites"]
    data["effects"] = [_dump_effect(call) for call in effects.values()]
    needed = set(sites) if later_sites is None else set(later_sites)
    needed |= {split_key(key)[0] for key in (*whole, *effects, *view.waits, *view.questions)}
    return Reduced(data, frozenset(_blobs(kept)), sites, frozenset(needed))


def standing_view(event: Event) -> View | None:
    """The view that a compacted event holds; None where the event has none."""
    data = part_of(event.body, "view")
    if data is None:
        return None
    view = _view_of(data)
    for attempt in view.attempts:
        # Nothing that an event stands for came after it, whatever it says: whose a command is, is told by where it stands.
        attempt.event = attempt.event._replace(seq=min(attempt.event.seq, event.seq))
    return view


def _view_of(data: dict[str, Any]) -> View:
    view = rebuild(data)
    for fields in data["effects"]:
        call = _load_effect(fields)
        view.calls[call.key] = call
    return view


def effect_of(call: Call) -> str:
    """What a step was recorded to do to the world; empty for a mark."""
    return str(fields_of(call.body).get("effect", "")) if call.seq and call.body is not None else ""


def _whole_calls(view: View) -> Iterator[Call]:
    yield from latest_of_plan(view)
    for call in view.calls.values():
        if call.early or (call.key.endswith(".k") and call.outcomes and call.outcomes[-1].good):
            yield call
        elif call.is_open:
            yield call
            yield from _around(call, view)


def _around(call: Call, view: View) -> Iterator[Call]:
    """The steps that a call stands in: whether one of them was answered decides what becomes of it."""
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


def _reduced(view: View, whole: dict[str, Call], read: Read) -> View:
    kept = View()
    kept.head = kept.base = view.head
    kept.status, kept.points, kept.last_outcome_seq = view.status, view.points, view.last_outcome_seq
    kept.started, kept.plan, kept.result = view.started, view.plan, view.result
    kept.restores, kept.branch = view.restores, view.branch
    kept.waits, kept.questions = dict(view.waits), dict(view.questions)
    kept.asked, kept.branches = view.asked, list(view.branches)
    kept.spent, kept.worked_s, kept.warned = view.spent, view.worked_s, view.warned
    kept.calls = whole
    kept.partials = {key: bodies for key, bodies in view.partials.items() if key in whole}
    kept.signs = sorted({signed.level: signed for signed in view.signs}.values(), key=lambda s: s.seq)
    kept.trailing_failures = [(call, seq) for call, seq in view.trailing_failures if call.key in whole]
    kept.messages = list(standing_messages(view.messages, _unsaid(view), read))
    kept.attempts = _attempts(view, {call.fence for call in whole.values() if call.is_open})
    kept.earlier_attempts = view.next_attempt - 1
    kept.premises, kept.promises = view.premises, view.promises
    kept.artifacts = view.artifacts.compacted()
    kept.handed, kept.claimed = view.handed, view.claimed
    kept.repeats, kept.behind = view.repeats, view.behind
    return kept


def _attempts(view: View, fences: AbstractSet[int]) -> list[Attempt]:
    """The latest, and those that began what is still open: who they were tells whether they can still act."""
    old = [attempt for attempt in view.attempts[:-ATTEMPTS_KEPT] if attempt.event.fence in fences]
    return old + view.attempts[-ATTEMPTS_KEPT:]


class _Standing:
    """A record of the conversation, how many of its messages stand, and how many were dropped before it came."""

    def __init__(self, said: Said, count: int, dropped_before: int) -> None:
        self.said = said
        self.count = count
        self.dropped_before = dropped_before


def standing_messages(messages: Iterable[Said], unsaid: AbstractSet[int], read: Read) -> Iterator[Said]:
    """The records of messages that are not dropped: without the dropped ones where all of a record's are.

    Those that the program had not come to stay as they are: it may come to them later.
    """
    standing: list[_Standing] = []
    dropped = total = 0
    ahead: list[Said] = []
    for said in messages:
        if said.seq in unsaid:
            ahead.append(said)
            continue
        value = _value(said, read)
        if said.is_drop:
            dropped, total = dropped + value["first"], total + value["first"]
        else:
            if said.mends_upto is not None:
                _shorten(standing, _kept(said) + dropped)
            standing.append(_Standing(said, len(value), total))
        while standing and standing[0].count <= dropped:
            dropped -= standing.pop(0).count
    for number, one in enumerate(standing):
        yield _rebased(one.said, total - one.dropped_before)
        if number == 0 and dropped:
            yield Said(one.said.seq, True, write({}, {"value": {"first": dropped}}))
    yield from ahead


def _shorten(standing: list[_Standing], room: int) -> None:
    """Only so many messages stay: the rest are replaced. An earlier repair before them still counts, if it only took away."""
    whole = 0
    while whole < len(standing) and room:
        standing[whole].count = min(standing[whole].count, room)
        room -= standing[whole].count
        whole += 1
    del standing[whole:]


def _kept(said: Said) -> int:
    return int(fields_of(said.body or b"{}").get("keep", 0))


def _rebased(said: Said, dropped_since: int) -> Said:
    """A repair counts from the beginning of the conversation; what was dropped after it is not there any more."""
    if said.mends_upto is None or not dropped_since:
        return said
    return said._replace(body=rewritten(said.body or b"{}", keep=max(0, _kept(said) - dropped_since)))


def _unsaid(view: View) -> frozenset[int]:
    """The records of the conversation that were not part of it when the latest state was taken."""
    body = fields_of(view.checkpoint.body) if view.checkpoint is not None else {}
    return frozenset(body.get("unsaid", ()))


def _value(said: Said, read: Read) -> Any:
    assert said.body is not None, "compaction folds events, not a snapshot"
    body = contents_of(said.body)
    return loads(read(body["value_blob"])) if "value_blob" in body else body["value"]


def _blobs(view: View) -> Iterator[str]:
    for call in view.calls.values():
        yield from values_in(call.body or b"")
        for outcome in call.outcomes:
            yield from values_in(outcome.body or b"")
    for event in (view.started, view.plan, view.handed, *view.behind):
        yield from values_in(event.body if event else b"")
    for event in view.behind:
        yield from fields_of(event.body).get("blobs", ())
    for said in view.messages:
        yield from values_in(said.body or b"")
    yield from values_in(view.result or b"")
    yield from view.artifacts.blobs()


# -- the ledger of effects: that they happened, without what they came to ----------------------------------------


def _dump_effect(call: Call) -> list[Any]:
    outcomes = [[o.seq, o.good, o.point] for o in call.outcomes]
    return [call.key, call.name, effect_of(call), call.seq, call.started_at, call.fence, outcomes]


def _load_effect(fields: list[Any]) -> Call:
    key, name, effect, seq, started_at, fence, outcomes = fields
    call = Call(key, name)
    call.seq, call.started_at, call.fence = seq, started_at, fence
    # "?": its place is not known, and nothing is judged by it
    call.body = write({"effect": effect, "in": "", "after": "?", "pruned": COMPACTED})
    call.outcomes = [Outcome(seq, good, point, _GONE) for seq, good, point in outcomes]
    return call


def effects_in(event: Event) -> list[tuple[str, int]]:
    """The effects that a compacted event remembers to have happened: their names, and the events they ended with."""
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
