"""Turns a view into plain data and back: for cached snapshots of long journals, and for compacted events.

A cached snapshot leaves out the bodies of outcomes, so it is small; they are read when the program asks for
them. A snapshot of another fold version is ignored, because folding the journal again is always right. The
data of a compacted event is not a cache: every later version must read it, so keys keep their meaning and
missing keys have a default.
"""

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.journal.folds import ROWS
from holdfast.core.journal.hollow import COMPACTED
from holdfast.core.journal.view_parts import Attempt, Site
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import is_model, part_of, without, write
from holdfast.model.events import KINDS, Event, Kind

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View

FOLD_VERSION: Final = 8
"""Increase it when the same events would fold to another view.

Cached snapshots of other versions are ignored.
"""

_EVENTS: Final = ("started", "checkpoint", "last")
_GONE: Final = write({"pruned": COMPACTED})


def dump(view: "View", *, whole: bool = False) -> dict[str, Any]:
    """The view as JSON-ready data; ``whole`` includes the bodies of outcomes, for a compacted event."""
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
        "recent": [call.key for call in view.recent],
    }
    for fold in view.folds.values():
        data |= fold.dump(whole=whole)
    return data


def fill(view: "View", data: dict[str, Any]) -> None:
    """Fill a new view from dumped data."""
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
    _fill_orders(view, data)
    view.trailing_failures = [(view.calls[key], seq) for key, seq in data["trailing"]]
    # Before fold version 8, ``events`` also had the events of two features. Compacted events still do.
    data = {**{name: event for name, event in data["events"].items() if name not in _EVENTS}, **data}
    for row in ROWS:
        if any(data.get(key) for key in row.keys):
            view.fold_of(row.name).load(data)


def _fill_orders(view: "View", data: dict[str, Any]) -> None:
    """The last steps, and the marks by name. Earlier versions did not write the first."""
    if "recent" in data:
        view.recent.extend(view.calls[key] for key in data["recent"] if key in view.calls)
    else:
        ended = [call for call in view.calls.values() if call.seq and call.outcomes]
        view.recent.extend(sorted(ended, key=lambda call: call.outcomes[-1].seq))
    for call in view.calls.values():
        if not call.seq:
            view.marks.setdefault(call.name, []).append(call)


def fill_from_base(view: "View", event: Event) -> bool:
    """Fill a new view from a compacted event. False if the event holds no view."""
    data = part_of(event.body, "view")
    if data is None:
        return False
    fill_base(view, data)
    for attempt in view.attempts:
        # An imported event may claim any seq for its attempts. The seq decides whether a recorded command is
        # this user's own, so no attempt may claim to be later than the event that replaced it.
        attempt.event = attempt.event._replace(seq=min(attempt.event.seq, event.seq))
    return True


def newer_problem(event: Event) -> str:
    """What is in the event that only a newer Holdfast can write; empty if nothing."""
    if event.kind not in KINDS:
        return f"#{event.seq} is an event of kind {event.kind!r}"
    if event.kind != Kind.COMPACTED:
        return ""
    data = part_of(event.body, "view")
    version = FOLD_VERSION if data is None else data["version"]
    return f"#{event.seq} holds a view of version {version}" if version > FOLD_VERSION else ""


def fill_base(view: "View", data: dict[str, Any]) -> None:
    """Fill a new view with what compaction kept: a view, and the effects without their results."""
    fill(view, data)
    for fields in data["effects"]:
        call = _load_effect(fields)
        view.calls[call.key] = call


def _load_effect(fields: list[Any]) -> Call:
    key, name, effect, seq, started_at, fence, outcomes, *more = fields  # more: the idempotency key, or none
    call = Call(key, name)
    call.seq, call.started_at, call.fence = seq, started_at, fence
    # "?" is UNKNOWN_AFTER: the position of the call is gone, so drift detection does not use it.
    known = {"idempotency_key": more[0]} if more else {}
    call.body = write({"effect": effect, "in": "", "after": "?", **known, "pruned": COMPACTED})
    call.outcomes = [Outcome(seq, good, point, _GONE) for seq, good, point in outcomes]
    return call


def text_of(body: bytes | None) -> str | None:
    """A body as text, for JSON."""
    return None if body is None else body.decode()


def bytes_of(text: str | None) -> bytes | None:
    """The inverse of ``text_of``."""
    return None if text is None else text.encode()


def dump_event(event: Event | None) -> list[Any] | None:
    """An event as JSON-ready data."""
    return None if event is None else [*event[:6], event.body.decode(), event.crc, event.chain]


def load_event(fields: list[Any] | None) -> Event | None:
    """An event from its data. Format 1 had no chain, so it may be missing."""
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
    # A closed call is looked up by its key; its intent is read from the journal in the rare case it is
    # needed.
    body = text_of(kept_intent(call.body)) if whole or call.is_open else None
    flags = call.is_open + 2 * call.abandoned + 4 * call.early
    outcomes = [[o.seq, o.good, o.point, *([text_of(o.body)] if whole else [])] for o in call.outcomes]
    return [call.key, call.name, call.seq, call.started_at, call.fence, flags, call.doubt, body, outcomes]


def kept_intent(body: bytes | None) -> bytes | None:
    """The intent without the root of its request.

    A view refers to no tree, so pruning need not keep one for it.
    """
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
