"""What must hold of data that come from elsewhere before any of it is written here: bounds, and the shape of each kind.

Pure: each function looks at one thing and answers with what is wrong with it, or with nothing. Whether a whole history
holds together is told by folding it, which is not done here.

What fields and parts each kind of event has, and of which types, is known by ``model.event_schema``. The table here has what
only data from elsewhere can get wrong: numbers within bounds, words out of a few, what stands inside of a part.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast import limits
from holdfast.core.journal.names import check_run_id
from holdfast.errors import BadName
from holdfast.model.event_fields import contents_of
from holdfast.model.event_schema import problems_in
from holdfast.model.events import AUTOSAVE, DROPPED, MENDED, MESSAGES, Event, Kind
from holdfast.model.store_rows import Status

STATUSES: Final = frozenset(
    value for name, value in vars(Status).items() if name.isupper() and value != Status.IMPORTING
)
"""How a run may stand that comes from elsewhere."""

UNSOUND: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading raises where data are not as they should be: a bare one must not reach anybody who looks at many runs."""

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "text": (str,),
    "bool": (bool,),
    "list": (list,),
    "object": (dict,),
    "null": (type(None),),
}

# Each field with what may stand there: types, and those behind a question mark may be absent. ``seq``, ``count``, ``number``
# and ``time`` are numbers within bounds, ``address`` the hash of a content, ``texts`` a list of texts; behind an equals sign
# stand the words that there are.
_VALUE: Final = {"value_blob": "address?", "value_bytes": "count?"}
_PLACED: Final = {"in": "text?", "after": "text?", "forked": "bool?"}
_FAILED: Final = {"error": "failure"}
_SHAPES: Final[dict[str, dict[str, str]]] = {
    Kind.RUN_STARTED: {
        "goal": "text|null?", "agent": "text|null?", "workspace": "text|null?", "inputs": "any?", "inputs_blob": "address?",
        "inputs_bytes": "count?", "handed_over": "giver?", "waited_for_by": "text?", "roots": "texts?",
    },
    Kind.RUN_FINISHED: _VALUE,
    Kind.RUN_REOPENED: {},
    Kind.RUN_FORKED: {
        "from": "text", "at_seq": "seq", "attempts": "count?", "effects": "=answer,ask,again?", "blobs": "addresses?",
    },
    Kind.JOURNAL_CUT: {"events": "count", "by": "text"},
    Kind.RUN_REWOUND: {
        "to_seq": "seq", "kept": "text?", "attempts": "count?", "spent": "numbers?", "worked_s": "number?",
    },
    Kind.RUN_SEALED: {"to": "text", "status": "text", "handoff": "text?"},
    Kind.RUN_UNSEALED: {"from": "text", "handoff": "text?"},
    Kind.RUN_CANCELLED: {"by": "text", "reason": "text", "asked_at": "time?"},
    Kind.ATTEMPT_STARTED: {
        "number": "count", "owner": "text", "fence": "fence", "argv": "texts?", "cwd": "text?", "python": "text?",
        "holdfast": "text?", "acts_as": "text?", "roots": "texts?", "served": "bool?", "packages": "names?", "budget": "object|null?", "again": "list?", "premises": "object?",
    },
    Kind.ATTEMPT_CRASHED: {
        "attempt": "count", "last": "text", "last_seq": "count", "last_beat_at": "time", "owner": "text", "proof": "text",
    },
    Kind.ATTEMPT_ENDED: {
        "how": "text", "status": "status", "took_s": "number?", "error": "failure?", "again": "pairs?",
    },
    Kind.STEP_STARTED: {
        "effect": "=read,idempotent,once,model,", "in": "text", "after": "text", "args": "object|list?", "args_blob": "address?", "args_bytes": "count?",
        "forked": "bool?", "noted": "premises?", "tool": "bool?", "idempotency_key": "text?", "owner": "text?",
        "loops": "text|numbers?", "model": "text?", "provider": "text?", "request_bytes": "count?", "stream": "bool?",
        "handed": "carried?", "carried": "carried?", "verify": "bool?", "approved": "count?", "refetchable": "bool?",
        "deadline": "time?", "in_doubt": "text?",
    },
    Kind.STEP_FINISHED: {**_VALUE, "ms": "number?", "usage": "object?", "lost": "object?", "partial": "bool?"},
    Kind.STEP_FAILED: {**_FAILED, "ms": "number?"},
    Kind.STEP_RETRIED: {**_FAILED, "failures": "count", "wait_s": "number"},
    Kind.STEP_DOUBTED: {"reason": "text"},
    Kind.STEP_SETTLED: {
        **_VALUE, "how": "=done,failed,retry", "via": "text?", "by": "text?", "error": "failure?", "usage": "object?", "ms": "number?",
        "lost": "object?", "reason": "text?", "n": "count?", "run": "text?", "store": "text?", "event": "count?",
        "seq": "count?",
    },
    Kind.STEP_ABANDONED: {"by": "text?"},
    Kind.STEP_OVERRIDDEN: _VALUE,
    Kind.MARK: {
        **_VALUE, **_PLACED, "losses": "losses?", "keep": "count?", "repairs": "list?", "upto": "seq?", "pruned": "text?",
    },
    Kind.CHECKPOINT: {
        **_PLACED, "state_bytes": "count", "label": "text|null?", "upto_seq": "count?", "unsaid": "list?", "rebuild": "list?",
        "chain": "text?", "hidden": "bool?", "about_blob": "address?", "about_bytes": "count?", "pruned": "text?",
    },
    Kind.RESTORED: {"seq": "count"},
    Kind.DRIFTED: {"recorded": "text?", "recorded_seq": "count?", "diff": "text?"},
    Kind.STREAM_CHUNK: {"try": "count", "n": "count", "pieces": "count", "pruned": "text?"},
    Kind.WAIT_STARTED: {"for": "text", "what": "text?", "why": "text?", "since": "time", "until": "time|null?"},
    Kind.WAIT_ENDED: {"how": "text", "waited_s": "number?"},
    Kind.QUESTION_ASKED: {
        "question": "text", "wants": "wants", "about_sha256": "text", "in": "text", "after": "text", "forked": "bool?",
        "expires_at": "time|null?", "about_blob": "address?", "about_bytes": "count?",
    },
    Kind.QUESTION_ANSWERED: {
        **_VALUE, "how": "text", "by": "text?", "answered_at": "time?", "reason": "text?", "error": "failure?",
    },
    Kind.PROMISE_MADE: {"text": "text", "by": "text", "to": "text", "tells": "bool?", "due": "time|null?"},
    Kind.PROMISE_SETTLED: {"how": "=kept,broken", "note": "text", "tells": "bool?"},
    Kind.PROMISE_TOLD: {"promises": "promises", "via": "text?"},
    Kind.MESSAGE_RECEIVED: {**_VALUE, "from": "text", "id": "text", "sent_at": "time", "in": "text?"},
    Kind.BUDGET_WARNED: {
        "name": "text?", "spent": "number?", "allowed": "number", "unknown_calls": "count?", "words": "text?",
    },
    Kind.PREMISE_NOTED: {
        "kind": "text", "name": "text", "facts": "facts|null", "policy": "text|null?", "via": "text?", "by": "text?",
        "inner": "text?", "mode": "count?", "blobs": "addresses?", "in": "text?",
    },
    Kind.PREMISE_BROKEN: {
        "kind": "text", "name": "text", "verdict": "text", "act": "text", "text": "text", "noted_seq": "count?",
        "noted": "facts|null", "found": "facts|null", "orphan_of": "text?",
    },
    Kind.ARTIFACT_BEGUN: {"name": "text", "at": "text", "temp": "text", "attempt": "count"},
    Kind.ARTIFACT_READY: {
        "name": "text", "at": "text", "temp": "text", "attempt": "count", "bytes": "count", "sha256": "text", "mode": "count?",
        "blobs": "addresses?",
    },
    Kind.LOOP_NOTICED: {
        "level": "text", "text": "text", "pattern": "text?", "names": "texts?", "times": "count?", "what": "text?",
    },
    Kind.LOOP_LEFT: {},
    Kind.PRUNED: {"from_seq": "seq"},
    Kind.COMPACTED: {
        "from_seq": "seq", "events": "count?", "tallies": "object?", "blobs": "addresses?", "view": "object?",
        "view_blob": "address?", "view_bytes": "count?",
    },
}  # fmt: skip

_MARKS: Final = {
    MESSAGES: {"value": "list?"}, DROPPED: {"value": "dropped?"}, MENDED: {"value": "list?", "keep": "count"},
}  # fmt: skip
"""What the marks of a conversation hold, in themselves or apart; one of both, unless it was pruned."""

_LETTERS: Final[dict[str, dict[str, str]]] = {
    "cancel": {"by": "text", "reason": "text"},
    "message": {"id": "text", "from": "text", "n": "count", "body": "object"},
    "promise": {"promise": "promise"},
    "child": {"run": "text"},
    "resolve": {"key": "text", "how": "=done,failed,retry,abandon", "body": "object", "by": "text?"},
    "outcome": {"key": "text", "how": "=done,failed", "body": "object", "by": "text?"},
    "answer": {"key": "text", "seq": "seq", "by": "text", "value": "any", "reason": "text?"},
    "accept": {"premise": "text", "name": "text", "facts": "facts|null", "policy": "text|null", "by": "text"},
}

_FACTS: Final = {
    "was": "texts?", "lineage": "text?", "compacted": "bool?", "handed": "giver?", "agent": "text?", "due_at": "time?",
}  # fmt: skip
"""The facts of a row that come along with a run."""
_OWN_FACTS: Final = {
    "elsewhere": "seq?", "came": "object?", "effects": "text?", "imported": "text?", "flattens": "text?", "checked": "count?", "owner": "text?",
}  # fmt: skip
"""Those that are about one store only."""

_INNER: Final[dict[str, dict[str, str]]] = {
    "failure": {"type": "text", "message": "text", "state": "object|null?"},
    "dropped": {"first": "count"},
    "promise": {
        "id": "text", "text": "text", "by": "text", "to": "text", "state": "=open,kept,broken", "at": "time", "side": "=made,received",
        "due": "time|null?", "note": "text?", "settled_at": "time|null?",
    },
    "premise": {"kind": "text", "name": "text", "facts": "facts|null"},
    "wants": {"kind": "text", "choices": "list?", "name": "text?", "fields": "texts?"},
    "loss": {"what": "text", "name": "text", "why": "text", "advice": "text"},
    "facts": {
        "sha256": "text?", "bytes": "count?", "at": "text|time?", "step": "text?", "is": "text?", "asked": "list?",
    },
    "giver": {"run": "text", "store": "text", "event": "count", "to": "text", "digest": "text"},
    "carried": {"n": "count", "run": "text", "store": "text", "event": "count", "key": "text?"},
}  # fmt: skip
_LISTS: Final = {
    "texts": "text", "numbers": "number", "addresses": "address", "promises": "promise", "premises": "premise",
    "losses": "loss", "pairs": "pair",
}  # fmt: skip
_ADDRESS_CHARS: Final = 64


# -- one thing -----------------------------------------------------------------------------------------------------------


def event_problem(event: Event) -> str:
    """What speaks against an event, by itself; empty where nothing does. Its checksum is another question."""
    if not 1 <= event.seq <= limits.SEQ_MAX:
        return f"its number is beyond {limits.SEQ_MAX:,}"
    if not 0 <= event.fence <= limits.FENCE_MAX:
        return f"its fence, {event.fence}, is beyond {limits.FENCE_MAX:,}"
    if not _is_time(event.at):
        return f"its time is {event.at!r}"
    if len(event.name) > limits.EVENT_NAME_CHARS_MAX or len(event.key) > limits.EVENT_NAME_CHARS_MAX:
        return f"its name or its key has more than {limits.EVENT_NAME_CHARS_MAX:,} characters"
    if len(event.body) > limits.APPEND_SIZE_BYTES_MAX:
        return f"its body has more than {limits.APPEND_SIZE_BYTES_MAX:,} bytes"
    return _key_problem(event) or shape_problem(event)


def letter_problem(key: str, body: bytes) -> str:
    """What speaks against a letter; empty where nothing does."""
    if not 0 < len(key) <= limits.LETTER_KEY_CHARS_MAX:
        return f"its id has {len(key):,} characters"
    if len(body) > limits.RECORD_SIZE_BYTES_MAX:
        return f"it has more than {limits.RECORD_SIZE_BYTES_MAX:,} bytes"
    letter = _parsed(body)
    if isinstance(letter, str):
        return letter
    kind = letter.get("kind")
    shape = _LETTERS.get(kind) if isinstance(kind, str) else None
    if shape is None:
        return f"it is of kind {_shown(kind)}, which is none"
    return _shape_problem({**shape, "at": "time"}, letter)


def fact_problem(name: str, value: Any) -> str:
    """What speaks against one fact of a row of this store; empty where nothing does, or nobody here knows it."""
    shape = _FACTS.get(name) or _OWN_FACTS.get(name)
    return "" if shape is None else _shape_problem({name: shape}, {name: value})


def facts_problem(facts: Mapping[str, Any]) -> str:
    """What speaks against facts of a row that come from elsewhere; empty where nothing does."""
    for name in facts:
        if name not in _FACTS:
            return f"{_shown(name)} is nothing that comes along with a run"
    problem = _shape_problem(_FACTS, facts)
    if problem:
        return problem
    for name in facts.get("was", ()):
        if not is_name(name):
            return f"{_shown(name)} is no name of a run"
    agent = facts.get("agent", "")
    if len(agent) > limits.STEP_NAME_CHARS_MAX or not agent.isprintable():
        return f"{_shown(agent)} is no name of an agent"
    return ""


def status_problem(status: str) -> str:
    """What speaks against how a run is said to stand."""
    return "" if status in STATUSES else f"it stands as {_shown(status)}, which nothing does"


def birth_problem(birth: str) -> str:
    """What speaks against the birth of a run: what tells it from every other of its name."""
    is_sound = 0 < len(birth) <= limits.BIRTH_CHARS_MAX and birth.isascii() and birth.isprintable()
    return "" if is_sound else f"its birth is {_shown(birth)}"


def time_problem(at: float) -> str:
    """What speaks against a time."""
    return "" if _is_time(at) else f"its time is {at!r}"


def is_name(name: object) -> bool:
    """Whether a run could be called that."""
    try:
        check_run_id(name)
    except BadName:
        return False
    return True


def content_problem(data: bytes) -> str:
    """What speaks against a value that lies apart from its event; empty where nothing does."""
    try:
        value = loads(data)
    except JSONDecodeError as error:
        return f"it is no JSON ({error})"
    return _depth_problem(data, value)


# -- the shape of a body -------------------------------------------------------------------------------------------------


def shape_problem(event: Event) -> str:
    """What speaks against the body of an event, by its kind; empty where nothing does."""
    shape = _SHAPES.get(event.kind)
    if shape is None:
        return f"it is of kind {_shown(event.kind)}, which this Holdfast does not know"
    problems = problems_in(event)
    if problems:
        return problems[0]
    body = contents_of(event.body)
    if deep := _depth_problem(event.body, body):
        return deep
    if event.kind == Kind.MARK and event.name in _MARKS:
        shape = {**shape, **_MARKS[event.name]}
        if not {"value", "value_blob", "pruned"} & body.keys():
            return "its field value is missing"
    return _shape_problem(shape, body)


def _key_problem(event: Event) -> str:
    """The key of a call ends in the count of the call, or in the letter of one that was given its key."""
    site, dot, count = event.key.partition(".")
    if (
        event.key
        and event.name != AUTOSAVE
        and not (site and dot and (count == "k" or (count.isascii() and count.isdecimal())))
    ):
        return f"its key {_shown(event.key)} is that of no call"
    return ""


def _parsed(body: bytes) -> dict[str, Any] | str:
    """The object in a body; or what is wrong with it."""
    try:
        value = loads(body)
    except JSONDecodeError as error:
        return f"its body is no JSON ({error})"
    if type(value) is not dict:
        return "its body is no object"
    return _depth_problem(body, value) or value


def _depth_problem(data: bytes, value: Any) -> str:
    """Whether it is nested deeper than whoever reads it can follow. Most have too few brackets for that."""
    if data.count(b"[") + data.count(b"{") <= limits.BODY_DEPTH_MAX:
        return ""
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > limits.BODY_DEPTH_MAX:
            return f"it is nested deeper than {limits.BODY_DEPTH_MAX} levels"
        inner = (one for part in layer for one in (part.values() if type(part) is dict else part))
        layer = [one for one in inner if type(one) in {dict, list}]
    return ""


def _shape_problem(shape: Mapping[str, str], fields: Mapping[str, Any]) -> str:
    for name, wanted in shape.items():
        kinds = wanted.removesuffix("?")
        if name not in fields:
            if kinds == wanted:
                return f"its field {name} is missing"
        elif not any(_is_a(kind, fields[name]) for kind in kinds.split("|")):
            return f"its field {name} is {_shown(fields[name])}"
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
        return type(value) is dict and not _shape_problem(_INNER[kind], value)
    return _CHECKS[kind](value)


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and isfinite(value)


def _is_time(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= limits.TIME_MAX


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= limits.COUNT_MAX


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "number": _is_number,
    "time": _is_time,
    "count": _is_count,
    "seq": lambda value: type(value) is int and 0 <= value <= limits.SEQ_MAX,
    "fence": lambda value: type(value) is int and 0 <= value <= limits.FENCE_MAX,
    "status": lambda value: type(value) is str and value in STATUSES,
    "names": lambda value: type(value) is dict and all(type(one) is str for one in value.values()),
    "pair": lambda value: type(value) is list and [type(one) for one in value] == [str, int],
    "address": lambda value: (
        type(value) is str and len(value) == _ADDRESS_CHARS and not value.strip("0123456789abcdef")
    ),
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
