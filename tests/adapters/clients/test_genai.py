"""Google's client: the parts of a response, what goes around ``httpx``, its own retries, and other calls."""

import asyncio
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from google import genai
from google.genai import errors, types
from tests.adapters.clients.drivers import ASK, KEY, QUICK
from tests.support.model_server import Provider, Reply, ToolCall, faults

import holdfast

CALLS = Reply(text="I look.", reasoning="Let me see.", calls=(ToolCall("weather", '{"city": "Ulm"}'),))
TRY_AGAIN = types.HttpRetryOptions(attempts=4, initial_delay=0.01, max_delay=0.02)


@pytest.fixture
def plain(provider: Provider) -> Iterator[Any]:
    """A client that tries again by itself."""
    options = types.HttpOptions(base_url=provider.url, timeout=60_000, retry_options=TRY_AGAIN)
    with genai.Client(api_key=KEY, http_options=options) as client:
        yield client


def asked(client: Any, *, stream: bool) -> list[Any]:
    """The parts of an answer."""
    if not stream:
        return list(client.models.generate_content(model="m", contents=ASK).candidates[0].content.parts)
    chunks = list(client.models.generate_content_stream(model="m", contents=ASK))
    return [
        part for chunk in chunks if chunk.candidates[0].content for part in chunk.candidates[0].content.parts
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_calls_and_signatures_are_replayed(
    plain: Any, provider: Provider, url: str, stream: bool
) -> None:
    """A streamed answer is recorded as one response: texts of one kind in one part, calls with their signatures."""
    provider.script.reply(CALLS)
    client = holdfast.wrap(plain)
    with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url):
        first = asked(client, stream=stream)
        raise ZeroDivisionError
    with holdfast.run("a", store=url):
        again = asked(client, stream=stream)
    thought, text, call = again
    assert (thought.text, thought.thought, text.text) == ("Let me see.", True, "I look.")
    assert (call.function_call.name, call.function_call.args) == ("weather", {"city": "Ulm"})
    assert call.thought_signature == b"signed" == first[-1].thought_signature
    assert first[-1] == call
    assert len(provider.calls) == 1


def test_an_answer_says_whether_it_was_replayed(plain: Any, url: str) -> None:
    """By the headers of the response that it carries."""
    client = holdfast.wrap(plain)
    told = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            told.append(holdfast.replayed(client.models.generate_content(model="m", contents=ASK)))
    assert told == [False, True]


def test_a_continued_answer_keeps_its_thoughts_and_its_call(plain: Any, provider: Provider, url: str) -> None:
    """The part before the break and the part after it are one response."""
    provider.script.reply(
        Reply(text="The water is poured and the", reasoning="Let me see.", fault=faults.cut(after=7)),
        Reply(text=" beans are ground.", calls=(ToolCall("weather", '{"city": "Ulm"}'),)),
    )
    client = holdfast.wrap(plain, patience=QUICK)
    with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url):
        live = asked(client, stream=True)
        raise ZeroDivisionError
    with holdfast.run("a", store=url):
        thought, text, call = asked(client, stream=True)
    assert "".join(part.text for part in live if part.text and not part.thought) == text.text
    assert text.text.startswith("The water is poured")
    assert text.text.endswith("beans are ground.")
    assert [part for part in live if part.function_call] == [call]
    assert thought.text == "Let me see."
    assert call.function_call.name == "weather"
    assert call.thought_signature == b"signed"
    sent = provider.calls[-1].body["contents"]
    assert [content["role"] for content in sent] == ["user", "model", "user"]
    assert len(provider.calls) == 2


def test_aiohttp_is_never_used_inside_a_wrapped_client(
    provider: Provider, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The async client takes it where it is installed: then the journal would see nothing."""

    async def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a request went around the transport")

    async def work() -> list[str]:
        options = types.HttpOptions(base_url=provider.url, timeout=60_000)
        plain = genai.Client(api_key=KEY, http_options=options)
        client = holdfast.wrap(plain)
        try:
            with pytest.raises(AssertionError):  # the plain one does
                await plain.aio.models.generate_content(model="m", contents=ASK)
            texts = [(await client.aio.models.generate_content(model="m", contents=ASK)).text]
            async with holdfast.run("a", store=url):
                texts.append((await client.aio.models.generate_content(model="m", contents=ASK)).text)
                stream = await client.aio.models.generate_content_stream(model="m", contents=ASK)
                texts.append("".join([chunk.text or "" async for chunk in stream]))
            return texts
        finally:
            plain.close()
            await plain.aio.aclose()
            await client.aio.aclose()

    monkeypatch.setattr(aiohttp.ClientSession, "_request", refuse)
    assert len(set(asyncio.run(work()))) == 1
    assert len(provider.calls) == 3


def test_the_clients_own_retries_are_off_inside_a_run(plain: Any, provider: Provider, url: str) -> None:
    """A refusal that waiting does not end costs one request; outside of a run the client tries again as it was told."""
    client = holdfast.wrap(plain, patience=QUICK._replace(give_up_s=0))
    provider.script.outage = faults.status(503)
    with pytest.raises(errors.ServerError):
        client.models.generate_content(model="m", contents=ASK)
    assert len(provider.calls) == 4
    with pytest.raises(errors.ServerError), holdfast.run("a", store=url):
        client.models.generate_content(model="m", contents=ASK)
    assert len(provider.calls) == 5


def test_vectors_are_journaled_and_counted_tokens_are_a_read(
    plain: Any, provider: Provider, url: str
) -> None:
    """An embedding is a model call; counting costs nothing and passes."""
    client = holdfast.wrap(plain)
    vectors = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            found = client.models.embed_content(model="m", contents=["a", "b"])
            vectors.append([one.values for one in found.embeddings])
            with pytest.raises(errors.ClientError):  # the scripted provider does not know it
                client.models.count_tokens(model="m", contents=ASK)
    assert vectors[0] == vectors[1]
    assert len(vectors[0]) == 2
    assert [exchange.path.rpartition(":")[2] for exchange in provider.exchanges] == [
        "batchEmbedContents",
        "countTokens",
        "countTokens",
    ]


def test_a_fallback_is_another_model_of_the_path(plain: Any, provider: Provider, url: str) -> None:
    """The model is put into the path, and the record says who answered."""
    provider.script.models = ("spare",)
    client = holdfast.wrap(plain, fallbacks=["spare"])
    with holdfast.run("a", store=url):
        assert client.models.generate_content(model="m", contents=ASK).model_version == "spare"
    assert [exchange.path.rpartition("/")[2] for exchange in provider.calls] == [
        "m:generateContent",
        "spare:generateContent",
    ]


def test_a_blocked_prompt_is_an_answer(plain: Any, provider: Provider, url: str) -> None:
    """It has no candidates, and asking again would not help."""
    from tests.support.model_server import gemini

    client = holdfast.wrap(plain, patience=QUICK)
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gemini, "_response", lambda *_, **__: blocked)
        with holdfast.run("a", store=url):
            whole = client.models.generate_content(model="m", contents=ASK)
            streamed = list(client.models.generate_content_stream(model="m", contents=ASK))
    assert whole.prompt_feedback.block_reason == "SAFETY" == streamed[-1].prompt_feedback.block_reason
    assert len(provider.calls) == 2


def test_a_live_session_is_refused_inside_a_run(plain: Any, url: str) -> None:
    """It is a socket, which no journal records."""

    async def work(client: Any) -> None:
        async with holdfast.run("a", store=url), client.aio.live.connect(model="m"):
            raise AssertionError("it was opened")

    with pytest.raises(holdfast.Unjournaled):
        asyncio.run(work(holdfast.wrap(plain)))


def test_usage_has_the_reasoning(plain: Any, provider: Provider, url: str) -> None:
    """Gemini counts the tokens of thoughts apart; they are paid as output."""
    provider.script.reply(CALLS)
    client = holdfast.wrap(plain)
    with holdfast.run("a", store=url) as run:
        found = client.models.generate_content(model="m", contents=ASK).usage_metadata
        spent = run.spent
    assert found.thoughts_token_count == 3
    assert spent.output_tokens == found.candidates_token_count + found.thoughts_token_count
    assert spent.input_tokens == found.prompt_token_count


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_without_its_result_is_settled_before_the_send(
    plain: Any, provider: Provider, url: str, stream: bool
) -> None:
    """A tool ran, and its result never reached the history: it comes from the journal, before the user's text."""

    @holdfast.tool(effect="once")
    def note(text: str) -> str:
        return f"noted: {text}"

    call = types.Part.from_function_call(name="note", args={"text": "tide"})
    told = [
        types.Content(role="user", parts=[types.Part(text=ASK)]),
        types.Content(role="model", parts=[types.Part(text="I note it."), call]),
        types.Content(role="user", parts=[types.Part(text="And now?")]),
    ]
    client = holdfast.wrap(plain)
    ask = client.models.generate_content_stream if stream else client.models.generate_content
    with holdfast.run("a", store=url):
        note("tide")
        assert list(ask(model="m", contents=told))
    (sent,) = provider.calls
    result, text = sent.body["contents"][2]["parts"]
    assert result == {"functionResponse": {"name": "note", "response": {"result": "noted: tide"}}}
    assert text == {"text": "And now?"}
