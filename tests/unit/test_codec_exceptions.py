"""Exceptions to records and back: as their own class, with what they know, and never raising."""

import json
import pickle
import sys
from types import ModuleType
from typing import Any, Self

import orjson
import pytest

from holdfast.codec import type_registry
from holdfast.codec.exceptions import decode_failure, describe_failure, encode_failure
from holdfast.codec.type_registry import register
from holdfast.errors import BadOption, Misuse, NotStorable, ReplayedFailure
from holdfast.limits import APPEND_SIZE_BYTES_MAX, TRACEBACK_CHARS_MAX


def back(exc: BaseException) -> Any:
    """Through bytes, as the journal does it."""
    return decode_failure(orjson.loads(orjson.dumps(encode_failure(exc))))


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as caught:
        return caught


class ApiError(Exception):
    """Its constructor takes other arguments than args says, and acts."""

    calls = 0

    def __init__(self, status: int, *, body: Any, client: Any = None) -> None:
        type(self).calls += 1
        super().__init__(f"status {status}")
        self.status = status
        self.body = body
        self.client = client


class SlotError(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class NewError(Exception):
    def __new__(cls, *, only_keyword: int) -> Self:
        return super().__new__(cls, only_keyword)

    def __init__(self, *, only_keyword: int) -> None:
        super().__init__(only_keyword)


class HttpError(OSError):
    def __init__(self, url: str) -> None:
        super().__init__(5, "refused", url)
        self.url = url


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Guarded(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError("hands off")

    @property
    def reason(self) -> str:
        raise RuntimeError("hands off")


class Group(ExceptionGroup[Exception]):
    """A group's own class."""


def test_failure_comes_back_as_its_own_class_without_its_constructor() -> None:
    """``except ApiError as e: e.status`` works; what could not be stored is named in the record."""
    exc = ApiError(503, body={"retry": (1, 2)}, client=len)
    record = encode_failure(raised(exc))
    calls = ApiError.calls
    again = decode_failure(record)
    assert type(again) is ApiError
    assert ApiError.calls == calls
    assert (str(again), again.args, again.status, again.body) == (
        "status 503",
        ("status 503",),
        503,
        {"retry": (1, 2)},
    )
    assert not hasattr(again, "client")
    assert record["lost"] == ["client"]
    assert "test_codec_exceptions.py" in record["traceback"]


@pytest.mark.parametrize(
    "exc",
    [
        ValueError("text", 1, (2,)),
        ValueError(),
        KeyError("k"),
        FileNotFoundError(2, "No such file", "a.txt"),
        OSError(18, "cross-device", "a", None, "b"),
        OSError("odd"),
        TimeoutError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        UnicodeEncodeError("ascii", "\ud800", 0, 1, "bad"),
        SyntaxError("bad", ("f.py", 3, 4, "x =", 3, 5)),
        ImportError("no", name="mod", path="/x"),
        StopIteration((1, 2)),
        SystemExit(3),
        KeyboardInterrupt(),
        NameError("n", name="n"),
        SlotError(4),
        NewError(only_keyword=1),
        HttpError("http://x"),
        json.JSONDecodeError("bad", "{", 1),
        ReplayedFailure(type_name="a:B", message="m"),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_known_kinds_come_back_whole(exc: BaseException) -> None:
    """Class, text, args and attributes, including those that the interpreter keeps outside of __dict__."""
    again = back(exc)
    assert type(again) is type(exc)
    assert (str(again), again.args, vars(again)) == (str(exc), exc.args, vars(exc))
    own = (
        "errno",
        "strerror",
        "filename",
        "filename2",
        "encoding",
        "object",
        "start",
        "end",
        "reason",
        "msg",
        "lineno",
    )
    for name in (*own, "offset", "text", "value", "code", "name", "path", "url"):
        assert getattr(again, name, None) == getattr(exc, name, None)


def test_notes_and_causes_come_back() -> None:
    """Notes as they were, and the chain of causes; nothing is added."""
    exc = ValueError("outer")
    exc.add_note("see the manual")
    exc.__cause__ = ApiError(1, body=None)
    exc.__cause__.__cause__ = KeyError("root")
    again = back(exc)
    assert again.__notes__ == ["see the manual"]
    assert again.__cause__.status == 1
    assert type(again.__cause__.__cause__) is KeyError
    assert not hasattr(again.__cause__, "__notes__")


def test_groups_come_back() -> None:
    """Members in order, nested groups, and a group's own class; except* goes on working."""
    inner = ExceptionGroup("inner", [KeyError("k")])
    again: Any = back(Group("outer", [ApiError(1, body=None), inner]))
    assert type(again) is Group
    assert again.message == "outer"
    first, second = again.exceptions
    assert getattr(first, "status", None) == 1
    assert [type(inner) for inner in getattr(second, "exceptions", ())] == [KeyError]
    assert again.subgroup(KeyError) is not None
    stops = back(BaseExceptionGroup("stop", [KeyboardInterrupt()]))
    assert type(stops.exceptions[0]) is KeyboardInterrupt


def test_own_errors_keep_their_fields() -> None:
    """Fields, hint and the ability to be pickled; a field that cannot be stored is described."""
    exc = BadOption(option="effect", value=len, choices=("a", "b"))
    again = back(exc)
    assert type(again) is BadOption
    assert (str(again), again.hint, again.choices) == (str(exc), exc.hint, ("a", "b"))
    assert again.__notes__ == exc.__notes__
    assert again.value == repr(len)
    assert pickle.loads(pickle.dumps(again)).fields == again.fields
    refusal = NotStorable(what="w", path="$", found="a socket", problem="p", advice="a")
    assert back(refusal).fields == refusal.fields


@pytest.mark.parametrize(
    ("exc", "message"),
    [
        (Mute("x"), "<its message could not be had: RuntimeError>"),
        (ValueError(len), str(len)),
        (ValueError("\ud800"), "\\ud800"),
    ],
    ids=["mute", "unstorable args", "surrogate"],
)
def test_odd_exceptions_are_recorded(exc: BaseException, message: str) -> None:
    """A raising __str__, arguments that cannot be stored, text that is not UTF-8: still a record, still its class."""
    record = encode_failure(exc)
    assert record["message"] == message
    again = back(exc)
    assert type(again) is type(exc)
    if "args" in record:
        assert again.args == exc.args
    else:
        assert again.args == (message,)
        assert record["lost"] == ["args"]


def test_guarded_attributes_are_not_touched() -> None:
    """Properties that raise are neither read nor written."""
    exc = Guarded("a")
    exc.__dict__["reason"] = "kept below the property"
    again = back(exc)
    assert vars(again) == {"reason": "kept below the property"}


def test_missing_class_becomes_a_replayed_failure() -> None:
    """With the name and the text, the notes and the cause."""
    record = {"type": "nowhere:Gone", "message": "text", "args": ["text"], "notes": ["n"]}
    again = decode_failure({**record, "cause": encode_failure(KeyError("k"))})
    assert type(again) is ReplayedFailure
    assert (again.type_name, again.message, again.__notes__) == ("nowhere:Gone", "text", ["n"])
    assert type(again.__cause__) is KeyError


@pytest.mark.parametrize("name", ["builtins:dict", "builtins:eval", "subprocess:Popen", "", ":"])
def test_what_is_no_exception_is_not_built(name: str) -> None:
    """Data that names another class gets a ReplayedFailure."""
    assert type(decode_failure({"type": name, "message": "m", "args": [1]})) is ReplayedFailure


@pytest.mark.parametrize(
    "record",
    [
        {"type": "builtins:ValueError", "message": "m", "args": [{"$": "unknown"}]},
        {"type": "builtins:ValueError", "message": "m", "args": 7},
        {"type": "builtins:ValueError", "message": "m", "args": [], "state": {"x": {"$": "tuple"}}},
        {"type": "builtins:ExceptionGroup", "message": "m", "args": ["m"]},
        {"type": "builtins:ExceptionGroup", "message": "m", "group": []},
        {
            "type": "builtins:ValueError",
            "message": "m",
            "group": [{"type": "a:B", "message": "n"}],
            "state": {"a": 1},
        },
        {
            "type": "builtins:ExceptionGroup",
            "message": "m",
            "group": [{"type": "builtins:KeyboardInterrupt", "message": ""}],
        },
    ],
)
def test_records_that_do_not_fit_never_raise(record: dict[str, Any]) -> None:
    """Whatever stands in the record, there is an exception to raise."""
    assert isinstance(decode_failure(record), BaseException)


def test_registered_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local exception class, registered, comes back as itself; under its old name too."""
    monkeypatch.setattr(type_registry, "_by_class", {})
    monkeypatch.setattr(type_registry, "_by_name", {})

    @register(name="old:Name")
    class LocalError(Exception):
        pass

    record = encode_failure(LocalError("x"))
    assert record["type"] == "old:Name"
    assert type(decode_failure(record)) is LocalError


def test_nothing_is_imported_for_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a module that is not loaded, nor what a loaded one would load when asked."""
    asked: list[str] = []
    lazy = ModuleType("holdfast_lazy_failures")
    lazy.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, lazy.__name__, lazy)
    assert type(decode_failure({"type": "holdfast_lazy_failures:E", "message": ""})) is ReplayedFailure
    assert type(decode_failure({"type": "wsgiref.validate:E", "message": ""})) is ReplayedFailure
    assert asked == []
    assert "wsgiref.validate" not in sys.modules


def deep(n: int) -> None:
    if n == 0:
        raise ValueError("x" * 100_000)
    if n % 2:  # two lines in turn, or the traceback folds the repetitions
        deep(n - 1)
    else:
        deep(n - 1)


def test_texts_are_bounded() -> None:
    """A long message is cut at its end, a long traceback at its beginning; args stay whole."""
    try:
        deep(300)
    except ValueError as exc:
        record = encode_failure(exc)
        again = back(exc)
    assert len(record["message"]) == TRACEBACK_CHARS_MAX
    assert len(record["traceback"]) <= TRACEBACK_CHARS_MAX
    assert 'raise ValueError("x" * 100_000)' in record["traceback"]
    assert len(again.args[0]) == 100_000


def test_group_shares_the_allowance_for_tracebacks() -> None:
    """A hundred members do not make a hundred tracebacks' worth of journal."""
    members = []
    for _ in range(100):
        try:
            deep(20)
        except ValueError as exc:
            exc.args = ("short",)
            members.append(exc)
    record = encode_failure(ExceptionGroup("many", members))
    assert sum(len(inner.get("traceback", "")) for inner in record["group"]) <= TRACEBACK_CHARS_MAX
    assert len(decode_failure(record).exceptions) == 100  # type: ignore[attr-defined]


def test_record_fits_into_an_append() -> None:
    """What is too large to stand in an event is named as lost; a failure can always be recorded."""
    exc = ApiError(1, body="x" * 2_000_000)
    record = encode_failure(exc)
    assert record["lost"] == ["body"]
    assert decode_failure(record).status == 1  # type: ignore[attr-defined]
    members = [ValueError("y" * 20_000) for _ in range(200)]
    record = encode_failure(ExceptionGroup("many", members))
    assert len(orjson.dumps(record)) < APPEND_SIZE_BYTES_MAX // 2
    again: Any = decode_failure(record)
    assert again.exceptions[0].args == members[0].args
    assert again.exceptions[-1].args[0].startswith("yyy")


def test_marks_of_the_engine_stay_behind() -> None:
    """What the engine hangs on a living exception says nothing about the recorded one."""
    exc = ValueError("x")
    exc._holdfast_again = [["key", 1]]  # type: ignore[attr-defined]
    assert "state" not in encode_failure(exc)


def test_endless_chains_end() -> None:
    """A cause that is its own cause is recorded a few times, not for ever."""
    first, second = ValueError(1), KeyError(2)
    first.__cause__, second.__cause__ = second, first
    again = back(first)
    assert type(again.__cause__) is KeyError
    assert len(json.dumps(encode_failure(first))) < 10_000


@pytest.mark.parametrize(
    ("exc", "line"),
    [
        (ValueError("text"), "ValueError: text"),
        (ValueError(), "ValueError"),
        (ValueError("one\ntwo"), "ValueError: one …"),
        (KeyError("k"), "KeyError: 'k'"),
        (Misuse(problem="p", advice="a"), "Misuse: p"),
    ],
)
def test_description_is_one_line(exc: BaseException, line: str) -> None:
    """As the last line of a traceback, for tables and logs."""
    assert describe_failure(encode_failure(exc)) == line
