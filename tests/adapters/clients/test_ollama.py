"""Ollama's client: its own protocol, and what it can do beside chats."""

from collections.abc import Iterator
from typing import Any

import ollama
import pytest
from tests.adapters.clients.drivers import ASK, QUICK
from tests.support.model_server import Provider, Reply, ToolCall, faults

import holdfast

SAID: Any = [{"role": "user", "content": ASK}]
CALLS = Reply(text="I look.", reasoning="Let me see.", calls=(ToolCall("weather", '{"city": "Ulm"}'),))


@pytest.fixture
def plain(provider: Provider) -> Iterator[Any]:
    """A client of the scripted provider."""
    with ollama.Client(provider.url, timeout=60) as client:
        yield client


def asked(client: Any, *, stream: bool) -> list[Any]:
    """The messages of an answer."""
    found = client.chat("m", SAID, stream=stream)
    return [chunk.message for chunk in found] if stream else [found.message]


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_and_calls_are_replayed(plain: Any, provider: Provider, url: str, stream: bool) -> None:
    """A streamed answer is recorded as one message."""
    provider.script.reply(CALLS)
    client = holdfast.wrap(plain)
    with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url):
        first = asked(client, stream=stream)
        raise ZeroDivisionError
    with holdfast.run("a", store=url):
        (again,) = asked(client, stream=stream)
    assert (again.content, again.thinking) == ("I look.", "Let me see.")
    assert again.tool_calls[0].function.arguments == {"city": "Ulm"}
    calls = [call for message in first for call in message.tool_calls or ()]
    assert calls == list(again.tool_calls)
    assert len(provider.calls) == 1


def test_counts_and_durations_are_replayed_and_used(plain: Any, provider: Provider, url: str) -> None:
    """The last line of a stream has them: they are the usage of the call."""
    client = holdfast.wrap(plain)
    last = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen") as run:
            last.append(list(client.chat("m", SAID, stream=True))[-1])
            spent = run.spent
    assert last[0].done_reason == last[1].done_reason == "stop"
    assert last[0].eval_count == last[1].eval_count == spent.output_tokens
    assert last[0].prompt_eval_count == last[1].prompt_eval_count == spent.input_tokens
    assert last[0].total_duration == last[1].total_duration
    assert len(provider.calls) == 1


def test_a_broken_chat_is_continued_by_asking(plain: Any, provider: Provider, url: str) -> None:
    """The partial answer goes back as a message, and the rest is joined to it."""
    whole = plain.chat("m", SAID).message.content
    provider.script.faults[1] = faults.cut(after=10)
    client = holdfast.wrap(plain, patience=QUICK)
    with holdfast.run("a", store=url):
        assert "".join(message.content for message in asked(client, stream=True)) == whole
    assert [message["role"] for message in provider.calls[-1].body["messages"]] == [
        "user",
        "assistant",
        "user",
    ]


def test_a_broken_prompt_begins_again(plain: Any, provider: Provider, url: str) -> None:
    """It is one turn: nothing can be asked to go on. What the program has of it cannot be taken back."""
    whole = plain.generate("m", ASK).response
    client = holdfast.wrap(plain, patience=QUICK)
    with pytest.raises(InterruptedError), holdfast.run("a", store=url):
        for number, _ in enumerate(client.generate("m", ASK, stream=True)):
            if number == 10:
                raise InterruptedError
    with holdfast.run("a", store=url):
        assert "".join(chunk.response for chunk in client.generate("m", ASK, stream=True)) == whole
    assert [exchange.body["prompt"] for exchange in provider.calls] == [ASK] * 3


def test_vectors_are_journaled(plain: Any, provider: Provider, url: str) -> None:
    """Of several texts, and of one as earlier versions had it."""
    client = holdfast.wrap(plain)
    vectors = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            many = client.embed("m", ["a", "b"]).embeddings
            vectors.append([*many, client.embeddings("m", "c").embedding])
    assert vectors[0] == vectors[1]
    assert len(vectors[0]) == 3
    assert [exchange.path for exchange in provider.calls] == ["/api/embed", "/api/embeddings"]


@pytest.mark.parametrize("act", ["pull", "delete", "create"])
def test_what_changes_the_server_is_refused(plain: Any, url: str, act: str) -> None:
    """It is no model call, and every attempt would repeat it."""
    client = holdfast.wrap(plain)
    with pytest.raises(holdfast.Unjournaled, match=f"/api/{act}"), holdfast.run("a", store=url):
        getattr(client, act)("m")


def test_looking_at_a_model_is_a_read(plain: Any, provider: Provider, url: str) -> None:
    """``show`` is a POST that only reads: it passes."""
    client = holdfast.wrap(plain)
    with pytest.raises(ollama.ResponseError, match="Not Found"), holdfast.run("a", store=url):
        client.show("m")
    assert [exchange.path for exchange in provider.exchanges] == ["/api/show"]


def test_the_server_is_probed_for_the_model(plain: Any, provider: Provider, url: str) -> None:
    """While a model is missing, the tags are asked for, not the model."""
    provider.script.tell({"flavour": "ollama"})
    provider.script.models = ("m",)
    provider.script.faults[0] = faults.loading()
    client = holdfast.wrap(plain, patience=QUICK)
    with holdfast.run("a", store=url):
        asked(client, stream=False)
    assert "/api/tags" in [exchange.path for exchange in provider.exchanges]
    assert len(provider.calls) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_without_its_result_is_settled_before_the_send(
    plain: Any, provider: Provider, url: str, stream: bool
) -> None:
    """A tool ran, and its result never reached the history: it comes from the journal, with the name of the tool."""

    @holdfast.tool(effect="once")
    def note(text: str) -> str:
        return f"noted: {text}"

    call = {"function": {"name": "note", "arguments": {"text": "tide"}}}
    told = [
        *SAID,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "user", "content": "?"},
    ]
    client = holdfast.wrap(plain)
    with holdfast.run("a", store=url):
        note("tide")
        answer = client.chat("m", told, stream=stream)
        assert list(answer) if stream else answer.message.content
    (sent,) = provider.calls
    assert sent.body["messages"][2] == {"role": "tool", "content": "noted: tide", "tool_name": "note"}
    assert sent.body["messages"][3] == {"role": "user", "content": "?"}


def test_a_stream_says_whether_it_was_replayed(plain: Any, url: str) -> None:
    """From its first piece on, as do its pieces; and so do vectors."""
    client = holdfast.wrap(plain)
    seen = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            stream = client.chat("m", SAID, stream=True)
            pieces = list(stream)
            vectors = client.embed("m", ASK)
            seen.append([holdfast.replayed(one) for one in (stream, pieces[0], pieces[-1], vectors)])
    assert seen == [[False] * 4, [True] * 4]
