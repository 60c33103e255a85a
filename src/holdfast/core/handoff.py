"""The handoff: a document with which another agent takes a run's work over, made of its journal and of nothing else.

It is data (JSON) that a program reads, and the same as Markdown for people. Every item names the events of the giver's journal
that it comes from. A digest over all of it tells whether it is the document that was written.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from orjson import OPT_SORT_KEYS, dumps, loads

from holdfast.core.context import context_of
from holdfast.core.moments import moment
from holdfast.core.phrases import SECTIONS
from holdfast.core.progress import planned, work_on_plan
from holdfast.core.recorded import is_once
from holdfast.core.story import Story, is_done
from holdfast.core.thoughts import Read, value_in
from holdfast.errors import BadHandoff
from holdfast.model.calls import Call
from holdfast.model.events import Event

FORMAT: Final = 1
HANDOFF: Final = "handoff"
"""The name of the mark that keeps a document in the giver's journal."""
_SUMMARY_TOKENS: Final = 4_000
_ITEMS_MAX: Final = 200
"""How many items of a sort a document lists, the latest; the journal has the others."""
_REQUIRED: Final = {
    "run": str,
    "goal": str,
    "summary": list,
    "decisions": list,
    "in_doubt": list,
    "digest": str,
}


def document_of(
    run: str, store: str, to: str, events: Sequence[Event], read: Read, *, at: float, is_held: bool
) -> dict[str, Any]:
    """What whoever takes this run's work over needs to know. ``is_held``: the giver is at work, and hands over itself."""
    told = context_of(events, read, budget_tokens=_SUMMARY_TOKENS, is_held=is_held)
    story = Story(events)
    view = story.view
    started = {} if view.started is None else loads(view.started.body)
    doubted, begun = story.open_calls(is_held=is_held)
    done = [call for call in story.steps() if is_done(call)]
    document: dict[str, Any] = {
        "holdfast_handoff": FORMAT,
        "run": run,
        "store": store,
        "to": to,
        "at": moment(at),
        "event": view.head,
        "attempt": view.attempts[-1].number if view.attempts else 0,
        "agent": started.get("agent") or "",
        "goal": started.get("goal") or "",
        "inputs": started.get("inputs"),
        "summary": [
            {"about": SECTIONS[line.section][0], "text": line.text, "events": [*line.refs]}
            for line in told.lines
        ],
        "last_step": _step(story, done[-1], read) if done else None,
        "plan": [*_plan(story)],
        "pending": [_step(story, call, read) for call in begun][-_ITEMS_MAX:],
        "in_doubt": [_step(story, call, read) for call in doubted],
        "decisions": _marks(story, "decision", read),
        "discoveries": _marks(story, "discovery", read),
        "told": _marks(story, "said", read),
        "failed": [
            {"step": one.call.name, "error": one.error, "events": [*one.seqs]} for one in story.failures()
        ][-_ITEMS_MAX:],
        "effects": [_step(story, call, read) for call in done if is_once(call)][-_ITEMS_MAX:],
        "artifacts": [*_premises(story, {"artifact"})],
        "dependencies": [*_premises(story, {"file", "endpoint"})],
        "questions": [
            {"id": question.id, "text": question.text, "events": [story.cite(question.seq)]}
            for question in view.questions.values()
        ],
    }
    return {**document, "digest": digest_of(document)}


def digest_of(document: Mapping[str, Any]) -> str:
    """What the document comes to, without its own digest."""
    content = {name: value for name, value in document.items() if name != "digest"}
    return sha256(dumps(content, option=OPT_SORT_KEYS)).hexdigest()


def check_document(document: object) -> dict[str, Any]:
    """The document, if it is one, whole and unchanged. BadHandoff says what is wrong."""
    if not isinstance(document, dict) or "holdfast_handoff" not in document:
        raise BadHandoff(problem="it is no handoff: the field holdfast_handoff is missing")
    if document["holdfast_handoff"] != FORMAT:
        raise BadHandoff(
            problem=f"its format is {document['holdfast_handoff']!r}, and this version reads {FORMAT}"
        )
    for name, kind in _REQUIRED.items():
        if not isinstance(document.get(name), kind):
            raise BadHandoff(problem=f"its field {name} is {document.get(name)!r}")
    if digest_of(document) != document["digest"]:
        raise BadHandoff(
            problem="it was changed, or cut off, since it was written: its digest is another one"
        )
    return document


def markdown(document: Mapping[str, Any]) -> str:
    """The document for people."""
    to = f" to {document['to']}" if document["to"] else ""
    lines = [
        f"# Handoff of {document['run']}{to}",
        "",
        f"Written {document['at']}, at event #{document['event']} of {document['store']}.",
        "Each line ends with the events of the giver's journal that it comes from.",
    ]
    heading = ""
    for item in document["summary"]:
        if item["about"] != heading:
            heading = item["about"]
            lines += ["", f"## {heading}"]
        lines.append(f"- {item['text']} ({', '.join(f'#{seq}' for seq in item['events'])})")
    for name, title in (("artifacts", "Files"), ("dependencies", "Relies on")):
        if document[name]:
            lines += ["", f"## {title}", *(f"- {item['name']}{_hash(item)}" for item in document[name])]
    lines += [
        "",
        "## To go on",
        f"- `holdfast.store(…).take_over(document, as_=…)` begins a run with this; digest {document['digest'][:16]}",
    ]
    return "\n".join(lines) + "\n"


def _hash(item: Mapping[str, Any]) -> str:
    found = item.get("facts", {}).get("sha256")
    return f", sha256 {found[:16]}…" if found else ""


def _step(story: Story, call: Call, read: Read) -> dict[str, Any]:
    """A call as it stands: what was asked for, under which key, and what came of it."""
    intent = {} if call.body is None else loads(call.body)
    step: dict[str, Any] = {
        "step": call.name,
        "effect": intent.get("effect", ""),
        "arguments": intent.get("args"),
    }
    if intent.get("idempotency_key"):
        step["idempotency_key"] = intent["idempotency_key"]
    if is_done(call):
        step["result"] = value_in(call.outcomes[-1].body or b"{}", read)
        step["events"] = [story.cite(call.outcomes[-1].seq)]
    else:
        step |= {"since": moment(call.started_at), "events": [story.cite(call.seq)]}
        if call.doubt is not None:
            step["doubt"] = call.doubt
    return step


def _marks(story: Story, name: str, read: Read) -> list[dict[str, Any]]:
    found = []
    for mark in story.marks:
        value = value_in(mark.body, read) if mark.name == name else None
        if isinstance(value, dict):
            found.append({**value, "events": [mark.seq]})
    return found[-_ITEMS_MAX:]


def _plan(story: Story) -> Iterator[dict[str, Any]]:
    worked_on = {item for item, _ in work_on_plan(story.view)}
    for item in planned(story.view.plan) if story.view.plan is not None else ():
        yield {"item": item, "begun": item in worked_on}


def _premises(story: Story, kinds: set[str]) -> Iterator[dict[str, Any]]:
    for premise in story.view.premises.values():
        if premise.kind in kinds:
            facts = {name: value for name, value in (premise.facts or {}).items() if name != "at"}
            broken = story.broken.get(premise.id)
            state = "holds" if broken is None else str(loads(broken.body).get("verdict", "broken"))
            yield {
                "kind": premise.kind,
                "name": premise.name,
                "state": state,
                "facts": facts,
                "events": [premise.seq],
            }
