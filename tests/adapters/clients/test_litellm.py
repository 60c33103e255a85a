"""``litellm``'s functions beside chat completions: responses, embeddings, and what passes or is refused."""

import asyncio
from collections.abc import Iterator
from typing import Any

import litellm
import pytest
from tests.adapters.clients.drivers import ASK, QUICK
from tests.adapters.clients.litellm_drivers import LiteLlm
from tests.support.model_server import Provider, Reply, ToolCall, faults

import holdfast

SAID: Any = [{"role": "user", "content": ASK}]


@pytest.fixture
def reach(provider: Provider) -> Iterator[dict[str, Any]]:
    """How the functions reach the scripted provider."""
    driver = LiteLlm()
    driver.connect(provider.url)
    yield driver.reach
    asyncio.set_event_loop(None)
    driver.loop.close()
    driver.below.close()


def test_calls_of_tools_are_replayed(provider: Provider, reach: dict[str, Any], url: str) -> None:
    """In the module's own types, whole and streamed."""
    calls = Reply(text="", reasoning="Let me see.", calls=(ToolCall("weather", '{"city": "Ulm"}'),))
    provider.script.reply(calls, calls)
    functions = holdfast.wrap(litellm)
    heard = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            answer = functions.completion(messages=SAID, **reach)
            chunks = list(functions.completion(messages=SAID, stream=True, **reach))
            heard.append((answer, chunks))
    (first, live), (again, recorded) = heard
    assert holdfast.replayed(again)
    assert not holdfast.replayed(first)
    assert type(again) is litellm.ModelResponse
    assert again.choices[0].message == first.choices[0].message
    assert again.choices[0].message.reasoning_content == "Let me see."
    assert {type(chunk) for chunk in live + recorded} == {litellm.ModelResponseStream}
    calls_in = [call for chunk in recorded for call in chunk.choices[0].delta.tool_calls or ()]
    assert [call.function.arguments for call in calls_in] == ['{"city": "Ulm"}']
    assert len(provider.calls) == 2


def test_vectors_are_journaled(provider: Provider, reach: dict[str, Any], url: str) -> None:
    """An embedding is a model call."""
    functions = holdfast.wrap(litellm)
    vectors = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            vectors.append(functions.embedding(input=["a", "b"], **reach).data)
    assert vectors[0] == vectors[1]
    assert len(provider.calls) == 1


def test_what_costs_is_refused_and_the_rest_passes(reach: dict[str, Any], url: str) -> None:
    """A function that sends requests has an async twin; others belong to the module."""
    functions = holdfast.wrap(litellm)
    assert functions.token_counter is litellm.token_counter
    assert functions.ModelResponse is litellm.ModelResponse
    with holdfast.run("a", store=url):
        for name in ("image_generation", "text_completion", "completion_with_retries", "batch_completion"):
            with pytest.raises(holdfast.Unjournaled, match=name):
                getattr(functions, name)(**reach)
        assert functions.token_counter(model="gpt-4o", text="a b c")


def test_a_fallback_is_another_model(provider: Provider, reach: dict[str, Any], url: str) -> None:
    """It is asked where the first is not there."""
    provider.script.models = ("spare",)
    functions = holdfast.wrap(litellm, fallbacks=["spare"], patience=QUICK)
    with holdfast.run("a", store=url):
        assert functions.completion(messages=SAID, **reach).model == "spare"
    assert [exchange.body["model"] for exchange in provider.calls] == ["m", "spare"]


def test_an_end_that_was_made_up_is_none(provider: Provider, reach: dict[str, Any], url: str) -> None:
    """``litellm`` ends a stream that was cut off as if it were whole; the answer goes on all the same."""
    whole = litellm.completion(messages=SAID, **reach).choices[0].message.content
    provider.script.faults[1] = faults.early_end(after=10)
    functions = holdfast.wrap(litellm, patience=QUICK)
    with holdfast.run("a", store=url):
        chunks = functions.completion(messages=SAID, stream=True, **reach)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == whole
    assert len(provider.calls) == 3
