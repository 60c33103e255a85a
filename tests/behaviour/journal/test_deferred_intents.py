"""The intent of a plain read goes with its outcome: one append instead of two, and the same journal."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast import limits
from holdfast.engine.journal import deferred_intents
from holdfast.model.store_rows import Append, AppendOutcome
from holdfast.stores.in_memory import MemoryStore


class Counting(MemoryStore):
    """Keeps the kinds of the events of each item that it was given."""

    def __init__(self) -> None:
        super().__init__(uuid4().hex)
        self.items: list[list[str]] = []

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        self.items += [[event.kind for event in item.events] for item in items]
        return super().append(items)


@pytest.fixture
def port() -> Counting:
    return Counting()


def same(value: Any) -> Any:
    return value


TOGETHER = ["step.started", "step.finished"]


@pytest.mark.usefixtures("no_second_look")
def test_a_read_is_one_append_and_a_once_step_two(port: Counting) -> None:
    """Planted: an intent that is appended at once."""
    with holdfast.run("r", store=holdfast.Store(port)) as run:
        port.items.clear()
        assert run.step("a", same, 1) == 1
        assert port.items == [TOGETHER]
        port.items.clear()
        run.once("b", same, 2)
        assert port.items == [["step.started"], ["step.finished"]]
        port.items.clear()
        run.options(deadline=time.time() + 600).step("c", same, 3)
        assert port.items == [["step.started"], ["step.finished"]]


@pytest.mark.usefixtures("no_second_look")
def test_whatever_comes_next_takes_the_intent_along(port: Counting) -> None:
    """A step inside of it, a note, a failure: the intent stands before them, with the time of its beginning."""
    with holdfast.run("r", store=holdfast.Store(port)) as run:

        def outer() -> int:
            run.think("hm")
            return int(run.step("inner", same, 1))

        port.items.clear()
        run.step("outer", outer)
        assert port.items[0][0] == "step.started"
        kinds = [kind for item in port.items for kind in item]
        assert [kind for kind in kinds if kind.startswith("step")] == [
            "step.started",
            *TOGETHER,
            "step.finished",
        ]
        port.items.clear()
        with pytest.raises(ValueError, match="no"):
            run.step("fails", fail)
        assert port.items == [["step.started", "step.failed"]]
    events = [event for event in holdfast.Store(port).events("r") if event.kind.startswith("step")]
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert [event.seq for event in events] == sorted(event.seq for event in events)


def fail() -> None:
    raise ValueError("no")


def test_a_call_that_takes_long_shows(tmp_path: Path) -> None:
    """It waits inside until another handle sees it; and an interrupted one is seen at the end. (Planted: no second look.)"""
    url = f"sqlite:///{tmp_path / 's.db'}"

    def until_seen() -> int:
        deadline = time.monotonic() + 60
        while not any(event.name == "long" for event in holdfast.store(url).events("r")):
            assert time.monotonic() < deadline, "nobody wrote that the call has begun"
            time.sleep(0.001)
        return 1

    with holdfast.run("r", store=url) as run:
        assert run.step("long", until_seen) == 1
    kinds = [event.kind for event in holdfast.store(url).events("r") if event.kind.startswith("step")]
    assert kinds == TOGETHER


def test_a_journal_that_rested_is_watched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause with no reads; and a store that fails is not asked again and again: the outcome meets the error."""
    monkeypatch.setattr(deferred_intents, "_IDLE_LOOKS", 0)
    url = f"sqlite:///{tmp_path / 's.db'}"

    def until_written(name: str) -> str:
        deadline = time.monotonic() + 60
        while not any(event.name == name for event in holdfast.store(url).events("r")):
            assert time.monotonic() < deadline, "nobody wrote that the call has begun"
            time.sleep(0.001)
        return name

    with holdfast.run("r", store=url) as run:
        journal = run._held.journal
        assert journal is not None
        for name in ("a", "b", "c"):
            assert run.options(key=name).step(name, until_written, name) == name
            deadline = time.monotonic() + 60
            while journal.is_watched:
                assert time.monotonic() < deadline
                time.sleep(0.001)
        tries: list[int] = []

        async def refused(runtime: Any) -> None:
            tries.append(1)
            raise holdfast.StoreUnavailable(store=url, problem="not now")

        def until_refused() -> int:
            deadline = time.monotonic() + 60
            while journal.is_watched or not tries:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            return len(tries)

        monkeypatch.setattr(journal, "write_deferred", refused)
        assert run.options(key="d").step("d", until_refused) == 1


def test_only_journals_in_which_something_waits_are_looked_at(
    port: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many runs there are: a look that finds nothing lets a journal go, and its next intent brings it back.

    Planted: journals that are kept for a second. Of 500 runs, the looks took a sixth of all processor time."""
    monkeypatch.setattr(deferred_intents, "_IDLE_LOOKS", 10**9)
    store = holdfast.Store(port)
    runs = [holdfast.run(f"r{number}", store=store).open() for number in range(20)]
    for _ in range(2):
        for run in runs:
            run.step("a", same, 1)
        journals = [run._held.journal for run in runs]
        deadline = time.monotonic() + 60
        while any(journal is not None and journal.is_watched for journal in journals):
            assert time.monotonic() < deadline, "a journal is looked at in which nothing waits"
            time.sleep(0.001)
    for run in runs:
        run.close()


@pytest.mark.usefixtures("no_second_look")
def test_a_call_that_never_ends_is_recorded_with_the_end_of_the_attempt(port: Counting) -> None:
    """Ctrl-C inside of the function: the journal says what the attempt was doing."""
    store = holdfast.Store(port)
    with pytest.raises(KeyboardInterrupt), holdfast.run("r", store=store) as run:
        run.step("cut", interrupt)
    assert [event.name for event in store.events("r") if event.kind == "step.started"] == ["cut"]


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("no_second_look")
def test_more_calls_than_can_wait(port: Counting) -> None:
    """Forty at once in threads: some intents are written by themselves, each before its outcome, none twice."""
    count = 40
    together = threading.Barrier(count)

    def meet(number: int) -> int:
        together.wait(60)
        return number

    with holdfast.run("r", store=holdfast.Store(port)) as run:
        threads = [
            threading.Thread(
                target=run.bind(run.options(key=f"k{number}").step), args=(f"s{number}", meet, number)
            )
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen: dict[str, list[str]] = {}
    for event in holdfast.Store(port).events("r"):
        if event.kind.startswith("step"):
            seen.setdefault(event.name, []).append(event.kind)
    assert seen == {f"s{number}": TOGETHER for number in range(count)}
    assert max(map(len, port.items)) <= limits.APPEND_EVENTS_MAX


class Refusing(Counting):
    """Raises what is no ``Exception`` where the thread that looks at waiting intents writes."""

    is_met = False

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        if threading.current_thread().name == "holdfast-intents":
            self.is_met = True
            raise GeneratorExit
        return super().append(items)


def test_nothing_that_one_store_raises_ends_the_thread(tmp_path: Path) -> None:
    """It serves all runs of the process. Seen to fail: an intent of the next run was never written."""
    port = Refusing()

    def until_met() -> None:
        deadline = time.monotonic() + 60
        while not port.is_met:
            assert time.monotonic() < deadline, "the thread did not look"
            time.sleep(0.001)

    with holdfast.run("r", store=holdfast.Store(port)) as run:
        run.options(key="long").step("long", until_met)
    test_a_call_that_takes_long_shows(tmp_path)
