"""Random programs write the same journal whether their calls take the short path of a plain step or the long one.

Each program is entered three times. The first two attempts are cut off somewhere, so that the next one replays, repeats
failures, and finds effects in doubt. Attempts that take the short path and such that take the long one, in any order,
leave the same events and get the same answers: in a thread, and in a task.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from inspect import isawaitable
from random import Random
from typing import Any

import pytest
from tests.support.examples import examples

import holdfast
from holdfast.api import async_run as api_async_run
from holdfast.api import run as api_run
from holdfast.engine.journal.journal import read_all
from holdfast.engine.steps import call_identity
from holdfast.engine.steps.plain_step import step_here, step_in_task
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import StopSignal
from holdfast.model.calls import CallOptions
from holdfast.model.event_fields import contents_of
from holdfast.stores.url import open_store

ATTEMPTS = 3


class Cut(BaseException):
    """Cuts off what is under way, as an interrupt does."""


class Again(Exception):
    """Ends an attempt without finishing the run."""


def plain(value: Any, more: Any = None) -> Any:
    return [value, more]


def large(value: int) -> str:
    return f"{value}" * 40_000


def fail(value: int) -> None:
    raise ValueError(f"no {value}")


def cut(value: int) -> None:
    raise Cut


def unstorable(value: int) -> Any:
    return object()


def nothing() -> None:
    return None


def keyed(value: int, idempotency_key: str = "") -> bool:
    return bool(idempotency_key)


FUNCTIONS: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (plain, (1,)),
    (plain, (1, 2)),
    (plain, ("\ud800",)),
    (plain, ([1, {"a": (2,)}],)),
    (large, (7,)),
    (fail, (3,)),
    (cut, (4,)),
    (unstorable, (5,)),
    (nothing, ()),
    (keyed, (6,)),
    (len, ("abc",)),
)


async def plain_in_task(value: Any, more: Any = None) -> Any:
    return [value, more]


async def large_in_task(value: int) -> str:
    await asyncio.sleep(0)
    return f"{value}" * 40_000


async def fail_in_task(value: int) -> None:
    raise ValueError(f"no {value}")


async def cut_in_task(value: int) -> None:
    raise Cut


async def unstorable_in_task(value: int) -> Any:
    return object()


async def nothing_in_task() -> None:
    return None


async def keyed_in_task(value: int, idempotency_key: str = "") -> bool:
    return bool(idempotency_key)


IN_TASK: dict[Callable[..., Any], Callable[..., Any]] = {
    plain: plain_in_task,
    large: large_in_task,
    fail: fail_in_task,
    cut: cut_in_task,
    unstorable: unstorable_in_task,
    nothing: nothing_in_task,
    keyed: keyed_in_task,
}
"""The same functions for tasks. A plain one is called in a thread, and takes the long way."""


def short(held: Any, call_options: CallOptions, name: str, fn: Any, args: Any, kwargs: Any) -> Any:
    return step_here(held, call_options, name, fn, args, kwargs)


def long(held: Any, call_options: CallOptions, name: str, fn: Any, args: Any, kwargs: Any) -> Any:
    return drive(step(held, BLOCKING, call_options, name, fn, args, kwargs))


def short_in_task(held: Any, call_options: CallOptions, name: str, fn: Any, args: Any, kwargs: Any) -> Any:
    return step_in_task(held, call_options, name, fn, args, kwargs)


def long_in_task(held: Any, call_options: CallOptions, name: str, fn: Any, args: Any, kwargs: Any) -> Any:
    return step(held, AWAITING, call_options, name, fn, args, kwargs)


SHORT, LONG = (short, short_in_task), (long, long_in_task)


def made_program(random: Random) -> Callable[[Any, int], Any]:
    """A program of up to thirty calls, and how many of them each attempt makes."""
    calls, some = [], random.sample(FUNCTIONS, 2)  # so that most calls are made again and again
    for _ in range(random.randint(4, 30)):
        way = random.choice(["step"] * 7 + ["once", "options", "nested", "mark", "checkpoint"])
        calls.append((way, *random.choice(some), random.choice("aaab")))
    lengths = [random.randint(0, len(calls)) for _ in range(ATTEMPTS - 1)] + [len(calls)]

    def call(run: Any, way: str, fn: Callable[..., Any], args: tuple[Any, ...], name: str) -> Any:
        in_task = isinstance(run, holdfast.AsyncRun)
        if in_task:
            fn = IN_TASK.get(fn, fn)
        if way == "once":
            return run.once(name, fn, *args)
        if way == "options":
            return run.options(retries=1, idempotent=True).step(name, fn, *args)
        if way == "nested":

            def outer() -> Any:
                return run.step(name, fn, *args)

            async def outer_in_task() -> Any:
                return await run.step(name, fn, *args)

            return run.step(f"outer {name}", outer_in_task if in_task else outer)
        if way == "mark":
            return run.think(name)
        return run.checkpoint({"name": name}) if way == "checkpoint" else run.step(name, fn, *args)

    async def program(run: Any, attempt: int) -> list[str]:
        told = []
        for one in calls[: lengths[attempt]]:
            try:
                answer = call(run, *one)
                told.append(repr(await answer if isawaitable(answer) else answer)[:200])
            except StopSignal as stop:  # it tells a time
                told.append(type(stop).__name__)
            except (Exception, Cut) as error:
                told.append(f"{type(error).__name__} {error}"[:200])
        return told

    return program


def walked(
    monkeypatch: pytest.MonkeyPatch, seed: int, ways: list[Any], url: str, *, in_task: bool = False
) -> tuple[list[list[str]], list[str]]:
    """What each attempt was told, and the events of steps that they left."""
    program = made_program(Random(seed))
    monkeypatch.setattr(call_identity, "_plain", {})
    answers = []

    async def attempted(attempt: int) -> None:
        async with holdfast.run("r", store=url) as run:
            answers.append(await program(run, attempt))
            raise Again

    for attempt, way in enumerate(ways):
        monkeypatch.setattr(api_run, "step_here", way[0])
        monkeypatch.setattr(api_async_run, "step_in_task", way[1])
        with suppress(Again):
            if in_task:
                asyncio.run(attempted(attempt))
            else:
                with holdfast.run("r", store=url) as run:
                    answers.append(drive(program(run, attempt)))
                    raise Again
    events = [
        event
        for event in read_all(open_store(url), "r")
        if event.kind.split(".")[0] in {"step", "mark", "loop"}
    ]
    return answers, [
        f"{event.seq} {event.kind} {event.name} {event.key} {_told(event.body)}" for event in events
    ]


def _told(body: bytes) -> str:
    contents = contents_of(body)
    for name in ("ms", "idempotency_key", "noted", "program"):
        contents.pop(name, None)
    if isinstance(contents.get("error"), dict):
        contents["error"].pop("traceback", None)
    return repr(contents)


@pytest.mark.parametrize("seed", range(examples(30)))
def test_both_ways_write_the_same_journal(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short ways, long ways, and both in turn: the same events, and the same answers to the program.

    Planted: a short path that leaves out what features add to an outcome, one that does not free the number of a call
    that failed, and one that forgets to defer or write the intent; each failed some of these.
    """

    first = walked(monkeypatch, seed, [LONG] * ATTEMPTS, f"memory://plain-{seed}")
    for number, ways in enumerate(([SHORT] * ATTEMPTS, [SHORT, LONG, SHORT], [LONG, SHORT, LONG])):
        assert walked(monkeypatch, seed, ways, f"memory://plain-{seed}-{number}") == first


@pytest.mark.parametrize("seed", range(examples(30)))
def test_both_ways_of_a_task_write_the_same_journal(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, awaited.

    Planted: a short path that leaves out what features add to an outcome, one that forgets the intent of an effect, and one
    that does not leave a call that failed.
    """
    first = walked(monkeypatch, seed, [LONG] * ATTEMPTS, f"memory://task-{seed}", in_task=True)
    for number, ways in enumerate(([SHORT] * ATTEMPTS, [SHORT, LONG, SHORT], [LONG, SHORT, LONG])):
        assert walked(monkeypatch, seed, ways, f"memory://task-{seed}-{number}", in_task=True) == first
