"""Later effects: what a run did to the outside world after the point at which a fork or a rewind begins.

A fork, or a rewound run, makes its calls again from that point. If it makes a call with the same identity as
a later effect, that effect is known to have happened. The creator of the fork chose what to do then:
``answer`` with the recorded outcome, ``ask`` a person, or do it ``again`` under a new key. An effect in doubt
is never answered: a person is asked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from orjson import OPT_SORT_KEYS, dumps

from holdfast.core.journal.fold import View
from holdfast.core.journal.recorded_calls import Bodies
from holdfast.core.steps.arguments import NOT_GIVEN
from holdfast.core.steps.data_difference import differing
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, fields_of, is_hollow
from holdfast.model.run_info import EffectBehind

REPEATS: Final = ("answer", "ask", "again")
CARRIED: Final = frozenset({"once", "idempotent"})
"""Effects that would happen twice if they were made again under another key."""
_VALUE: Final = ("value", "value_blob", "value_bytes", "lost")
_TOLD_UNKNOWN: Final = "EffectUnknown"


def effects_behind(
    run: str, view: View, at_seq: int, reader: Bodies, inherited: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The effects of this history after an event, as a fork records them: its own, and those it inherited.

    ``inherited`` are the effects that forks and rewinds after that event list. Those before it are part of
    the new history anyway.
    """
    own = [found for call in view.calls.values() if (found := _of_call(run, view, call, at_seq, reader))]
    own.sort(key=lambda entry: entry["event"])
    known = {entry["key"] for entry in own}
    return [*own, *(entry for entry in inherited if child_of(entry) or entry["key"] not in known)]


def child_of(entry: Mapping[str, Any]) -> str:
    """The name of the child that made the effect; empty if the run itself made it."""
    return str(entry.get("child", ""))


def in_child(entries: Iterable[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """The entries of a child's own history as entries of its parent's history."""
    for entry in entries:
        inner = child_of(entry)
        yield {**entry, "child": f"{name}/{inner}" if inner else name}


def of_child(entries: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The entries that a child of this name gets when it is created: its own, and those of its children."""
    own = [{k: v for k, v in entry.items() if k != "child"} for entry in entries if child_of(entry) == name]
    inner = (entry for entry in entries if child_of(entry).startswith(f"{name}/"))
    return [*own, *({**entry, "child": child_of(entry)[len(name) + 1 :]} for entry in inner)]


def told(entries: Iterable[dict[str, Any]]) -> tuple[EffectBehind, ...]:
    """The effects as the public type that programs and people read."""
    return tuple(
        EffectBehind(e["step"], e["key"], e["effect"], e["how"], e["run"], e["event"], e["idempotency_key"])
        for e in entries
    )


def blobs_of(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The blobs that hold the outcomes of these effects."""
    return (e["outcome"]["value_blob"] for e in entries if "value_blob" in e["outcome"])


def treatment_of(entry: Mapping[str, Any], repeats: str) -> str:
    """What to do with the same call: ``answered``, ``asked``, or made ``again`` under its first key."""
    if entry["effect"] != "once":  # idempotent: with the same key it is safe to repeat
        return "answered" if repeats == "answer" and entry["how"] == "done" and entry["outcome"] else "again"
    return "answered" if repeats == "answer" and entry["how"] == "done" and entry["outcome"] else "asked"


def data_changes(entry: Mapping[str, Any], digests: Mapping[str, str], shown: Mapping[str, Any]) -> str:
    """What the function reads from its module otherwise than the effect did; empty if nothing."""
    names = differing(entry.get("reads", {}), digests)
    before = entry.get("module_data", {})
    return ", ".join(f"{name}={before.get(name)!r} (now {shown[name]!r})" for name in names)


def reason_of(entry: Mapping[str, Any], repeats: str, changes: str = "") -> str:
    """Why a person is asked. The text continues "was started at … and"."""
    place = f"in run {entry['run']} (its #{entry['event']}), behind the point that this history begins at"
    if entry["how"] != "done":
        return f"is in doubt already {place}"
    if changes:
        return f"has happened already {place}, with other data: {changes}"
    if repeats == "ask":
        return f"has happened already {place}; repeats are to be asked about"
    return f"has happened already {place}; its result was pruned there"


def _of_call(run: str, view: View, call: Call, at_seq: int, reader: Bodies) -> dict[str, Any] | None:
    if call.seq <= at_seq:
        return None
    body_of_intent = reader.intent_of(call)
    intent = fields_of(body_of_intent)
    if intent.get("effect") not in CARRIED:
        return None
    if call.abandoned and "carried" in intent:
        return None  # it represented an effect of a handoff until the program made the call: that one is here
    good = next((outcome for outcome in reversed(call.outcomes) if outcome.good), None)
    outcome: dict[str, Any] = {}
    if good is not None:
        body = reader.body_of(good)
        if not is_hollow(body):
            outcome = {name: value for name, value in contents_of(body).items() if name in _VALUE}
    elif not call.is_open and not _is_told_unknown(call, reader):
        return None  # it failed and is not in doubt: it did nothing
    return {
        "key": call.key,
        "step": call.name,
        "effect": intent["effect"],
        "how": "doubt" if good is None else "done",
        "run": run,
        "event": call.seq if good is None else good.seq,
        "idempotency_key": intent.get("idempotency_key", ""),
        "started_at": call.started_at,
        # If true, the process that made the call saw it end. If not, that process may still be working on it.
        "over": call.doubt is not None or not call.is_open,
        "owner": _owner_of(view, call),
        "outcome": outcome,
        **(_data_in(body_of_intent) if "reads" in intent else {}),
        **_given_in(body_of_intent, intent),
    }


def _given_in(body: bytes, intent: Mapping[str, Any]) -> dict[str, Any]:
    """The place and the given arguments of a ``once`` effect whose function captured something."""
    arguments = contents_of(body).get("args")
    if intent["effect"] != "once" or not isinstance(arguments, dict):
        return {}
    digest = given_digest(str(intent.get("in", "")), arguments)
    return {"given": digest} if digest else {}


def given_digest(scope: str, arguments: Mapping[str, Any]) -> str:
    """A digest of a call's scope and given arguments, without what its function captured.

    Empty if it captured nothing, or was given nothing: then nothing says which effect it is.
    """
    given = {name: value for name, value in arguments.items() if not name.startswith(NOT_GIVEN)}
    if not given or len(given) == len(arguments):
        return ""
    captured = sorted(arguments.keys() - given.keys())
    return blake2b(dumps([scope, given, captured], option=OPT_SORT_KEYS), digest_size=12).hexdigest()


def with_other_data(
    entries: Iterable[Mapping[str, Any]], name: str, digest: str
) -> Iterator[Mapping[str, Any]]:
    """The effects that a call may be whose function has captured other data since."""
    return (one for one in entries if digest and one.get("given") == digest and one["step"] == name)


def _data_in(intent: bytes) -> dict[str, Any]:
    """What the function read from its module, as its intent has it."""
    return {name: value for name, value in contents_of(intent).items() if name in {"reads", "module_data"}}


def _is_told_unknown(call: Call, reader: Bodies) -> bool:
    """Whether the program got ``EffectUnknown`` for this call and continued: the effect is still in doubt."""
    if not call.outcomes:
        return False
    error = contents_of(reader.body_of(call.outcomes[-1])).get("error")
    return isinstance(error, dict) and _TOLD_UNKNOWN in str(error.get("type", ""))


def _owner_of(view: View, call: Call) -> str:
    for attempt in reversed(view.attempts):
        if attempt.event.seq < call.seq:
            return str(fields_of(attempt.event.body).get("owner", ""))
    return ""
