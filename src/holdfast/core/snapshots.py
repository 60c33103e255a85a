"""A folded view as plain data and back: a cache for runs with long journals.

Bodies of outcomes stay behind (they are paged in when the program asks for them); what remains is small. A
snapshot made by another version of the fold is not read: the journal is the truth, folding it again is always right.
"""

from typing import Any

from holdfast.core.fold import FOLD_VERSION, Attempt, Said, View
from holdfast.model.calls import Call, Outcome
from holdfast.model.events import Event
from holdfast.model.loops import Signed


def dump(view: View) -> dict[str, Any]:
    """The view as JSON-ready data."""
    return {
        "version": FOLD_VERSION,
        "head": view.head,
        "status": view.status,
        "points": view.points,
        "last_outcome_seq": view.last_outcome_seq,
        "branch": view.branch,
        "restores": view.restores,
        "messages": [[said.seq, said.is_drop] for said in view.messages],
        "earlier_attempts": view.earlier_attempts,
        "result": None if view.result is None else view.result.decode(),
        "events": {name: _dump_event(getattr(view, name)) for name in _EVENTS},
        "attempts": [_dump_attempt(attempt) for attempt in view.attempts],
        "signs": [list(signed) for signed in view.signs],
        "trailing": [[call.key, seq] for call, seq in view.trailing_failures],
        "calls": [_dump_call(call) for call in view.calls.values()],
    }


def load(data: dict[str, Any]) -> View | None:
    """The view, or None if another version of the fold made it."""
    if data["version"] != FOLD_VERSION:
        return None
    view = View()
    view.head, view.status, view.points = data["head"], data["status"], data["points"]
    view.last_outcome_seq = data["last_outcome_seq"]
    view.restores = data["restores"]
    view.messages = [Said(seq, is_drop, None) for seq, is_drop in data["messages"]]
    view.branch, view.earlier_attempts = data["branch"], data["earlier_attempts"]
    view.result = None if data["result"] is None else data["result"].encode()
    for name in _EVENTS:
        setattr(view, name, _load_event(data["events"][name]))
    view.signs = [Signed(*fields) for fields in data["signs"]]
    view.attempts = [_load_attempt(fields) for fields in data["attempts"]]
    view.calls = {fields[0]: _load_call(fields) for fields in data["calls"]}
    view.trailing_failures = [(view.calls[key], seq) for key, seq in data["trailing"]]
    return view


_EVENTS = ("started", "checkpoint", "plan", "last")


def _dump_event(event: Event | None) -> list[Any] | None:
    return None if event is None else [*event[:6], event.body.decode(), event.crc]


def _load_event(fields: list[Any] | None) -> Event | None:
    return None if fields is None else Event._make([*fields[:6], fields[6].encode(), fields[7]])


def _dump_attempt(attempt: Attempt) -> list[Any]:
    return [attempt.number, _dump_event(attempt.event), attempt.how, attempt.ended_at]


def _load_attempt(fields: list[Any]) -> Attempt:
    event = _load_event(fields[1])
    assert event is not None
    attempt = Attempt(fields[0], event)
    attempt.how, attempt.ended_at = fields[2:]
    return attempt


def _dump_call(call: Call) -> list[Any]:
    body = call.body.decode() if call.is_open and call.body is not None else None
    flags = call.is_open + 2 * call.abandoned
    outcomes = [[o.seq, o.good, o.point] for o in call.outcomes]
    return [call.key, call.name, call.seq, call.started_at, call.fence, flags, call.doubt, body, outcomes]


def _load_call(fields: list[Any]) -> Call:
    key, name, seq, started_at, fence, flags, doubt, body, outcomes = fields
    call = Call(key, name)
    call.seq, call.started_at, call.fence, call.doubt = seq, started_at, fence, doubt
    call.is_open, call.abandoned = bool(flags & 1), bool(flags & 2)
    call.body = None if body is None else body.encode()
    call.outcomes = [Outcome(seq, good, point, None) for seq, good, point in outcomes]
    return call
