"""Values to bytes and back: every storable type, every refusal, and what a person sees in the shell."""

import ipaddress
import re
import socket
import threading
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
import pytest

from holdfast.codec import values
from holdfast.codec.tag import QUICK, tag
from holdfast.codec.values import (
    canonical,
    canonical_arguments,
    decode,
    decode_tree,
    encode,
    encode_tree,
)
from holdfast.errors import NotStorable, TooLarge, ValueUnreadable
from holdfast.limits import VALUE_DEPTH_MAX

BERLIN = ZoneInfo("Europe/Berlin")


def back(value: object) -> Any:
    return decode(encode(value, what="value"), what="value")


def refused(value: object) -> NotStorable:
    with pytest.raises(NotStorable) as caught:
        encode(value, what="result of step 'survey'")
    return caught.value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, b"null"),
        (True, b"true"),
        ({"b": [1, 2.5], "a": "text"}, b'{"b":[1,2.5],"a":"text"}'),
        ((1, 2), b'{"$":"tuple","v":[1,2]}'),
        ({"$": 1}, b'{"$":"dict","v":[["$",1]]}'),
        ({1: "a"}, b'{"$":"dict","v":[[1,"a"]]}'),
        ({"b", "a"}, b'{"$":"set","v":["a","b"]}'),
        (2**70, b'{"$":"int","v":"1180591620717411303424"}'),
        (float("nan"), b'{"$":"float","v":"nan"}'),
        (b"ab", b'{"$":"bytes","v":"YWI="}'),
        (Decimal("1.50"), b'{"$":"decimal","v":"1.50"}'),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), b'{"$":"datetime","v":"2026-01-02T03:00:00+00:00"}'),
        (Path("a/b"), b'{"$":"path","v":"a/b"}'),
    ],
)
def test_written_form_is_readable(value: object, written: bytes) -> None:
    """The stored form is stable and is what a person sees in the sqlite3 shell."""
    assert encode(value, what="value") == written


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**63 - 1,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        2**40_000,
        -(3**20_000),
        0.0,
        -0.0,
        5e-324,
        1.7976931348623157e308,
        float("inf"),
        float("-inf"),
        float("nan"),
        "",
        'text with "$" and {"$":"tuple"} in it',
        "\x00\u2028é😀",
        "\ud800",
        "\ud83d\ude00",
        "back\\slash \ud800 \n",
        b"",
        bytes(range(256)),
        bytearray(b"\xff"),
        1 - 2j,
        complex("nan+infj"),
        complex(-0.0, -0.0),
        range(3),
        range(0, -(2**70), -(2**65)),
    ],
    ids=lambda value: hex(value)[:40] if isinstance(value, int) else ascii(value)[:40],
)
def test_builtin_scalars_come_back(value: object) -> None:
    """Value and type survive; repr tells -0.0 from 0.0 and one NaN is as good as another."""
    again = back(value)
    assert type(again) is type(value)
    if isinstance(value, int):
        assert again == value  # repr() would refuse so many digits
    else:
        assert repr(again) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        [],
        (),
        {},
        set(),
        frozenset(),
        [[1, (2, [3, (4,)])]],
        {"a": (1, {"b": {1, 2}})},
        {1: "a", "1": "b", 2.5: "c", None: "d", (1, "x"): "e", frozenset({1}): "f"},
        {True: 1, "$": 2},
        {"$": {"$": {"$": 1}}},
        {"v": 1, "type": 2},
        {"\ud800": 1, "b": "\udcff"},
        {"nested": {"\ud800": (1,)}},
        {frozenset({1, (2, "a")}), "a", 1.5, None},
        OrderedDict([("z", 1), ("a", (2,))]),
        Counter("abracadabra"),
        Counter({"a": -1, (1, 2): 0}),
        deque([1, (2,)]),
        deque([1, 2], maxlen=2),
        deque(maxlen=0),
        [OrderedDict(), Counter(), deque()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_containers_come_back(value: object) -> None:
    """Containers keep their type, order and keys; repr shows all of it but the order of sets.

    Planted: tuples left to orjson came back as lists; keys turned to str came back equal to their neighbours.
    """
    again = back(value)
    assert type(again) is type(value)
    assert again == value
    if not isinstance(value, set):
        assert repr(again) == repr(value)


@pytest.mark.parametrize("factory", [list, int, dict, set, str, float, tuple, None])
def test_defaultdict_keeps_its_builtin_factory(factory: Any) -> None:
    """A defaultdict made of a builtin goes on making defaults."""
    again = back(defaultdict(factory, {"a": 1, 2: "b"}))
    assert type(again) is defaultdict
    assert again.default_factory is factory
    assert again == {"a": 1, 2: "b"}


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 2),
        datetime(1, 1, 1, 0, 0, 0, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        datetime(2026, 1, 2, tzinfo=timezone(-timedelta(hours=1, seconds=1, microseconds=7))),
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(microseconds=1))),
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=1), "CET")),
        datetime(2025, 10, 26, 2, 30, tzinfo=BERLIN, fold=0),
        datetime(2025, 10, 26, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
        datetime(2025, 10, 26, 2, 30, fold=1),
        date(2026, 2, 28),
        time(23, 59, 59, 1),
        time(1, 2, tzinfo=UTC),
        time(1, 2, tzinfo=BERLIN, fold=1),
        timedelta(days=-1, microseconds=1),
        timedelta.max,
        timedelta.min,
        UTC,
        timezone(timedelta(hours=1), "CET"),
        BERLIN,
    ],
    ids=repr,
)
def test_times_come_back(value: Any) -> None:
    """Wall time, fold and zone survive, named offsets with their name. Planted: fold dropped moved an hour."""
    again = back(value)
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    if isinstance(value, datetime):
        assert again.utcoffset() == value.utcoffset()
        assert again.tzname() == value.tzname()


@pytest.mark.parametrize(
    "value",
    [
        Decimal("1.00"),
        Decimal("-0"),
        Decimal("1E+1000"),
        Decimal("NaN"),
        Decimal("-sNaN123"),
        Decimal("-Infinity"),
        Fraction(-1, 3),
        Fraction(2**20_000, 3),
        UUID("12345678-1234-5678-1234-567812345678"),
        Path("/a/../b c"),
        Path("bad-\udcff-name"),
        PurePosixPath("a"),
        PureWindowsPath("C:\\x\\y"),
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("fe80::1%eth0"),
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_network("::/0"),
        ipaddress.ip_interface("10.0.0.1/8"),
        ipaddress.ip_interface("::1/64"),
        re.compile(r"a(?P<x>b)", re.IGNORECASE | re.VERBOSE),
        re.compile(rb"\xff"),
    ],
    ids=lambda value: ascii(value)[:40] if not isinstance(value, Fraction) else "fraction",
)
def test_library_types_come_back(value: object) -> None:
    """Exactly: trailing zeros, payloads of NaN, path flavours and names that are not UTF-8."""
    again = back(value)
    assert type(again) is type(value)
    if isinstance(value, Decimal):
        assert repr(again) == repr(value)
    else:
        assert again == value
        assert hash(again) == hash(value)


def test_plain_containers_are_not_copied() -> None:
    """Where nothing needs a tag the walk returns the very object; where something does, the original is untouched."""
    plain = {"a": [1, "x", None, 2.5], "b": {"c": [0.5, 1.5]}}
    assert tag(plain, 0, QUICK) is plain
    mixed: dict[str, Any] = {"a": [1], "b": [(1,), 2]}
    tree = tag(mixed, 0, QUICK)
    assert tree["a"] is mixed["a"]
    assert mixed == {"a": [1], "b": [(1,), 2]}


def test_overflowing_sum_of_floats_is_no_infinity() -> None:
    """A list of floats is judged by its sum; one that overflows without holding an infinity is written as it is."""
    big = [1.7e308, 1.7e308]
    assert encode(big, what="value") == orjson.dumps(big)
    again = back([1.0, float("inf"), float("-inf"), float("nan")])
    assert repr(again) == "[1.0, inf, -inf, nan]"


def test_decoded_value_is_fresh() -> None:
    """Two readings of the same bytes, or of the same tree, share nothing. Planted: untag returning its own tree."""
    data = encode({"plain": [1], "tagged": ([2],)}, what="value")
    first, second = decode(data, what="value"), decode(data, what="value")
    assert first == second
    assert first["plain"] is not second["plain"]
    assert first["tagged"][0] is not second["tagged"][0]
    tree = orjson.loads(data)
    decode_tree(tree, what="value")["plain"].append("changed")
    assert decode_tree(tree, what="value") == {"plain": [1], "tagged": ([2],)}


def test_shared_objects_come_back_as_equal_ones() -> None:
    """Identity is not stored: the same list twice is two lists afterwards, and no cycle."""
    shared: list[int] = [1]
    again = back([shared, shared, (shared,)])
    assert again == [[1], [1], ([1],)]
    assert again[0] is not again[1]


def test_encode_tree_is_what_encode_writes() -> None:
    """A tree can be written by orjson whatever the value: big ints and lone surrogates are tagged in it."""
    value = {"big": 2**80, "odd": "\ud800", "\udfff": (float("nan"),)}
    tree = encode_tree(value, what="value")
    assert orjson.dumps(tree) == encode(value, what="value")
    assert repr(decode_tree(orjson.loads(orjson.dumps(tree)), what="value")) == repr(value)


# -- refusals -------------------------------------------------------------------------------------------------


class OrderedMap(dict[str, int]):
    """A subclass that would come back as a dict."""


class Opaque:
    """A class with nothing to tell."""


class Shift(tzinfo):
    """A zone of somebody's own."""

    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, _: datetime | None) -> str:
        return "shift"


class Text(str):
    """A str that would come back as a str."""

    __slots__ = ()


def generate() -> Any:
    yield 1


async def wait() -> None: ...


def test_refusal_names_thing_place_and_fault() -> None:
    """The path leads to the fault through dicts, lists, tuples and odd keys, and the hint says what to do."""
    with socket.socket() as sock:
        error = refused({"conn": {"sock": sock}})
        assert (error.what, error.path, error.found) == ("result of step 'survey'", "$.conn.sock", "a socket")
        assert str(error) == "result of step 'survey' holds a socket at $.conn.sock"
        assert error.hint == "return plain data, or register a codec with holdfast.register(...)"
        assert refused([0, (1, {"a b": sock})]).path == '$[1][1]["a b"]'
        assert refused({(1, 2): [sock]}).path == "$[(1, 2)][0]"
        assert refused(deque([0, sock])).path == "$[1]"
        assert refused(OrderedDict(x=sock)).path == "$.x"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (len, "a function (len)"),
        (generate, "a function (generate)"),
        ("".join, "a function (str.join)"),
        (Opaque, "a class (Opaque)"),
        (int, "a class (int)"),
        (re, "a module (re)"),
        (threading.Lock(), "a lock"),
        (threading.RLock(), "a lock"),
        (threading.Event(), "a lock"),
        (Opaque(), f"an Opaque ({__name__}.Opaque)"),
        (OrderedMap(), "a subclass of dict (OrderedMap)"),
        (Text("a"), "a subclass of str (Text)"),
        (UserDict(), "an UserDict (collections.UserDict)"),
        (ValueError("x"), "an exception"),
        (memoryview(b""), "a memoryview (builtins.memoryview)"),
        (..., "an Ellipsis"),
        (slice(1), "a slice (builtins.slice)"),
        (object(), "an object (builtins.object)"),
        (datetime(2026, 1, 1, tzinfo=Shift()), f"a Shift ({__name__}.Shift)"),
        (defaultdict(lambda: 1), "a defaultdict with a factory of its own"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unstorable_is_refused_by_name(value: object, found: str) -> None:
    """What would come back as something else, or not at all, is refused in words a person knows."""
    assert refused(value).found == found
    assert refused([value]).path == "$[0]"


def test_running_things_are_refused() -> None:
    """Generators, coroutines, threads and open files are not data."""
    coroutine = wait()
    assert refused(generate()).found == "a generator (generate)"
    assert refused(coroutine).found == "a coroutine (wait)"
    coroutine.close()
    assert refused(threading.Thread()).found == "a thread"
    with Path("/dev/null").open() as file, Path("/dev/null").open("rb") as raw:
        assert refused(file).found == "an open file"
        assert refused(raw).found == "an open file"


def test_subclass_as_key_is_refused() -> None:
    """A key of a str subclass would come back as a str. Planted: isinstance in both looks at keys let it pass."""
    error = refused({"a": {Text("k"): 1}})
    assert error.found == "a subclass of str (Text)"
    assert "k" in error.path


def test_attributes_on_library_containers_are_refused() -> None:
    """An OrderedDict can carry attributes; they would be lost."""
    value: Any = OrderedDict(a=1)
    value.extra = 1
    assert "attributes" in refused(value).found
    counter: Any = Counter("a")
    counter.extra = 1
    assert "attributes" in refused(counter).found


def test_zone_of_a_file_is_refused() -> None:
    """A ZoneInfo without a key cannot be found again."""
    with Path("/usr/share/zoneinfo/Europe/Berlin").open("rb") as file:
        zone = ZoneInfo.from_file(file)
    assert refused(datetime(2026, 1, 1, tzinfo=zone)).found == "a ZoneInfo without a key"


def test_cycles_are_refused_where_they_close() -> None:
    """The path ends where the value comes round to itself; planted: without the depth check it was a RecursionError."""
    loop: dict[str, Any] = {"name": "x"}
    loop["children"] = [{"parent": loop}]
    error = refused({"top": loop})
    assert error.found == "a cycle"
    assert error.path == "$.top.children[0].parent"
    items: list[Any] = []
    items += [(items, items)]
    assert refused(items).path == "$[0][0]"
    numbered: dict[int, Any] = {}
    numbered[1] = {"$": numbered}
    assert refused(numbered).path == '$[1]["$"]'
    assert refused(numbered).found == "a cycle"
    ordered: OrderedDict[int, Any] = OrderedDict()
    ordered[1] = deque([ordered])
    assert refused(ordered).path == "$[1][0]"


def nested(depth: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    ("wrap", "levels"),
    [(lambda x: [x], 1), (lambda x: {"a": x}, 1), (lambda x: (x,), 2), (lambda x: {1: x}, 3)],
)
def test_depth_is_limited_as_json_counts_it(wrap: Any, levels: int) -> None:
    """As deep as the limit is stored and read; deeper is refused as too deep, not as a cycle."""
    deepest = nested(VALUE_DEPTH_MAX // levels, wrap)
    assert back(deepest) == deepest
    error = refused(nested(VALUE_DEPTH_MAX // levels + 2, wrap))
    assert error.found == f"nesting deeper than {VALUE_DEPTH_MAX} levels"
    assert len(error.path) < 500


def test_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value beyond the limit is refused before it is written anywhere."""
    monkeypatch.setattr(values, "VALUE_SIZE_BYTES_MAX", 100)
    assert len(encode("x" * 98, what="value")) == 100
    with pytest.raises(TooLarge, match="value is 101 bytes; the limit is 100"):
        encode("x" * 99, what="value")


# -- reading what is not right --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "type_name"),
    [
        (b'{"torn":', "JSON"),
        (b"", "JSON"),
        (b"NaN", "JSON"),
        (b'{"$":"newer","v":1}', "newer"),
        (b'{"$":["tuple"],"v":1}', "['tuple']"),
        (b'{"$":"tuple"}', "tuple"),
        (b'{"$":"tuple","v":1}', "tuple"),
        (b'{"$":"set","v":[[1]]}', "set"),
        (b'{"$":"dict","v":[[[],1]]}', "dict"),
        (b'{"$":"int","v":"seven"}', "int"),
        (b'{"$":"bytes","v":"***"}', "bytes"),
        (b'{"$":"zone","v":"Mars/Phobos"}', "zone"),
        (b'{"$":"zone","v":"../../etc/passwd"}', "zone"),
        (b'{"$":"defaultdict","of":"eval","v":[]}', "defaultdict"),
        (b'{"$":"windows-path","v":"C:"}', "windows-path"),
        (b'[{"a":{"$":"datetime","v":"yesterday"}}]', "datetime"),
        (b'{"$":"custom","type":7,"v":1}', "custom"),
    ],
)
def test_unreadable_is_named(data: bytes, type_name: str) -> None:
    """An unknown tag or a content of another shape is an error with the tag's name, never a wrong value."""
    with pytest.raises(ValueUnreadable) as caught:
        decode(data, what="result of step 'a'")
    assert caught.value.type_name == type_name
    assert caught.value.what == "result of step 'a'"


# -- identity -------------------------------------------------------------------------------------------------


def test_canonical_does_not_see_order() -> None:
    """Dicts and sets in another order are the same value, at any depth and with any keys."""
    one = {"a": 1, "b": {"x": {1, "2", (3,)}, 5: [], "y": Counter("ab")}, "m": {2: 1, "k": 2}}
    two = {"m": {"k": 2, 2: 1}, "b": {"y": Counter("ba"), 5: [], "x": {(3,), "2", 1}}, "a": 1}
    assert canonical(one, what="value") == canonical(two, what="value")


@pytest.mark.parametrize(
    "family",
    [
        [1, 1.0, True, "1", Decimal(1), Decimal("1.0"), Fraction(1), 1 + 0j],
        [
            None,
            False,
            0,
            "",
            [],
            (),
            {},
            set(),
            frozenset(),
            b"",
            OrderedDict(),
            Counter(),
            defaultdict(None),
        ],
        [[1], (1,), {1}, frozenset({1}), deque([1]), deque([1], 5)],
        [{1: 0}, {True: 0}, {1.0: 0}, {"1": 0}],
        [0.0, -0.0],
        [float("nan"), None, "nan"],
        [2**64, str(2**64), float(2**64)],
        [OrderedDict(a=1, b=2), OrderedDict(b=2, a=1), {"a": 1, "b": 2}],
        [
            datetime(2026, 1, 1),
            datetime(2026, 1, 1, fold=1),
            datetime(2026, 1, 1, tzinfo=UTC),
            date(2026, 1, 1),
        ],
        [Path("a"), PurePosixPath("a"), "a"],
        [{"$": "tuple", "v": [1]}, (1,)],
    ],
    ids=str,
)
def test_canonical_tells_types_apart(family: list[object]) -> None:
    """What can be told apart has another identity, however equal Python holds it to be."""
    written = [canonical(value, what="value") for value in family]
    assert len(set(written)) == len(family)


def test_canonical_refuses_as_encode_does() -> None:
    """The same rules, the same words."""
    with pytest.raises(NotStorable, match=r"argument holds an Opaque .* at \$\.a"):
        canonical({"a": Opaque()}, what="argument")
    assert canonical({"a": 2**80, "\ud800": 1}, what="argument").startswith(b'{"$":"dict"')


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"a": 1, "b": "x", "c": None, "d": True},
        {"b": 1, "a": 2},
        {"$": 1},
        {"big": 1 << 80},
        {"odd": "\ud800"},
        {"t": (1, 2)},
        {"f": 1.5},
    ],
    ids=lambda value: ",".join(value) or "none",
)
def test_the_short_way_for_arguments_writes_the_same(arguments: dict[str, Any]) -> None:
    """What a call's arguments look like does not depend on which way wrote them."""
    assert canonical_arguments(arguments, what="x") == canonical(arguments, what="x")
