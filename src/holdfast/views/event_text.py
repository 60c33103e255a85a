"""One event in plain words: what happened, and a short detail.

One small function per kind. An event of an unknown kind, from a later version, is shown by its kind's own
name: a timeline never hides anything.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from holdfast.core.people.questions import told_end
from holdfast.core.text.times import moment, span
from holdfast.core.text.value_text import readable
from holdfast.model.event_fields import contents_of
from holdfast.model.events import HANDED_OVER, HANDOFF, MENDED, PENDING, Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import owner_name
from holdfast.views.value_text import (
    PRUNED,
    count,
    failure_line,
    one_line,
    size,
    state_line,
    status_word,
    value_line,
)

Mood = Literal["plain", "good", "bad", "doubt", "busy", "dim"]
"""Surfaces choose a colour by the mood."""


class EventText(NamedTuple):
    """What happened, in two or three words, a detail in one line, and a mood."""

    what: str
    detail: str
    mood: Mood = "plain"


Body = dict[str, Any]


def describe(event: Event, *, attempt: int = 0) -> EventText:
    """An event in words. ``attempt`` is the number of its attempt, if that is known."""
    body = contents_of(event.body)
    if event.kind == Kind.MARK:
        return _mark(event.name, body)
    if event.kind == Kind.ATTEMPT_ENDED:
        return _attempt_ended(body, attempt)
    teller = _TELLERS.get(event.kind)
    return teller(body) if teller is not None else EventText(event.kind.replace(".", " "), "", "dim")


def subject(event: Event) -> str:
    """The name of the event's step or checkpoint; empty for events about the run."""
    if event.kind == Kind.CHECKPOINT:
        body = contents_of(event.body)
        return str(body.get("label") or body.get("note") or "")
    return (
        ""
        if event.kind == Kind.MARK or event.kind.startswith(("run.", "attempt.", "premise.", "artifact."))
        else event.name
    )


# -- the run and its attempts --------------------------------------------------------------------------------


def _run_started(body: Body) -> EventText:
    return EventText("run started", one_line(body.get("goal") or body.get("agent") or ""))


def _run_finished(body: Body) -> EventText:
    return EventText("run finished", value_line(body), "good")


def _run_reopened(_: Body) -> EventText:
    return EventText("run reopened", "")


def _run_forked(body: Body) -> EventText:
    other = "; with other inputs" if "inputs" in body or "inputs_blob" in body else ""
    place = f"from {body['from']} at #{body['at_seq']}{_asked_by(body)}"
    return EventText("forked", f"{place}{other}{_repeats(body)}")


def _run_rewound(body: Body) -> EventText:
    return EventText(
        "rewound",
        f"to #{body['to_seq']}{_asked_by(body)}; {body['kept']} keeps what came after it{_repeats(body)}",
    )


def _asked_by(body: Body) -> str:
    return f" by {one_line(str(body['by']))}" if body.get("by") else ""


def _repeats(body: Body) -> str:
    """The choice for effects after the point."""
    words = {"answer": "answered from their record", "ask": "asked about", "again": "made again"}
    return f"; effects after it are {words[body['effects']]}" if body.get("effects") in words else ""


def _run_cancelled(body: Body) -> EventText:
    return EventText("run cancelled", one_line(_by(body)), "bad")


def _run_sealed(body: Body) -> EventText:
    if "handoff" in body:
        to = one_line(str(body["to"])) or "the run that accepts it"
        return EventText("sealed", f"handed over to {to}{_asked_by(body)}", "doubt")
    return EventText("moved", f"to {one_line(str(body['to']))}{_asked_by(body)}", "dim")


def _run_unsealed(body: Body) -> EventText:
    giver = f"from {one_line(str(body['from']))}" if body.get("from") else ""
    return EventText("taken back", f"{giver}{_asked_by(body)}".strip())


def _attempt_started(body: Body) -> EventText:
    return EventText(f"attempt {body['number']} started", owner_name(body["owner"]), "busy")


def _attempt_crashed(body: Body) -> EventText:
    return EventText(f"attempt {body['attempt']} crashed", one_line(body["last"]), "bad")


def _journal_cut(body: Body) -> EventText:
    return EventText(
        "journal cut",
        f"{count(body['events'], 'event')} after this are lost; accepted by {body['by']}",
        "bad",
    )


def _attempt_ended(body: Body, attempt: int) -> EventText:
    how = str(body["how"])
    word = "stopped" if how == "in_doubt" else status_word(how)
    which = f"attempt {attempt}" if attempt else "attempt"
    return EventText(f"{which} {word}", failure_line(body.get("error")), _END_MOODS.get(how, "plain"))


def _by(body: Body) -> str:
    return f"by {body['by']}" + (f": {body['reason']}" if body.get("reason") else "")


_END_MOODS: Final[dict[str, Mood]] = {
    "finished": "good",
    "failed": "bad",
    "diverged": "bad",
    "in_doubt": "doubt",
    "parked": "doubt",
}


# -- steps ---------------------------------------------------------------------------------------------------


def _step_started(body: Body) -> EventText:
    effect = body.get("effect", "")
    arguments = value_line(body, "args")
    shown = "" if arguments == "{}" else arguments
    if effect == "model":
        return EventText("model asked", shown, "dim")
    return EventText("step started", _joined(effect if effect != "read" else "", shown), "dim")


def _step_finished(body: Body) -> EventText:
    if "usage" in body:
        return EventText("model answered", _joined(_took(body), value_line(body)), "good")
    return EventText("step done", _joined(_took(body), value_line(body)), "good")


def _step_failed(body: Body) -> EventText:
    return EventText("step failed", _joined(_took(body), failure_line(body.get("error"))), "bad")


def _step_retried(body: Body) -> EventText:
    return EventText(
        "step tries again",
        f"in {span(body.get('wait_s', 0))}, after {failure_line(body.get('error'))}",
        "doubt",
    )


def _step_doubted(body: Body) -> EventText:
    return EventText("step in doubt", one_line(body["reason"]), "doubt")


def _step_settled(body: Body) -> EventText:
    how, by = body["how"], settled_by(body)
    if how == "done":
        return EventText("settled: done", _joined(by, value_line(body)), "good")
    if how == "failed":
        return EventText("settled: failed", _joined(by, failure_line(body.get("error"))), "bad")
    return EventText("settled: retry", _joined(by, one_line(body.get("reason", ""))), "busy")


def _step_abandoned(body: Body) -> EventText:
    return EventText("step abandoned", f"by {body['by']}" if body.get("by") else "", "dim")


def settled_by(body: Body) -> str:
    """Who or what settled a step in doubt."""
    via = body.get("via", "")
    if via == "person" and body.get("by"):
        return f"by {body['by']}"
    if via == "handoff":
        return f"by {body['run']}, which handed over (#{body['event']})"
    if via == "origin" and body.get("from"):
        return f"by {body['from']}, which has made the same call (#{body['seq']})"
    return {
        "verify": "by its verify",
        "policy": "by its in_doubt policy",
        "late": "by its late report",
        "person": "by a person",
    }.get(via, "")


def _took(body: Body) -> str:
    return span(body["ms"] / 1000) if "ms" in body else ""


def _joined(*parts: str) -> str:
    return "  ".join(part for part in parts if part)


# -- waits and questions -------------------------------------------------------------------------------------


def _wait_started(body: Body) -> EventText:
    until = f"until {moment(body['until'])}" if body.get("until") else ""
    return EventText(
        "waits", _joined(one_line(body.get("what", "")), one_line(body.get("why", "")), until), "busy"
    )


def _wait_ended(body: Body) -> EventText:
    return EventText("continues", f"{body['how']} after {span(body['waited_s'])}")


def _question_asked(body: Body) -> EventText:
    about = value_line(body, "about")
    return EventText("asked", _joined(one_line(body["question"]), "" if about == "null" else about), "doubt")


def _question_answered(body: Body) -> EventText:
    if body["how"] == "answered":
        return EventText(
            "answered", one_line(told_end({**body, "value": body.get("value", value_line(body))})), "good"
        )
    return EventText(f"question {body['how']}", failure_line(body.get("error")), "dim")


# -- between runs --------------------------------------------------------------------------------------------


def _promise_made(body: Body) -> EventText:
    due = f"due {moment(body['due'])}" if body.get("due") is not None else ""
    whom = f"to {body['to']}: " if body["to"] else ""
    return EventText("promised", _joined(one_line(f"{whom}{body['text']}"), due))


def _promise_settled(body: Body) -> EventText:
    return EventText(
        f"promise {body['how']}", one_line(body["note"]), "good" if body["how"] == "kept" else "bad"
    )


def _promise_told(body: Body) -> EventText:
    told = [f"{p['by']}: {p['text']} ({p['state']})" for p in body["promises"]]
    what = "promises taken over" if body.get("via") == "handoff" else "was promised"
    return EventText(what, one_line("; ".join(told)))


def _message_received(body: Body) -> EventText:
    return EventText("received", value_line(body))


# -- the rest ------------------------------------------------------------------------------------------------


def _checkpoint(body: Body) -> EventText:
    if body.get("by"):
        return EventText("state edited", f"by {one_line(str(body['by']))}: {state_line(body)}")
    return EventText("checkpoint", state_line(body))


def _restored(body: Body) -> EventText:
    return EventText("restored", f"from #{body['seq']}" if body["seq"] else "nothing yet", "dim")


def _compacted(body: Body) -> EventText:
    kinds = (body.get("tallies") or {}).get("kinds", {})
    steps = sum(kinds.get(kind, 0) for kind in (Kind.STEP_FINISHED, Kind.STEP_FAILED, Kind.STEP_SETTLED))
    parts = [
        count(number, word)
        for number, word in (
            (steps, "step"),
            (kinds.get(Kind.CHECKPOINT, 0), "checkpoint"),
            (kinds.get(Kind.MARK, 0), "mark"),
            (kinds.get(Kind.ATTEMPT_STARTED, 0), "attempt"),
        )
        if number
    ]
    stood = f"{count(body.get('events', 0), 'event')} from #{body['from_seq']}"
    named = [fields[2] for fields in (body.get("view") or {}).get("notes", ())]
    words = (("decision", "decisions"), ("discovery", "discoveries"))
    kept = " and ".join(count(named.count(one), one, many) for one, many in words if one in named)
    gone = f"{stood}: {', '.join(parts)}" if parts else stood
    return EventText("compacted", f"{gone}; {kept} kept" if kept else gone, "dim")


def _pruned(body: Body) -> EventText:
    return EventText("pruned", f"events from #{body['from_seq']}", "dim")


def _drifted(body: Body) -> EventText:
    return EventText("drifted", f"from #{body['recorded_seq']}: {one_line(body['diff'])}", "doubt")


def _stream_chunk(body: Body) -> EventText:
    said = body.get("text") or body.get("reasoning") or body.get("refusal") or ""
    calls = ", ".join(str(call.get("arguments") or call.get("name") or "") for call in body.get("calls", ()))
    return EventText(
        "piece of an answer", PRUNED if "pruned" in body else one_line(str(said or calls)), "dim"
    )


def _artifact_begun(body: Body) -> EventText:
    return EventText("writing", one_line(body["name"]), "dim")


def _artifact_ready(body: Body) -> EventText:
    return EventText("written", _joined(one_line(body["name"]), size(body["bytes"])), "dim")


def _premise_noted(body: Body) -> EventText:
    if body["kind"] == "artifact" and not body.get("via"):
        facts = body["facts"] or {}
        digest = f"sha256 {facts['sha256'][:12]}" if facts.get("sha256") else ""
        copy = "" if "blobs" in body else "no copy is kept"
        return EventText("made", _joined(one_line(body["name"]), size(facts.get("bytes", 0)), digest, copy))
    via = {"person": f"accepted by {body.get('by')}", "found": "as it is now", "restored": "as it was"}.get(
        body.get("via", ""), ""
    )
    return EventText("relies on", _joined(f"{body['kind']}:{body['name']}", via), "dim")


def _premise_broken(body: Body) -> EventText:
    mood: Mood = "bad" if body["act"] == "pause" else "doubt"
    if "orphan_of" in body:
        return EventText("orphan found", one_line(f"{body['name']} {body['text']}"), mood)
    return EventText(
        f"premise {body['verdict']}", one_line(f"{body['kind']}:{body['name']} {body['text']}"), mood
    )


def _loop_noticed(body: Body) -> EventText:
    return EventText("loop detected", loop_line(body), "bad" if body["level"] == "pause" else "doubt")


def _loop_left(_: Body) -> EventText:
    return EventText("loop ended", "", "good")


def _budget_warned(body: Body) -> EventText:
    return EventText("budget", one_line(str(body["words"])), "doubt")


def loop_line(body: Body) -> str:
    """What the agent repeats, and what was done about it: ``search ran 5 times with …: paused``."""
    return one_line(f"{body['what']}: {_SIGNS.get(body['level'], body['level'])}")


_SIGNS: Final = {"warn": "noticed", "nudge": "the model is nudged", "pause": "paused"}


def _mark(name: str, body: Body) -> EventText:
    value = body.get("value")
    if "pruned" in body:
        return EventText(_MARK_WORDS.get(name, name), PRUNED, "dim")
    if name == PENDING:
        shown = [f"{part[1]} {readable(part[2], 80)}" for part in body.get("value", ())]
        return EventText(name, one_line("; ".join(shown)) or value_line(body), "dim")
    if name in {HANDOFF, HANDED_OVER}:
        return _handoff(name, body)
    if name == MENDED:
        told = one_line("; ".join(text for _, _, text in body["repairs"]))
        return EventText(
            "messages edited" if body.get("by") else name, told, "plain" if body.get("by") else "doubt"
        )
    if not isinstance(value, dict) or "value_blob" in body or "$" in value:
        return EventText(name, value_line(body), "dim")
    if name == "plan":
        return EventText("plan", one_line(" · ".join(map(str, value.get("steps", ())))))
    text = one_line(str(value.get("text") or value.get("run") or value_line(body)))
    if value.get("because"):
        text = one_line(f"{text}, because {value['because']}")
    if value.get("to"):
        text = one_line(f"to {value['to']}: {text}")
    return EventText(_MARK_WORDS.get(name, name), text)


def _handoff(name: str, body: Body) -> EventText:
    document = body.get("value") or {}
    if name == HANDOFF:
        to = document.get("to")
        return EventText(
            "handoff written", f"to {to}" if to else value_line(body) if "value_blob" in body else ""
        )
    lost = body.get("losses", ())
    whose = f"by {document['run']} at #{document['event']}" if document else "a long document"
    return EventText("handed over", _joined(whose, f"{len(lost)} not carried over" if lost else ""))


def _step_overridden(body: Body) -> EventText:
    return EventText("step overridden", value_line(body))


_MARK_WORDS: Final = {
    "thought": "thought",
    "decision": "decided",
    "discovery": "discovered",
    "child": "child run",
}

_TELLERS: Final[dict[str, Callable[[Body], EventText]]] = {
    Kind.RUN_STARTED: _run_started,
    Kind.RUN_FINISHED: _run_finished,
    Kind.RUN_REOPENED: _run_reopened,
    Kind.RUN_FORKED: _run_forked,
    Kind.RUN_REWOUND: _run_rewound,
    Kind.RUN_SEALED: _run_sealed,
    Kind.RUN_UNSEALED: _run_unsealed,
    Kind.RUN_CANCELLED: _run_cancelled,
    Kind.ATTEMPT_STARTED: _attempt_started,
    Kind.ATTEMPT_CRASHED: _attempt_crashed,
    Kind.JOURNAL_CUT: _journal_cut,
    Kind.STEP_STARTED: _step_started,
    Kind.STEP_FINISHED: _step_finished,
    Kind.STEP_FAILED: _step_failed,
    Kind.STEP_RETRIED: _step_retried,
    Kind.STEP_DOUBTED: _step_doubted,
    Kind.STEP_SETTLED: _step_settled,
    Kind.STEP_ABANDONED: _step_abandoned,
    Kind.STEP_OVERRIDDEN: _step_overridden,
    Kind.CHECKPOINT: _checkpoint,
    Kind.RESTORED: _restored,
    Kind.DRIFTED: _drifted,
    Kind.STREAM_CHUNK: _stream_chunk,
    Kind.WAIT_STARTED: _wait_started,
    Kind.WAIT_ENDED: _wait_ended,
    Kind.QUESTION_ASKED: _question_asked,
    Kind.QUESTION_ANSWERED: _question_answered,
    Kind.PROMISE_MADE: _promise_made,
    Kind.PROMISE_SETTLED: _promise_settled,
    Kind.PROMISE_TOLD: _promise_told,
    Kind.MESSAGE_RECEIVED: _message_received,
    Kind.PREMISE_NOTED: _premise_noted,
    Kind.PREMISE_BROKEN: _premise_broken,
    Kind.ARTIFACT_BEGUN: _artifact_begun,
    Kind.ARTIFACT_READY: _artifact_ready,
    Kind.LOOP_NOTICED: _loop_noticed,
    Kind.LOOP_LEFT: _loop_left,
    Kind.BUDGET_WARNED: _budget_warned,
    Kind.COMPACTED: _compacted,
    Kind.PRUNED: _pruned,
}

KINDS: Final = (*_TELLERS, Kind.ATTEMPT_ENDED, Kind.MARK)
"""Every kind that a filter can name; the part before the dot means all its kinds."""
