"""The events of steps, byte for byte: a faster way to write them writes the same.

``written_events.txt`` was recorded by the code before its path was made short. Left out of it are what a
process or the source of this file decides: idempotency keys, tracebacks, noted premises and
the program's modules.
"""

import asyncio
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from orjson import dumps, loads

import holdfast
from holdfast.engine.journal.journal import read_all
from holdfast.stores.url import open_store

GOLDEN = Path(__file__).with_name("written_events.txt")
_KEY = re.compile(rb'"idempotency_key":"[0-9a-f]{32}"')
_TRACEBACK = re.compile(rb'"traceback":"(?:[^"\\]|\\.)*"')
_OF_THE_SOURCE = {"noted", "program"}
Rule = Callable[[Any], Any]


def plain(value: Any = 1, *, more: Any = None) -> Any:
    return value if more is None else [value, more]


def keyed(value: int, idempotency_key: str = "") -> int:
    return value + len(idempotency_key)


def fail(value: int) -> None:
    raise ValueError(f"no {value}")


class Thing:
    """An object with a method."""

    def work(self, value: int) -> int:
        return value + 1


def _failing(run: Any) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="no 3"):
            run.step("fail", fail, 3)
    with pytest.raises(ValueError, match="no 4"):
        run.options(retries=1).step("fail", fail, 4)


def _nested(run: Any) -> None:
    def outer(count: int) -> int:
        return sum(run.step("inner", plain, number) for number in range(count))

    with run.scope("part"):
        run.step("outer", outer, 3)
        with run.scope("deep"):
            run.step("plain", plain, 3)


def _unstorable(run: Any) -> None:
    with pytest.raises(holdfast.NotStorable):
        run.step("plain", lambda: object())  # noqa: PLW0108 - an inner function without data
    with pytest.raises(holdfast.NotStorable):
        run.once("once", lambda: [1, object()])


VALUES: list[Any] = [Decimal(1), "ä\n", "\ud800", 1 << 70, b"x", None, {}]
PROGRAMS: dict[str, Rule] = {
    "reads": lambda run: [run.step("plain", plain, number) for number in (1, 2, 1, 1)],
    "no arguments": lambda run: [run.step("plain", plain), run.step("plain", plain)],
    "keywords": lambda run: run.step("plain", plain, 1, more=[2.5, {"b": 1, "a": (1, 2)}]),
    "values": lambda run: [run.step("plain", plain, value) for value in VALUES],
    "large": lambda run: run.step("plain", plain, "x" * 4_000),
    "blob": lambda run: run.step("plain", lambda: "y" * 200_000),
    "captured": lambda run: [run.step("plain", lambda n=n: n) for n in range(2)],
    "partial and method": lambda run: [
        run.step("plain", partial(plain, 4)),
        run.step("work", Thing().work, 5),
        run.step("plain", len, "abc"),
    ],
    "ephemeral": lambda run: run.step("plain", plain, holdfast.ephemeral(7)),
    "once": lambda run: [run.once("once", keyed, number) for number in (1, 2, 1)],
    "options": lambda run: [
        run.options(key="one").step("plain", plain, 1),
        run.options(key="one").step("plain", plain, 2),
        run.options(idempotent=True).step("keyed", keyed, 1),
        run.options(ignore=("value",)).step("plain", plain, 9),
        run.options(timeout_s=60).step("plain", plain, 10),
        run.options(refetchable=True).step("plain", plain, 11),
        run.options(retries=2).step("plain", plain, 12),
    ],
    "failing": _failing,
    "nested": _nested,
    "unstorable": _unstorable,
    "between others": lambda run: [
        run.step("plain", plain, 1),
        run.think("hm"),
        run.step("plain", plain, 2),
        run.checkpoint({"a": 1}),
        run.step("plain", plain, 3),
    ],
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.usefixtures("clock")
def test_the_events_of_steps_are_written_as_ever(url: str, program: str) -> None:
    """Each program writes what it wrote before; and each event has its checksum and its link."""
    with holdfast.run("r", store=url) as run:
        PROGRAMS[program](run)
    assert _shown(url) == _golden()[program]


async def _awaited(url: str) -> None:
    async def work(value: int) -> int:
        return value

    async with holdfast.run("r", store=url) as run:
        for number in (1, 2, 1):
            await run.step("plain", plain, number)
            await run.step("work", work, number)
        await run.once("once", keyed, 3)


@pytest.mark.usefixtures("clock")
def test_the_events_of_awaited_steps_are_written_as_ever(url: str) -> None:
    """The same in an async run."""
    asyncio.run(_awaited(url))
    assert _shown(url) == _golden()["awaited"]


def _shown(url: str) -> list[str]:
    events = read_all(open_store(url), "r")  # it checks the checksums and the chain
    return [
        f"{event.seq} {event.at} {event.kind} {event.name} {event.key} {event.fence} {_body(event.body)}"
        for event in events
        if event.kind.startswith("step.")
    ]


def _body(body: bytes) -> str:
    head, _, data = body.partition(b"\n")
    fields = loads(head)
    if not _OF_THE_SOURCE.isdisjoint(fields):
        head = dumps({name: value for name, value in fields.items() if name not in _OF_THE_SOURCE})
    head = _KEY.sub(b'"idempotency_key":"-"', head)
    data = _TRACEBACK.sub(b'"traceback":"-"', data)
    return f"{head.decode()} ¶ {data.decode()}".rstrip()


def _golden() -> dict[str, list[str]]:
    parts = GOLDEN.read_text(encoding="utf-8").split("# ")[1:]
    return {title: lines for title, *lines in (part.strip().split("\n") for part in parts)}
