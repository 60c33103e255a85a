"""The schema of each kind of event.

Its fields, which are Holdfast's own, and its parts, which hold user data.

It is a plain table with one question: what is wrong with an event that came from outside? Kinds and fields of
later versions are accepted if their bodies have the right form. A pruned body lacks the parts it lost, and a
value that was too long for its body is there as ``…_blob``, its address, and ``…_bytes``.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from holdfast.model.event_fields import PARTS, PRUNED, contents_of, lines_of, parts_of
from holdfast.model.events import (
    CHAINED,
    DROPPED,
    HANDED_OVER,
    MENDED,
    MESSAGES,
    PENDING,
    Event,
    Kind,
)

_TEXT: Final = (str,)
_WORD: Final = (str, type(None))
_YES: Final = (bool,)
_INT: Final = (int,)
_NUMBER: Final = (int, float)
_TIME: Final = (int, float, type(None))
_LIST: Final = (list,)
_DICT: Final = (dict,)
_FACTS: Final = (dict, type(None))
_ANY: Final = (dict, list, str, int, float, bool, type(None))


class Field(NamedTuple):
    """The allowed types of a field or a part, and whether it is required."""

    types: tuple[type, ...]
    is_required: bool = False


class Schema(NamedTuple):
    """The fields and the parts of a kind of event."""

    fields: Mapping[str, Field] = MappingProxyType({})
    parts: Mapping[str, Field] = MappingProxyType({})


def _must(*types: type) -> Field:
    return Field(types, is_required=True)


def _may(*types: type) -> Field:
    return Field(types)


_PLACE: Final = {"in": _may(*_TEXT)}
_CALL: Final = {
    **_PLACE,
    "after": _may(*_TEXT),
    "forked": _may(*_YES),
}
_HOW: Final = {"how": _must(*_TEXT), "via": _may(*_TEXT), "by": _may(*_TEXT)}
_OUTCOME: Final = {
    "ms": _may(*_NUMBER),
    "usage": _may(*_FACTS),
    "partial": _may(*_YES),
    "continued": _may(*_LIST),
}
_SAID: Final = {"fell_back": _may(*_LIST), "mended": _may(*_LIST)}
_ENDED: Final = {"value": _may(*_ANY), "lost": _may(*_DICT), "error": _may(*_FACTS), "reason": _may(*_TEXT)}
_BEHIND: Final = {"effects": _may(*_TEXT), "blobs": _may(*_LIST)}
"""Of a fork and of a rewind: the choice for the effects after their point. The list of effects is a part."""
_FILE: Final = {
    **_PLACE,
    "name": _must(*_TEXT),
    "at": _must(*_TEXT),
    "temp": _must(*_TEXT),
    "attempt": _must(*_INT),
}

SCHEMAS: Final[dict[str, Schema]] = {
    Kind.RUN_STARTED: Schema(
        {
            "agent": _may(*_WORD),
            "workspace": _may(*_WORD),
            "roots": _may(*_LIST),
            "waited_for_by": _may(*_WORD),
            "handed_over": _may(*_DICT),
        },
        {"goal": _may(*_WORD), "inputs": _may(*_ANY)},
    ),
    Kind.RUN_FINISHED: Schema({}, {"value": _may(*_ANY)}),
    Kind.RUN_REOPENED: Schema(),
    Kind.RUN_FORKED: Schema(
        {"from": _may(*_WORD), "at_seq": _may(*_INT), "attempts": _may(*_INT), **_BEHIND},
        {"value": _may(*_LIST)},
    ),
    Kind.RUN_REWOUND: Schema(
        {
            "to_seq": _must(*_INT),
            "kept": _may(*_TEXT),
            "attempts": _may(*_INT),
            "spent": _may(*_LIST),
            "worked_s": _may(*_NUMBER),
            **_BEHIND,
        },
        {"value": _may(*_LIST)},
    ),
    Kind.RUN_SEALED: Schema({"to": _must(*_TEXT), "status": _must(*_TEXT), "handoff": _may(*_TEXT)}),
    Kind.RUN_UNSEALED: Schema({"from": _may(*_TEXT), "handoff": _may(*_TEXT)}),
    Kind.RUN_CANCELLED: Schema({"by": _must(*_TEXT), "asked_at": _may(*_NUMBER)}, {"reason": _must(*_TEXT)}),
    Kind.ATTEMPT_STARTED: Schema(
        {
            "number": _must(*_INT),
            "owner": _must(*_TEXT),
            "fence": _may(*_INT),
            "argv": _may(*_LIST),
            "cwd": _may(*_TEXT),
            "uid": _may(*_INT),
            "acts_as": _may(*_TEXT),
            "python": _may(*_TEXT),
            "holdfast": _may(*_TEXT),
            "packages": _may(*_DICT),
            "again": _may(*_LIST),
            "budget": _may(*_DICT),
            "premises": _may(*_DICT),
            "roots": _may(*_LIST),
            "served": _may(*_YES),
            "attended": _may(*_DICT),
        }
    ),
    Kind.JOURNAL_CUT: Schema({"events": _must(*_INT), "by": _must(*_TEXT)}),
    Kind.ATTEMPT_CRASHED: Schema(
        {
            "attempt": _must(*_INT),
            "last": _must(*_TEXT),
            "last_seq": _must(*_INT),
            "last_beat_at": _may(*_NUMBER),
            "owner": _must(*_TEXT),
            "proof": _must(*_TEXT),
        }
    ),
    Kind.ATTEMPT_ENDED: Schema(
        {"how": _must(*_TEXT), "status": _may(*_TEXT), "took_s": _may(*_NUMBER), "again": _may(*_LIST)},
        {"error": _may(*_FACTS)},
    ),
    Kind.STEP_STARTED: Schema(
        {
            **_CALL,
            "effect": _must(*_TEXT),
            "noted": _may(*_LIST),
            "handed": _may(*_DICT),
            "carried": _may(*_DICT),
            "origin": _may(*_DICT),
            "refetchable": _may(*_YES),
            "idempotency_key": _may(*_TEXT),
            "owner": _may(*_TEXT),
            "tool": _may(*_YES),
            "in_doubt": _may(*_TEXT),
            "verify": _may(*_YES),
            "loops": _may(str, list),
            "deadline": _may(*_NUMBER),
            "approved": _may(*_INT),
            "model": _may(*_TEXT),
            "provider": _may(*_TEXT),
            "request_bytes": _may(*_INT),
            "stream": _may(*_YES),
        },
        {"args": _may(*_ANY), "request": _may(*_ANY)},
    ),
    Kind.STEP_FINISHED: Schema(_OUTCOME, {"value": _may(*_ANY), "lost": _may(*_DICT), **_SAID}),
    Kind.STEP_FAILED: Schema({"ms": _may(*_NUMBER)}, {"error": _must(*_DICT)}),
    Kind.STEP_RETRIED: Schema({"failures": _may(*_INT), "wait_s": _may(*_NUMBER)}, {"error": _may(*_DICT)}),
    Kind.STEP_DOUBTED: Schema({}, {"reason": _must(*_TEXT)}),
    Kind.STEP_SETTLED: Schema(
        {
            **_HOW,
            **_OUTCOME,
            "seq": _may(*_INT),
            "n": _may(*_INT),
            "from": _may(*_TEXT),
            "run": _may(*_TEXT),
            "store": _may(*_TEXT),
            "event": _may(*_INT),
        },
        {**_ENDED, **_SAID},
    ),
    Kind.STEP_ABANDONED: Schema({"by": _may(*_TEXT)}),
    Kind.STEP_OVERRIDDEN: Schema({}, {"value": _may(*_ANY)}),
    Kind.MARK: Schema(_PLACE, {"value": _may(*_ANY)}),
    Kind.CHECKPOINT: Schema(
        {
            **_PLACE,
            "label": _may(*_WORD),
            "state_bytes": _may(*_INT),
            "rebuild": _may(*_LIST),
            "unsaid": _may(*_LIST),
            "upto_seq": _may(*_INT),
            "after": _may(*_TEXT),
        },
        {"state": _must(*_ANY)},
    ),
    Kind.RESTORED: Schema({"seq": _may(*_INT)}),
    Kind.DRIFTED: Schema({"recorded": _must(*_TEXT), "recorded_seq": _may(*_INT)}, {"diff": _may(*_TEXT)}),
    Kind.STREAM_CHUNK: Schema(
        {
            "try": _may(*_INT),
            "n": _may(*_INT),
            "pieces": _may(*_INT),
            "continues": _may(*_TEXT),
        },
        {
            "text": _may(*_TEXT),
            "reasoning": _may(*_TEXT),
            "refusal": _may(*_TEXT),
            "calls": _may(*_LIST),
            "facts": _may(*_DICT),
            "logprobs": _may(*_DICT),
            "more": _may(*_DICT),
            "items": _may(*_LIST),
            "choices": _may(*_LIST),
        },
    ),
    Kind.WAIT_STARTED: Schema(
        {**_PLACE, "for": _must(*_TEXT), "since": _must(*_NUMBER), "until": _may(*_TIME)},
        {"what": _may(*_TEXT), "why": _may(*_TEXT)},
    ),
    Kind.WAIT_ENDED: Schema({"how": _may(*_TEXT), "waited_s": _may(*_NUMBER)}),
    Kind.QUESTION_ASKED: Schema(
        {
            "in": _must(*_TEXT),
            "after": _must(*_TEXT),
            "forked": _may(*_YES),
            "about_sha256": _must(*_TEXT),
            "expires_at": _may(*_TIME),
        },
        {"question": _must(*_TEXT), "wants": _must(*_DICT), "about": _may(*_ANY)},
    ),
    Kind.QUESTION_ANSWERED: Schema(
        {"how": _must(*_TEXT), "by": _may(*_TEXT), "answered_at": _may(*_NUMBER)},
        {"value": _may(*_ANY), "reason": _may(*_TEXT), "error": _may(*_DICT)},
    ),
    Kind.PROMISE_MADE: Schema(
        {**_PLACE, "by": _must(*_TEXT), "to": _must(*_TEXT), "due": _may(*_TIME), "tells": _may(*_YES)},
        {"text": _must(*_TEXT)},
    ),
    Kind.PROMISE_SETTLED: Schema(
        {**_PLACE, "how": _must(*_TEXT), "tells": _may(*_YES)}, {"note": _must(*_TEXT)}
    ),
    Kind.PROMISE_TOLD: Schema({"via": _may(*_TEXT)}, {"promises": _must(*_LIST)}),
    Kind.MESSAGE_RECEIVED: Schema(
        {**_PLACE, "from": _must(*_TEXT), "id": _must(*_TEXT), "sent_at": _must(*_NUMBER)},
        {"value": _may(*_ANY)},
    ),
    Kind.BUDGET_WARNED: Schema(
        {
            "name": _may(*_TEXT),
            "spent": _may(*_NUMBER),
            "allowed": _must(*_NUMBER),
            "unknown_calls": _may(*_INT),
            "words": _may(*_TEXT),
        }
    ),
    Kind.PREMISE_NOTED: Schema(
        {
            **_PLACE,
            "kind": _must(*_TEXT),
            "name": _must(*_TEXT),
            "policy": _may(*_WORD),
            "via": _may(*_TEXT),
            "by": _may(*_TEXT),
            "inner": _may(*_WORD),
            "mode": _may(*_INT),
            "blobs": _may(*_LIST),
        },
        {"facts": _must(*_FACTS)},
    ),
    Kind.PREMISE_BROKEN: Schema(
        {
            "kind": _must(*_TEXT),
            "name": _must(*_TEXT),
            "verdict": _must(*_TEXT),
            "act": _must(*_TEXT),
            "noted_seq": _may(*_INT),
            "noted": _may(*_FACTS),
            "orphan_of": _may(*_TEXT),
        },
        {"text": _may(*_TEXT), "found": _must(*_FACTS)},
    ),
    Kind.ARTIFACT_BEGUN: Schema(_FILE),
    Kind.ARTIFACT_READY: Schema(
        {
            **_FILE,
            "bytes": _must(*_INT),
            "sha256": _must(*_TEXT),
            "mode": _may(*_INT),
            "blobs": _may(*_LIST),
        }
    ),
    Kind.LOOP_NOTICED: Schema(
        {
            "level": _must(*_TEXT),
            "pattern": _may(*_TEXT),
            "names": _may(*_LIST),
            "times": _may(*_INT),
        },
        {"what": _may(*_TEXT), "text": _must(*_TEXT)},
    ),
    Kind.LOOP_LEFT: Schema(),
    Kind.PRUNED: Schema({"from_seq": _must(*_INT)}),
    Kind.COMPACTED: Schema(
        {
            "from_seq": _must(*_INT),
            "events": _may(*_INT),
            "tallies": _must(*_DICT),
            "blobs": _may(*_LIST),
        },
        {"view": _may(*_FACTS)},
    ),
}
"""By kind. A name that is a part's in one kind is a part's in all: see ``event_fields.PARTS``."""

NAMED: Final[dict[str, Schema]] = {
    CHAINED: Schema(
        {
            "chain": _must(*_TEXT),
            "id": _must(*_TEXT),
            "parent": _must(*_WORD),
            "holds": _may(*_LIST),
            "leans": _may(*_DICT),
            "hidden": _may(*_YES),
            "state_bytes": _may(*_INT),
        },
        {"note": _may(*_ANY), "state": _must(*_ANY), "about": _may(*_ANY)},
    ),
    PENDING: Schema(
        {
            "chain": _must(*_TEXT),
            "on": _must(*_TEXT),
            "task": _must(*_TEXT),
            "path": _must(*_TEXT),
            "indexes": _must(*_LIST),
        },
        {"value": _may(*_LIST)},
    ),
    MESSAGES: Schema(_PLACE, {"value": _may(*_LIST)}),
    DROPPED: Schema(_PLACE, {"value": _may(*_DICT)}),
    MENDED: Schema(
        {**_PLACE, "keep": _must(*_INT), "upto": _may(*_INT)},
        {"repairs": _may(*_LIST), "value": _may(*_LIST)},
    ),
    HANDED_OVER: Schema({}, {"losses": _may(*_LIST), "value": _may(*_DICT)}),
}
"""The schemas of some marks and checkpoints, by name."""

_NAMED_KINDS: Final = frozenset({Kind.MARK, Kind.CHECKPOINT})


def schema_of(event: Event) -> Schema | None:
    """The schema of an event; None for a kind of a later version."""
    named = NAMED.get(event.name) if event.kind in _NAMED_KINDS else None
    return named or SCHEMAS.get(event.kind)


def problems_in(event: Event) -> list[str]:
    """What is wrong with the body of an event; empty if this or a later version may have written it."""
    try:
        contents = contents_of(event.body)
        if lines_of(event.body) is not None:
            parts_of(event.body)
    except ValueError as wrong:
        return [f"its body cannot be read: {wrong}"]
    problems = _form_of(event.body)
    is_pruned = "pruned" in contents
    if is_pruned and contents["pruned"] not in PRUNED:
        problems.append(f"pruned is {_shown(contents['pruned'])}")
    for name, value in contents.items():
        problems += _reference(name, value)
    schema = schema_of(event)
    if schema is None:
        return problems
    for name, field in (*schema.fields.items(), *schema.parts.items()):
        if name in contents:
            if not _is_of(contents[name], field.types):
                problems.append(f"{name} is {_shown(contents[name])}")
        elif field.is_required and not (is_pruned and name in PARTS) and f"{name}_blob" not in contents:
            problems.append(f"{name} is missing")
    return problems


def _form_of(body: bytes) -> list[str]:
    """Checks that each name is on its line, and that there is one line of each."""
    lines = lines_of(body)
    if lines is None:
        return []
    own, data = lines
    problems = [f"{name} stands among the fields" for name in contents_of(own) if name in PARTS]
    if b"\n" in data:
        problems.append("its body has more than two lines")
    elif data:
        problems += [f"{name} stands among the data" for name in contents_of(data) if name not in PARTS]
    return problems


def _reference(name: str, value: Any) -> list[str]:
    """Checks references to blobs, in any kind of event."""
    if name.endswith("_blob"):
        is_sound = type(value) is str and len(value) == 64 and not set(value) - set("0123456789abcdef")
    elif name.endswith("_bytes"):
        is_sound = type(value) is int and value >= 0
    elif name == "blobs":
        is_sound = type(value) is list and all(type(one) is str for one in value)
    else:
        return []
    return [] if is_sound else [f"{name} is {_shown(value)}"]


def _is_of(value: Any, types: tuple[type, ...]) -> bool:
    return type(value) in types


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
