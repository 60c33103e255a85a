"""Tools that need approval: the run parks until a person has answered, and the answer counts for exactly that call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, Runner, function_tool
from tests.adapters.openai_agents.scripted import Scripted, call, results, say

import holdfast
from holdfast.adapters.openai_agents import durable


class Shop:
    """An agent whose tools need approval, and what they did."""

    def __init__(self, path: Path, policy: Any = True) -> None:
        self.path, self.policy = path, policy
        self.done: list[str] = []
        self.asked = 0

    def agent(self) -> Agent[Any]:
        def delete(what: str) -> str:
            self.done.append(what)
            return f"deleted {what}"

        def turn(said: list[Any]) -> list[Any]:
            self.asked += 1
            found = results(said)
            calls = [call("c1", "delete", what="a"), call("c2", "delete", what="b"), call("c3", "look")]
            return [say("; ".join(found))] if found else calls

        @function_tool
        def look() -> str:
            self.done.append("look")
            return "seen"

        tool: FunctionTool = function_tool(delete, needs_approval=self.policy)
        return Agent(name="Desk", tools=[tool, look], model=Scripted(turn))

    async def run(self, *, streamed: bool = False) -> Any:
        async with durable("r", store=self.path):
            if not streamed:
                return (await Runner.run(self.agent(), "Begin.")).final_output
            result = Runner.run_streamed(self.agent(), "Begin.")
            async for _ in result.stream_events():
                pass
            return result.final_output

    def answer(self, question: str, value: bool, reason: str = "") -> None:
        holdfast.store(self.path).answer("r", value, question=question, reason=reason, by="ada")


@pytest.mark.parametrize("streamed", [False, True])
def test_the_run_parks_until_a_person_has_answered(tmp_path: Path, streamed: bool) -> None:
    """Two calls are asked about at once, each by its arguments; approved, one is made once; denied, the model is told why.

    The tool beside them is done, and not in doubt: the SDK would cancel it.
    """
    shop = Shop(tmp_path / "s.db")
    with pytest.raises(holdfast.AwaitingAnswer):
        asyncio.run(shop.run(streamed=streamed))
    assert shop.done == ["look"]
    asked = {q.question: q.id for q in holdfast.store(shop.path).questions()}
    assert sorted(asked) == ['May delete(what="a") run?', 'May delete(what="b") run?']
    shop.answer(asked['May delete(what="a") run?'], True)
    with pytest.raises(holdfast.AwaitingAnswer):
        asyncio.run(shop.run(streamed=streamed))
    shop.answer(asked['May delete(what="b") run?'], False, "b is mine")
    for _ in range(2):
        output = asyncio.run(shop.run(streamed=streamed))
        assert output == "deleted a; denied by ada: b is mine; seen"
    assert shop.done == ["look", "a"]
    assert shop.asked == 2


def test_what_the_policy_said_counts_whenever_it_is_asked(tmp_path: Path) -> None:
    """A policy that looks at the clock: what it said is recorded, or a denial by night would be forgotten by day.

    Planted: the policy asked anew at each attempt; the tool that was denied ran.
    """
    by_night = [True]

    async def policy(_: Any, arguments: dict[str, Any], call_id: str) -> bool:
        assert (arguments["what"], call_id) in [("a", "c1"), ("b", "c2")]
        return by_night[0] and arguments["what"] == "a"

    shop = Shop(tmp_path / "s.db", policy)
    with pytest.raises(holdfast.AwaitingAnswer):
        asyncio.run(shop.run())
    by_night[0] = False
    shop.answer(holdfast.store(shop.path).questions()[0].id, False)
    assert asyncio.run(shop.run()) == "denied by ada; deleted b; seen"
    assert sorted(shop.done) == ["b", "look"]


def test_an_agent_as_a_tool_and_its_tools_can_need_approval(tmp_path: Path) -> None:
    """Asked for the agent, then for the tool inside it; denied, neither is."""
    done: list[str] = []

    def agent(policy: bool) -> Agent[Any]:
        @function_tool(needs_approval=True)
        def delete() -> str:
            done.append("delete")
            return "deleted"

        def turn(said: list[Any]) -> list[Any]:
            return [say(results(said)[-1])] if results(said) else [call("c9", "delete")]

        inner: Agent[Any] = Agent(name="Inner", tools=[delete], model=Scripted(turn))
        tool = inner.as_tool("delegate", "", needs_approval=policy)
        outer = Scripted(
            lambda said: [say(results(said)[-1])] if results(said) else [call("c1", "delegate", input="x")]
        )
        return Agent(name="Outer", tools=[tool], model=outer)

    async def run(policy: bool) -> Any:
        async with durable(f"r{policy}", store=tmp_path / "s.db"):
            return (await Runner.run(agent(policy), "Begin.")).final_output

    store = holdfast.store(tmp_path / "s.db")
    with pytest.raises(holdfast.AwaitingAnswer, match="delegate"):
        asyncio.run(run(True))
    store.answer("rTrue", False, by="ada")
    assert asyncio.run(run(True)) == "denied by ada"
    with pytest.raises(holdfast.AwaitingAnswer, match="delete"):
        asyncio.run(run(False))
    store.answer("rFalse", True, by="ada")
    assert asyncio.run(run(False)) == "deleted"
    assert done == ["delete"]
