"""Tools that need an approval: the run asks a person, or the program does, by the framework's own requests."""

import asyncio
from typing import Any

import pytest
from agent_framework import Message, tool
from tests.adapters.agent_framework.runs import in_run, ledger, twice
from tests.adapters.agent_framework.scripted import make_agent, pay, write
from tests.support.model_server import Asked, Provider, Reply, ToolCall

import holdfast
from holdfast.adapters.agent_framework import durable

CALLS = (ToolCall("refund", '{"n": 3}', "c"), ToolCall("pay", '{"n": 1}', "d"))


@tool(approval_mode="always_require")
def refund(n: int) -> str:
    """Pays back."""
    write(f"refund {n}")
    return f"did refund {n}"


def answer(asked: Asked) -> Reply:
    seen = [said for role, said in asked.messages if role == "tool"]
    return Reply(text=" | ".join(seen)) if seen else Reply(text="", calls=CALLS)


@pytest.mark.parametrize("is_approved", [True, False])
def test_the_run_asks(provider: Provider, url: str, is_approved: bool) -> None:
    """It is parked until a person decides; the call beside it is made, and is not made again."""
    provider.script.answering = answer

    async def work() -> Any:
        return (await durable(make_agent("chat", provider.base_url, [refund, pay])).run("go")).text

    for _ in range(2):
        with pytest.raises(holdfast.AwaitingAnswer):
            asyncio.run(in_run(url, work))
    assert ledger() == ["pay 1"]
    store = holdfast.store(url)
    store.answer("a", is_approved, by="Ada")
    said = twice(url, work)
    assert ("did refund 3" in said) is is_approved
    assert ("Ada" in said) is not is_approved
    assert ledger() == (["pay 1", "refund 3"] if is_approved else ["pay 1"])
    assert len(provider.calls) == 2


def test_the_program_asks(provider: Provider, url: str) -> None:
    """With ``approvals="program"`` it gets the framework's requests, with the same ids in every attempt."""
    provider.script.answering = answer
    ids: list[str] = []

    async def work() -> Any:
        agent = durable(make_agent("chat", provider.base_url, [refund, pay]), approvals="program")
        session = agent.create_session()
        result = await agent.run("go", session=session)
        (request,) = result.user_input_requests
        ids.append(request.id)
        said = request.to_function_approval_response(approved=True)
        return (await agent.run(Message("user", [said]), session=session)).text

    assert "did refund 3" in twice(url, work)
    assert ids[0] == ids[1]
    assert sorted(ledger()) == ["pay 1", "refund 3"]
    assert len(provider.calls) == 2
