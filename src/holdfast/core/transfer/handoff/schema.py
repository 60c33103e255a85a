"""The JSON Schema (2020-12) of a handoff.

``docs/handoff.schema.json`` is a copy, and ``holdfast handoff --schema`` prints it.

Readers must ignore unknown fields, because later versions add some. Every document has all required fields.
"""

from typing import Any, Final

from holdfast.limits import COUNT_MAX, HANDOFF_DOUBTS_MAX, SEQ_MAX, TIME_MAX

FORMAT: Final = 1
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": COUNT_MAX}
_SEQ: Final = {"type": "integer", "minimum": 0, "maximum": SEQ_MAX}
_TIME: Final = {"type": "number", "minimum": 0, "maximum": TIME_MAX}
_TIME_OR_NULL: Final = {**_TIME, "type": ["number", "null"]}
_EVENTS: Final = {"$ref": "#/$defs/events"}
_ANY: Final[dict[str, Any]] = {}


def _object(
    required: dict[str, Any], optional: dict[str, Any] | None = None, says: str = ""
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
    }
    return {"description": says, **found} if says else found


def _list(items: dict[str, Any], says: str) -> dict[str, Any]:
    return {"description": says, "type": "array", "items": items}


_STEP: Final = _object(
    {
        "step": _TEXT,
        "effect": {"enum": ["read", "idempotent", "once", "model", ""]},
        "arguments": {
            "type": ["object", "null"],
            "description": "By name, as recorded; typed values are tagged with $.",
        },
        "events": _EVENTS,
    },
    {
        "number": {**_NUMBER, "description": "Of an effect: which one of this document it is."},
        "key": {**_TEXT, "description": "Of a call that was given a key: what tells it from others."},
        "call": {
            **_TEXT,
            "description": "Where the arguments are gone: the key of the call, which is the same for the "
            "same call at the same place of the program.",
        },
        "arguments_sha256": {**_TEXT, "description": "Of the arguments, as canonical JSON."},
        "captured": {
            "type": "object",
            "description": "What a function captures, or reads from its module as a part of its identity.",
        },
        "reads": {"type": "object", "description": "By name, a digest of the data that it reads otherwise."},
        "module_data": {"type": "object", "description": "By name, that data, or the beginning of it."},
        "idempotency_key": _TEXT,
        "result": _ANY,
        "result_bytes": {
            **_NUMBER,
            "description": "How long the result is, where it was too long to be here.",
        },
        "result_gone": {
            "type": "boolean",
            "description": "It is done, and its result was compacted: a person is asked for it.",
        },
        "lost": _object(
            {},
            {"what": _TEXT, "size": _NUMBER, "size_max": _NUMBER, "unit": _TEXT},
            "Why the result could not be recorded.",
        ),
        "since": _TEXT,
        "since_at": _TIME,
        "doubt": _TEXT,
        "is_over": {
            "type": "boolean",
            "description": "Of an effect in doubt: whether the process that began it is proven to be gone.",
        },
        "policy": {"enum": ["stop", "tell", "retry"]},
        "verify": {"type": "boolean"},
        "tool": {"type": "boolean"},
        "child": {**_TEXT, "description": "Of an effect of a child: its name behind the giver's."},
        "from": _object(
            {"run": _TEXT, "store": _TEXT},
            {"event": _SEQ},
            "The run that had it before this one, with its store and event.",
        ),
    },
    "A call as it stands.",
)
_NOTE: Final = _object({"text": _TEXT, "events": _EVENTS}, {"because": _TEXT, "to": _TEXT})
_PLACE: Final = _object(
    {
        "kind": {"enum": ["artifact", "file", "endpoint"]},
        "name": _TEXT,
        "state": _TEXT,
        "facts": _object({}, {"sha256": _TEXT, "bytes": _NUMBER, "is": _TEXT}),
        "events": _EVENTS,
    }
)
_PROMISE: Final = _object(
    {
        "id": _TEXT,
        "text": _TEXT,
        "by": _TEXT,
        "to": _TEXT,
        "state": {"enum": ["open", "kept", "broken"]},
        "at": _TIME,
        "side": {"enum": ["made", "received"]},
        "due": _TIME_OR_NULL,
        "note": _TEXT,
        "settled_at": _TIME_OR_NULL,
        "events": _EVENTS,
    }
)
_LIMITS: Final = _object(
    {}, {name: {"type": "number", "minimum": 0} for name in ("tokens", "cost", "calls", "wall_s")}
)

_FIELDS: Final[dict[str, Any]] = {
    "holdfast_handoff": {"const": FORMAT, "description": "The format of this document."},
    "run": {**_TEXT, "description": "The run that hands over."},
    "store": {**_TEXT, "description": "Where its journal is."},
    "to": {**_TEXT, "description": "Who is to continue the work; empty if any agent may."},
    "at": {**_TEXT, "description": "When it was written."},
    "event": {**_SEQ, "description": "The last event of the journal that it tells of."},
    "attempt": {**_NUMBER, "description": "The number of the giver's last attempt."},
    "agent": _TEXT,
    "status": {**_TEXT, "description": "How the giver stood."},
    "sealed": {
        "type": "boolean",
        "description": "Whether the giver is sealed with it; else it may go on, too.",
    },
    "goal": _TEXT,
    "inputs": {"description": "As the giver was given them."},
    "summary": _list(
        _object({"about": _TEXT, "text": _TEXT, "events": _EVENTS}),
        "What a model needs to go on, line by line.",
    ),
    "last_step": {"anyOf": [{"$ref": "#/$defs/step"}, {"type": "null"}]},
    "plan": _list(_object({"item": _TEXT, "begun": {"type": "boolean"}}), "What was planned, in order."),
    "pending": _list({"$ref": "#/$defs/step"}, "Begun and not ended, and harmless to begin again."),
    "in_doubt": {
        **_list({"$ref": "#/$defs/step"}, "Effects of which it is not known whether they happened."),
        "maxItems": HANDOFF_DOUBTS_MAX,
    },
    "effects": _list(
        {"$ref": "#/$defs/step"}, "Effects that are done and must not be repeated: all of them, in order."
    ),
    "decisions": _list(_NOTE, "What was decided, and why."),
    "discoveries": _list(_NOTE, "What was found out."),
    "told": _list(_NOTE, "What the giver said to others."),
    "failed": _list(
        _object({"step": _TEXT, "error": {"type": "object"}, "events": _EVENTS}), "Approaches that failed."
    ),
    "artifacts": _list({"$ref": "#/$defs/place"}, "Files that the run has made."),
    "dependencies": _list({"$ref": "#/$defs/place"}, "Files and endpoints that it relies on."),
    "promises": _list(_PROMISE, "Made by the giver, and given to it."),
    "questions": _list(
        _object({"id": _TEXT, "text": _TEXT, "events": _EVENTS}, {"about": _ANY}), "Asked, and not answered."
    ),
    "state": {"description": "The latest checkpointed state, or null."},
    "messages": {"type": "array", "description": "The conversation as it stood."},
    "budget": _object(
        {
            "allowed": {"anyOf": [_LIMITS, {"type": "null"}]},
            "spent": {"type": "object"},
            "left": {"anyOf": [_LIMITS, {"type": "null"}]},
        },
        says="What the giver might spend, has spent, and has left; null where nothing limits it.",
    ),
    "left_out": _list(
        _object({"what": _TEXT, "name": _TEXT, "why": _TEXT, "advice": _TEXT}),
        "What this document does not have of the giver, and why.",
    ),
    "how_to_continue": {"type": "array", "items": _TEXT},
    "digest": {
        **_TEXT,
        "pattern": "^[0-9a-f]{64}$",
        "description": "SHA-256 of all else, as JSON with sorted keys.",
    },
}

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": f"urn:holdfast:handoff:{FORMAT}",
    "title": "A Holdfast handoff",
    "type": "object",
    "required": list(_FIELDS),
    "properties": _FIELDS,
    "$defs": {
        "events": {"type": "array", "items": _SEQ, "description": "Events of the giver's journal."},
        "step": _STEP,
        "place": _PLACE,
    },
}
