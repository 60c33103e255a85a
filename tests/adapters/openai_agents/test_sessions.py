"""Sessions that Holdfast keeps: the SDK's protocol, what they cost, and that no run writes to one twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from agents.memory import Session, SessionSettings
from tests.adapters.openai_agents.scripted import Scripted, say

import holdfast
from holdfast.adapters.openai_agents import HoldfastSession, durable


def item(text: str) -> Any:
    return {"role": "user", "content": text}


def test_it_is_a_session_of_the_sdk(tmp_path: Path) -> None:
    """Get, add, pop and clear, with a limit; another object of the same id sees the same; clearing leaves nothing."""

    async def main() -> None:
        session, other = (HoldfastSession("alice", store=tmp_path / "s.db") for _ in range(2))
        assert isinstance(session, Session)
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([item("a"), item("b")])
        await other.add_items([item("c")])
        await session.add_items([])
        assert [one["content"] for one in await session.get_items()] == ["a", "b", "c"]
        assert [one["content"] for one in await other.get_items(2)] == ["b", "c"]
        assert await other.get_items(0) == []
        assert await session.pop_item() == item("c")
        assert await other.get_items() == [item("a"), item("b")]
        assert await HoldfastSession("bob", store=tmp_path / "s.db").get_items() == []
        await session.clear_session()
        assert await other.get_items() == []
        await other.add_items([item("d")])
        assert await session.get_items() == [item("d")]
        assert await HoldfastSession("alice", store=tmp_path / "s.db").get_items() == [item("d")]

    asyncio.run(main())


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    """Each has read the session before the other wrote to it: both find their items, and each other's."""

    async def main() -> list[Any]:
        one, two = (HoldfastSession("alice", store=tmp_path / "s.db") for _ in range(2))
        await one.get_items()
        await two.get_items()
        for number in range(5):
            await one.add_items([item(f"one {number}")])
            await two.add_items([item(f"two {number}")])
        return await one.get_items()

    contents = [one["content"] for one in asyncio.run(main())]
    assert sorted(contents) == sorted([f"{who} {n}" for who in ("one", "two") for n in range(5)])


def test_a_change_costs_what_it_changes(tmp_path: Path) -> None:
    """The hundredth turn writes no more than the first, also inside of runs, which do not keep what they read."""

    async def turn(number: int) -> int:
        before = size(tmp_path / "s.db")
        async with durable(f"r{number}", store=tmp_path / "s.db"):
            session = HoldfastSession("alice")
            await session.get_items()
            await session.add_items([item(f"{number} {'x' * 2000}")])
        return size(tmp_path / "s.db") - before

    def size(path: Path) -> int:
        store = holdfast.store(path)
        records = store._port.scan_records("ledger/session/alice", limit=1000)
        runs = [info.run for info in store.runs()]
        return sum(len(r.body) for r in records) + sum(store._port.measure(run).bytes for run in runs)

    costs = [asyncio.run(turn(number)) for number in range(30)]
    assert costs[-1] < costs[0] * 1.2


def test_a_run_sees_the_session_as_it_was(tmp_path: Path) -> None:
    """A run that is run again reads what it read, whatever was added since, and adds nothing twice."""
    model = Scripted(lambda said: [say(f"{len(said)} items")])

    async def main(run: str) -> str:
        async with durable(run, store=tmp_path / "s.db", if_finished="reopen"):
            agent: Agent[Any] = Agent(name="Desk", model=model)
            session = HoldfastSession("alice")
            result = await Runner.run(agent, f"I am {run}", session=session)
            popped = await session.pop_item()
            assert popped is not None
            await session.add_items([popped])
        return str(result.final_output)

    assert asyncio.run(main("first")) == "1 items"
    assert asyncio.run(main("second")) == "3 items"
    assert asyncio.run(main("first")) == "1 items"
    assert asyncio.run(main("second")) == "3 items"
    assert model.asked == 2
    items = asyncio.run(HoldfastSession("alice", store=tmp_path / "s.db").get_items())
    assert [one.get("role") for one in items] == ["user", "assistant"] * 2


def test_a_session_cleared_in_a_run_is_cleared_once(tmp_path: Path) -> None:
    """What was added since is not taken away when the run is run again."""

    async def main() -> None:
        async with durable("r", store=tmp_path / "s.db", if_finished="reopen"):
            await HoldfastSession("alice").clear_session()

    session = HoldfastSession("alice", store=tmp_path / "s.db")
    asyncio.run(session.add_items([item("old")]))
    asyncio.run(main())
    asyncio.run(session.add_items([item("new")]))
    asyncio.run(main())
    assert asyncio.run(session.get_items()) == [item("new")]


def test_settings_and_bounds(tmp_path: Path) -> None:
    """The SDK's limit of items counts; an item that no record can hold is refused, and so is a name nobody can type."""
    session = HoldfastSession("alice", store=tmp_path / "s.db")
    session.session_settings = SessionSettings(limit=1)
    model = Scripted(lambda said: [say(f"{len(said)} items")])
    agent: Agent[Any] = Agent(name="Desk", model=model)
    asyncio.run(session.add_items([item("a"), item("b"), item("c")]))
    assert asyncio.run(Runner.run(agent, "Hi", session=session)).final_output == "2 items"
    with pytest.raises(holdfast.TooLarge):
        asyncio.run(session.add_items([item("x" * 2_000_000)]))
    with pytest.raises(holdfast.BadName):
        HoldfastSession("")
