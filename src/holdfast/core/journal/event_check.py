"""Checks data from another store before it is written: bounds and shapes of events, letters and row facts.

Each function checks one thing and returns what is wrong with it, or an empty text. A check of each event does
not prove that a history is consistent: the importer folds it for that. ``model.event_schema`` knows the
fields and parts of each kind of event.
"""

from collections.abc import Mapping
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast import limits
from holdfast.core.journal.names import check_run_id
from holdfast.errors import BadName
from holdfast.model.event_fields import contents_of
from holdfast.model.event_schema import SCHEMAS, STATUSES, is_time, problems_in, shape_problem
from holdfast.model.events import AUTOSAVE, Event

UNSOUND: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What readers of malformed data raise. A listing of many runs catches these: one bad run hides no others."""

_LETTERS: Final[dict[str, dict[str, str]]] = {
    "cancel": {"by": "text", "reason": "text"},
    "message": {"id": "text", "from": "text", "n": "count", "body": "object"},
    "promise": {"promise": "promise"},
    "child": {"run": "text"},
    "resolve": {"key": "text", "how": "=done,failed,retry,abandon", "body": "object", "by": "text?"},
    "claim": {
        "key": "text",
        "asked": "text",
        "name": "text",
        "how": "=same,new",
        "by": "text",
        "run": "text?",
    },
    "outcome": {"key": "text", "how": "=done,failed", "body": "object", "by": "text?"},
    "answer": {"key": "text", "seq": "seq", "by": "text", "value": "any", "reason": "text?"},
    "accept": {"premise": "text", "name": "text", "facts": "facts|null", "policy": "text|null", "by": "text"},
}

_FACTS: Final = {
    "was": "texts?", "lineage": "text?", "compacted": "bool?", "handed": "giver?", "agent": "text?",
    "due_at": "time?", "lost": "seq?", "children": "cuts?",
}  # fmt: skip
"""The facts of a row that travel with a run to another store."""
_OWN_FACTS: Final = {
    "elsewhere": "seq?", "came": "object?", "effects": "text?", "imported": "text?", "flattens": "text?",
    "checked": "count?", "owner": "text?", "forks": "bool?",
}  # fmt: skip
"""The facts that have a meaning in one store only."""

# -- one thing -----------------------------------------------------------------------------------------------


def event_problem(event: Event) -> str:
    """What is wrong with an event by itself; empty if nothing. The store checks its checksum."""
    if not 1 <= event.seq <= limits.SEQ_MAX:
        return f"its number is beyond {limits.SEQ_MAX:,}"
    if not 0 <= event.fence <= limits.FENCE_MAX:
        return f"its fence, {event.fence}, is beyond {limits.FENCE_MAX:,}"
    if not is_time(event.at):
        return f"its time is {event.at!r}"
    if len(event.name) > limits.EVENT_NAME_CHARS_MAX or len(event.key) > limits.EVENT_NAME_CHARS_MAX:
        return f"its name or its key has more than {limits.EVENT_NAME_CHARS_MAX:,} characters"
    if len(event.body) > limits.APPEND_SIZE_BYTES_MAX:
        return f"its body has more than {limits.APPEND_SIZE_BYTES_MAX:,} bytes"
    return _key_problem(event) or body_problem(event)


def letter_problem(key: str, body: bytes) -> str:
    """What is wrong with a letter; empty if nothing."""
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
    return shape_problem({**shape, "at": "time"}, letter)


def fact_problem(name: str, value: Any) -> str:
    """What is wrong with one fact of a row of this store.

    Empty if nothing, or if this version does not know the fact.
    """
    shape = _FACTS.get(name) or _OWN_FACTS.get(name)
    return "" if shape is None else shape_problem({name: shape}, {name: value})


def facts_problem(facts: Mapping[str, Any]) -> str:
    """What is wrong with facts of a row from another store; empty if nothing. An unknown fact is refused."""
    for name in facts:
        if name not in _FACTS:
            return f"{_shown(name)} is nothing that comes along with a run"
    problem = shape_problem(_FACTS, facts)
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
    """What is wrong with a run's status; empty if nothing."""
    return "" if status in STATUSES else f"it stands as {_shown(status)}, which nothing does"


def birth_problem(birth: str) -> str:
    """What is wrong with a birth id, which distinguishes a run from every other of its name.

    Empty if nothing.
    """
    is_sound = 0 < len(birth) <= limits.BIRTH_CHARS_MAX and birth.isascii() and birth.isprintable()
    return "" if is_sound else f"its birth is {_shown(birth)}"


def time_problem(at: float) -> str:
    """What is wrong with a time; empty if nothing."""
    return "" if is_time(at) else f"its time is {at!r}"


def is_name(name: object) -> bool:
    """Whether this is a valid id of a run."""
    try:
        check_run_id(name)
    except BadName:
        return False
    return True


def content_problem(data: bytes) -> str:
    """What is wrong with a value that is stored apart from its event; empty if nothing."""
    try:
        value = loads(data)
    except JSONDecodeError as error:
        return f"it is no JSON ({error})"
    return _depth_problem(data, value)


# -- the shape of a body -------------------------------------------------------------------------------------


def body_problem(event: Event) -> str:
    """What is wrong with the body of an event of its kind; empty if nothing."""
    if event.kind not in SCHEMAS:
        return f"it is of kind {_shown(event.kind)}, which this Holdfast does not know"
    problems = problems_in(event)
    return problems[0] if problems else _depth_problem(event.body, contents_of(event.body))


def _key_problem(event: Event) -> str:
    """Checks that the key of a call ends in the count of the call, or in ``k`` for an explicit key."""
    site, dot, count = event.key.partition(".")
    if (
        event.key
        and event.name != AUTOSAVE
        and not (site and dot and (count == "k" or (count.isascii() and count.isdecimal())))
    ):
        return f"its key {_shown(event.key)} is that of no call"
    return ""


def _parsed(body: bytes) -> dict[str, Any] | str:
    """The object in a body, or a text that says what is wrong with it."""
    try:
        value = loads(body)
    except JSONDecodeError as error:
        return f"its body is no JSON ({error})"
    if type(value) is not dict:
        return "its body is no object"
    return _depth_problem(body, value) or value


def _depth_problem(data: bytes, value: Any) -> str:
    """Refuses values that are nested so deep that recursive readers would fail."""
    # Counting brackets is much faster than walking, and most values have too few to be deep.
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


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
