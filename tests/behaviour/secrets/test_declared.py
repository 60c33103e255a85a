"""Where a program may declare a secret: no file has its value, whatever is called and however it is annotated.

The annotations are texts here, as those of most programs are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.known_secrets import places

import holdfast
from holdfast import Secret as Hidden

CARD = "4111-1111-1111-9999"
Card = holdfast.Secret[str]


def passed_on(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner


class Till:
    """An object that can be called."""

    def __call__(self, card: holdfast.Secret[str]) -> dict[str, str]:
        return {"paid with": card}


class Payment:
    """A class that is called as a step; what it makes cannot be stored."""

    def __init__(self, card: holdfast.Secret[str]) -> None:
        self.card = card


def by_alias(card: Card) -> str:
    return f"paid with {card}"


def by_other_name(card: Hidden[str]) -> str:
    return f"paid with {card}"


def by_rest(*cards: holdfast.Secret[str]) -> str:
    return f"paid with {cards[0]}"


def by_keywords(amount: int = 5, **cards: holdfast.Secret[str]) -> str:
    return f"paid with {cards['first']}"


def as_bytes(card: holdfast.Secret[bytes]) -> list[Any]:
    return [card, card.decode()]


def as_dict(card: holdfast.Secret[dict[str, str]]) -> dict[str, str]:
    return {"paid with": card["number"]}


@passed_on
@passed_on
def wrapped_first(text: str) -> str:
    return text


@passed_on
@passed_on
def wrapped_twice(card: holdfast.Secret[str]) -> str:
    return f"paid with {card}"


def with_key(run: holdfast.Run) -> None:
    run.options(key="payment-1").step("pay", by_alias, CARD)


def after_another(run: holdfast.Run) -> None:
    run.step("first", wrapped_first, "a word")
    run.step("pay", wrapped_twice, CARD)


CALLS: dict[str, Callable[[holdfast.Run], Any]] = {
    "an object": lambda run: run.step("pay", Till(), CARD),
    "a class": lambda run: run.step("pay", Payment, CARD),
    "an alias": lambda run: run.step("pay", by_alias, CARD),
    "another name": lambda run: run.step("pay", by_other_name, CARD),
    "the rest": lambda run: run.step("pay", by_rest, CARD),
    "keywords": lambda run: run.step("pay", by_keywords, first=CARD),
    "bytes": lambda run: run.step("pay", as_bytes, CARD.encode()),
    "a dict": lambda run: run.step("pay", as_dict, {"number": CARD}),
    "a key": with_key,
    "two wrappers": after_another,
}


@pytest.mark.parametrize("call", CALLS)
def test_a_declared_secret_is_hidden_however_it_is_declared(
    call: str, no_secret: None, tmp_path: Path
) -> None:
    """In arguments and results. A replay answers the call.

    Seen to fail: all of them were in the journal in clear. Of two functions with the same two wrappers, the first
    one's annotations counted for both.
    """
    made: list[Any] = []
    for _ in range(2):
        with (
            pytest.raises((RuntimeError, holdfast.NotStorable)),
            holdfast.run("r", store=tmp_path / "s.db") as run,
        ):
            made.append(CALLS[call](run))
            raise RuntimeError("stop")
    assert made[:1] == made[1:]
    assert places(CARD, tmp_path) == []


def test_a_name_that_is_no_parameter_is_refused(no_secret: None, tmp_path: Path) -> None:
    """Mistyped, the value would be in clear. Seen to fail: nothing was said."""
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        with pytest.raises(holdfast.Misuse, match="no parameter of that name"):
            run.options(secrets="crad").step("pay", by_rest, CARD)
        assert run.options(secrets="fn").step("size", len, "abc") == 3  # a builtin does not say what it takes
    assert places(CARD, tmp_path) == []


def test_an_agent_takes_no_secret_that_nobody_finds_again(no_secret: None, tmp_path: Path) -> None:
    """Its inputs are recorded, for a worker that starts it: so a declared one needs a name.

    Seen to fail: the inputs were recorded in clear.
    """

    @holdfast.agent("pays")
    def pays(run: holdfast.Run, amount: int, card: holdfast.Secret[str]) -> str:
        return f"{amount}: {run.step('pay', by_alias, card)}"

    for start in (pays.run, pays.submit):
        with pytest.raises(holdfast.Misuse, match="has no name"):
            start("r", 5, CARD, store=tmp_path / "s.db")
    holdfast.secret(CARD, name="card")
    assert pays.run("r", 5, CARD, store=tmp_path / "s.db") == f"5: paid with {CARD}"
    assert places(CARD, tmp_path) == []
