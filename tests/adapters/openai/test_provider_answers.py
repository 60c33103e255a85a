"""The scripted provider answers as the real ones do, as the real client sees it."""

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from itertools import pairwise
from typing import Any

import openai
import pytest
from tests.support.model_server import Asked, Provider, Reply, ToolCall
from tests.support.model_server.client import needs_responses

ASK: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell of the sea."}]


def chat(client: openai.OpenAI, messages: Any = ASK, **options: Any) -> Any:
    return client.chat.completions.create(model="scripted", messages=messages, **options)


def streamed(client: openai.OpenAI, messages: Any = ASK, **options: Any) -> tuple[str, list[Any]]:
    chunks = list(chat(client, messages, stream=True, **options))
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), chunks


def test_the_request_decides_the_answer(provider: Provider, client: openai.OpenAI) -> None:
    """Whole or streamed, today or tomorrow, the same request has the same text, and another one another."""
    answer = chat(client)
    text = answer.choices[0].message.content
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("stop", 40)
    assert streamed(client)[0] == text
    assert chat(client, [{"role": "user", "content": "And of the land?"}]).choices[0].message.content != text
    assert [exchange.how for exchange in provider.calls] == ["finished"] * 3
    assert provider.calls[1].tokens == 40
    assert provider.calls[1].text == text


def test_many_requests_share_a_connection(provider: Provider, client: openai.OpenAI) -> None:
    """HTTP/1.1 is kept alive. (After a stream the client of 3.x hangs up by itself, at ``[DONE]``.)"""
    listener = provider._listener
    assert listener is not None
    connections = set()
    for _ in range(3):
        chat(client)
        connections |= {id(connection) for connection in listener._open}
    assert len(connections) == 1


def test_usage_comes_with_a_stream_when_asked_for(client: openai.OpenAI) -> None:
    """The last chunk has no choices and the usage; unasked, no chunk has any."""
    last = streamed(client, stream_options={"include_usage": True})[1][-1]
    assert (last.choices, last.usage.completion_tokens) == ([], 40)
    assert all(chunk.usage is None for chunk in streamed(client)[1])


def test_an_answer_is_cut_to_the_tokens_allowed(client: openai.OpenAI) -> None:
    """As providers say it: finish_reason length."""
    answer = chat(client, max_tokens=5)
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 5)


def test_tool_calls_whole_and_in_fragments(provider: Provider, client: openai.OpenAI) -> None:
    """The fragments of a streamed call, joined, are the arguments of the whole one."""
    calls = (ToolCall("pay", '{"person": "Ada", "amount": 3}'), ToolCall("note", '{"text": "ü"}'))
    provider.script.reply(Reply(text="", calls=calls), Reply(text="I pay.", calls=calls))
    whole = chat(client).choices[0]
    assert (whole.finish_reason, whole.message.content) == ("tool_calls", None)
    told = [(call.function.name, call.function.arguments) for call in whole.message.tool_calls]
    assert told == [(call.name, call.arguments) for call in calls]
    text, chunks = streamed(client)
    joined: dict[int, str] = {}
    for chunk in chunks:
        for call in chunk.choices[0].delta.tool_calls or []:
            joined[call.index] = joined.get(call.index, "") + (call.function.arguments or "")
    assert (text, list(joined.values())) == ("I pay.", [call.arguments for call in calls])
    assert len([c for c in chunks if c.choices[0].delta.tool_calls]) > 6


def test_reasoning_comes_before_the_answer(provider: Provider, client: openai.OpenAI) -> None:
    """In ``reasoning_content``, as the servers of open models have it."""
    provider.script.reply(*[Reply(text="Yes.", reasoning="Let me think.")] * 2)
    assert chat(client).choices[0].message.reasoning_content == "Let me think."
    deltas = [chunk.choices[0].delta for chunk in streamed(client)[1]]
    kinds = [
        "r" if getattr(delta, "reasoning_content", None) else "c" for delta in deltas if delta.content != ""
    ]
    assert "".join(kinds).startswith("rrrc")


def test_words_of_the_user_steer_the_answer(client: openai.OpenAI) -> None:
    """So that a program that only has a client can ask for long answers and for calls."""
    long = chat(client, [{"role": "user", "content": "Write. #tokens=120 #reasoning=7"}])
    assert long.usage.completion_tokens == 127
    call = chat(client, [{"role": "user", "content": "Note it. #call=note"}]).choices[0].message.tool_calls[0]
    assert (call.function.name, set(json.loads(call.function.arguments))) == ("note", {"text", "number"})


@pytest.mark.parametrize(
    ("flavour", "extra", "goes_on"),
    [
        ("llamacpp", {}, True),
        ("ollama", {}, True),
        ("vllm", {"continue_final_message": True, "add_generation_prompt": False}, True),
        ("vllm", {}, False),
        ("openai", {}, False),
    ],
)
def test_a_prefill_is_gone_on_with_where_the_provider_does(
    provider: Provider, client: openai.OpenAI, flavour: str, extra: dict[str, Any], goes_on: bool
) -> None:
    """Cut anywhere, the beginning and the rest are the whole answer, to the letter; elsewhere it begins anew."""
    provider.script.tell({"flavour": flavour})
    whole = streamed(client)[0]
    for place in (1, 17, len(whole) // 2, len(whole) - 1):
        begun = [*ASK, {"role": "assistant", "content": whole[:place]}]
        assert (whole[:place] + streamed(client, begun, extra_body=extra)[0] == whole) is goes_on
        answer = chat(client, begun, extra_body=extra).choices[0].message.content
        # As the real llama.cpp does it (see docs/testing.md): whole answers repeat the prefill, streams do not.
        assert (answer == (whole if flavour == "llamacpp" else whole[place:])) is goes_on


def test_an_explicit_request_to_continue(provider: Provider, client: openai.OpenAI) -> None:
    """Any provider goes on when asked to; a sloppy one repeats some of it first."""
    whole = streamed(client)[0]
    more = [
        *ASK,
        {"role": "assistant", "content": whole[:50]},
        {"role": "user", "content": "Continue exactly where you stopped."},
    ]
    assert streamed(client, more)[0] == whole[50:]
    provider.script.tell({"overlap": 9})
    assert streamed(client, more)[0] == whole[41:]


@needs_responses
def test_responses_whole_and_streamed(provider: Provider, client: openai.OpenAI) -> None:
    """The events come in the order of the real API, with running numbers, and end with the whole."""
    calls = (ToolCall("pay", '{"amount": 3}'),)
    provider.script.reply(*[Reply(text="I pay now.", reasoning="Hm, well.", calls=calls)] * 2)
    whole = client.responses.create(model="scripted", input="Pay.", instructions="Be brief.")
    assert (whole.output_text, whole.status) == ("I pay now.", "completed")
    assert whole.usage is not None
    assert whole.usage.output_tokens_details.reasoning_tokens == 2
    events = list(
        client.responses.create(model="scripted", input="Pay.", instructions="Be brief.", stream=True)
    )
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert [kind for place, kind in enumerate(kinds) if kind != kinds[place - 1]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    last = events[-1]
    assert last.type == "response.completed"
    assert [item.type for item in last.response.output] == ["reasoning", "message", "function_call"]
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == last.response.output_text == "I pay now."


@needs_responses
def test_a_response_that_ran_out_of_tokens_is_incomplete(client: openai.OpenAI) -> None:
    """And says why."""
    answer = client.responses.create(model="scripted", input="Tell of the sea.", max_output_tokens=4)
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"


def test_embeddings_in_both_encodings(client: openai.OpenAI) -> None:
    """The client asks for base64 by itself; as numbers they are the same."""
    packed = client.embeddings.create(model="scripted", input=["sea", "land"])
    plain = client.embeddings.create(model="scripted", input=["sea", "land"], encoding_format="float")
    assert [one.embedding for one in packed.data] == [one.embedding for one in plain.data]
    assert packed.data[0].embedding != packed.data[1].embedding


def test_the_asynchronous_client(provider: Provider) -> None:
    """Several streams at once, each its own text."""

    async def ask(client: openai.AsyncOpenAI, what: str) -> str:
        stream = await client.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": what}], stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=provider.base_url, api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, f"No. {number}") for number in range(5)))

    texts = asyncio.run(ask_all())
    assert len(set(texts)) == 5
    assert sorted(texts) == sorted(exchange.text for exchange in provider.calls)


def test_answers_made_by_the_test_itself(provider: Provider, client: openai.OpenAI) -> None:
    """A function of what was asked, for agents that react."""

    def answering(asked: Asked) -> Reply:
        return Reply(text=f"{asked.messages[-1][1].upper()} {asked.model}")

    provider.script.answering = answering
    assert chat(client, [{"role": "user", "content": "ahoy"}]).choices[0].message.content == "AHOY scripted"


def test_a_slow_stream_arrives_token_by_token(provider: Provider, client: openai.OpenAI) -> None:
    """Nothing holds tokens back: they arrive as they drip, not in heaps."""
    provider.script.tell({"drip_ms": 50, "tokens": 12})
    arrived = [time.monotonic() for chunk in chat(client, stream=True) if chunk.choices[0].delta.content]
    assert arrived[-1] - arrived[0] > 0.2
    assert (
        sum(later - earlier > 0.01 for earlier, later in pairwise(arrived)) >= 3
    )  # a busy machine may miss some


@pytest.mark.parametrize(
    ("flavour", "doors"),
    [
        ("ollama", ["/", "/api/tags", "/api/version"]),
        ("llamacpp", ["/health", "/props"]),
        ("vllm", ["/health", "/version"]),
        ("openai", []),
    ],
)
def test_every_flavour_has_its_own_doors(provider: Provider, flavour: str, doors: list[str]) -> None:
    """What tells one kind of server from another, and whether it has the model."""
    provider.script.tell({"flavour": flavour, "models": ["smollm2"]})
    every = ["/", "/api/tags", "/api/version", "/health", "/props", "/version"]
    assert [door for door in every if fetch(provider.url + door)[0] == 200] == doors
    assert json.loads(fetch(provider.url + "/v1/models")[1])["data"][0]["id"] == "smollm2"
    if flavour == "ollama":
        assert json.loads(fetch(provider.url + "/api/tags")[1])["models"][0]["name"] == "smollm2:latest"


def test_a_model_that_is_not_there(provider: Provider, client: openai.OpenAI) -> None:
    """Named models are the only ones; llama.cpp serves whatever it has under any name."""
    provider.script.tell({"models": ["other"]})
    with pytest.raises(openai.NotFoundError, match="scripted"):
        chat(client)
    provider.script.tell({"flavour": "llamacpp"})
    assert chat(client).choices[0].message.content


def test_two_assistant_messages_at_the_end_are_refused(provider: Provider, client: openai.OpenAI) -> None:
    """By llama.cpp: an orphaned beginning before another one is not a conversation."""
    provider.script.tell({"flavour": "llamacpp"})
    twice = [*ASK, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(openai.BadRequestError, match="2 or more assistant"):
        chat(client, twice)


def test_stopping_ends_streams_and_starting_again_keeps_the_port(
    provider: Provider, client: openai.OpenAI
) -> None:
    """In the middle of a stream the client sees a broken one; stopped it is refused; then it is there again."""
    provider.script.tell({"drip_ms": 50, "tokens": 1000})
    stream = iter(chat(client, stream=True))
    next(stream)
    stopping = threading.Thread(target=provider.stop)
    stopping.start()
    with pytest.raises(Exception, match=r"(?i)connection|peer closed|disconnected"):
        list(stream)
    stopping.join()
    with pytest.raises(openai.APIConnectionError):
        chat(client)
    provider.start()
    provider.script.tell({"drip_ms": 0, "tokens": 3})
    assert chat(client).usage.completion_tokens == 3


def fetch(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
