"""A folded view as plain data and back: a cache for runs with long journals.

Bodies of outcomes stay behind (they are paged in when the program asks for them); what remains is small. A
snapshot made by another version of the fold is not read: the journal is the truth, folding it again is always right.
"""

from typing import Any

from holdfast.core.artifacts import versions
from holdfast.core.journal.fold import FOLD_VERSION, View
from holdfast.core.journal.view_parts import Attempt, Said, Site
from holdfast.core.people import promises
from holdfast.core.premises import noted_premises
from holdfast.model.budget import Spent
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import fields_of, is_model, without
from holdfast.model.events import Event
from holdfast.model.loops import Signed
from holdfast.model.questions import Question, Wants
from holdfast.model.waits import Waiting


def dump(view: View, *, whole: bool = False) -> dict[str, Any]:
    """The view as JSON-ready data; ``whole`` with the bodies of outcomes, for what no journal has any more."""
    return {
        "version": FOLD_VERSION,
        "head": view.head,
        "head_chain": view.head_chain,
        "base": view.base,
        "status": view.status,
        "points": view.points,
        "states": view.states,
        "last_outcome_seq": view.last_outcome_seq,
        "branch": view.branch,
        "branches": view.branches,
        "repeats": view.repeats,
        "behind": [_dump_event(event) for event in view.behind],
        "restores": view.restores,
        "waits": [list(waiting) for waiting in view.waits.values()],
        "questions": [[*q[:5], list(q.wants), *q[6:]] for q in view.questions.values()],
        "asked": view.asked,
        "messages": [_dump_said(said, whole=whole) for said in view.messages],
        "partials": {key: [body.decode() for body in bodies] for key, bodies in view.partials.items()},
        "earlier_attempts": view.earlier_attempts,
        "result": _text(view.result),
        "events": {name: _dump_event(getattr(view, name)) for name in _EVENTS},
        "chains": [_dump_event(event) for event in view.chains.values()],
        "attempts": [_dump_attempt(attempt) for attempt in view.attempts],
        "spent": [*view.spent],
        "worked_s": view.worked_s,
        "warned": view.warned,
        "signs": [list(signed) for signed in view.signs],
        "premises": view.premises.dump(),
        "artifacts": view.artifacts.dump(),
        "promises": view.promises.dump(),
        "claimed": sorted(view.claimed),
        "trailing": [[call.key, seq] for call, seq in view.trailing_failures],
        "sites": {site: [known.used, *known.free] for site, known in view.sites.items()},
        "calls": [_dump_call(call, whole=whole) for call in view.calls.values()],
    }


def load(data: dict[str, Any]) -> View | None:
    """The view, or None if another version of the fold made it."""
    return rebuild(data) if data["version"] == FOLD_VERSION else None


def rebuild(data: dict[str, Any]) -> View:
    """The view from its data."""
    view = View()
    view.head, view.base, view.status, view.points = (
        data["head"],
        data["base"],
        data["status"],
        data["points"],
    )
    view.head_chain = data.get("head_chain", 0)
    view.states, view.last_outcome_seq, view.restores = (
        data["states"],
        data["last_outcome_seq"],
        data["restores"],
    )
    view.messages = [
        Said(seq, is_drop, _bytes(body), *more) for seq, is_drop, body, *more in data["messages"]
    ]
    view.partials = {key: [body.encode() for body in bodies] for key, bodies in data["partials"].items()}
    view.waits = {fields[0]: Waiting(*fields) for fields in data["waits"]}
    view.questions = {fields[0]: _load_question(fields) for fields in data["questions"]}
    view.asked, view.branches = data["asked"], data["branches"]
    view.branch, view.earlier_attempts = data["branch"], data["earlier_attempts"]
    view.repeats = data.get("repeats", "answer")
    view.behind = [event for one in data.get("behind", ()) if (event := _load_event(one)) is not None]
    view.result = _bytes(data["result"])
    for name in _EVENTS:
        setattr(view, name, _load_event(data["events"].get(name)))
    chains = [event for fields in data.get("chains", ()) if (event := _load_event(fields)) is not None]
    view.chains = {fields_of(event.body)["chain"]: event for event in chains}
    view.spent, view.worked_s = Spent(*data.get("spent", ())), data.get("worked_s", 0.0)
    view.warned = data.get("warned", {})
    view.signs = [Signed(*fields) for fields in data["signs"]]
    view.premises = noted_premises.load(data.get("premises", ([], {})))
    view.artifacts = versions.load(data.get("artifacts", ()))
    view.promises = promises.load(data.get("promises", ()))
    view.claimed = set(data.get("claimed", ()))
    view.attempts = [_load_attempt(fields) for fields in data["attempts"]]
    view.sites = {site: Site(count, tuple(free)) for site, (count, *free) in data["sites"].items()}
    view.calls = {fields[0]: _load_call(fields) for fields in data["calls"]}
    view.trailing_failures = [(view.calls[key], seq) for key, seq in data["trailing"]]
    return view


_EVENTS = ("started", "checkpoint", "plan", "last", "handed")


def _text(body: bytes | None) -> str | None:
    return None if body is None else body.decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _dump_event(event: Event | None) -> list[Any] | None:
    return None if event is None else [*event[:6], event.body.decode(), event.crc, event.chain]


def _load_event(fields: list[Any] | None) -> Event | None:
    return (
        None
        if fields is None
        else Event._make([*fields[:6], fields[6].encode(), fields[7], *(fields[8:] or (0,))])
    )


def _load_question(fields: list[Any]) -> Question:
    kind, choices, name, names = fields[5]
    return Question._make([*fields[:5], Wants(kind, tuple(choices), name, tuple(names)), *fields[6:]])


def _dump_attempt(attempt: Attempt) -> list[Any]:
    return [attempt.number, _dump_event(attempt.event), attempt.how, attempt.ended_at]


def _load_attempt(fields: list[Any]) -> Attempt:
    event = _load_event(fields[1])
    assert event is not None
    attempt = Attempt(fields[0], event)
    attempt.how, attempt.ended_at = fields[2:]
    return attempt


def _dump_said(said: Said, *, whole: bool) -> list[Any]:
    mends = [] if said.mends_upto is None else [said.mends_upto]
    return [said.seq, said.is_drop, _text(said.body) if whole else None, *mends]


def _dump_call(call: Call, *, whole: bool) -> list[Any]:
    body = _text(kept_intent(call.body)) if whole or call.is_open else None
    flags = call.is_open + 2 * call.abandoned + 4 * call.early
    outcomes = [[o.seq, o.good, o.point, *([_text(o.body)] if whole else [])] for o in call.outcomes]
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
    call.body = _bytes(body)
    call.outcomes = [
        Outcome(seq, good, point, _bytes(rest[0]) if rest else None) for seq, good, point, *rest in outcomes
    ]
    return call
