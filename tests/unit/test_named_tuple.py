"""Our ``NamedTuple`` beside that of ``typing``: the same instances, and a constructor that is compiled once."""

import copy
import inspect
import pickle
from typing import Any, NamedTuple, get_type_hints

import pytest

from holdfast.model import named_tuple


class Ours(named_tuple.NamedTuple):
    """A place."""

    name: str
    at: int | None
    labels: tuple[str, ...] = ()

    @property
    def is_named(self) -> bool:
        return bool(self.name)


class Theirs(NamedTuple):
    """A place."""

    name: str
    at: int | None
    labels: tuple[str, ...] = ()

    @property
    def is_named(self) -> bool:
        return bool(self.name)


class OursToo(Ours):
    """One that derives from it."""


def _told(cls: Any) -> list[object]:
    one = cls("a", at=3)
    other = cls(name="b", at=None, labels=("x",))
    return [
        tuple(one),
        one == ("a", 3, ()),
        hash(one) == hash(("a", 3, ())),
        one < other,
        one.name,
        one.labels,
        one.is_named,
        tuple(one._replace(at=4)),
        one._asdict(),
        tuple(cls._make(["c", 1, ()])),
        repr(other).partition("(")[2],
        cls._fields,
        cls._field_defaults,
        cls.__match_args__,
        cls.__doc__,
        str(inspect.signature(cls)),
        get_type_hints(cls),
        hasattr(one, "__dict__"),
        isinstance(one, tuple),
        cls.__module__,
    ]


def test_it_is_what_typing_makes() -> None:
    """Values, fields, defaults, order, hash, text, signature and hints are those of ``typing.NamedTuple``."""
    assert _told(Ours) == _told(Theirs)
    name, at, _ = Ours("a", 1)
    assert (name, at) == ("a", 1)
    match Ours("m", 2):
        case Ours(name, at=2):
            assert name == "m"
        case _:
            raise AssertionError("not matched")


def test_instances_do_not_change() -> None:
    """A field cannot be set, nor can another be added."""
    one: Any = Ours("a", 1)
    with pytest.raises(AttributeError):
        one.name = "b"
    with pytest.raises(AttributeError):
        one.other = 1


@pytest.mark.parametrize("cls", [Ours, Theirs])
def test_wrong_arguments_are_refused(cls: Any) -> None:
    """Too few, too many, unknown: each is the error that a function gives, and names what is missing."""
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'at'"):
        cls("a")
    with pytest.raises(TypeError, match="unexpected keyword argument 'no'"):
        cls("a", 1, no=1)
    with pytest.raises(TypeError, match="positional arguments but"):
        cls("a", 1, (), 4)
    with pytest.raises(TypeError, match="xpected 3 arguments, got 1"):
        cls._make(["a"])
    with pytest.raises((ValueError, TypeError), match="unexpected field names"):
        cls("a", 1)._replace(no=1)


def test_it_travels() -> None:
    """Copied and pickled it is the same, also one of a derived class."""
    for one in (Ours("a", 1), OursToo("a", 1)):
        for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert again == one
            assert type(again) is type(one)
    assert OursToo("a", 1)._replace(at=2) == OursToo("a", 2)


def test_a_class_can_be_made_of_the_parts_of_another() -> None:
    """As tools do that send classes to other processes."""
    metaclass: Any = type(Ours)
    again = metaclass("Again", Ours.__bases__, {**vars(Ours)})
    assert again("a", at=3) == Ours("a", 3)


@pytest.mark.skipif(named_tuple.NamedTuple is NamedTuple, reason="Python 3.14 takes the one of typing")
def test_one_constructor_is_compiled_for_a_number_of_fields() -> None:
    """A second class with as many fields compiles nothing: the cost of ``typing.NamedTuple`` was there."""

    class One(named_tuple.NamedTuple):
        a: int
        b: int
        c: int
        d: int

    before = named_tuple._constructor.cache_info().misses

    class Other(named_tuple.NamedTuple):
        k: int
        l: int  # noqa: E741
        m: int
        n: int

    assert named_tuple._constructor.cache_info().misses == before
    assert (One(1, 2, 3, d=4).d, Other(1, 2, 3, n=5).n) == (4, 5)


@pytest.mark.skipif(named_tuple.NamedTuple is NamedTuple, reason="Python 3.14 takes the one of typing")
def test_a_wrong_class_is_refused() -> None:
    """A field without a default behind one with a default, or a name with an underscore."""
    base: Any = named_tuple.NamedTuple
    with pytest.raises(TypeError, match="without a default"):
        type(base)("Wrong", (base,), {"__annotations__": {"a": int, "b": int}, "a": 1})
    with pytest.raises(ValueError, match="underscore"):
        type(base)("Wrong", (base,), {"__annotations__": {"_a": int}})
