"""``holdfast.wrap``: the real SDK over real HTTP; its answers journaled, replayed as its own types, and never paid twice."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import openai
import pytest
from pydantic import BaseModel
from tests.support.model_server import Provider, Reply, ToolCall
from tests.support.model_server.client import needs_responses

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind

ASK: Any = [{"role": "user", "content": "Tell of the sea."}]


Connect = Callable[..., openai.OpenAI]


class Crash(Exception):
    pass


class Place(BaseModel):
    name: str


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


@pytest.fixture
def durable(client: openai.OpenAI) -> openai.OpenAI:
    return holdfast.wrap(client)


def attempt(url: str, body: Callable[[], Any]) -> Any:
    """What the body gives, in an attempt that ends in the middle as far as the journal knows."""
    given: list[Any] = []
    with suppress(Crash), holdfast.run("a", store=url):
        given.append(body())
        raise Crash
    return given[0]


def twice(url: str, body: Callable[[], Any]) -> tuple[Any, Any]:
    return attempt(url, body), attempt(url, body)


def text_of(stream: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def events(url: str, kind: str) -> list[dict[str, Any]]:
    return [contents_of(event.body) for event in holdfast.store(url).events("a") if event.kind == kind]


def test_a_completion_is_replayed_as_the_same_type(
    provider: Provider, durable: openai.OpenAI, url: str
) -> None:
    """The second attempt gets an equal ChatCompletion, marked replayed, and nobody was asked."""
    first, second = twice(url, lambda: durable.chat.completions.create(model="m", messages=ASK))
    assert type(second) is type(first)
    assert second.model_dump() == first.model_dump()
    assert (holdfast.replayed(first), holdfast.replayed(second)) == (False, True)
    assert len(provider.calls) == 1
    usage = events(url, Kind.STEP_FINISHED)[0]["usage"]
    assert usage["input_tokens"] > 0
    assert usage["provider"] == f"127.0.0.1:{provider.port}"


def test_a_stream_is_replayed_whole(provider: Provider, durable: openai.OpenAI, url: str) -> None:
    """Live it comes token by token; replayed it says the same in a few chunks, usage included where it was asked for."""

    def body() -> Any:
        stream = durable.chat.completions.create(
            model="m", messages=ASK, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        return text_of(chunks), len(chunks), chunks[-1].usage, type(chunks[0]), holdfast.replayed(stream)

    first, second = twice(url, body)
    assert first[1] > 40
    assert second[1] <= 3
    assert (first[0], first[2], first[3]) == (second[0], second[2], second[3])
    assert (first[4], second[4]) == (False, True)
    assert len(provider.calls) == 1


def test_tool_calls_come_back_as_they_were(provider: Provider, durable: openai.OpenAI, url: str) -> None:
    """Streamed in fragments or not, the calls of a replay are the calls of the answer."""
    call = ToolCall("look_up", '{"name": "Ada", "deep": {"n": [1, 2]}}')
    provider.script.reply(Reply(text="", calls=(call,)), Reply(text="Let me see.", calls=(call,)))

    def body() -> Any:
        whole: Any = durable.chat.completions.create(model="m", messages=ASK).choices[0].message.tool_calls
        stream = durable.chat.completions.create(model="m", messages=ASK, stream=True)
        fragments: list[Any] = [part for c in stream for part in c.choices[0].delta.tool_calls or ()]
        return whole[0].function.arguments, "".join(part.function.arguments or "" for part in fragments)

    first, second = twice(url, body)
    assert first == second == (call.arguments, call.arguments)
    assert len(provider.calls) == 2


@needs_responses
def test_the_responses_api_whole_streamed_and_through_its_helper(
    provider: Provider, durable: openai.OpenAI, url: str
) -> None:
    """A response, its events and the SDK's own accumulating helper, live and replayed."""

    def body() -> Any:
        whole = durable.responses.create(model="m", input="Tell of the sea.")
        kinds = [event.type for event in durable.responses.create(model="m", input="Tell more.", stream=True)]
        with durable.responses.stream(model="m", input="And more.") as helper:
            for _ in helper:
                pass
            last = helper.get_final_response()
        return whole.output_text, type(whole), (kinds[0], kinds[-1]), last.output_text

    first, second = twice(url, body)
    assert first == second
    assert first[2] == ("response.created", "response.completed")
    assert len(provider.calls) == 3


def test_embeddings_structured_outputs_and_raw_responses(
    provider: Provider, durable: openai.OpenAI, url: str
) -> None:
    """Every way into the SDK leads through the same seam."""
    provider.script.reply(Reply(text='{"name": "Kiel"}'))

    def body() -> Any:
        parse = getattr(durable.chat.completions, "parse", None) or durable.beta.chat.completions.parse
        parsed = parse(model="m", messages=ASK, response_format=Place).choices[0].message.parsed
        raw = durable.chat.completions.with_raw_response.create(model="m", messages=ASK)
        vectors = durable.embeddings.create(model="e", input=["a", "b"])
        return parsed, raw.parse().choices[0].message.content, [one.embedding for one in vectors.data], raw

    first, second = twice(url, body)
    assert first[:3] == second[:3]
    assert first[0] == Place(name="Kiel")
    assert holdfast.replayed(second[3])
    assert len(provider.calls) == 3


def test_messages_of_the_sdk_may_be_sent_back(provider: Provider, durable: openai.OpenAI, url: str) -> None:
    """A program that appends the SDK's message to its history asks the same in a replay."""

    def body() -> Any:
        messages: Any = [*ASK]
        messages.append(durable.chat.completions.create(model="m", messages=messages).choices[0].message)
        messages.append({"role": "user", "content": "More."})
        return durable.chat.completions.create(model="m", messages=messages).choices[0].message.content

    first, second = twice(url, body)
    assert first == second
    assert len(provider.calls) == 2


def test_async_clients_are_the_same(provider: Provider, url: str) -> None:
    """Whole and streamed, awaited; and side by side."""

    async def ask(client: openai.AsyncOpenAI, content: str) -> str:
        message: Any = [{"role": "user", "content": content}]
        whole = await client.chat.completions.create(model="m", messages=message)
        stream = await client.chat.completions.create(model="m", messages=message, stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return f"{whole.choices[0].message.content} {''.join(pieces)}"

    async def attempt() -> list[str]:
        given: list[str] = []
        with suppress(Crash):
            async with (
                openai.AsyncOpenAI(base_url=provider.base_url, api_key="none") as plain,
                holdfast.run("a", store=url),
            ):
                client = holdfast.wrap(plain)
                given += await asyncio.gather(*(ask(client, what) for what in ("one", "two", "three")))
                raise Crash
        return given

    first, second = asyncio.run(attempt()), asyncio.run(attempt())
    assert first == second
    assert len(set(first)) == 3
    assert len(provider.calls) == 6


def test_outside_of_a_run_it_is_the_client_it_was(provider: Provider, durable: openai.OpenAI) -> None:
    """Nothing is journaled, each call is made."""
    for _ in range(2):
        assert not holdfast.replayed(durable.chat.completions.create(model="m", messages=ASK))
    assert len(provider.calls) == 2
    assert isinstance(durable, openai.OpenAI)


def test_a_thread_without_the_run_is_refused(durable: openai.OpenAI, url: str) -> None:
    """Silently passing through would lose the answer with the process; ``run.bind`` carries the run along."""
    refused: list[BaseException] = []
    got: list[Any] = []

    def ask() -> None:
        try:
            got.append(durable.chat.completions.create(model="m", messages=ASK))
        except holdfast.NoCurrentRun as error:
            refused.append(error)

    with holdfast.run("a", store=url) as run:
        for target in (ask, run.bind(ask)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert len(refused) == len(got) == 1


def test_copies_of_the_client_stay_durable(provider: Provider, durable: openai.OpenAI, url: str) -> None:
    """``with_options`` gives a client that journals too."""
    twice(url, lambda: durable.with_options(timeout=5).chat.completions.create(model="m", messages=ASK))
    assert len(provider.calls) == 1


def test_what_is_no_client_is_refused() -> None:
    """Misuse (Unjournaled) names what was given and where other SDKs go."""
    with pytest.raises(holdfast.Misuse, match=r"run\.model"):
        holdfast.wrap(object())


def test_another_prompt_is_drift(provider: Provider, durable: openai.OpenAI, url: str) -> None:
    """Nothing is sent; the diff names the message."""
    attempt(url, lambda: durable.chat.completions.create(model="m", messages=ASK))
    other: Any = [{"role": "user", "content": "Tell of the land."}]
    with pytest.raises(holdfast.Diverged, match=r"messages\[0\]"), holdfast.run("a", store=url):
        durable.chat.completions.create(model="m", messages=other)
    assert len(provider.calls) == 1


# -- cut off ------------------------------------------------------------------------------------------------------------


class Cut(BaseException):
    pass


def read_until_cut(client: openai.OpenAI, pieces: int | None) -> str:
    """Read a stream; after so many pieces the process ends, as far as the journal knows."""
    text = ""
    for number, chunk in enumerate(client.chat.completions.create(model="m", messages=ASK, stream=True)):
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        if number == pieces:
            raise Cut
    return text


@pytest.mark.parametrize("flavour", ["llamacpp", "vllm"])
def test_a_server_that_can_goes_on_from_the_middle(
    provider: Provider, url: str, flavour: str, connect: Connect
) -> None:
    """The prefill is found out about by itself; the joined answer is what an undisturbed stream would have said."""
    provider.script.tell({"flavour": flavour})
    plain = connect()
    whole = read_until_cut(plain, None)
    client = holdfast.wrap(plain)
    with pytest.raises(Cut), holdfast.run("a", store=url):
        read_until_cut(client, 20)
    with suppress(Crash), holdfast.run("a", store=url):
        assert read_until_cut(client, None) == whole
        raise Crash
    asked = provider.calls[-1].body["messages"]
    assert asked[-1]["role"] == "assistant"
    assert whole.startswith(asked[-1]["content"])
    before = len(provider.calls)
    with holdfast.run("a", store=url):
        assert read_until_cut(client, None) == whole
    assert len(provider.calls) == before


def test_a_continued_answer_is_known_to_have_used_more(
    provider: Provider, url: str, connect: Connect
) -> None:
    """The try that was cut off was paid for, and told no usage: tokens are counted as "at least", never as known.

    The call counts once. An answer in one piece is known as ever.
    """
    client = holdfast.wrap(connect())

    def read(pieces: int | None) -> None:
        asked = client.chat.completions.create(
            model="m", messages=ASK, stream=True, stream_options={"include_usage": True}
        )
        for number, _ in enumerate(asked):
            if number == pieces:
                raise Cut

    with pytest.raises(Cut), holdfast.run("a", store=url):
        read(20)
    with suppress(Crash), holdfast.run("a", store=url) as run:
        read(None)
        assert (run.spent.calls, run.spent.unknown_token_calls, run.spent.unknown_cost_calls) == (1, 1, 1)
        assert run.spent.output_tokens > 0
        read(None)
        assert (run.spent.calls, run.spent.unknown_token_calls) == (2, 1)
        raise Crash
    first, second = [body["usage"] for body in events(url, Kind.STEP_FINISHED)]
    assert first["at_least"] is True
    assert "at_least" not in second


@pytest.mark.parametrize("overlap", [0, 40])
def test_where_it_cannot_the_model_is_asked_to_go_on(
    provider: Provider, url: str, overlap: int, connect: Connect
) -> None:
    """An explicit request, and what the model repeats of its own words stands once."""
    provider.script.overlap = overlap
    plain = connect()
    whole = read_until_cut(plain, None)
    client = holdfast.wrap(plain)
    with pytest.raises(Cut), holdfast.run("a", store=url):
        read_until_cut(client, 20)
    with suppress(Crash), holdfast.run("a", store=url):
        assert read_until_cut(client, None) == whole
        raise Crash
    assert [message["role"] for message in provider.calls[-1].body["messages"]] == [
        "user",
        "assistant",
        "user",
    ]
    with holdfast.run("a", store=url):
        assert read_until_cut(client, None) == whole


@needs_responses
def test_a_responses_stream_is_continued_as_one_response(
    provider: Provider, url: str, connect: Connect
) -> None:
    """The SDK's accumulating helper sees one response, from its beginning to its end."""
    plain = connect()
    whole = plain.responses.create(model="m", input="Tell of the sea.").output_text
    client = holdfast.wrap(plain)

    def read(cut_after: int | None) -> str:
        with client.responses.stream(model="m", input="Tell of the sea.") as stream:
            for number, _ in enumerate(stream):
                if number == cut_after:
                    raise Cut
            return stream.get_final_response().output_text

    with pytest.raises(Cut), holdfast.run("a", store=url):
        read(20)
    for _ in range(2):
        with suppress(Crash), holdfast.run("a", store=url):
            assert read(None) == whole
            raise Crash
    assert len(provider.calls) == 3


def test_an_answer_in_json_begins_again(provider: Provider, url: str, connect: Connect) -> None:
    """A grammar would start at its root: half an object is not continued."""
    provider.script.reply(Reply(text='{"name": "' + "x" * 50 + '"}'), Reply(text='{"name": "Kiel"}'))
    provider.script.tell({"flavour": "llamacpp"})
    client = holdfast.wrap(connect())

    def read(cut_after: int | None) -> str:
        text = ""
        wanted: Any = {"type": "json_object"}
        stream = client.chat.completions.create(model="m", messages=ASK, stream=True, response_format=wanted)
        for number, chunk in enumerate(stream):
            text += chunk.choices[0].delta.content or ""
            if number == cut_after:
                raise Cut
        return text

    with pytest.raises(Cut), holdfast.run("a", store=url):
        read(2)
    with holdfast.run("a", store=url):
        assert read(None) == '{"name": "Kiel"}'
    assert len(provider.calls[-1].body["messages"]) == 1


def test_a_tool_call_that_was_cut_off_is_never_given_to_the_program(
    provider: Provider, url: str, connect: Connect
) -> None:
    """Kept or continued: half of its JSON is not a call."""
    call = ToolCall("pay", '{"to": "Ada", "amount": 1000}')
    policies: list[Any] = ["keep", "continue"]
    for on_partial in policies:
        provider.script.reply(Reply(text="I pay. ", calls=(call,)), Reply(text="", calls=(call,)))
        client = holdfast.wrap(
            connect(),
            on_partial=on_partial,
        )

        def calls(cut: bool, client: openai.OpenAI = client) -> str:
            arguments = ""
            for chunk in client.chat.completions.create(model="m", messages=ASK, stream=True):
                for part in chunk.choices[0].delta.tool_calls or ():
                    arguments += (part.function and part.function.arguments) or ""
                    if cut and len(arguments) > 8:
                        raise Cut
            return arguments

        run = f"run-{on_partial}"
        with pytest.raises(Cut), holdfast.run(run, store=url):
            calls(cut=True)
        with holdfast.run(run, store=url):
            assert calls(cut=False) in {"", call.arguments}
        provider.script._replies.clear()


def test_leaving_a_stream_early_keeps_what_came(provider: Provider, durable: openai.OpenAI, url: str) -> None:
    """A program that breaks out of the loop has had enough: in a replay it is given as much, and nobody is asked."""

    def body() -> str:
        text = ""
        for chunk in durable.chat.completions.create(model="m", messages=ASK, stream=True):
            text += chunk.choices[0].delta.content or ""
            if len(text) > 30:
                break
        return text

    first, second = twice(url, body)
    assert first == second
    assert len(provider.calls) == 1


def test_a_killed_process_loses_next_to_nothing(provider: Provider, tmp_path: Path) -> None:
    """SIGKILL in mid-stream: what the journal has is within 250 ms of what the process had got."""
    import signal
    import subprocess
    import sys
    import time

    provider.script.tokens, provider.script.drip_ms = 400, 5
    program = tmp_path / "agent.py"
    program.write_text(
        f"""
import holdfast, openai
client = holdfast.wrap(openai.OpenAI(base_url={provider.base_url!r}, api_key="none"))
with holdfast.run("a", store="sqlite:///{tmp_path}/a.db"):
    for chunk in client.chat.completions.create(model="m", messages={ASK!r}, stream=True):
        print(end=chunk.choices[0].delta.content or "", flush=True)
"""
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        got = process.stdout.read(700)
        process.send_signal(signal.SIGKILL)
        killed_at = time.time()
        got += process.stdout.read()
    stored = "".join(body.get("text", "") for body in _chunks(tmp_path))
    assert got.decode(errors="ignore").startswith(stored)
    sent = [(at, text) for at, text in provider.calls[0].sent if at < killed_at - 0.25]
    assert len(stored) >= len("".join(text for _, text in sent))


def _chunks(tmp_path: Path) -> list[dict[str, Any]]:
    store = holdfast.store(tmp_path / "a.db")
    return [contents_of(event.body) for event in store.events("a") if event.kind == Kind.STREAM_CHUNK]


# -- valid history ------------------------------------------------------------------------------------------------------


def test_a_call_without_its_result_is_settled_before_the_send(
    provider: Provider, durable: openai.OpenAI, url: str
) -> None:
    """From the journal where the tool ran, honestly where nobody knows; what the model was told is in the record."""

    @holdfast.tool(effect="read")
    def look_up(name: str) -> str:
        return f"{name} lives in Kiel"

    def call(number: int, name: str) -> dict[str, Any]:
        return {
            "id": f"call-{number}",
            "type": "function",
            "function": {"name": "look_up", "arguments": f'{{"name": "{name}"}}'},
        }

    messages: Any = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [call(1, "Ada"), call(2, "Eve")]},
    ]
    with holdfast.run("a", store=url):
        look_up("Ada")
        durable.chat.completions.create(model="m", messages=messages)
    sent = provider.calls[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool"]
    assert "Ada lives in Kiel" in sent[2]["content"]
    assert "Kiel" not in sent[3]["content"]
    outcome = next(body for body in events(url, Kind.STEP_FINISHED) if "usage" in body)
    assert len(outcome["mended"]) == 2


def test_what_no_provider_takes_is_refused_before_it_is_sent(
    provider: Provider, durable: openai.OpenAI, url: str
) -> None:
    """The typed error names the message."""
    messages: Any = [*ASK, {"role": "oracle", "content": "?"}]
    with pytest.raises(holdfast.InvalidHistory, match="1"), holdfast.run("a", store=url):
        durable.chat.completions.create(model="m", messages=messages)
    assert not provider.calls


def test_reasoning_goes_back_to_its_maker_and_to_nobody_else(
    provider: Provider, connect: Connect, url: str
) -> None:
    """Kept and sent again to the model that wrote it; left out when another one takes over. Nobody sees the mark."""
    provider.script.reply(Reply(text="Hello.", reasoning="Let me think."))

    def talk(model: str) -> list[Any]:
        client = holdfast.wrap(connect())
        messages: Any = [*ASK]
        messages.append(client.chat.completions.create(model="m", messages=messages).choices[0].message)
        messages.append({"role": "user", "content": "And?"})
        client.chat.completions.create(model=model, messages=messages)
        sent: list[Any] = provider.calls[-1].body["messages"]
        return sent

    with suppress(Crash), holdfast.run("a", store=url):
        assert talk("m")[1]["reasoning_content"] == "Let me think."
        raise Crash
    provider.script.reply(Reply(text="Hello.", reasoning="Let me think."))
    with suppress(Crash), holdfast.run("b", store=url):
        sent = talk("another")
        assert "reasoning_content" not in sent[1]
        assert sent[1]["content"] == "Hello."
        raise Crash
    assert "holdfast" not in str(provider.calls[-1].body)
