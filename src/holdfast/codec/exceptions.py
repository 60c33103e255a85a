"""An exception to a record and back, as its own class, without running any of its code.

It knows where exceptions keep their data: in args, in attributes, in slots of the interpreter (errno,
filename), in notes, in a cause, in a group. It never calls a constructor when it reads: constructors may take
other arguments than ``args``, and some have effects. The invariant: neither direction raises, for any
exception; what cannot be stored is left out and listed under ``lost``.

A record is JSON-ready and part of an event, so its total size is bounded: ``args`` and ``state`` (trees) are
stored while there is room, ``message`` and ``traceback`` (for people) are cut.
"""

from typing import Any, Final

import orjson

from holdfast.codec.object_attributes import put_state, state_of
from holdfast.codec.type_registry import find_class, type_name
from holdfast.codec.values import decode_tree, encode_tree
from holdfast.errors import ReplayedFailure
from holdfast.limits import APPEND_SIZE_BYTES_MAX, TRACEBACK_CHARS_MAX
from holdfast.model.explained_error import Explained
from holdfast.model.markers import KNOWN, SHAPES

Record = dict[str, Any]

_CHAIN_MAX: Final = 8
"""The depth to which causes and groups are stored."""

_TREES_BYTES_MAX: Final = APPEND_SIZE_BYTES_MAX // 4
"""Room for args and attributes. A failure that does not fit into an append could not be recorded at all."""

_MESSAGE_CHARS_MIN: Final = 200
_OUR_MARKS: Final = ("__notes__", "_holdfast_")
"""Prefixes of attributes to skip: notes have their own field, and ours belong to the running process."""

_NATIVE: Final[dict[type[BaseException], tuple[str, ...]]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("msg", "name", "path"),
    SyntaxError: ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset"),
    UnicodeDecodeError: ("encoding", "object", "start", "end", "reason"),
    UnicodeEncodeError: ("encoding", "object", "start", "end", "reason"),
    UnicodeTranslateError: ("object", "start", "end", "reason"),
    StopIteration: ("value",),
    SystemExit: ("code",),
    NameError: ("name",),
    AttributeError: ("name",),
}
"""What the interpreter's own classes keep outside of ``__dict__``. No constructor runs to fill it."""


def encode_failure(exc: BaseException) -> Record:
    """The record of an exception. Never raises."""
    return _Writer().record(exc, 0)


def decode_failure(record: Record) -> BaseException:
    """The exception of a record, ready to raise; ReplayedFailure if its class is unavailable.

    Never raises.
    """
    exc = _rebuilt(record)
    if exc is None:
        exc = ReplayedFailure(type_name=record["type"], message=record["message"])
    notes = record.get("notes")
    if notes:
        exc.__notes__ = list(notes)
    if "cause" in record:
        exc.__cause__ = decode_failure(record["cause"])
    return exc


def describe_failure(record: Record) -> str:
    """The failure in one line: ``ValueError: text``."""
    name = record["type"].rpartition(":")[2].rpartition(".")[2]
    lines = record["message"].strip().splitlines()
    if not lines:
        return str(name)
    return f"{name}: {lines[0]}{' …' if len(lines) > 1 else ''}"


# -- write ---------------------------------------------------------------------------------------------------


class _Writer:
    """Writes one failure.

    All its parts share one size limit, or a group of a hundred would fill the journal.
    """

    def __init__(self) -> None:
        self._trace_chars_left = TRACEBACK_CHARS_MAX
        self._message_chars_left = 4 * TRACEBACK_CHARS_MAX
        self._bytes_left = _TREES_BYTES_MAX

    def record(self, exc: BaseException, depth: int) -> Record:
        record: Record = {"type": type_name(type(exc)), "message": self._message(exc)}
        lost: list[str] = []
        if not isinstance(exc, BaseExceptionGroup):
            self._keep(record, "args", list(_args(exc)), lost)
        state: Record = {}
        for name, part in _state(exc).items():
            self._keep(state, name, part, lost)
        notes = [_text(note) for note in _notes(exc)]
        trace = self._traceback(exc)
        optional = {"state": state, "lost": lost, "notes": notes, "traceback": trace}
        record |= {name: part for name, part in optional.items() if part}
        if depth < _CHAIN_MAX:
            if exc.__cause__ is not None:
                record["cause"] = self.record(exc.__cause__, depth + 1)
            if isinstance(exc, BaseExceptionGroup):
                record["group"] = [self.record(inner, depth + 1) for inner in exc.exceptions]
        return record

    def _traceback(self, exc: BaseException) -> str:
        import traceback

        try:
            text = _text("".join(traceback.format_tb(exc.__traceback__)))
        except Exception:  # noqa: BLE001  source lines come from files that may be anything by now
            return ""
        if len(text) > self._trace_chars_left:
            # keep the end: it names the place of the failure
            text = "…" + text[len(text) - self._trace_chars_left + 1 :] if self._trace_chars_left else ""
        self._trace_chars_left -= len(text)
        return text

    def _message(self, exc: BaseException) -> str:
        # skip str() of a group: it only adds the number of members, which the group itself repeats
        try:
            text = _text(exc.message if isinstance(exc, BaseExceptionGroup) else str(exc))
        except Exception as error:  # noqa: BLE001  __str__ is the user's
            text = f"<its message could not be had: {type(error).__name__}>"
        room = max(_MESSAGE_CHARS_MIN, min(TRACEBACK_CHARS_MAX, self._message_chars_left))
        text = text if len(text) <= room else text[: room - 1] + "…"
        self._message_chars_left -= len(text)
        return text

    def _keep(self, into: Record, name: str, part: object, lost: list[str]) -> None:
        try:
            tree = _without_shapes(encode_tree(part, what=name))
            size = len(orjson.dumps(tree))
        except Exception:  # noqa: BLE001  NotStorable, or whatever a strange object raises when looked at
            lost.append(name)
            return
        if size > self._bytes_left:
            lost.append(name)
            return
        self._bytes_left -= size
        into[name] = tree


def _text(value: object) -> str:
    """Text that UTF-8 can encode, as a plain str even if it was a subclass; with masks for secrets."""
    text = str(value).encode("utf-8", "backslashreplace").decode()
    if not KNOWN and not SHAPES:
        return text
    from holdfast.codec.secrets import masked_text

    return str(masked_text(text))


def _without_shapes(tree: Any) -> Any:
    """Data without the keys that are not known: a service repeats the key that it refuses."""
    if not SHAPES:
        return tree
    from holdfast.codec.secrets import without_shapes

    return without_shapes(tree)


def _args(exc: BaseException) -> tuple[Any, ...]:
    args = BaseException.args.__get__(exc)  # type: ignore[attr-defined]  # a subclass may hide it behind a property
    return args if type(args) is tuple else ()


def _notes(exc: BaseException) -> list[str]:
    notes = getattr(exc, "__notes__", None)
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def _state(exc: BaseException) -> dict[str, Any]:
    """Every attribute by name: the interpreter's own, slots, and ``__dict__``."""
    try:
        state = {name: part for name, part in state_of(exc).items() if not name.startswith(_OUR_MARKS)}
        native = [name for base, names in _NATIVE.items() if isinstance(exc, base) for name in names]
        state |= {name: getattr(exc, name) for name in native if getattr(exc, name, None) is not None}
    except Exception:  # noqa: BLE001  a class may answer for its attributes in any way it likes
        return {}
    return _all_fields(state) if isinstance(exc, Explained) else state


def _all_fields(state: dict[str, Any]) -> dict[str, Any]:
    """Our own errors keep every field, or they could not cross a process boundary.

    A field that is not storable is replaced by a description.
    """
    kept = {name: _storable(part) for name, part in state.items()}
    return kept | {"fields": {name: _storable(part) for name, part in state["fields"].items()}}


def _storable(part: object) -> object:
    try:
        encode_tree(part, what="field")
    except Exception:  # noqa: BLE001
        return repr(part)
    return part


# -- read ----------------------------------------------------------------------------------------------------


def _rebuilt(record: Record) -> BaseException | None:
    """The exception without notes and cause; None if its class is missing or does not fit the record."""
    cls = find_class(record["type"])
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        return None
    try:
        return _group(record, cls) if "group" in record else _single(record, cls)
    except Exception:  # noqa: BLE001  a class that changed its nature since; the caller has an answer to that
        return None


def _single(record: Record, cls: type[BaseException]) -> BaseException | None:
    if issubclass(cls, BaseExceptionGroup):
        return None  # nested too deep when it was recorded, so its members were not stored
    args = decode_tree(record["args"], what="args") if "args" in record else [record["message"]]
    exc = _native(cls).__new__(cls, *args)
    BaseException.args.__set__(exc, tuple(args))  # type: ignore[attr-defined]
    _put(exc, record)
    return exc


def _group(record: Record, cls: type[BaseException]) -> BaseException:
    members = [decode_failure(inner) for inner in record["group"]]
    exc = _native(cls).__new__(cls, record["message"], members)
    _put(exc, record)
    return exc


def _native(cls: type[BaseException]) -> type[BaseException]:
    """The nearest class of the interpreter itself.

    Its ``__new__`` is known, a user's may need other arguments.
    """
    return next(base for base in cls.__mro__ if base.__module__ == "builtins")


def _put(exc: BaseException, record: Record) -> None:
    put_state(exc, {name: decode_tree(tree, what=name) for name, tree in record.get("state", {}).items()})
