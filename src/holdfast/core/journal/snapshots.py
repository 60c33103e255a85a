"""A folded view as plain data and back: a cache for runs with long journals, and the base of a compacted one.

Bodies of outcomes stay out of a cache (they are paged in when the program asks for them); what remains is small. A
snapshot made by another version of the fold is not read: the journal is the truth, folding it again is always right. The data of
a compacted event is no cache: it is read for ever, so keys keep their meaning and missing ones have a default.
"""

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.journal.folds import ROWS
from holdfast.core.journal.hollow import COMPACTED
from holdfast.core.journal.view_parts import Attempt, Site
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import is_model, part_of, without, write
from holdfast.model.events import Event

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View

FOLD_VERSION: Final = 8
"""Grows when the same events would fold to another view; cached snapshots of other versions are ignored."""

_EVENTS: Final = ("started", "checkpoint", "last")
_GONE: Final = write({"pruned": COMPACTED})


def dump(view: "View", *, whole: bool = False) -> dict[str, Any]:
    """The view as JSON-ready data; ``whole`` with the bodies of outcomes, for what no journal has any more."""
    data: dict[str, Any] = {
        "version": FOLD_VERSION,
        "head": view.head,
        "head_chain": view.head_chain,
        "base": view.base,
        "status": view.status,
        "points": view.points,
        "states": view.states,
        "last_outcome_seq": view.last_outcome_seq,
        "last_step": view.last_step,
        "branch": view.branch,
        "branches": view.branches,
        "restores": view.restores,
        "earlier_attempts": view.earlier_attempts,
        "result": text_of(view.result),
        "events": {name: dump_event(getattr(view, name)) for name in _EVENTS},
        "attempts": [_dump_attempt(attempt) for attempt in view.attempts],
        "worked_s": view.worked_s,
        "trailing": [[call.key, seq] for call, seq in view.trailing_failures],
        "sites": {site: [known.used, *known.free] for site, known in view.sites.items()},
        "calls": [_dump_call(call, whole=whole) for call in view.calls.values()],
    }
    for fold in view.folds.values():
        data |= fold.dump(whole=whole)
    return data


def fill(view: "View", data: dict[str, Any]) -> None:
    """Give a new view what the data says."""
    view.head, view.head_chain = data["head"], data.get("head_chain", 0)
    view.base, view.status, view.points = data["base"], data["status"], data["points"]
    view.states, view.last_outcome_seq = data["states"], data["last_outcome_seq"]
    view.restores, view.last_step = data["restores"], data.get("last_step", "")
    view.branch, view.branches = data["branch"], data["branches"]
    view.earlier_attempts, view.worked_s = data["earlier_attempts"], data.get("worked_s", 0.0)
    view.result = bytes_of(data["result"])
    for name in _EVENTS:
        setattr(view, name, load_event(data["events"].get(name)))
    view.attempts = [_load_attempt(fields) for fields in data["attempts"]]
    view.sites = {site: Site(count, tuple(free)) for site, (count, *free) in data["sites"].items()}
    view.calls = {fields[0]: _load_call(fields) for fields in data["calls"]}
    view.trailing_failures = [(view.calls[key], seq) for key, seq in data["trailing"]]
    # Until fold version 8 the events of two features lay among the kernel's.
    data = {**{name: event for name, event in data["events"].items() if name not in _EVENTS}, **data}
    for row in ROWS:
        if any(data.get(key) for key in row.keys):
            view.fold_of(row.name).load(data)


def fill_from_base(view: "View", event: Event) -> bool:
    """Give a new view what a compacted event holds. False where the event has nothing."""
    data = part_of(event.body, "view")
    if data is None:
        return False
    fill_base(view, data)
    for attempt in view.attempts:
        # Nothing that an event stands for came after it, whatever it says: whose a command is, is told by where it stands.
        attempt.event = attempt.event._replace(seq=min(attempt.event.seq, event.seq))
    return True


def fill_base(view: "View", data: dict[str, Any]) -> None:
    """Give a new view what compaction has kept: a view, and the ledger of effects without what they came to."""
    fill(view, data)
    for fields in data["effects"]:
        call = _load_effect(fields)
        view.calls[call.key] = call


def _load_effect(fields: list[Any]) -> Call:
    key, name, effect, seq, started_at, fence, outcomes = fields
    call = Call(key, name)
    call.seq, call.started_at, call.fence = seq, started_at, fence
    # "?": its place is not known, and nothing is judged by it
    call.body = write({"effect": effect, "in": "", "after": "?", "pruned": COMPACTED})
    call.outcomes = [Outcome(seq, good, point, _GONE) for seq, good, point in outcomes]
    return call


def text_of(body: bytes | None) -> str | None:
    """A body as text, for JSON."""
    return None if body is None else body.decode()


def bytes_of(text: str | None) -> bytes | None:
    """And back."""
    return None if text is None else text.encode()


def dump_event(event: Event | None) -> list[Any] | None:
    """An event as JSON-ready data."""
    return None if event is None else [*event[:6], event.body.decode(), event.crc, event.chain]


def load_event(fields: list[Any] | None) -> Event | None:
    """An event from its data; before format 2 there was no chain."""
    if fields is None:
        return None
    return Event._make([*fields[:6], fields[6].encode(), fields[7], *(fields[8:] or (0,))])


def _dump_attempt(attempt: Attempt) -> list[Any]:
    return [attempt.number, dump_event(attempt.event), attempt.how, attempt.ended_at]


def _load_attempt(fields: list[Any]) -> Attempt:
    event = load_event(fields[1])
    assert event is not None
    attempt = Attempt(fields[0], event)
    attempt.how, attempt.ended_at = fields[2:]
    return attempt


def _dump_call(call: Call, *, whole: bool) -> list[Any]:
    body = text_of(kept_intent(call.body)) if whole or call.is_open else None
    flags = call.is_open + 2 * call.abandoned + 4 * call.early
    outcomes = [[o.seq, o.good, o.point, *([text_of(o.body)] if whole else [])] for o in call.outcomes]
    return [call.key, call.name, call.seq, call.started_at, call.fence, flags, call.doubt, body, outcomes]


def kept_intent(body: bytes | None) -> bytes | None:
    """The intent without the root of its request: a view refers to no tree, so that none has to be kept for it."""
    if body is None or not is_model(body):
        return body
    return without(body, ("request",))


def _load_call(fields: list[Any]) -> Call:
    key, name, seq, started_at, fence, flags, doubt, body, outcomes = fields
    call = Call(key, name)
    call.seq, call.started_at, call.fence, call.doubt = seq, started_at, fence, doubt
    call.is_open, call.abandoned, call.early = bool(flags & 1), bool(flags & 2), bool(flags & 4)
    call.body = bytes_of(body)
    call.outcomes = [
        Outcome(seq, good, point, bytes_of(rest[0]) if rest else None) for seq, good, point, *rest in outcomes
    ]
    return call
