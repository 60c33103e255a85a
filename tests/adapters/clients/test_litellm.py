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


def _events(events: list[Any]) -> str:
    """The text of a stream of the responses API."""
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def _reach(reach: dict[str, Any]) -> dict[str, Any]:
    """The functions of the responses API have clients of their own."""
    return {name: value for name, value in reach.items() if name not in {"client", "max_retries"}}


def test_responses_are_replayed(provider: Provider, reach: dict[str, Any], url: str) -> None:
    """Whole and streamed, with the calls of tools, in the module's own types."""
    calls = Reply(text="I look.", calls=(ToolCall("weather", '{"city": "Ulm"}'),))
    provider.script.reply(calls, calls)
    functions = holdfast.wrap(litellm)
    heard, replayed = [], []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            answer = functions.responses(input=ASK, **_reach(reach))
            stream = functions.responses(input=ASK, stream=True, **_reach(reach))
            events = list(stream)
            heard.append((answer, events))
            replayed.append((holdfast.replayed(answer), holdfast.replayed(stream)))
    assert replayed == [(False, False), (True, True)]
    (first, live), (again, recorded) = heard
    assert type(first) is type(again) is litellm.ResponsesAPIResponse
    assert first.model_dump() == again.model_dump()
    assert [item.type for item in again.output] == ["message", "function_call"]
    assert _events(live) == _events(recorded) == "I look."
    assert type(recorded[-1]) is type(live[-1])
    assert recorded[-1].response.model_dump() == live[-1].response.model_dump()
    assert len(provider.calls) == 2


def test_responses_are_replayed_in_a_loop(provider: Provider, reach: dict[str, Any], url: str) -> None:
    """The async twin, whole and streamed."""
    functions = holdfast.wrap(litellm)

    async def attempt() -> tuple[Any, list[Any], tuple[bool, bool]]:
        async with holdfast.run("a", store=url, if_finished="reopen"):
            answer = await functions.aresponses(input=ASK, **_reach(reach))
            stream = await functions.aresponses(input=ASK, stream=True, **_reach(reach))
            events = [event async for event in stream]
        return answer, events, (holdfast.replayed(answer), holdfast.replayed(stream))

    async def both() -> list[Any]:
        try:
            return [await attempt(), await attempt()]
        finally:
            await litellm.close_litellm_async_clients()

    (first, live, fresh), (again, recorded, replayed) = asyncio.run(both())
    assert (fresh, replayed) == ((False, False), (True, True))
    assert first.model_dump() == again.model_dump()
    assert _events(live) == _events(recorded) != ""
    assert recorded[-1].response.model_dump() == live[-1].response.model_dump()
    assert len(provider.calls) == 2


def test_a_stream_of_responses_that_breaks_off_goes_on(
    provider: Provider, reach: dict[str, Any], url: str
) -> None:
    """It is one response for the program."""
    provider.script.faults[0] = faults.cut(after=4)
    functions = holdfast.wrap(litellm, patience=QUICK)
    heard = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            heard.append(list(functions.responses(input=ASK, stream=True, **_reach(reach))))
    live, recorded = heard
    assert _events(live) == _events(recorded) != ""
    assert live[-1].type == recorded[-1].type == "response.completed"
    assert len(provider.calls) == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_a_package_that_it_misses_is_no_outage(
    reach: dict[str, Any], url: str, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``litellm`` says that the connection failed; the run would wait for ever."""

    def failed(**_: Any) -> Any:
        try:
            raise ModuleNotFoundError("No module named 'mcp'")
        except ModuleNotFoundError as missing:
            raise litellm.APIConnectionError(str(missing), "openai", "m")  # noqa: B904 - as it does

    async def failed_async(**more: Any) -> Any:
        return failed(**more)

    monkeypatch.setattr(
        litellm, "aresponses" if is_async else "responses", failed_async if is_async else failed
    )
    functions = holdfast.wrap(litellm, patience=QUICK)

    async def attempt() -> None:
        async with holdfast.run("a", store=url):
            await functions.aresponses(input=ASK, **_reach(reach))

    with pytest.raises(ModuleNotFoundError):
        if is_async:
            asyncio.run(attempt())
        else:
            with holdfast.run("a", store=url):
                functions.responses(input=ASK, **_reach(reach))
