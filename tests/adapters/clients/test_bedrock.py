"""Bedrock's client: blocks of a message, the model's own JSON, its errors, and what is refused."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from tests.adapters.clients.bedrock_drivers import Bedrock
from tests.adapters.clients.drivers import ASK, QUICK
from tests.support.model_server import Provider, Reply, ToolCall, faults

import holdfast

SAID: Any = [{"role": "user", "content": [{"text": ASK}]}]
CALLS = Reply(text="I look.", reasoning="Let me see.", calls=(ToolCall("weather", '{"city": "Ulm"}', "t1"),))


@pytest.fixture
def plain(provider: Provider) -> Iterator[Any]:
    """A client of the scripted provider."""
    client = Bedrock().connect(provider.url)
    yield client
    client.close()


def blocks_of(events: list[dict[str, Any]]) -> dict[int, Any]:
    """What the events of a stream come to, block by block: texts, and uses of tools."""
    blocks: dict[int, Any] = {}
    for event in events:
        ((kind, told),) = event.items()
        if kind == "contentBlockStart":
            blocks[told["contentBlockIndex"]] = {**told["start"]["toolUse"], "input": ""}
        elif kind == "contentBlockDelta":
            index, delta = told["contentBlockIndex"], told["delta"]
            if "toolUse" in delta:
                blocks[index]["input"] += delta["toolUse"]["input"]
            else:
                said = delta.get("reasoningContent", delta)
                blocks[index] = blocks.get(index, "") + said.get("text", "")
    return {index: _parsed(block) for index, block in blocks.items()}


def _parsed(block: Any) -> Any:
    return {**block, "input": json.loads(block["input"])} if isinstance(block, dict) else block


def test_thoughts_and_uses_of_tools_are_replayed(plain: Any, provider: Provider, url: str) -> None:
    """An answer, and a stream, which has the same blocks in fewer events."""
    provider.script.reply(CALLS, CALLS)
    client = holdfast.wrap(plain)
    heard = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            answer = client.converse(modelId="m", messages=SAID)
            replayed = holdfast.replayed(answer)
            heard.append(
                (answer["output"], list(client.converse_stream(modelId="m", messages=SAID)["stream"]))
            )
    (first, live), (again, recorded) = heard
    assert replayed
    assert first == again
    assert first["message"]["content"][0]["reasoningContent"]["reasoningText"]["signature"] == "signed"
    assert blocks_of(live) == blocks_of(recorded)
    assert blocks_of(live) == {
        0: "Let me see.",
        1: "I look.",
        2: {"toolUseId": "t1", "name": "weather", "input": {"city": "Ulm"}},
    }
    assert recorded[-2] == {"messageStop": {"stopReason": "tool_use"}}
    assert recorded[-1] == live[-1]
    assert len(provider.calls) == 2


def test_a_continued_stream_is_one_message(plain: Any, provider: Provider, url: str) -> None:
    """It begins and ends once, and the text goes on in its block."""
    provider.script.reply(
        Reply(text="The water is poured and the", reasoning="Let me see.", fault=faults.cut(after=7)),
        Reply(text=" beans are ground.", calls=(ToolCall("weather", '{"city": "Ulm"}'),)),
    )
    client = holdfast.wrap(plain, patience=QUICK)
    with holdfast.run("a", store=url):
        events = list(client.converse_stream(modelId="m", messages=SAID)["stream"])
    kinds = [kind for event in events for kind in event]
    assert [kinds.count(kind) for kind in ("messageStart", "messageStop", "metadata")] == [1, 1, 1]
    assert (kinds[0], kinds[-2:]) == ("messageStart", ["messageStop", "metadata"])
    thought, text, call = (blocks_of(events)[index] for index in range(3))
    assert thought == "Let me see."
    assert text.endswith("beans are ground.")
    assert call["name"] == "weather"
    assert [message["role"] for message in provider.calls[-1].body["messages"]] == [
        "user",
        "assistant",
        "user",
    ]


def test_the_models_own_json_is_journaled(plain: Any, provider: Provider, url: str) -> None:
    """``invoke_model`` gives a body that is read, live and in a replay."""
    client = holdfast.wrap(plain)
    body = json.dumps({"messages": [{"role": "user", "content": ASK}], "max_tokens": 20})
    heard = []
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen") as run:
            heard.append(json.load(client.invoke_model(modelId="m", body=body)["body"]))
            spent = run.spent
    assert heard[0] == heard[1]
    assert spent.output_tokens == heard[0]["usage"]["output_tokens"]
    assert len(provider.calls) == 1


def test_errors_are_those_of_the_client(plain: Any, provider: Provider, url: str) -> None:
    """Of the class that the client has for them, live and in a replay."""
    provider.script.faults[0] = faults.bad_request("The model does not like it.")
    client = holdfast.wrap(plain)
    seen = []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url):
            try:
                client.converse(modelId="m", messages=SAID)
            except client.exceptions.ValidationException as error:
                seen.append(error)
            raise ZeroDivisionError
    assert str(seen[0]) == str(seen[1])
    assert "does not like it" in str(seen[0])
    assert len(provider.calls) == 1


def test_images_are_part_of_a_request(plain: Any, provider: Provider, url: str) -> None:
    """Bytes in a request are recorded, and tell two requests apart."""
    client = holdfast.wrap(plain)
    picture = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    said = [{"role": "user", "content": [{"text": ASK}, picture]}]
    for _ in range(2):
        with holdfast.run("a", store=url, if_finished="reopen"):
            client.converse(modelId="m", messages=said)
    assert len(provider.calls) == 1


def test_what_no_journal_records_is_refused(plain: Any, url: str) -> None:
    """Other operations of this client inside a run, and other clients when they are wrapped."""
    client = holdfast.wrap(plain)
    with (
        pytest.raises(holdfast.Unjournaled, match="InvokeModelWithResponseStream"),
        holdfast.run("a", store=url),
    ):
        client.invoke_model_with_response_stream(modelId="m", body="{}")
    other = boto3.Session("an-id", "a-key", region_name="us-east-1").client("s3")
    try:
        with pytest.raises(holdfast.Unjournaled):
            holdfast.wrap(other)
    finally:
        other.close()


def test_usage_is_counted(plain: Any, provider: Provider, url: str) -> None:
    """As Bedrock reports it, in an answer and at the end of a stream."""
    client = holdfast.wrap(plain)
    with holdfast.run("a", store=url) as run:
        usage = client.converse(modelId="m", messages=SAID)["usage"]
        assert (run.spent.input_tokens, run.spent.output_tokens) == (
            usage["inputTokens"],
            usage["outputTokens"],
        )
        list(client.converse_stream(modelId="m", messages=SAID)["stream"])
        assert run.spent.output_tokens == 2 * usage["outputTokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_without_its_result_is_settled_before_the_send(
    plain: Any, provider: Provider, url: str, stream: bool
) -> None:
    """A tool ran, and its result never reached the history: it comes from the journal, as a block of the user's."""

    @holdfast.tool(effect="once")
    def note(text: str) -> str:
        return f"noted: {text}"

    use = {"toolUse": {"toolUseId": "t1", "name": "note", "input": {"text": "tide"}}}
    told = [
        *SAID,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"text": "And now?"}]},
    ]
    client = holdfast.wrap(plain)
    with holdfast.run("a", store=url):
        note("tide")
        if stream:
            assert list(client.converse_stream(modelId="m", messages=told)["stream"])
        else:
            assert client.converse(modelId="m", messages=told)["output"]
    (sent,) = provider.calls
    result, text = sent.body["messages"][2]["content"]
    assert result == {"toolResult": {"toolUseId": "t1", "content": [{"text": "noted: tide"}]}}
    assert text == {"text": "And now?"}
