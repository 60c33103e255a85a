"""A recorded run over today's program: everything is answered, nothing is made or written, differences are told."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.api.enter import replaying
from holdfast.model.replay import Replayed
from holdfast.testing.replay import exported_runs, replay_run

calls: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def pay(who: str, amount: int = 1) -> str:
    calls.append((who, amount))
    return f"{who} {amount}"


def agent(
    store: Any, people: tuple[str, ...] = ("Ada", "Bob"), name: str = "pay", result: Any = "done"
) -> None:
    with holdfast.run("a", store=store) as run:
        run.think("who is to be paid?")
        run.step("look", str, 1)
        for who in people:
            run.once(name, pay, who)
        run.checkpoint({"paid": list(people)})
        run.finish(result)


def replayed(program: Callable[[], Any]) -> Replayed:
    found: list[Replayed] = []
    before = len(calls)
    with replaying(found.append), suppress(holdfast.NotRecorded):
        program()
    assert len(calls) == before, "a replay makes nothing"
    (one,) = found
    return one


def test_the_same_program_is_the_same(url: str) -> None:
    """Every call is answered, the result is the recorded one, and the journal has not grown."""
    agent(url)
    head = holdfast.store(url).get("a").head
    assert replayed(lambda: agent(url)) == Replayed("a", "same", 3)
    assert holdfast.store(url).get("a").head == head


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        (lambda url: agent(url, ("Zoe", "Ada", "Bob")), "now       pay(amount=1, who='Zoe')"),
        (lambda url: agent(url, name="charge"), "recorded  pay(amount=1, who='Ada')"),
        (lambda url: agent(url, ("Ada",)), "now       checkpoint"),
        (lambda url: agent(url, result="other"), "- result: 'done'\n  + result: 'other'"),
    ],
    ids=["a call more", "renamed", "a call less", "another result"],
)
def test_a_changed_program_differs(url: str, edited: Callable[[str], None], told: str) -> None:
    """The first call that is not recorded is shown beside what is."""
    agent(url)
    found = replayed(lambda: edited(url))
    assert found.verdict == "differs"
    assert told in found.difference


def test_a_call_that_is_never_asked_for_differs(url: str) -> None:
    """The program finishes with the same result, without one of its effects."""

    def program(people: tuple[str, ...]) -> None:
        with holdfast.run("a", store=url) as run:
            for who in people:
                run.once("pay", pay, who)

    program(("Ada", "Bob"))
    found = replayed(lambda: program(("Ada",)))
    assert found.verdict == "differs"
    assert "1 recorded calls were never asked for" in found.difference
    assert "pay(amount=1, who='Bob')" in found.difference


def test_a_run_that_is_not_over_is_replayed_to_the_end_of_its_record(url: str) -> None:
    """Also while another process holds it: no lease is taken. What comes behind the record is not made."""
    run = holdfast.run("a", store=url).open()
    run.step("look", str, 1)
    run.once("pay", pay, "Ada")

    def program() -> None:
        with holdfast.run("a", store=url) as again:
            again.step("look", str, 1)
            for who in ("Ada", "Bob"):
                again.once("pay", pay, who)

    with ThreadPoolExecutor(1) as elsewhere:  # not inside of the run that is open here
        assert elsewhere.submit(replayed, program).result().verdict == "reached"
    run.once("pay", pay, "Bob")
    run.close()
    assert calls == [("Ada", 1), ("Bob", 1)]


def test_a_program_that_fails_is_told(url: str) -> None:
    """An exception of the program's own is the verdict."""
    agent(url)

    def broken() -> None:
        with holdfast.run("a", store=url):
            raise ValueError("today's bug")

    with pytest.raises(ValueError, match="today's bug"):
        replayed_program(broken)


def replayed_program(program: Callable[[], None]) -> None:
    found: list[Replayed] = []
    try:
        with replaying(found.append):
            program()
    finally:
        assert [(one.verdict, one.difference) for one in found] == [("failed", "  ValueError: today's bug")]


def test_a_run_that_is_not_recorded_is_not_begun(url: str) -> None:
    """A replay creates nothing."""
    with replaying(lambda _: None), pytest.raises(holdfast.UnknownRun), holdfast.run("new", store=url):
        pass
    assert holdfast.store(url).runs() == []


def test_an_async_program_with_tasks_is_the_same(url: str) -> None:
    """Tasks side by side, in another order than recorded."""

    async def program(people: tuple[str, ...]) -> None:
        async with holdfast.run("a", store=url) as run:
            await asyncio.gather(*(run.once("pay", pay, who) for who in people))

    asyncio.run(program(("Ada", "Bob", "Zoe")))
    assert replayed(lambda: asyncio.run(program(("Zoe", "Ada", "Bob")))).verdict == "same"


def test_a_directory_of_exports_is_a_regression_suite(url: str, tmp_path: Path) -> None:
    """Each export is replayed over the program, which gets the store; a difference is an AssertionError."""
    agent(url)
    runs = tmp_path / "runs"
    runs.mkdir()
    holdfast.store(url).export("a", runs / "a.holdfast")
    calls.clear()
    (export,) = exported_runs(runs)
    assert [one.verdict for one in replay_run(export, agent)] == ["same"]
    assert [one.verdict for one in replay_run(export, lambda _: agent(None))] == ["same"]
    with pytest.raises(AssertionError, match=r"run a differs:\n  now       charge"):
        replay_run(export, lambda store: agent(store, name="charge"))
    with pytest.raises(AssertionError, match="never entered this run"):
        replay_run(export, lambda _: None)
    assert calls == []
