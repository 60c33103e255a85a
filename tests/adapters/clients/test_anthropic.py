"""Anthropic's messages: thinking, tool use, the client's accumulating helper, prefill, and the repair of a history."""

import json
from typing import Any

import anthropic
import pytest
from tests.adapters.clients.anthropic_drivers import Anthropic, AsyncAnthropic
from tests.adapters.clients.drivers import ASK, KEY, Agent, Driver, alone, attempt, events
from tests.support.model_server import Provider, Reply, ToolCall, faults

import holdfast
from holdfast.adapters.wire.shapes import is_read
from holdfast.adapters.wire.shapes.anthropic import MessagesSource
from holdfast.adapters.wire.transport import library_of
from holdfast.core.llm.streams import GO_ON
from holdfast.core.llm.streams.message_events import events_of_message
from holdfast.model.events import Kind

NOTE = ToolCall("note", '{"text": "the tide turns", "number": 7}')
TOOLS = [{"name": "note", "description": "Note.", "input_schema": {"type": "object"}}]
THINKING = {"type": "enabled", "budget_tokens": 1024}
BOTH = pytest.mark.parametrize("driver", [Anthropic(), AsyncAnthropic()], ids=repr)


async def final(agent: Agent, **options: Any) -> Any:
    """The message that the client's own helper makes of a stream, and the kinds of its events."""
    request = Anthropic().request(ASK, **options)
    if agent.driver.is_async:
        async with agent.client.messages.stream(**request) as stream:
            kinds = [event.type async for event in stream]
            return await stream.get_final_message(), kinds
    with agent.client.messages.stream(**request) as stream:
        kinds = [event.type for event in stream]
        return stream.get_final_message(), kinds


async def raw(agent: Agent, **options: Any) -> list[dict[str, Any]]:
    """The events of a stream as the provider writes them."""
    request = {**Anthropic().request(ASK, **options), "stream": True}
    if agent.driver.is_async:
        return [event.to_dict() async for event in await agent.client.messages.create(**request)]
    return [event.to_dict() for event in agent.client.messages.create(**request)]


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
def test_thinking_and_tool_use_are_replayed(driver: Driver, provider: Provider, url: str) -> None:
    """The client's helper makes the same message of both: signature, text, calls with their input, usage, stop reason."""
    reply = Reply("I note it.", reasoning="The tide, then the note.", calls=(NOTE, ToolCall("look")))
    provider.script.reply(reply, reply)

    async def work(agent: Agent) -> Any:
        options = {"tools": TOOLS, "thinking": THINKING}
        return await final(agent, **options), await agent.answer("And now.", **options)

    (streamed, whole), (streamed_again, whole_again) = twice(driver, provider, url, work)
    assert streamed[0] == streamed_again[0]
    assert whole == whole_again
    for message in (streamed_again[0], whole_again):
        thinking, text, note, look = message.content
        assert (thinking.type, thinking.thinking) == ("thinking", "The tide, then the note.")
        assert thinking.signature
        assert text.text == "I note it."
        assert (note.type, note.name, note.input) == (
            "tool_use",
            "note",
            {"text": "the tide turns", "number": 7},
        )
        assert (look.name, look.input) == ("look", {})
        assert message.stop_reason == "tool_use"
        assert message.usage.output_tokens > 10
    assert {"thinking", "signature", "text", "input_json", "message_stop"} <= {*streamed_again[1]}
    assert streamed_again[1][0] == "message_start"
    assert streamed_again[1][-1] == streamed[1][-1] == "message_stop"
    assert len(provider.calls) == 2
    store = holdfast.store(url)
    trace = store.thoughts("a")
    thoughts = [thought.text for event in store.events("a") for thought in trace.add(event)]
    assert thoughts == ["The tide, then the note."] * 2
    assert holdfast.replayed(whole_again)
    assert not holdfast.replayed(whole)


@BOTH
def test_live_events_pass_unchanged(driver: Driver, provider: Provider, url: str) -> None:
    """All of them, in their order."""
    reply = Reply("I note it.", reasoning="The tide.", calls=(NOTE,))
    provider.script.reply(reply, reply)
    options: Any = {"tools": TOOLS, "thinking": THINKING}

    async def work(agent: Agent) -> list[dict[str, Any]]:
        return await raw(agent, **options)

    plain = alone(driver, provider, work)
    live = attempt(driver, provider, url, work)
    for event in (plain[0], live[0]):
        event["message"]["id"] = ""
    plain[2:], live[2:] = _without_signatures(plain[2:]), _without_signatures(live[2:])
    assert live == plain


def _without_signatures(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in told if event.get("delta", {}).get("type") != "signature_delta"]


@BOTH
def test_redacted_thinking_server_tools_and_citations_are_replayed(
    driver: Driver, provider: Provider, url: str
) -> None:
    """Blocks that come whole, and citations of a text."""
    found = {
        "type": "web_search_result",
        "url": "http://a",
        "title": "A",
        "encrypted_content": "x",
        "page_age": None,
    }
    cited = {
        "type": "char_location",
        "cited_text": "salt",
        "document_index": 0,
        "document_title": None,
        "start_char_index": 0,
        "end_char_index": 4,
    }
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({"type": "redacted_thinking", "data": "opaque"}, []),
        (
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
            [{"type": "input_json_delta", "partial_json": '{"query": "sea"}'}],
        ),
        ({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [found]}, []),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "The sea "}]),
        (
            {"type": "text", "text": "", "citations": []},
            [{"type": "citations_delta", "citation": cited}, {"type": "text_delta", "text": "is salt."}],
        ),
    ]
    provider.script.frames = _frames(blocks)
    first, again = twice(driver, provider, url, final)
    assert first[0] == again[0]
    assert [block.type for block in again[0].content] == [start["type"] for start, _ in blocks]
    assert again[0].content[1].input == {"query": "sea"}
    assert again[0].content[2].content[0].title == "A"
    assert again[0].content[4].citations[0].cited_text == "salt"
    assert len(provider.calls) == 1


def _frames(blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 5}
    told: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage},
        }
    ]
    for index, (start, deltas) in enumerate(blocks):
        told.append({"type": "content_block_start", "index": index, "content_block": start})
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    ended = {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 11}}
    return [*told, ended, {"type": "message_stop"}]


@BOTH
def test_usage_is_that_of_both_ends_of_a_stream(driver: Driver, provider: Provider, url: str) -> None:
    """Input and cached tokens come with its first event, output tokens with its last."""
    provider.script.frames = _frames(
        [({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Salt."}])]
    )
    attempt(driver, provider, url, final)
    usage = events(url, Kind.STEP_FINISHED)[0]["usage"]
    assert (usage["input_tokens"], usage["cached_tokens"], usage["output_tokens"]) == (8, 5, 11)


@BOTH
@pytest.mark.parametrize("again", [False, True], ids=["in-process", "next-attempt"])
def test_a_continued_message_is_one_message(
    driver: Driver, provider: Provider, url: str, again: bool
) -> None:
    """With the thoughts of the first try, the joined text, and the calls of the second: live, and in a replay."""
    thought = "The tide, then the note."
    text = "The tide turns at noon, and the boats turn with it."
    cut = Reply(text, reasoning=thought, fault=faults.cut(after=5 + 6))
    provider.script.reply(cut, *([Reply(fault=faults.bad_request())] if again else []))
    provider.script.reply(Reply(text, reasoning="Go on, then.", calls=(NOTE,)))

    async def work(agent: Agent) -> Any:
        return await final(agent, tools=TOOLS, thinking=THINKING, max_tokens=1030)

    if again:
        with pytest.raises(anthropic.APIStatusError):
            attempt(driver, provider, url, work)
    (message, _), (replayed, _) = twice(driver, provider, url, work)
    assert message == replayed
    thinking, said, note = message.content
    assert (thinking.thinking, bool(thinking.signature)) == (thought, True)
    assert said.text == text
    assert note.input == {"text": "the tide turns", "number": 7}
    assert message.stop_reason == "tool_use"
    sent = provider.calls[-1].body
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][-1]["content"] == GO_ON
    assert (
        1024 < sent["max_tokens"] < 1030
    )  # the provider refuses a limit that is not above that of the thinking


@BOTH
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that the model is an old one
@pytest.mark.parametrize(
    ("model", "options", "is_prefilled"),
    [
        ("claude-3-haiku-20240307", {}, True),
        ("claude-next", {}, False),
        ("claude-3-haiku-20240307", {"thinking": THINKING}, False),
    ],
)
def test_only_models_that_take_it_get_the_beginning_of_an_answer(
    driver: Driver, provider: Provider, url: str, model: str, options: Any, is_prefilled: bool
) -> None:
    """The others are asked to go on. The limit is what is left of it."""

    async def work(agent: Agent) -> str:
        return await agent.read(model=model, max_tokens=2000, **options)

    undisturbed = alone(driver, provider, work)
    provider.script.faults[provider.exchanges[-1].number + 1] = faults.cut(after=15)
    assert attempt(driver, provider, url, work) == undisturbed
    sent = provider.calls[-1].body
    assert (sent["messages"][-1]["role"] == "assistant") == is_prefilled
    assert 1900 < sent["max_tokens"] <= 1985


@BOTH
def test_prefill_can_be_forced(driver: Driver, provider: Provider, url: str) -> None:
    """For a model that the name does not tell of. This one refuses it, and the program learns that."""
    provider.script.reply(Reply(fault=faults.cut(after=15)))
    with pytest.raises(anthropic.APIStatusError, match="prefill"):
        attempt(driver, provider, url, Agent.read, prefill=True)
    assert provider.calls[-1].body["messages"][-1]["role"] == "assistant"


@BOTH
def test_a_call_that_was_cut_off_is_never_given(driver: Driver, provider: Provider, url: str) -> None:
    """The message after it has the call once, whole."""
    said = Reply("I note it.", calls=(NOTE,))
    provider.script.reply(said._replace(fault=faults.cut(after=5)), said)
    with pytest.raises(Exception, match=r"(?i)connection|cut|closed|incomplete"):
        attempt(driver, provider, url, _final_with_tools)
    message, _ = attempt(driver, provider, url, _final_with_tools)
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert message.content[0].text == "I note it."
    assert message.content[1].input == {"text": "the tide turns", "number": 7}


async def _final_with_tools(agent: Agent) -> Any:
    return await final(agent, tools=TOOLS)


@BOTH
def test_a_call_that_ran_out_of_tokens_is_replayed_as_it_was(
    driver: Driver, provider: Provider, url: str
) -> None:
    """The client's helper reads half an input as far as it goes, and so it does in a replay."""
    provider.script.reply(Reply("", calls=(ToolCall("note", '{"text": "the tide'),), finish="length"))
    (first, _), (again, _) = twice(driver, provider, url, _final_with_tools)
    assert first == again
    assert first.stop_reason == "max_tokens"
    assert len(provider.calls) == 1


@BOTH
def test_an_answer_that_cannot_be_continued_begins_again(
    driver: Driver, provider: Provider, url: str
) -> None:
    """With the provider's own tools: what they found would be missing."""
    provider.script.reply(Reply(fault=faults.cut(after=15)))
    tools = [{"type": "web_search_20250305", "name": "web_search"}]

    async def work(agent: Agent) -> str:
        return await agent.read(tools=tools)

    with pytest.raises(Exception, match=r"(?i)connection|cut|closed|incomplete"):
        attempt(driver, provider, url, work)
    assert attempt(driver, provider, url, work)
    first, again = provider.calls
    assert first.body == again.body


@BOTH
def test_a_call_without_its_result_is_settled_before_the_send(
    driver: Driver, provider: Provider, url: str
) -> None:
    """A tool ran, and its result never reached the history: it comes from the journal, as a block of the user's."""

    @holdfast.tool(effect="once")
    def note(text: str) -> str:
        return f"noted: {text}"

    use = {"type": "tool_use", "id": "toolu_1", "name": "note", "input": {"text": "tide"}}
    history = [
        {"role": "user", "content": ASK},
        {"role": "assistant", "content": [{"type": "text", "text": "I note it."}, use]},
        {"role": "user", "content": "And now?"},
    ]

    async def work(agent: Agent) -> str:
        note("tide")
        return await agent.ask(messages=history)

    assert attempt(driver, provider, url, work)
    (sent,) = provider.calls
    result, text = sent.body["messages"][2]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "toolu_1")
    assert "noted: tide" in str(result["content"])
    assert text == {"type": "text", "text": "And now?"}
    assert "toolu_1" in events(url, Kind.STEP_FINISHED)[-1]["mended"][0]


@BOTH
def test_messages_of_the_client_may_be_sent_back(driver: Driver, provider: Provider, url: str) -> None:
    """A tool loop: thinking with its signature, the call, its result; the same request in a replay."""
    provider.script.reply(Reply("", reasoning="The note.", calls=(NOTE,)))

    async def work(agent: Agent) -> str:
        message, _ = await final(agent, tools=TOOLS, thinking=THINKING)
        result = {"type": "tool_result", "tool_use_id": message.content[-1].id, "content": "done"}
        history = [
            {"role": "user", "content": ASK},
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [result]},
        ]
        return await agent.read(messages=history, tools=TOOLS, thinking=THINKING)

    first, again = twice(driver, provider, url, work)
    assert first == again
    assert len(provider.calls) == 2


@BOTH
def test_counting_tokens_is_a_read(driver: Driver, provider: Provider, url: str) -> None:
    """It passes inside a run; the scripted provider does not know it."""

    async def work(agent: Agent) -> None:
        counted = agent.client.messages.count_tokens(
            model="claude-next", messages=[{"role": "user", "content": ASK}]
        )
        await counted if agent.driver.is_async else None

    with pytest.raises(anthropic.NotFoundError):
        attempt(driver, provider, url, work)
    assert provider.exchanges[-1].path.endswith("/messages/count_tokens")


def _on_vertex(sent: list[Any]) -> Any:
    """A client of Vertex AI over a transport that answers by itself, whole or in events."""
    http = library_of(anthropic.Anthropic(api_key=KEY)._client)
    said = {"type": "text", "text": "The sea is wide."}
    usage = {"input_tokens": 3, "output_tokens": 5}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [said],
             "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}  # fmt: skip

    def answer(request: Any) -> Any:
        body = json.loads(request.content)
        sent.append((request.url.path, body))
        if not request.url.path.endswith(":streamRawPredict"):
            return http.Response(200, json=whole)
        stream = b"".join(map(MessagesSource.encode, events_of_message(whole))) + MessagesSource.tail
        return http.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    client = http.Client(transport=http.MockTransport(answer))
    return anthropic.AnthropicVertex(region="eu", project_id="p", access_token=KEY, http_client=client)


def test_messages_on_vertex_are_replayed(url: str) -> None:
    """The model is in the path: it is part of the record, and is sent there. Counting tokens is a read."""
    sent: list[Any] = []
    plain = _on_vertex(sent)
    client = holdfast.wrap(plain)
    asked: Any = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": ASK}]}
    heard = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            answer = client.messages.create(**asked)
            with client.messages.stream(**asked) as stream:
                streamed = stream.get_final_message()
            heard.append((answer.content[0].text, streamed.content[0].text, holdfast.replayed(answer)))
    assert heard == [("The sea is wide.", "The sea is wide.", replayed) for replayed in (False, True)]
    assert [path.rpartition("/")[2] for path, _ in sent] == [
        "claude-x:rawPredict",
        "claude-x:streamRawPredict",
    ]
    assert all("model" not in body for _, body in sent)
    with pytest.raises(holdfast.Diverged), holdfast.run("a", store=url, if_finished="reopen"):
        client.messages.create(**{**asked, "model": "claude-y"})
    assert not is_read("/publishers/anthropic/models/claude-x:rawPredict")
    assert is_read("/publishers/anthropic/models/count-tokens:rawPredict")
    plain.close()
