"""Holdfast: a plain loop whose work is ``run.step``."""

import asyncio
from pathlib import Path
from uuid import uuid4

import holdfast
from bench.peers.task import STEPS, text_of, work


def agent(place: Path, url: str) -> None:
    with holdfast.run("agent", store=url or place / "holdfast.db") as run:
        history = [run.step("work", work, number) for number in range(STEPS + 1)]
        assert len(history) > STEPS


async def _worked(number: int) -> str:
    return text_of(number)


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    async def one(name: str) -> None:
        async with holdfast.run(name, store=url or place / "holdfast.db") as run:
            for number in range(steps):
                await run.step("work", _worked, number)

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, names))

    asyncio.run(all_of_them())


def fork(place: Path, url: str, at: int) -> None:
    store = holdfast.store(url or place / "holdfast.db")
    store.fork(f"agent@{at}", as_=f"branch-{uuid4().hex[:8]}")


def diff(place: Path, url: str, at: int) -> None:
    store = holdfast.store(url or place / "holdfast.db")
    found = store.diff(f"agent@{at}", "agent")
    assert found.relation


def prune(place: Path, url: str, names: list[str]) -> None:
    """By age: what was made last is kept, so these go."""
    store = holdfast.store(url or place / "holdfast.db")
    rest = len(store.runs()) - len(names)
    report = store.prune(policy=holdfast.Retention(finished=holdfast.Keep(last=rest)))
    assert len(report.runs) >= len(names)
