"""What adapters are made of, without any framework: a model call and a tool call, from threads that know of no run."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import holdfast
from holdfast.adapters.shared.durable_block import ParallelCalls
from holdfast.adapters.shared.journaled_calls import (
    RunPosition,
    call_options_of,
    is_step,
    not_installed,
    storable,
)
from holdfast.adapters.shared.turns import scoped, turns_taken
from holdfast.engine.llm.model_call import Ask


def test_calls_from_foreign_threads_are_steps_of_the_run(tmp_path: Path) -> None:
    """A framework's own threads have no context: the seam brings the run, and a second attempt does nothing again."""
    done: list[int] = []
    once = call_options_of(["pay"], None)["pay"]

    def work() -> list[Any]:
        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            seam = RunPosition.get("the test")

            def pay(n: int) -> Any:
                def perform() -> int:
                    done.append(n)
                    return n * 2

                return seam.tool(once, "pay", {"n": n}, perform)

            with ThreadPoolExecutor(3) as pool:
                paid = list(pool.map(pay, range(3)))
            answer = seam.model(Ask("llm", {"q": 1}), lambda _: {"a": 1})
        return [*paid, answer]

    first, second = work(), work()
    assert first[:3] == second[:3] == [0, 2, 4]
    assert sorted(done) == [0, 1, 2]
    assert (first[3].is_replayed, second[3].is_replayed) == (False, True)


def test_what_perform_captures_is_no_part_of_the_call(tmp_path: Path) -> None:
    """A call is its name and its arguments; the framework's objects that it is made with are not."""
    once = call_options_of(["pay"], None)["pay"]

    async def work(captured: object) -> Any:
        async with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):

            async def perform() -> str:
                return repr(captured)

            return await RunPosition.get("the test").tool_async(once, "pay", {"n": 1, "self": 2}, perform)

    first = asyncio.run(work(object()))
    assert asyncio.run(work(object())) == first


def test_a_result_is_of_the_type_that_the_users_function_says(tmp_path: Path) -> None:
    """A class that no module has is found by the annotation of what the user wrote, as it is for a plain step.

    Planted: the annotation looked for on the act itself. The result is then refused, or comes back as a dict.
    """

    @dataclass
    class Found:
        name: str

    def look() -> Found:
        return Found("kelp")

    once = call_options_of(["look"], None)["look"]
    for _ in range(2):
        with holdfast.run("r", store=tmp_path / "s.db"):
            found = RunPosition.get("the test").tool(once, "look", {}, look, look)
        assert found == Found("kelp")


def test_a_tool_is_a_step_by_itself() -> None:
    """What is decorated already is recognised, so that nobody wraps it again: a once step inside another is refused."""

    @holdfast.tool
    def pay() -> None: ...

    plain: Callable[[], None] = pay.fn
    assert is_step(pay)
    assert not is_step(plain)


def test_an_effect_of_a_tool_that_is_not_there_is_refused() -> None:
    """A misspelt name would silently be treated as once."""
    with pytest.raises(holdfast.Misuse, match="serch") as refused:
        call_options_of(["search"], {"serch": "read"})
    assert "search" in refused.value.hint


def test_a_missing_framework_says_what_to_install() -> None:
    """The error is an ImportError too, names the package, and its hint is the command."""
    try:
        import no_such_framework.part  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        refused = not_installed("holdfast.adapters.crewai", "crewai", error)
    assert isinstance(refused, ImportError)
    assert "no_such_framework" in str(refused)
    assert refused.hint == "pip install 'holdfast[crewai]'"


def test_a_seam_outside_of_a_run_names_what_was_to_be_done() -> None:
    """Nothing is recorded in no run."""
    with pytest.raises(holdfast.NoCurrentRun, match="kickoff"):
        RunPosition.get("kickoff")


def test_who_raises_lets_the_others_come_to_their_ends() -> None:
    """Two of three raise, and neither waits for the other: they raise when the third has landed, and it is not cancelled."""
    landed: list[str] = []

    async def main() -> list[Any]:
        flight = ParallelCalls()

        async def fail(name: str) -> None:
            landed.append(name)
            raise ValueError(name)

        async def slow() -> str:
            await asyncio.sleep(0.05)
            landed.append("slow")
            return "slow"

        calls = (slow(), fail("a"), fail("b"))
        tasks = [asyncio.ensure_future(flight.carry(call)) for call in calls]
        first = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        assert "slow" in landed, f"{first} did not wait"
        return await asyncio.gather(*tasks, return_exceptions=True)

    slow, a, b = asyncio.run(main())
    assert (str(a), slow, str(b)) == ("a", "slow", "b")


def test_what_cannot_be_kept_is_kept_as_its_text() -> None:
    """A model is told the text of what a tool returned anyway."""
    assert storable({"a": (1, 2)}) == {"a": (1, 2)}
    assert storable(storable) == str(storable)


def elsewhere(fn: Callable[[], Any]) -> Any:
    """The function's value, from a new thread with a copy of this context; what it raises is raised here."""
    ended: list[Any] = []

    def work() -> None:
        try:
            ended.append((True, fn()))
        except BaseException as error:
            ended.append((False, error))

    thread = Thread(target=copy_context().run, args=(work,))
    thread.start()
    thread.join()
    ((good, value),) = ended
    if good:
        return value
    raise value


def test_in_an_agents_turns_another_question_stops_at_once(tmp_path: Path) -> None:
    """A framework asks from a new thread each time; in an agent's turns the questions follow one another all the same.

    Planted: ``is_agent=False``. Every question then looks like a task started beside the others, and the changed one is
    asked before anybody notices.
    """
    asked: list[str] = []

    def work(second: str) -> None:
        with (
            holdfast.run("r", store=tmp_path / "s.db"),
            scoped(RunPosition.get("the test"), "task", is_agent=True),
        ):
            turns = turns_taken()
            for question in ("first", second, "third"):

                def answer(request: Any) -> str:
                    asked.append(request["q"])
                    return "yes"

                elsewhere(partial(turns.model, Ask("llm", {"q": question}), answer))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work("second")
    with pytest.raises(holdfast.Diverged):
        work("changed")
    assert asked == ["first", "second", "third"]


def test_tools_side_by_side_in_a_turn_are_not_taken_for_one_another(tmp_path: Path) -> None:
    """The third of a batch, which a kill has kept from beginning, may come first when the batch is called again.

    Planted: tools called as ``leading``, as questions are. The third then stands where the first is recorded, and
    the run stops as if the program had changed.
    """
    once = call_options_of(["pay"], None)["pay"]
    paid: list[int] = []

    def work(order: list[int], then: Callable[[], None]) -> None:
        with (
            holdfast.run("r", store=tmp_path / "s.db"),
            scoped(RunPosition.get("the test"), "task", is_agent=True),
        ):
            turns = turns_taken()
            elsewhere(lambda: turns.model(Ask("llm", {"q": 1}), lambda _: "pay"))
            for n in order:
                elsewhere(partial(turns.tool, once, "pay", {"n": n}, partial(paid.append, n)))
            then()
            elsewhere(lambda: turns.model(Ask("llm", {"q": 2}), lambda _: "done"))

    def cut_off() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        work([0, 1], cut_off)
    work([2, 0, 1], lambda: None)
    assert paid == [0, 1, 2]
