"""Writes a handoff as Markdown, for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.core.text.times import moment
from holdfast.core.text.value_text import readable


def markdown(document: Mapping[str, Any]) -> str:
    """The document as Markdown."""
    to = f" to {document['to']}" if document["to"] else ""
    sealed = (
        "The giver is sealed: it does not go on." if document["sealed"] else "The giver may go on by itself."
    )
    lines = [
        f"# Handoff of {document['run']}{to}",
        "",
        f"Written {document['at']}, at event #{document['event']} of {document['store']}. {sealed}",
        "Each line ends with the events of the giver's journal that it comes from.",
    ]
    heading = ""
    for item in document["summary"]:
        if item["about"] != heading:
            heading = item["about"]
            lines += ["", f"## {heading}"]
        lines.append(f"- {item['text']}{_events(item)}")
    for title, told in (
        ("Effects that must not be repeated", _effects(document["effects"])),
        ("Effects in doubt", _doubts(document["in_doubt"])),
        ("Promises", _promises(document["promises"])),
        ("Open questions", (f"- {q['id']}: {q['text']}{_events(q)}" for q in document["questions"])),
        ("Files", _places(document["artifacts"])),
        ("Relies on", _places(document["dependencies"])),
        ("Budget", _budget(document["budget"])),
        (
            "Not in this document",
            (f"- {one['name']}: {one['why']}; {one['advice']}" for one in document["left_out"]),
        ),
        ("How to continue", (f"- {line}" for line in document["how_to_continue"])),
    ):
        if found := list(told):
            lines += ["", f"## {title}", *found]
    return "\n".join([*lines, "", f"Digest {document['digest']}"]) + "\n"


def _events(item: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'#{seq}' for seq in item['events'])})" if item["events"] else ""


def _call(step: Mapping[str, Any]) -> str:
    arguments = step["arguments"] or {}
    return (
        f"{step['step']}({', '.join(f'{name}={readable(value, 80)}' for name, value in arguments.items())})"
    )


def _effects(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        key = f", key {step['idempotency_key']}" if step.get("idempotency_key") else ""
        whose = f", by {step['from']['run']}" if "from" in step else ""
        yield f"- {_call(step)}{whose}{key}{_events(step)}"


def _doubts(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        key = f", key {step['idempotency_key']}" if step.get("idempotency_key") else ""
        yield f"- {_call(step)}, since {step['since']}, {step['doubt']}{key}{_events(step)}"


def _promises(promises: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in promises:
        due = f", due {moment(one['due'])}" if one["due"] is not None else ""
        who = f"to {one['to'] or 'no one named'}" if one["side"] == "made" else f"given by {one['by']}"
        note = f": {one['note']}" if one["note"] else ""
        yield f"- {one['text']} ({who}{due}): {one['state']}{note}, id {one['id']}{_events(one)}"


def _places(places: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for item in places:
        found = item["facts"].get("sha256")
        digest = f", sha256 {found[:16]}…" if found else ""
        yield f"- {item['name']}: {item['state']}{digest}{_events(item)}"


def _budget(budget: Mapping[str, Any]) -> Iterator[str]:
    for name, value in (budget["left"] or {}).items():
        yield f"- {name}: {value:,} left of {budget['allowed'][name]:,}"
