"""Mistral: strict about its requests, thoughts as parts of a content, agents, the middle of a text, embeddings."""

import json
from typing import Any

import pytest
from tests.adapters.clients.drivers import ASK, Agent, Driver, alone, attempt, events
from tests.adapters.clients.mistral_drivers import AsyncMistral, Mistral
from tests.support.model_server import Provider, Reply, ToolCall, faults

import holdfast
from holdfast.model.events import Kind

BOTH = pytest.mark.parametrize("driver", [Mistral(), AsyncMistral()], ids=repr)
SAID: Any = [{"role": "user", "content": ASK}]


async def call(agent: Agent, part: str, method: str, **request: Any) -> Any:
    """A method of the client, blocking or async."""
    resource = getattr(agent.client, part)
    if agent.driver.is_async:
        return await getattr(resource, f"{method}_async")(**request)
    return getattr(resource, method)(**request)


async def stream(agent: Agent, part: str, **request: Any) -> list[Any]:
    """The chunks of a stream."""
    given = await call(agent, part, "stream", **request)
    if agent.driver.is_async:
        async with given as opened:
            return [event.data async for event in opened]
    with given as opened:
        return [event.data for event in opened]


def twice(driver: Driver, provider: Provider, url: str, work: Any) -> tuple[Any, Any]:
    """What a piece of work gives live, and in a replay."""
    found: list[Any] = []

    async def whole(agent: Agent) -> None:
        found.append(await work(agent))
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            attempt(driver, provider, url, whole)
    first, again = found
    return first, again


@BOTH
def test_nothing_is_added_to_a_request(driver: Driver, provider: Provider, url: str) -> None:
    """The provider refuses fields that it does not know; it gets what the plain client sends."""

    async def work(agent: Agent) -> None:
        await agent.ask()
        await agent.read()

    alone(driver, provider, work)
    attempt(driver, provider, url, work)
    plain, plain_stream, wrapped, wrapped_stream = [exchange.body for exchange in provider.calls]
    assert (wrapped, wrapped_stream) == (plain, plain_stream)


@BOTH
def test_the_usage_is_with_the_end_of_a_stream(driver: Driver, provider: Provider, url: str) -> None:
    """In a replay, too; and no chunk is without a choice, which its provider never sends."""

    async def work(agent: Agent) -> list[Any]:
        return await stream(agent, "chat", model="m", messages=SAID)

    first, again = twice(driver, provider, url, work)
    assert first[-1].usage.completion_tokens == again[-1].usage.completion_tokens == 40
    assert all(chunk.choices for chunk in again)
    assert again[-1].choices[0].finish_reason == "stop"
    assert events(url, Kind.STEP_FINISHED)[0]["usage"]["output_tokens"] == 40


@BOTH
def test_tool_calls_are_replayed(driver: Driver, provider: Provider, url: str) -> None:
    """Whole and streamed."""
    reply = Reply("", calls=(ToolCall("note", '{"text": "tide"}'),))
    provider.script.reply(reply, reply)

    async def work(agent: Agent) -> Any:
        whole = await call(agent, "chat", "complete", model="m", messages=SAID)
        chunks = await stream(agent, "chat", model="m", messages=SAID)
        calls = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or ()]
        return whole.choices[0].message.tool_calls, "".join(str(one.function.arguments) for one in calls)

    first, again = twice(driver, provider, url, work)
    assert first == again
    assert json.loads(again[1]) == {"text": "tide"}
    assert len(provider.calls) == 2


def _thinking(text: str) -> list[dict[str, Any]]:
    return [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]


def _chunks(*contents: Any, usage: Any = None) -> list[dict[str, Any]]:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas = [
        {**head, "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]}
        for content in contents
    ]
    end = {**head, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]}
    return [
        *deltas,
        {**end, "usage": usage or {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}},
    ]


@BOTH
def test_thoughts_are_parts_of_a_content(driver: Driver, provider: Provider, url: str) -> None:
    """They are recorded as reasoning, and replayed as parts: thoughts first, then the text."""
    provider.script.frames = _chunks(_thinking("The "), _thinking("tide."), "It ", "turns.")

    async def work(agent: Agent) -> tuple[str, str]:
        thoughts = text = ""
        for chunk in await stream(agent, "chat", model="m", messages=SAID):
            content = chunk.choices[0].delta.content
            for part in content if isinstance(content, list) else []:
                thoughts += "".join(one.text for one in part.thinking) if part.type == "thinking" else ""
                text += part.text if part.type == "text" else ""
            text += content if isinstance(content, str) else ""
        return thoughts, text

    first, again = twice(driver, provider, url, work)
    assert first == again == ("The tide.", "It turns.")
    store = holdfast.store(url)
    trace = store.thoughts("a")
    assert [thought.text for event in store.events("a") for thought in trace.add(event)] == ["The tide."]


@BOTH
def test_agents_and_the_middle_of_a_text_are_journaled(driver: Driver, provider: Provider, url: str) -> None:
    """Whole and streamed; a prompt that is cut off is begun again, because there is no message to continue."""

    async def work(agent: Agent) -> Any:
        given = await call(agent, "agents", "complete", agent_id="ag:1", messages=SAID)
        chunks = await stream(agent, "agents", agent_id="ag:1", messages=SAID)
        filled = await call(agent, "fim", "complete", model="m", prompt="def f(", suffix="return a")
        pieces = await stream(agent, "fim", model="m", prompt="def f(", suffix="return a")
        return (
            given.choices[0].message.content,
            "".join(chunk.choices[0].delta.content or "" for chunk in chunks),
            filled.choices[0].message.content,
            "".join(chunk.choices[0].delta.content or "" for chunk in pieces),
        )

    first, again = twice(driver, provider, url, work)
    assert first == again
    assert first[0] == first[1] != first[2] == first[3]
    assert len(provider.calls) == 4
    names = [event.name for event in holdfast.store(url).events("a") if event.kind == Kind.STEP_FINISHED]
    assert names == ["agents.completions", "agents.completions", "fim.completions", "fim.completions"]


@BOTH
def test_embeddings_are_journaled(driver: Driver, provider: Provider, url: str) -> None:
    """In the client's own type."""

    async def work(agent: Agent) -> Any:
        return await call(agent, "embeddings", "create", model="m", inputs=["salt", "tide"])

    first, again = twice(driver, provider, url, work)
    assert first == again
    assert len(again.data) == 2
    assert len(provider.calls) == 1


@BOTH
def test_a_prefill_says_that_it_is_one(driver: Driver, provider: Provider, url: str) -> None:
    """Only if it is asked for; the provider takes an assistant's last message only as a prefix."""
    undisturbed = alone(driver, provider, Agent.read)
    provider.script.reply(Reply(fault=faults.cut(after=15)))
    provider.script.reply(Reply(undisturbed))
    assert attempt(driver, provider, url, Agent.read, prefill=True) == undisturbed
    last = provider.calls[-1].body["messages"][-1]
    assert (last["role"], last["prefix"]) == ("assistant", True)
    assert undisturbed.startswith(last["content"])


@BOTH
def test_retries_of_the_client_do_not_ask_again(driver: Driver, provider: Provider, url: str) -> None:
    """It has none unless it is told to; then they sit above the journal, and a refusal is one request each."""
    from mistralai.client.utils import BackoffStrategy, RetryConfig

    provider.script.reply(Reply(fault=faults.bad_request()))
    retries = RetryConfig("backoff", BackoffStrategy(1, 1, 1.0, 200), False)

    async def work(agent: Agent) -> Any:
        return await call(agent, "chat", "complete", model="m", messages=SAID, retries=retries)

    with pytest.raises(driver.refusals[400]):
        attempt(driver, provider, url, work)
    assert len(provider.calls) == 1
