"""Steps that change what they were given: a replay does not do it again, so the program is told."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

import holdfast
from holdfast.engine.run.held_run import CHECK_ARGUMENTS
from holdfast.engine.steps import given_arguments
from holdfast.errors import ArgumentChanged
from holdfast.limits import ARGUMENT_CHECK_EVERY


class Crash(Exception):
    pass


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a process of its own that does not run under the plugin."""
    monkeypatch.setattr(given_arguments, "_calls", {})
    monkeypatch.setattr(given_arguments, "_told", set())
    monkeypatch.delenv(CHECK_ARGUMENTS, raising=False)


def add(items: list[int], more: int) -> int:
    items.append(more)
    return len(items)


def add_and_return(items: list[int], more: int) -> list[int]:
    items.append(more)
    return items


def add_and_return_both(items: list[int], more: int) -> tuple[list[int], int]:
    items.append(more)
    return items, len(items)


def total(items: list[int]) -> int:
    return sum(items)


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)
    _seen: int = 0

    def put(self, item: str) -> None:
        self.items.append(item)

    def look(self, item: str) -> bool:
        self._seen += 1
        return item in self.items


class Agent:
    """No dataclass: what it holds besides plain data cannot be stored, and does not matter."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.client = object()

    def note(self, text: str) -> None:
        self.notes.append(text)


def changes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "changes" in one.getMessage()]


def test_a_replay_does_not_change_the_list_again(url: str) -> None:
    """What the notice is about: the second attempt has another list than the first."""
    seen: list[list[int]] = []
    for _ in range(2):
        with pytest.raises(Crash), holdfast.run("a", store=url) as run:
            items: list[int] = []
            run.step("add", add, items, 1)
            seen.append(items)
            raise Crash
    assert seen == [[1], []]


def test_a_changed_argument_is_named_with_what_to_do(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The message has the run, the step and the argument, and says: return what you change."""
    with holdfast.run("a", store=url) as run:
        run.step("add", add, [], 1)
    (told,) = changes(caplog)
    for part in ("run a", "'add'", "'items'", "return what you change"):
        assert part in told


def test_an_unchanged_argument_is_not_told(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A step that only looks."""
    with holdfast.run("a", store=url, strict=True) as run:
        assert run.step("total", total, [1, 2]) == 3
    assert changes(caplog) == []


@pytest.mark.parametrize("step", [add_and_return, add_and_return_both])
def test_what_is_returned_may_be_changed(url: str, step: Any) -> None:
    """The program has the change from the result, in a replay as well."""
    with holdfast.run("a", store=url, strict=True) as run:
        run.step("add", step, [], 1)


def test_strict_raises_when_the_outcome_is_recorded(url: str) -> None:
    """``strict=True``: the program stops at the step; what the step did is recorded, and answers afterwards."""
    with pytest.raises(ArgumentChanged) as refused, holdfast.run("a", store=url, strict=True) as run:
        run.once("add", add, [], 1)
    assert refused.value.argument == "items"
    assert "return what you change" in refused.value.hint
    with holdfast.run("a", store=url, strict=True) as run:
        assert run.once("add", add, [], 1) == 1


def test_strict_looks_at_every_call(url: str) -> None:
    """Not only at the first one of a name."""
    with pytest.raises(ArgumentChanged), holdfast.run("a", store=url, strict=True) as run:
        for n in range(3):
            run.step("s", add if n == 2 else _keep, [], n)


def _keep(items: list[int], more: int) -> int:
    return more


def test_other_runs_look_at_the_first_call_and_then_at_some(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first call of a name, and then every so many; what was told is not told again."""
    with holdfast.run("a", store=url, loops=False) as run:
        for n in range(ARGUMENT_CHECK_EVERY + 1):
            run.step("s", add if n == ARGUMENT_CHECK_EVERY else _keep, [], n)
        assert len(changes(caplog)) == 1
        for n in range(ARGUMENT_CHECK_EVERY * 2):
            run.step("s", add, [], n + 1000)
    assert len(changes(caplog)) == 1


def test_a_changed_self_is_named(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Attributes of a method's object that can be stored; private ones are its own affair."""
    basket, agent = Basket(), Agent()
    with holdfast.run("a", store=url) as run:
        run.step("put", basket.put, "egg")
        run.step("look", basket.look, "egg")
        run.step("note", agent.note, "hello")
    told = changes(caplog)
    assert ["'self.items'" in told[0], "'self.notes'" in told[1], len(told)] == [True, True, 2]


def test_a_changed_captured_value_is_named(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A lambda that appends to a list of the function around it."""
    items: list[int] = []
    with holdfast.run("a", store=url) as run:
        run.step("add", lambda: items.append(1))
    assert "'items'" in changes(caplog)[0]


def test_what_does_not_count_is_not_compared(url: str) -> None:
    """``ignore=`` and ``holdfast.ephemeral``: the program has said that it does not matter."""
    with holdfast.run("a", store=url, strict=True) as run:
        run.options(ignore="items").step("a", add, [], 1)
        run.step("b", add, holdfast.ephemeral([]), 1)


def test_a_tool_and_an_async_step_are_looked_at(url: str) -> None:
    """Wherever the function runs: in the loop, in a thread, as a tool."""

    @holdfast.tool
    def put(items: list[int]) -> None:
        items.append(1)

    async def put_async(items: list[int]) -> None:
        items.append(1)

    async def main(name: str, step: Any) -> None:
        async with holdfast.run("b", store=url, strict=True) as run:
            await run.step(name, step, [])

    with pytest.raises(ArgumentChanged), holdfast.run("a", store=url, strict=True):
        put([])
    with pytest.raises(ArgumentChanged):
        asyncio.run(main("in the loop", put_async))
    with pytest.raises(ArgumentChanged):
        asyncio.run(main("in a thread", lambda items: items.append(2)))


def test_the_plugin_looks_at_every_call_and_warns(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under pytest each change is a warning of the test, which its settings may make an error."""
    from holdfast.testing.pytest_plugin import ChangedArgumentWarning

    monkeypatch.setenv(CHECK_ARGUMENTS, "always")
    assert logging.getLogger("holdfast").handlers
    with holdfast.run("a", store=url) as run:
        run.step("s", _keep, [], 0)
        with pytest.warns(ChangedArgumentWarning, match="'items'"):
            run.step("s", add, [], 1)
