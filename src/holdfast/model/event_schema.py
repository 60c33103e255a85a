"""The schema of each kind of event.

A plain table, and one question to it: what is wrong with an event that came from elsewhere? The check accepts
kinds and fields of later versions, as long as their bodies have the form of one. Pruning removes the content
of a body, and with it the parts that held it. A value that was too long for its body is replaced by
``…_blob``, its address, and ``…_bytes``.

Each name has the types that it allows; a question mark says that it may be absent. ``seq``, ``fence``,
``count``, ``number`` and ``time`` are numbers within bounds, ``address`` is the hash of a content, ``texts``
is a list of texts. An equals sign comes before the list of allowed words.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from holdfast import limits
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
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Status

Shape = Mapping[str, str]
"""Names, and what may stand there."""


class Schema(NamedTuple):
    """The fields and the parts of a kind of event."""

    fields: Shape = MappingProxyType({})
    parts: Shape = MappingProxyType({})


SCHEMAS: Final[dict[str, Schema]] = {
    Kind.RUN_STARTED: Schema(
        {
            "agent": "text|null?", "workspace": "text|null?", "roots": "texts?", "waited_for_by": "text?",
            "handed_over": "giver?",
        },
        {"goal": "text|null?", "inputs": "any?"},
    ),
    Kind.RUN_FINISHED: Schema({}, {"value": "any?"}),
    Kind.RUN_REOPENED: Schema(),
    Kind.RUN_FORKED: Schema(
        {
            "from": "text", "at_seq": "seq", "attempts": "count?", "effects": "=answer,ask,again?", "blobs":
            "addresses?", "cwd": "text?", "by": "text?",
        },
        {"value": "list?", "inputs": "any?"},
    ),
    Kind.RUN_REWOUND: Schema(
        {
            "to_seq": "seq", "kept": "text?", "attempts": "count?", "spent": "numbers?", "worked_s":
            "number?", "effects": "=answer,ask,again?", "blobs": "addresses?", "by": "text?",
        },
        {"value": "list?"},
    ),
    Kind.RUN_SEALED: Schema({"to": "text", "status": "text", "handoff": "text?", "by": "text?"}),
    Kind.RUN_UNSEALED: Schema({"from": "text", "handoff": "text?", "by": "text?"}),
    Kind.RUN_CANCELLED: Schema({"by": "text", "asked_at": "time?"}, {"reason": "text"}),
    Kind.ATTEMPT_STARTED: Schema(
        {
            "number": "count", "owner": "text", "fence": "fence", "argv": "texts?", "cwd": "text?",
            "argv_cwd": "text?", "uid": "count?", "acts_as": "text?", "python": "text?", "holdfast": "text?",
            "argv_hidden": "object?", "secrets": "names?",
            "packages": "names?",
            "again": "list?", "budget": "object|null?", "retention": "object|null?", "premises": "object?",
            "roots": "texts?", "served": "bool?", "attended": "object?",
        },
    ),
    Kind.JOURNAL_CUT: Schema({"events": "count", "by": "text"}),
    Kind.ATTEMPT_CRASHED: Schema(
        {
            "attempt": "count", "last": "text", "last_seq": "count", "last_beat_at": "time", "owner": "text",
            "proof": "text", "noted": "text?", "noted_at": "time?",
        },
    ),
    Kind.ATTEMPT_ENDED: Schema(
        {"how": "text", "status": "status", "took_s": "number?", "again": "pairs?"},
        {"error": "failure?"},
    ),
    Kind.STEP_STARTED: Schema(
        {
            "in": "text", "after": "text", "forked": "bool?", "effect": "=read,idempotent,once,model,",
            "path": "path?", "program": "object?",
            "noted": "premises?", "handed": "carried?", "carried": "carried?", "origin": "object?",
            "refetchable": "bool?", "idempotency_key": "text?", "owner": "text?", "tool": "bool?", "in_doubt":
            "text?", "verify": "bool?", "loops": "text|numbers?", "deadline": "time?", "approved": "count?",
            "model": "text?", "provider": "text?", "request_bytes": "count?", "stream": "bool?",
            "reads": "object?",
        },
        {"args": "object|list?", "request": "any?", "module_data": "object?"},
    ),
    Kind.STEP_FINISHED: Schema(
        {"ms": "number?", "usage": "object?", "partial": "bool?", "continued": "list?"},
        {"value": "any?", "lost": "object?", "fell_back": "list?", "mended": "list?"},
    ),
    Kind.STEP_FAILED: Schema({"ms": "number?"}, {"error": "failure"}),
    Kind.STEP_RETRIED: Schema({"failures": "count", "wait_s": "number"}, {"error": "failure"}),
    Kind.STEP_DOUBTED: Schema({}, {"reason": "text"}),
    Kind.STEP_SETTLED: Schema(
        {
            "how": "=done,failed,retry", "via": "text?", "by": "text?", "ms": "number?", "usage": "object?",
            "partial": "bool?", "continued": "list?", "seq": "count?", "n": "count?", "from": "text?", "run":
            "text?", "store": "text?", "event": "count?",
        },
        {
            "value": "any?", "lost": "object?", "error": "failure?", "reason": "text?", "fell_back": "list?",
            "mended": "list?",
        },
    ),
    Kind.STEP_ABANDONED: Schema({"by": "text?"}),
    Kind.STEP_OVERRIDDEN: Schema({}, {"value": "any?"}),
    Kind.MARK: Schema(
        {
            "in": "text?", "after": "text?", "forked": "bool?", "by_task": "bool?", "of_task": "bool?",
            "keep": "count?", "upto": "seq?", "by": "text?",
        },
        {"value": "any?", "losses": "losses?", "repairs": "list?"},
    ),
    Kind.CHECKPOINT: Schema(
        {
            "in": "text?", "label": "text|null?", "state_bytes": "count", "rebuild": "list?", "unsaid":
            "list?", "upto_seq": "count?", "after": "text?", "path": "path?",
            "forked": "bool?", "chain": "text?", "hidden":
            "bool?", "by": "text?",
        },
        {"state": "any"},
    ),
    Kind.RESTORED: Schema({"seq": "count"}),
    Kind.DRIFTED: Schema(
        {
            "recorded": "text", "recorded_seq": "count?", "unclaimed": "texts?", "how": "=never_asked,told?",
            "difference": "text?", "passed": "count?", "run": "text?",
        },
        {"diff": "text?", "args": "any?"},
    ),
    Kind.STEP_CLAIMED: Schema({"asked": "text", "how": "=same,new", "by": "text", "run": "text?"}),
    Kind.STREAM_CHUNK: Schema(
        {"try": "count", "n": "count", "pieces": "count", "continues": "text?"},
        {
            "text": "text?", "reasoning": "text?", "refusal": "text?", "calls": "list?", "facts": "object?",
            "logprobs": "object?", "more": "object?", "items": "list?", "choices": "list?",
        },
    ),
    Kind.WAIT_STARTED: Schema(
        {"in": "text?", "for": "text", "since": "time", "until": "time|null?"},
        {"what": "text?", "why": "text?"},
    ),
    Kind.WAIT_ENDED: Schema({"how": "text", "waited_s": "number?"}),
    Kind.QUESTION_ASKED: Schema(
        {
            "in": "text", "after": "text", "forked": "bool?", "about_sha256": "text", "expires_at":
            "time|null?",
        },
        {"question": "text", "wants": "wants", "about": "any?"},
    ),
    Kind.QUESTION_ANSWERED: Schema(
        {"how": "text", "by": "text?", "answered_at": "time?"},
        {"value": "any?", "reason": "text?", "error": "failure?"},
    ),
    Kind.PROMISE_MADE: Schema(
        {"in": "text?", "by": "text", "to": "text", "due": "time|null?", "tells": "bool?"},
        {"text": "text"},
    ),
    Kind.PROMISE_SETTLED: Schema({"in": "text?", "how": "=kept,broken", "tells": "bool?"}, {"note": "text"}),
    Kind.PROMISE_TOLD: Schema({"via": "text?"}, {"promises": "promises"}),
    Kind.MESSAGE_RECEIVED: Schema(
        {"in": "text?", "from": "text", "id": "text", "sent_at": "time"},
        {"value": "any?"},
    ),
    Kind.BUDGET_WARNED: Schema(
        {
            "name": "text?", "spent": "number?", "allowed": "number", "unknown_calls": "count?", "words":
            "text?",
        },
    ),
    Kind.PREMISE_NOTED: Schema(
        {
            "in": "text?", "kind": "text", "name": "text", "policy": "text|null?", "via": "text?", "by":
            "text?", "inner": "text?", "mode": "count?", "blobs": "addresses?",
        },
        {"facts": "facts|null"},
    ),
    Kind.PREMISE_BROKEN: Schema(
        {
            "kind": "text", "name": "text", "verdict": "text", "act": "text", "noted_seq": "count?", "noted":
            "facts|null", "orphan_of": "text?",
        },
        {"text": "text", "found": "facts|null"},
    ),
    Kind.ARTIFACT_BEGUN: Schema(
        {"in": "text?", "name": "text", "at": "text", "temp": "text", "attempt": "count"},
    ),
    Kind.ARTIFACT_READY: Schema(
        {
            "in": "text?", "name": "text", "at": "text", "temp": "text", "attempt": "count", "bytes": "count",
            "sha256": "text", "mode": "count?", "blobs": "addresses?",
        },
    ),
    Kind.LOOP_NOTICED: Schema(
        {"level": "text", "pattern": "text?", "names": "texts?", "times": "count?"},
        {"what": "text?", "text": "text"},
    ),
    Kind.LOOP_LEFT: Schema(),
    Kind.PRUNED: Schema({"from_seq": "seq"}),
    Kind.COMPACTED: Schema(
        {"from_seq": "seq", "events": "count?", "tallies": "object", "blobs": "addresses?"},
        {"view": "object?"},
    ),
}  # fmt: skip
"""By kind. A name that is a part's in one kind is a part's in all: see ``event_fields.PARTS``."""

NAMED: Final[dict[str, Schema]] = {
    CHAINED: Schema(
        {
            "chain": "text", "id": "text", "parent": "text|null", "holds": "list?", "leans": "object?",
            "hidden": "bool?", "state_bytes": "count",
        },
        {"note": "any?", "state": "any", "about": "any?"},
    ),
    PENDING: Schema(
        {"chain": "text", "on": "text", "task": "text", "path": "text", "indexes": "list"},
        {"value": "list?"},
    ),
    MESSAGES: Schema({"in": "text?"}, {"value": "list?"}),
    DROPPED: Schema({"in": "text?"}, {"value": "dropped?"}),
    MENDED: Schema(
        {"in": "text?", "keep": "count", "upto": "seq?", "by": "text?"},
        {"repairs": "list?", "value": "list?"},
    ),
    HANDED_OVER: Schema({}, {"losses": "losses?", "value": "object?"}),
}  # fmt: skip
"""What some marks and checkpoints have, by their names."""

_INNER: Final[dict[str, dict[str, str]]] = {
    "failure": {"type": "text", "message": "text", "state": "object|null?"},
    "dropped": {"first": "count"},
    "promise": {
        "id": "text", "text": "text", "by": "text", "to": "text", "state": "=open,kept,broken", "at": "time",
        "side": "=made,received", "due": "time|null?", "note": "text?", "settled_at": "time|null?",
    },
    "premise": {"kind": "text", "name": "text", "facts": "facts|null"},
    "wants": {"kind": "text", "choices": "list?", "name": "text?", "fields": "texts?"},
    "loss": {"what": "text", "name": "text", "why": "text", "advice": "text"},
    "facts": {
        "sha256": "text?", "bytes": "count?", "at": "text|time?", "step": "text?", "is": "text?",
        "asked": "list?",
    },
    "giver": {"run": "text", "store": "text", "event": "count", "to": "text", "digest": "text"},
    "carried": {"n": "count", "run": "text", "store": "text", "event": "count", "key": "text?"},
}  # fmt: skip
_LISTS: Final = {
    "texts": "text", "numbers": "number", "addresses": "address", "promises": "promise",
    "premises": "premise", "losses": "loss", "pairs": "pair",
}  # fmt: skip
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "text": (str,),
    "bool": (bool,),
    "list": (list,),
    "object": (dict,),
    "null": (type(None),),
}

STATUSES: Final = frozenset(
    value for name, value in vars(Status).items() if name.isupper() and value != Status.IMPORTING
)
"""How a run may stand that comes from elsewhere."""

_ALSO: Final = frozenset({"value", "value_blob", "pruned"})
"""What marks of a conversation hold, in themselves or apart; one of these."""
_CONVERSATION: Final = frozenset({MESSAGES, DROPPED, MENDED})
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
    for name, wanted in (*schema.fields.items(), *schema.parts.items()):
        is_gone = is_pruned and (name in PARTS or name.endswith("_bytes"))
        is_apart = is_gone or f"{name}_blob" in contents
        if name in contents or not is_apart:
            problems += filter(None, [shape_problem({name: wanted}, contents)])
    if event.kind == Kind.MARK and event.name in _CONVERSATION and not _ALSO & contents.keys():
        problems.append("value is missing")
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
        is_sound = _is_a("address", value)
    elif name.endswith("_bytes"):
        is_sound = _is_a("count", value)
    elif name == "blobs":
        is_sound = _is_a("addresses", value)
    else:
        return []
    return [] if is_sound else [f"{name} is {_shown(value)}"]


def shape_problem(shape: Shape, fields: Mapping[str, Any]) -> str:
    """The first of these names that is missing or wrong; empty if all are right. Other names are allowed."""
    for name, wanted in shape.items():
        kinds = wanted.removesuffix("?")
        if name not in fields:
            if kinds == wanted:
                return f"{name} is missing"
        elif not any(_is_a(kind, fields[name]) for kind in kinds.split("|")):
            return f"{name} is {_shown(fields[name])}"
    return ""


def _is_a(kind: str, value: Any) -> bool:
    if kind == "any":
        return True
    if kind in _TYPES:
        return type(value) in _TYPES[kind]
    if kind.startswith("="):
        return type(value) is str and value in kind[1:].split(",")
    if kind in _LISTS:
        return type(value) is list and all(_is_a(_LISTS[kind], one) for one in value)
    if kind in _INNER:
        return type(value) is dict and not shape_problem(_INNER[kind], value)
    return _CHECKS[kind](value)


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and isfinite(value)


def is_time(value: Any) -> bool:
    """Whether it is a time that a calendar has."""
    return _is_number(value) and 0 <= value <= limits.TIME_MAX


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= limits.COUNT_MAX


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "number": _is_number,
    "time": is_time,
    "count": _is_count,
    "path": lambda value: type(value) is int and -1 <= value < 1 << 63,
    "seq": lambda value: type(value) is int and 0 <= value <= limits.SEQ_MAX,
    "fence": lambda value: type(value) is int and 0 <= value <= limits.FENCE_MAX,
    "status": lambda value: type(value) is str and value in STATUSES,
    "names": lambda value: type(value) is dict and all(type(one) is str for one in value.values()),
    "pair": lambda value: type(value) is list and [type(one) for one in value] == [str, int],
    "cuts": lambda value: type(value) is dict and all(_is_a("pair", one) for one in value.values()),
    "address": lambda value: type(value) is str and len(value) == 64 and not value.strip("0123456789abcdef"),
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
