"""What may be answered, as data, and what people type."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from holdfast.core.people.questions import (
    Place,
    UnfitError,
    example,
    fit,
    offered,
    plain_of,
    read_typed,
    superseded,
    typed,
    wants_of,
)
from holdfast.model.questions import Question, Wants


class Colour(Enum):
    RED = "r"


@dataclass
class Box:
    size: int
    colour: Colour = Colour.RED


@pytest.mark.parametrize(
    ("returns", "text", "value"),
    [
        (bool, "yes", True),
        (bool, " No ", False),
        (bool, "Y", True),
        (bool, "false", False),
        (str, "yes", "yes"),
        (str, '{"a": 1}', '{"a": 1}'),
        (str, " kept ", " kept "),
        (int, "-3", -3),
        (float, "3", 3.0),
        ([1, 2, 10], "10", 10),
        (["1", "2"], "2", "2"),
        (["Yes", "No"], "no", "No"),
        (Colour, "red", "RED"),
        (Box, '{"size": 1}', {"size": 1}),
        (None, "plain words", "plain words"),
        (None, "[1, 2]", [1, 2]),
        (None, '"7"', "7"),
    ],
)
def test_what_people_type(returns: Any, text: str, value: Any) -> None:
    """It is read as what was asked for."""
    read = read_typed(wants_of(returns, None), text)
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("returns", "text"),
    [
        (bool, "maybe"),
        (bool, "1"),
        (int, "3.5"),
        (int, "three"),
        (float, "true"),
        ([1, 2], "3"),
        (Box, "7"),
        (Box, "{}"),
    ],
)
def test_what_cannot_be_meant_is_refused(returns: Any, text: str) -> None:
    """Never guessed."""
    with pytest.raises(UnfitError):
        read_typed(wants_of(returns, None), text)


def test_an_answer_given_by_a_program_is_put_as_a_person_would() -> None:
    """Members by their names, objects by their fields; and back."""
    plain = plain_of(Box(3))
    assert plain == {"size": 3, "colour": "RED"}
    assert fit(wants_of(Box, None), plain) == plain
    assert typed(Colour, plain_of(Colour.RED)) is Colour.RED
    assert typed(Box, {"size": 1}) == Box(1)
    with pytest.raises(UnfitError, match="Box refuses it"):
        typed(Box, {"size": 1, "weight": 2})


def test_every_kind_can_be_told_and_shown() -> None:
    """What may be answered, in words, and something that could be typed."""
    for wants in (wants_of(r, None) for r in (bool, str, int, float, ["a"], Box, None)):
        assert offered(wants)
        assert example(wants)
    assert wants_of(dict[str, int], None) == Wants("json")


def test_models_are_objects() -> None:
    """A pydantic model says which fields it needs, and validates."""
    pydantic = pytest.importorskip("pydantic")
    model: Any = pydantic.create_model("Order", amount=(int, ...), note=(str, ""))
    assert wants_of(model, None).fields == ("amount",)
    assert typed(model, {"amount": "5"}).amount == 5
    with pytest.raises(UnfitError):
        typed(model, {"amount": "five"})
    assert plain_of(model(amount=1)) == {"amount": 1, "note": ""}


def test_which_questions_a_new_one_takes_the_place_of() -> None:
    """Those at the same place of straight code, unless this process has asked them itself."""

    def at(key: str, after: str, forked: bool) -> Question:
        return Question(key, "q1", 1, 0.0, "?", Wants(), "", None, "", after, forked)

    old = [at("same", "a", False), at("elsewhere", "b", False), at("beside", "a", True)]
    assert [q.key for q in superseded(old, Place("", "a", False), frozenset())] == ["same"]
    assert superseded(old, Place("", "a", False), frozenset({"same"})) == []
    assert superseded(old, Place("", "a", True), frozenset()) == []


def test_an_exact_choice_goes_before_one_in_another_case() -> None:
    """Seen before: the first of both was taken, whatever was typed."""
    wants = wants_of(None, ["Prod", "prod"])
    assert [read_typed(wants, text) for text in ("prod", "Prod", "PROD")] == ["prod", "Prod", "Prod"]
