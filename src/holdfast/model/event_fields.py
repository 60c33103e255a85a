"""The body of an event: Holdfast's own fields on its first line, the user's data on the second.

``{"effect":"once","in":"","after":""}`` newline ``{"args":{"id":7}}``: the second line is an object of parts
by name, each of them content of the user, of a model or of a person; it is empty if there are none. The
encoder never writes a raw newline, so the first one is the separator. A body without one is of format 1, in
which fields and parts were in one object. Format 1 stays readable by names, because a name is either a
field's or a part's, in every kind of event.

Invariants: the first line of a body has no user data but names, keys and addresses; a value that was encoded
before enters and leaves bit for bit. No other module looks into a body: ``tests/architecture`` checks that.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

from orjson import dumps, loads

PARTS: Final = frozenset(
    {
        # calls and marks
        "args",
        "module_data",
        "request",
        "value",
        "lost",
        "error",
        "reason",
        "diff",
        "fell_back",
        "mended",
        # runs and checkpoints
        "goal",
        "inputs",
        "state",
        "about",
        "note",
        "view",
        # questions, promises, messages, handoffs
        "question",
        "wants",
        "text",
        "promises",
        "losses",
        "repairs",
        # waits and loop signs
        "what",
        "why",
        # premises
        "facts",
        "found",
        # chunks of a streamed answer, besides text and facts
        "reasoning",
        "refusal",
        "calls",
        "logprobs",
        "more",
        "items",
        "choices",
    }
)
"""The names of parts. Every other name is a field's."""

PRUNED: Final = ("reasoning", "chunks", "checkpoints", "refetchable", "pending", "compacted")
"""The classes under which a body can be pruned."""

Mark = Literal["", "model", "noted", "handed", "program"]

_CUT: Final = b"\n"
_LAST: Final = frozenset({"args", "value"})
"""The parts that are read as bytes. They come last in their line, so they can be cut out without parsing."""
_OPENINGS: Final = {name: b'\n{"%b":' % name.encode() for name in PARTS}
_ALONE: Final = {name: _OPENINGS[name] for name in _LAST}
PLAIN: Final = (b'{"effect":"read"', b'{"effect":"once"', b'{"effect":"idempotent"')
_MODEL: Final = b'{"effect":"model"'
_NOTED: Final = b'{"noted":'
_HANDED: Final = b'{"handed":'
_PROGRAM: Final = b'{"program":'
USAGE: Final = b'{"usage":'
_ENDS: Final = tuple(b'"pruned":"%b"}' % name.encode() for name in PRUNED)
_BLOB: Final = b'_blob":"'
_BLOBS: Final = b'"blobs":['


# -- write ---------------------------------------------------------------------------------------------------


def write(
    fields: Mapping[str, Any],
    parts: Mapping[str, Any] | None = None,
    *,
    value: bytes | None = None,
    value_name: str = "value",
) -> bytes:
    """A body of these fields and parts, and of an encoded value, which is inserted unchanged."""
    assert PARTS.isdisjoint(fields), f"a part among the fields: {PARTS.intersection(fields)}"
    head = dumps(fields)
    if not parts:
        return head + _CUT if value is None else head + _OPENINGS[value_name] + value + b"}"
    assert PARTS.issuperset(parts), f"a field among the parts: {parts.keys() - PARTS}"
    if value is None:
        return head + _CUT + dumps(_in_order(parts))
    assert value_name not in parts, value_name
    return b'%b\n%b,"%b":%b}' % (head, dumps(parts)[:-1], value_name.encode(), value)


def split(contents: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separates fields and parts by name, in a letter or a body of format 1."""
    fields = {name: value for name, value in contents.items() if name not in PARTS}
    return fields, {name: value for name, value in contents.items() if name in PARTS}


def rewritten(body: bytes, **changes: Any) -> bytes:
    """The body with some fields changed. Its parts stay as they are."""
    head, data = _lines(body)
    fields = {**_object(head), **changes}
    if "pruned" in fields:  # ``is_hollow`` expects it at the end
        fields["pruned"] = fields.pop("pruned")
    assert PARTS.isdisjoint(changes), f"a part among the fields: {PARTS.intersection(changes)}"
    return dumps(fields) + _CUT + data


def filled(body: bytes, name: str, data: bytes) -> bytes:
    """The body with a part inserted that was stored separately: ``data`` as it was encoded."""
    fields, parts = split(contents_of(body))
    parts.pop(name, None)
    return write(fields, parts, value=data, value_name=name)


def with_part_of(body: bytes, name: str, other: bytes) -> bytes:
    """The body with a part as another body has it, or its address there; unchanged if that has none."""
    names = (name, f"{name}_blob", f"{name}_bytes")
    theirs = contents_of(other)
    brought = {one: theirs[one] for one in names if one in theirs}
    if not brought:
        return body
    kept = {one: value for one, value in contents_of(body).items() if one not in names}
    return write(*split({**kept, **brought}))


def without(body: bytes, names: Iterable[str], *, pruned: str = "") -> bytes:
    """The body without these fields and parts; ``pruned`` records their class."""
    gone = frozenset(names)
    head, data = _lines(body)
    fields = {name: value for name, value in _object(head).items() if name not in gone}
    parts = _object(data) if data else {}
    if pruned:
        assert pruned in PRUNED, pruned
        fields.pop("pruned", None)
        fields["pruned"] = pruned
    return write(fields, {name: part for name, part in parts.items() if name not in gone})


# -- read ----------------------------------------------------------------------------------------------------


def fields_of(body: bytes) -> dict[str, Any]:
    """Holdfast's own fields. The user's parts are not parsed. Raises ValueError if it is not a body."""
    cut = body.find(_CUT)
    return _object(body[:cut]) if cut >= 0 else split(_object(body))[0]


def parts_of(body: bytes) -> dict[str, Any]:
    """The user's parts by name, as trees for ``decode_tree``."""
    cut = body.find(_CUT)
    if cut < 0:
        return split(_object(body))[1]
    return _object(body[cut + 1 :]) if len(body) > cut + 1 else {}


def contents_of(body: bytes) -> dict[str, Any]:
    """Fields and parts together, for output. No name is both, so none hides another."""
    cut = body.find(_CUT)
    if cut < 0:
        return _object(body)
    fields = _object(body[:cut])
    return {**fields, **_object(body[cut + 1 :])} if len(body) > cut + 1 else fields


def part_of(body: bytes, name: str) -> Any:
    """One part as a tree; None if there is none."""
    return parts_of(body).get(name)


def raw_part(body: bytes, name: str) -> bytes | None:
    """One part as it was encoded; None if there is none."""
    opening = _ALONE.get(name)
    if opening is not None and (at := body.find(opening)) >= 0:  # the only newline
        return body[at + len(opening) : -1]
    parts = parts_of(body)
    return dumps(parts[name]) if name in parts else None


VALUE: Final = _OPENINGS["value"]
parted: Final[Callable[[bytes, bytes], tuple[bytes, bytes, bytes]]] = bytes.partition
"""For an outcome with a value as its only part, and ``VALUE``: what is before it, what opens it, and the
value as it was encoded with one byte behind it. The last two are empty for others. For each step of a replay.
"""


def lines_of(body: bytes) -> tuple[bytes, bytes] | None:
    """The two lines of a body; None for format 1."""
    cut = body.find(_CUT)
    return None if cut < 0 else (body[:cut], body[cut + 1 :])


def joined(fields: bytes, data: bytes) -> bytes:
    """The body of two lines; see ``lines_of``."""
    return fields + _CUT + data


# -- fast checks for many bodies: they look at fixed places on the first line, without parsing ---------------


def mark_of(intent: bytes) -> Mark:
    """What the intent of a call tells the fold: a model call, premises, or continued work from a handoff."""
    if intent.startswith(PLAIN):
        return ""
    if intent.startswith(_MODEL):
        return "model"
    if intent.startswith(_NOTED):
        return "noted"
    return "handed" if intent.startswith(_HANDED) else "program" if intent.startswith(_PROGRAM) else ""


def is_model(intent: bytes) -> bool:
    """Whether an intent is that of a model call."""
    return intent.startswith(_MODEL)


begins: Final[Callable[[bytes, bytes | tuple[bytes, ...]], bool]] = bytes.startswith
"""Whether an intent begins with ``PLAIN``, and has nothing to tell the fold (see ``mark_of``); or an outcome
with ``USAGE``, of a model call. The method itself, as a fold asks for every event: a ``methodcaller`` takes
twice as long."""


def is_hollow(body: bytes) -> bool:
    """Whether a body has lost its content. Checks the end of its fields, where no user data can be."""
    cut = body.find(_CUT)
    return body.endswith(_ENDS, 0, cut if cut >= 0 else len(body))


def pruned_as(body: bytes) -> str:
    """The class under which a body was pruned; empty for one that has its content."""
    cut = body.find(_CUT)
    is_whole = not body.endswith(_ENDS, 0, cut if cut >= 0 else len(body))
    return "" if is_whole else str(fields_of(body)["pruned"])


def blobs_in(body: bytes) -> set[str]:
    """The addresses of all blobs that a body names. Most name none, and are not parsed."""
    cut = body.find(_CUT)
    end = cut if cut >= 0 else len(body)
    if body.find(_BLOB, 0, end) < 0 and body.find(_BLOBS, 0, end) < 0:
        return set()
    try:
        return blobs_named(fields_of(body))
    except ValueError:  # not a body of ours
        return set()


def values_in(body: bytes) -> set[str]:
    """The addresses of values that were too long for the body: its fields that end in ``_blob``."""
    cut = body.find(_CUT)
    if body.find(_BLOB, 0, cut if cut >= 0 else len(body)) < 0:
        return set()
    return _values_named(fields_of(body))


def blob_fields(body: bytes) -> dict[str, str]:
    """The same, by the names of those fields."""
    if not values_in(body):
        return {}
    return {name: one for name, one in fields_of(body).items() if name.endswith("_blob") and type(one) is str}


def blobs_named(fields: Mapping[str, Any]) -> set[str]:
    """The addresses that fields name: an event's, or a letter's."""
    found = _values_named(fields)
    # the pieces of a file's copy; or, in a compacted event, the blobs of the events it replaced
    also = fields.get("blobs")
    return found.union(also) if type(also) is list else found


# -- helpers -------------------------------------------------------------------------------------------------


def _object(data: bytes) -> dict[str, Any]:
    found = loads(data)
    if type(found) is not dict:
        raise ValueError("an event's body is no object")
    return found


def _lines(body: bytes) -> tuple[bytes, bytes]:
    """The two lines of a body in either format."""
    found = lines_of(body)
    if found is None:
        fields, parts = split(_object(body))
        return dumps(fields), dumps(_in_order(parts)) if parts else b""
    return found


def _values_named(fields: Mapping[str, Any]) -> set[str]:
    return {value for name, value in fields.items() if name.endswith("_blob") and type(value) is str}


def _in_order(parts: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(parts.items(), key=lambda part: part[0] in _LAST))
