"""A model call that waits for its provider, by a clock that the test sets."""

from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast.engine.llm.model_call import Ask, ask_model
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.sync_async import BLOCKING, drive

if TYPE_CHECKING:
    from tests.behaviour.conftest import SetClock

TRIES_MAX = 200


class Away(Exception):
    """The error of a provider's client."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__("come back later")
        self.status_code = status
        self.response = SimpleNamespace(status_code=status, headers=headers)


AWAY = {"unavailable": (503, {}), "names another time at each try": (429, {"retry-after": "7"})}


@pytest.mark.parametrize("targets", [("a",), ("a", "b")])
@pytest.mark.parametrize("how", AWAY)
def test_the_wait_for_all_providers_together_ends_after_give_up_s(
    url: str, clock: "SetClock", how: str, targets: tuple[str, ...]
) -> None:
    """Neither a fallback nor another time that the provider names starts ``give_up_s`` anew."""
    asked: list[str] = []
    patience = holdfast.Patience(give_up_s=100.0, fall_back_s=30.0, longest_s=5.0)
    line = Line(patience, targets=targets)

    def call() -> Any:
        asked.append(line.targets[line.target])
        assert len(asked) < TRIES_MAX, f"still waiting after {clock.passed} s"
        raise Away(*AWAY[how])

    with pytest.raises(Away), holdfast.run("r", store=url) as run:
        drive(ask_model(run._held, BLOCKING, Ask("m", {"messages": []}), call, line=line))
    assert 100 <= clock.passed <= 110
    assert set(asked) == set(targets)


def test_a_fallback_at_once_does_not_spin(url: str, clock: "SetClock") -> None:
    """``fall_back_s=0``: every target is asked without a pause, and then there is one, longer from round to round."""
    asked: list[tuple[str, float]] = []
    patience = holdfast.Patience(fall_back_s=0.0, first_s=1.0, longest_s=8.0)
    line = Line(patience, targets=("a", "b", "c"))

    def call() -> Any:
        asked.append((line.targets[line.target], clock.passed))
        assert len(asked) < TRIES_MAX, f"{TRIES_MAX} tries within {clock.passed} s"
        if clock.passed < 60:
            raise Away(503, {})
        return "answer"

    with holdfast.run("r", store=url) as run:
        answer = drive(ask_model(run._held, BLOCKING, Ask("m", {"messages": []}), call, line=line))
    assert answer.value == "answer"
    assert [name for name, _ in asked[:6]] == ["a", "b", "c", "a", "b", "c"]
    rounds = [at for name, at in asked if name == "a"]
    assert {at for _, at in asked} == set(rounds)
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(rounds))
    assert len(asked) <= 3 * 25


@pytest.mark.parametrize(("away_s", "waits_s"), [(60.0, 40.0), (-3_600.0, 0.0)])
def test_a_time_that_was_named_to_a_clock_that_was_ahead(
    url: str, clock: "SetClock", away_s: float, waits_s: float
) -> None:
    """After a restart, what is left of it is waited for; but not an hour, because the clock was an hour ahead.

    Seen before: a machine took the run over, and waited until its own clock had come to that time.
    """
    line, begins = Line(holdfast.Patience(park_s=None)), [1, 1]

    def call() -> Any:
        if begins.pop():
            raise Away(429, {"retry-after": "100"})
        return "answer"

    def attempt() -> Any:
        with holdfast.run("r", store=url) as run:
            return drive(ask_model(run._held, BLOCKING, Ask("m", {"messages": []}), call, line=line)).value

    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    clock.on_nap = die
    with pytest.raises(Killed):
        attempt()
    clock.on_nap, begins[:] = None, [0]
    clock.jump(away_s)
    began = clock.passed
    assert attempt() == "answer"
    assert clock.passed - began == pytest.approx(waits_s)
