"""The short way of the common call gives it the identity that the long way gives."""

from collections.abc import Callable
from functools import wraps
from secrets import token_hex
from typing import Any

import pytest

import holdfast
from holdfast.engine.steps import call_identity


class Stop(Exception):
    """Ends an attempt without finishing the run."""


class Forgetful(dict[int, Any]):
    """Knows no function: every call takes the long way."""

    def __setitem__(self, key: int, value: object) -> None:
        """Keep nothing."""


def plain(first: Any, second: Any = 2) -> str:
    return f"{type(first)} {type(second)} {token_hex()}"  # new each time it is called


def keyed(first: int, idempotency_key: str = "") -> str:
    return f"{first} {bool(idempotency_key)} {token_hex()}"


@wraps(plain)
def wrapper(one: Any, two: Any) -> str:
    return plain(one, two)


def rest(first: int, *others: int) -> str:
    return f"{first} {others} {token_hex()}"


CALLS: tuple[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]], ...] = (
    (plain, (1, 2), {}),
    (plain, (1,), {}),
    (plain, (1,), {"second": 2}),
    (plain, (True, None), {}),
    (plain, (1.0, "a"), {}),
    (plain, ([1], {"a": (1, 2)}), {}),
    (plain, (2**70, 1), {}),
    (plain, ("\ud800", 1), {}),
    (plain, (holdfast.ephemeral(object()), 1), {}),
    (keyed, (1,), {}),
    (wrapper, (1, 2), {}),
    (rest, (1,), {}),
    (rest, (1, 2), {}),
    (lambda first: f"{first} {token_hex()}", (1,), {}),
)


@pytest.mark.parametrize("is_long_first", [True, False])
def test_a_known_function_has_the_identity_of_an_unknown_one(
    url: str, monkeypatch: pytest.MonkeyPatch, is_long_first: bool
) -> None:
    """A call is answered by its record, whether its function was known when it was recorded or is now.

    Planted: a short way without its look at the types of the arguments; this test failed.
    """
    answers = []
    for is_long in (is_long_first, not is_long_first):
        known: dict[int, Any] = Forgetful() if is_long else {}
        monkeypatch.setattr(call_identity, "_plain", known)
        with pytest.raises(Stop), holdfast.run("r", store=url) as run:
            answers.append(
                [
                    run.step(f"{number} {name}", fn, *args, **kwargs)
                    for number, (fn, args, kwargs) in enumerate(CALLS)
                    for name in ("one", "two", "two")
                ]
            )
            raise Stop
        assert [code for code, _ in known.values()] == ([] if is_long else [plain.__code__, rest.__code__])
    assert answers[0] == answers[1]
    assert len(set(answers[0])) == 3 * len(CALLS)
