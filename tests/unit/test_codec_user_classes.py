"""Objects of users' classes: dataclasses, NamedTuples, enums and pydantic models come back as they were."""

import enum
from collections import defaultdict, namedtuple
from dataclasses import InitVar, dataclass, field, make_dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pydantic
import pytest

from holdfast.codec.values import decode, encode
from holdfast.errors import NotStorable, ValueUnreadable

T = TypeVar("T")


def back(value: object, hint: object = None) -> Any:
    return decode(encode(value, what="value"), what="value", hint=hint)


# -- dataclasses ------------------------------------------------------------------------------------------------


@dataclass
class Point:
    x: int
    y: Any = 0


@dataclass(frozen=True, slots=True)
class Frozen:
    inner: Point
    tags: tuple[str, ...] = ()
    born: int = field(init=False, default=7)


@dataclass
class Base:
    kind: ClassVar[str] = "base"
    seed: InitVar[int]
    total: int = field(init=False)
    runs: ClassVar[int] = 0

    def __post_init__(self, seed: int) -> None:
        type(self).runs += 1
        self.total = seed * 2


@dataclass
class Child(Base):
    extra: str = "e"


class Undecorated(Point):
    """Inherits its fields, and has attributes beside them."""


@dataclass(slots=True, weakref_slot=True)
class Slotted:
    a: int
    b: int = field(init=False)


class Slots:
    __slots__ = ("__hidden", "cache")
    cache: Any

    def hide(self, value: int) -> None:
        self.__hidden = value

    def seek(self) -> int:
        return self.__hidden


@dataclass(slots=True)
class OverSlots(Slots):
    a: int = 1


@dataclass
class Box(Generic[T]):
    item: T


@dataclass
class Lazy:
    n: int

    @cached_property
    def heavy(self) -> object:
        return object()

    @property
    def guarded(self) -> int:
        raise AssertionError("no code of the class may run")


class Outer:
    @dataclass
    class Inner:
        a: int


@dataclass
class IsDict(dict[str, int]):
    a: int = 1


@pytest.mark.parametrize(
    "value",
    [
        Point(1, (2, {3})),
        Frozen(Point(1), ("a",)),
        Box(Box([1, (2,)])),
        Outer.Inner(1),
        [Point(1, Point(2)), {"p": Frozen(Point(2))}],
    ],
    ids=lambda value: str(value)[:40],
)
def test_dataclasses_come_back(value: object) -> None:
    """Frozen, slotted, generic, nested in each other and in containers."""
    again = back(value)
    assert again == value
    assert repr(again) == repr(value)


def test_dataclass_form_is_readable() -> None:
    """A person sees the type and the fields by name."""
    assert encode(Point(1, (2,)), what="value") == (
        b'{"$":"dataclass","type":"%s:Point","v":{"x":1,"y":{"$":"tuple","v":[2]}}}' % __name__.encode()
    )


def test_dataclass_is_rebuilt_without_its_code() -> None:
    """Neither __init__ nor __post_init__ run: what they made the first time is what comes back."""
    value = Child(seed=4)
    value.total = 99
    runs = Child.runs
    again = back(value)
    assert (again.total, again.extra, Child.runs) == (99, "e", runs)


def test_unset_fields_stay_unset() -> None:
    """A field that never got a value has none afterwards; it is not mistaken for one that the class has got since."""
    for value in (Slotted(1), OverSlots()):
        again = back(value)
        assert again.a == 1
    assert not hasattr(back(Slotted(1)), "b")
    unset = object.__new__(Point)
    assert vars(back(unset)) == {}


def test_attributes_beside_the_fields_come_back() -> None:
    """In __dict__ or in inherited slots, private names included. Planted: fields only lost them silently."""
    value: Any = Undecorated(1)
    value.note = ("n",)
    assert vars(back(value)) == {"x": 1, "y": 0, "note": ("n",)}
    slotted = OverSlots(2)
    slotted.cache = {"k": (1,)}
    slotted.hide(5)
    again = back(slotted)
    assert (again.a, again.cache, again.seek()) == (2, {"k": (1,)}, 5)


def test_cached_property_is_computed_again() -> None:
    """A cached property is no state: it may hold what cannot be stored, and is computed when asked for."""
    value = Lazy(3)
    assert value.heavy is value.heavy
    again = back(value)
    assert vars(again) == {"n": 3}
    assert again.heavy is not value.heavy


def test_parametrised_dataclass_comes_back() -> None:
    """Box[int](1) leaves a trace of its parameter in the object, which is not data."""
    again = back(Box[int](1))
    assert again == Box(1)


def test_refusal_inside_a_dataclass_has_a_path() -> None:
    """The path goes through fields by name."""
    with pytest.raises(NotStorable) as caught:
        encode({"p": Frozen(Point(1, [len]))}, what="value")
    assert caught.value.path == "$.p.inner.y[0]"


def test_dataclass_with_hidden_state_is_refused() -> None:
    """One that is also a dict holds more than its fields."""
    with pytest.raises(NotStorable, match="a dataclass that is also a dict"):
        encode(IsDict(), what="value")


@dataclass
class Narrow:
    a: int


@dataclass
class Wide:
    a: int
    b: int
    c: list[int] = field(default_factory=lambda: [1])
    d: str = "d"


def test_changed_dataclass_is_read_or_refused_by_field() -> None:
    """A new field with a default is filled from it; all other differences name the fields."""
    narrow = encode(Narrow(1), what="value")
    wide = narrow.replace(b":Narrow", b":Wide")
    with pytest.raises(ValueUnreadable, match="whose field b is not in the record"):
        decode(wide, what="value")
    with_b = wide.replace(b'{"a":1}', b'{"a":1,"b":2}')
    first, second = decode(with_b, what="value"), decode(with_b, what="value")
    assert first == Wide(1, 2, [1], "d")
    assert first.c is not second.c
    gone = narrow.replace(b'{"a":1}', b'{"a":1,"x":2,"y":3}')
    with pytest.raises(ValueUnreadable, match="which has no field x, y") as caught:
        decode(gone, what="result of step 's'")
    assert caught.value.type_name == f"{__name__}:Narrow"
    assert "holdfast.register(cls" in caught.value.hint


def test_changed_kind_is_refused() -> None:
    """A record of a dataclass is not forced into a NamedTuple of the same name."""
    data = encode(Narrow(1), what="value").replace(b":Narrow", b":Pair")
    with pytest.raises(ValueUnreadable, match="which is no longer a dataclass"):
        decode(data, what="value")


def test_dynamic_dataclass_resolves_by_hint() -> None:
    """A class that stands in no module is found through the annotation."""
    made = make_dataclass("Made", [("a", int)])
    assert back(made(1), hint=list[made]) == made(1)  # type: ignore[valid-type]


# -- NamedTuples ------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    left: Any
    right: Any = "r"


class Grouped(NamedTuple):
    name: str
    groups: Any = defaultdict(list)  # noqa: RUF012  a default that looks like a field


class Tagged(Pair):
    """A subclass with room for attributes."""


Old = namedtuple("Old", ["a", "b"])  # noqa: PYI024  both ways of making one


@pytest.mark.parametrize("value", [Pair(1), Pair((1,), [Pair(2)]), Old(1, 2)], ids=str)
def test_namedtuples_come_back(value: object) -> None:
    """As their own class, not as tuples. Planted: handled as a tuple they lost their names."""
    again = back(value)
    assert type(again) is type(value)
    assert again == value
    assert repr(again) == repr(value)


def test_namedtuple_attributes_and_changes() -> None:
    """Attributes of a subclass survive; a new field needs a default."""
    value = Tagged(1, 2)
    value.note = "n"  # type: ignore[attr-defined]
    assert back(value).note == "n"
    data = encode(Pair(1), what="value")
    assert decode(data.replace(b',"right":"r"', b""), what="value") == Pair(1, "r")
    grouped = encode(Grouped("a", 1), what="value").replace(b',"groups":1', b"")
    assert decode(grouped, what="value") == Grouped("a")
    with pytest.raises(ValueUnreadable, match="whose field left is not in the record"):
        decode(data.replace(b'"left":1,', b""), what="value")


# -- enums ------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796  an alias
    ODD = object()


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Perm(enum.Flag):
    R = enum.auto()
    W = enum.auto()
    RW = R | W
    X = enum.auto()


class Bits(enum.IntFlag):
    A = 1
    B = 4


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Colour.CRIMSON,
        Colour.ODD,
        Level.LOW,
        Word.A,
        Perm.R,
        Perm.RW,
        Perm.R | Perm.X,
        Perm(0),
        ~Perm.R,
        Bits.A | Bits.B,
        Bits(0),
        Bits(3),
        Bits(16),
    ],
    ids=str,
)
def test_enums_come_back(value: object) -> None:
    """The very member, even if its value cannot be stored. Planted: left to orjson an IntEnum came back an int."""
    for again in (back(value), back([value])[0], back({value: 1}).popitem()[0]):
        assert type(again) is type(value)
        assert again == value
        assert again is value


def test_enum_is_kept_by_name() -> None:
    """Renumbered members keep their meaning; a member that is gone is named."""
    assert encode(Perm.R | Perm.X, what="value").endswith(b'"names":["R","X"]}')
    data = encode(Colour.RED, what="value").replace(b"RED", b"BLUE")
    with pytest.raises(ValueUnreadable, match="which has no member BLUE"):
        decode(data, what="value")


# -- pydantic ---------------------------------------------------------------------------------------------------


class Item(pydantic.BaseModel):
    sku: str
    price: Any = 0


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", frozen=True)
    items: list[Item]
    note: str = "none"
    seen: ClassVar[list[str]] = []
    _token: Any = pydantic.PrivateAttr(default=("t",))

    @pydantic.field_validator("note")
    @classmethod
    def look(cls, note: str) -> str:
        cls.seen.append(note)
        return note

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @cached_property
    def count(self) -> int:
        return len(self.items)


class Root(pydantic.RootModel[list[int]]):
    """A model that is its root."""


class Wrapped(pydantic.BaseModel, Generic[T]):
    item: T


WrappedInt = Wrapped[int]


def test_models_come_back() -> None:
    """Fields, extra, private attributes and which fields were given; without validating anything again."""
    order = Order.model_validate({"items": [Item(sku="a", price=(1, 2))], "rush": {1}})
    assert order.count == 1
    order._token = {"k": (1,)}
    Order.seen.clear()
    again = back(order)
    assert again == order
    assert type(again.items[0]) is Item
    assert again.items[0].price == (1, 2)
    assert again.model_extra == {"rush": {1}}
    assert again._token == {"k": (1,)}
    assert again.model_fields_set == {"items", "rush"}
    assert again.items[0].model_fields_set == {"sku", "price"}
    assert Order.seen == []
    assert "count" not in vars(again)
    assert again.count == 1


def test_model_variants_come_back() -> None:
    """Roots, parametrised generics, pydantic's dataclasses, and models built around validation."""
    assert back(Root([1, 2])) == Root([1, 2])
    again = back(WrappedInt(item=3))
    assert type(again) is WrappedInt
    assert again == WrappedInt(item=3)
    partial = Item.model_construct(price=1)
    assert back(partial).model_dump(warnings=False) == {"price": 1}
    assert back(partial).model_fields_set == {"price"}


def test_changed_model_is_read_or_refused_by_field() -> None:
    """As with dataclasses: defaults fill new fields, all else is named."""
    data = encode(Item(sku="a", price=1), what="value")
    assert decode(data.replace(b',"price":1', b""), what="value") == Item(sku="a")
    with pytest.raises(ValueUnreadable, match="whose field sku is not in the record"):
        decode(data.replace(b'"sku":"a",', b""), what="value")
    with pytest.raises(ValueUnreadable, match="which has no field colour"):
        decode(data.replace(b'"sku"', b'"colour":1,"sku"'), what="value")


def test_unstorable_private_attribute_is_refused_with_its_path() -> None:
    """A client kept in a private attribute is found, not dropped."""
    order = Order(items=[])
    order._token = len
    with pytest.raises(NotStorable) as caught:
        encode([order], what="value")
    assert caught.value.path == "$[0]._token"
