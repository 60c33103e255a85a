"""Drift: the program asks for something else than what is recorded."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.errors import EffectUnclaimed
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind

calls: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


class Crash(Exception):
    pass


def note(value: object) -> object:
    calls.append(value)
    return value


def attempt(url: str, body: Callable[[holdfast.Run], Any], **options: Any) -> Any:
    out = None
    try:
        with holdfast.run("a", store=url, **options) as run:
            out = body(run)
            raise Crash
    except Crash:
        pass
    return out


def drifts(url: str) -> int:
    return sum(event.kind == Kind.DRIFTED for event in holdfast.store(url).events("a"))


def test_a_once_call_with_other_arguments_at_the_same_point_stops(url: str) -> None:
    """Paying another person than recorded may be the same payment: the stop shows both calls, nothing runs."""
    attempt(url, lambda run: run.once("pay", note, "Ada"))
    shown = r"now +pay\(value='Bob'\)\n +d3 +pay\(value='Ada'\) +\(done, not asked for\)"
    with pytest.raises(EffectUnclaimed, match=shown) as stop:
        attempt(url, lambda run: run.once("pay", note, "Bob"))
    assert calls == ["Ada"]
    assert holdfast.store(url).get("a").status == "diverged"
    assert "holdfast resolve a d3 --same" in stop.value.hint


def test_abandon_accepts_the_change(url: str) -> None:
    """After ``resolve --abandon`` the recorded call is out of the way and the new one runs."""
    attempt(url, lambda run: run.once("pay", note, "Ada"))
    with pytest.raises(holdfast.Diverged) as stop:
        attempt(url, lambda run: run.once("pay", note, "Bob"))
    holdfast.store(url).resolve("a", stop.value.key, "abandon")
    assert attempt(url, lambda run: run.once("pay", note, "Bob")) == "Bob"


def test_a_read_step_with_other_arguments_runs_and_warns(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A read is safe: it runs, and the drift is logged and recorded."""
    attempt(url, lambda run: run.step("fetch", note, "x"))
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert attempt(url, lambda run: run.step("fetch", note, "y")) == "y"
    assert "drifted at step 'fetch'" in caplog.text
    assert drifts(url) == 1


def test_on_drift_warn_lets_once_calls_run(url: str) -> None:
    """on_drift="warn": the caller takes the responsibility for the whole run."""
    attempt(url, lambda run: run.once("pay", note, "Ada"))
    assert attempt(url, lambda run: run.once("pay", note, "Bob"), on_drift="warn") == "Bob"
    assert drifts(url) == 1


def test_an_inserted_read_is_not_drift(url: str) -> None:
    """A new read runs; the recorded calls are found by what they are, not by position."""
    attempt(url, lambda run: [run.step("a", note, 1), run.once("b", note, 2)])
    got = attempt(url, lambda run: [run.step("a", note, 1), run.step("new", note, 9), run.once("b", note, 2)])
    assert got == [1, 9, 2]
    assert calls == [1, 2, 9]
    assert drifts(url) == 0


def test_an_inserted_effect_is_a_question(url: str) -> None:
    """A new effect before one that is not asked for yet may be that one, renamed: a person says that it is new."""
    attempt(url, lambda run: [run.step("a", note, 1), run.once("b", note, 2)])

    def edited(run: holdfast.Run) -> Any:
        return [run.step("a", note, 1), run.once("new", note, 9), run.once("b", note, 2)]

    with pytest.raises(EffectUnclaimed) as stop:
        attempt(url, edited)
    assert calls == [1, 2]
    holdfast.store(url).resolve("a", f"d{stop.value.seq}", "new")
    assert attempt(url, edited) == [1, 9, 2]
    assert attempt(url, edited) == [1, 9, 2]
    assert calls == [1, 2, 9]


def test_a_removed_call_is_not_drift_for_the_next_one(url: str) -> None:
    """What follows a removed call is still found."""
    attempt(url, lambda run: [run.step("a", note, 1), run.step("b", note, 2), run.once("c", note, 3)])
    assert attempt(url, lambda run: [run.step("a", note, 1), run.once("c", note, 3)]) == [1, 3]
    assert drifts(url) == 0


def test_reordered_calls_are_not_drift(url: str) -> None:
    """Calls with other names in another order are answered all the same."""
    attempt(url, lambda run: [run.once("a", note, 1), run.once("b", note, 2)])
    assert attempt(url, lambda run: [run.once("b", note, 2), run.once("a", note, 1)]) == [2, 1]
    assert calls == [1, 2]


def test_one_more_call_after_the_recorded_ones_is_not_drift(url: str) -> None:
    """A loop that goes on where it was cut off asks for new things at new points."""
    attempt(url, lambda run: [run.once("pay", note, n) for n in range(2)])
    assert attempt(url, lambda run: [run.once("pay", note, n) for n in range(4)]) == [0, 1, 2, 3]
    assert drifts(url) == 0


def test_a_failed_call_that_is_tried_with_better_arguments_is_not_drift(url: str) -> None:
    """A call that failed without effect and ended the attempt does not stand in the way of its correction."""

    def buy(url_: str) -> str:
        if url_ == "typo":
            raise ValueError(url_)
        return url_

    with pytest.raises(ValueError, match="typo"):
        attempt(url, lambda run: run.options(harmless=ValueError).once("buy", buy, "typo"))
    assert attempt(url, lambda run: run.options(harmless=ValueError).once("buy", buy, "right")) == "right"
    assert drifts(url) == 0


def test_other_arguments_inside_a_scope_are_found(url: str) -> None:
    """The point is the scope and the call before: also inside scopes and steps."""

    def body(which: str) -> Callable[[holdfast.Run], Any]:
        def inner(run: holdfast.Run) -> Any:
            with run.scope("s"):
                run.step("before", note, 0)
                return run.once("pay", note, which)

        return inner

    attempt(url, body("Ada"))
    with pytest.raises(holdfast.Diverged):
        attempt(url, body("Bob"))


async def gathered(url: str, names: list[str], *, after: bool = False) -> list[Any]:
    async with holdfast.run("a", store=url) as run:

        async def one(name: str) -> Any:
            await asyncio.sleep(0)
            return await run.once("pay", note, name)

        got = await asyncio.gather(*(one(name) for name in names))
        if after:
            await run.once("receipt", note, "all")
        raise Crash
    return got


def test_parallel_siblings_never_misfire(url: str) -> None:
    """Tasks gathered in any order, one new among them: no drift, everything answered or run once."""
    for names in (["x", "y"], ["y", "x"], ["z", "y", "x"], ["x", "z", "y"]):
        with pytest.raises(Crash):
            asyncio.run(gathered(url, names, after=True))
    assert sorted(map(str, calls)) == ["all", "x", "y", "z"]
    assert drifts(url) == 0


def test_other_data_in_parallel_tasks_is_reported_at_the_end(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The program is the same, its data in a task is not: made, and the effect that nobody asked for is reported."""
    with pytest.raises(Crash):
        asyncio.run(gathered(url, ["x", "y"]))

    async def changed() -> None:
        async with holdfast.run("a", store=url) as run:
            await asyncio.gather(*(run.once("pay", note, name) for name in ["x", "other"]))

    with caplog.at_level(logging.WARNING, "holdfast"):
        asyncio.run(changed())
    assert "never asked for recorded effects: pay (d" in caplog.text
    told = [event for event in holdfast.store(url).events("a") if event.kind == Kind.DRIFTED]
    assert [fields_of(event.body)["how"] for event in told] == ["never_asked"]
