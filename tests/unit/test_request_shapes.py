"""Requests and answers by their shape: told in a line, taken apart, counted."""

from typing import Any

import pytest

from holdfast.core.llm.request_shapes import (
    answered_line,
    asked_line,
    known_of,
    model_in,
    parts,
    summary,
    tokens_line,
    usage_in,
    usage_of,
)
from holdfast.model.usage import Usage


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (
            {"model": "gpt-x", "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
            Usage("gpt-x", "p", 7, 3),
        ),
        (
            {
                "usage": {
                    "input_tokens": 9,
                    "output_tokens": 4,
                    "input_tokens_details": {"cached_tokens": 5},
                    "output_tokens_details": {"reasoning_tokens": 2},
                }
            },
            Usage("m", "p", 9, 4, 5, 2),
        ),
        ({"usage": {"prompt_tokens": 0, "total_tokens": 0}}, Usage("m", "p", 0)),
        (  # Gemini, whose thoughts are counted apart
            {
                "modelVersion": "gemini-x",
                "usageMetadata": {
                    "promptTokenCount": 9,
                    "candidatesTokenCount": 4,
                    "cachedContentTokenCount": 5,
                    "thoughtsTokenCount": 2,
                    "toolUsePromptTokenCount": 1,
                },
            },
            Usage("gemini-x", "p", 10, 6, 5, 2),
        ),
        ({"model": "llama", "prompt_eval_count": 7, "eval_count": 3}, Usage("llama", "p", 7, 3)),  # Ollama
        (  # Bedrock, whose cached tokens are counted apart
            {"usage": {"inputTokens": 7, "outputTokens": 3, "cacheReadInputTokens": 2}},
            Usage("m", "p", 9, 3, 2),
        ),
        ({"usage": None}, Usage("m", "p")),
        (
            {"usage": {"prompt_tokens": "many", "completion_tokens": -1, "input_tokens": True}},
            Usage("m", "p"),
        ),
        ("just a text", Usage("m", "p")),
        (None, Usage("m", "p")),
    ],
)
def test_what_an_answer_took(answer: Any, usage: Usage) -> None:
    """As the provider says it, in its own words; what it does not say stays unknown, and is never zero."""
    assert usage_in(answer, model="m", provider="p") == usage


def test_what_is_not_known_is_not_written() -> None:
    """And what a later version has written is passed over."""
    usage = Usage("m", "", 1, None)
    assert known_of(usage) == {"model": "m", "input_tokens": 1}
    assert usage_of({**known_of(usage), "carbon_g": 3}) == usage


def test_a_request_in_a_line() -> None:
    """How long the conversation is and how it ends; the same from the record."""
    request = {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi\nthere"}],
    }
    told = summary(request, "abc")
    assert told == {"messages": 2, "last": "user: Hi there", "request": "abc"}
    assert asked_line({"model": "m", "args": told}) == "m, 2 messages: user: Hi there"
    assert summary({"input": "a question"}, "abc")["last"] == "a question"
    assert summary([1, 2], "abc") == {"request": "abc"}
    assert (model_in(request), model_in([]), model_in({"model": 3})) == ("m", "", "")


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ({"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}, "Hello."),
        (
            {
                "output": [
                    {"type": "reasoning"},
                    {"type": "message", "role": "assistant", "content": [{"text": "Yes."}]},
                ]
            },
            "Yes.",
        ),
        ({"data": [[0.1], [0.2]]}, "2 vectors"),
        ({"embeddings": [[0.1], [0.2]]}, "2 vectors"),
        ({"embedding": {"values": [0.1]}}, "1 vector"),
        (
            {
                "candidates": [
                    {
                        "content": {
                            "role": "model",
                            "parts": [
                                {"text": "Hm.", "thought": True},
                                {"text": "Yes."},
                                {"functionCall": {"name": "look", "args": {"at": "it"}}},
                            ],
                        }
                    }
                ]
            },
            'Yes.; call look(at="it")',
        ),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "(empty)"),
        ({"message": {"role": "assistant", "content": "Yes.", "thinking": "Hm."}}, "Yes."),
        ({"response": "Yes.", "done": True}, "Yes."),
        (
            {
                "output": {
                    "message": {
                        "role": "assistant",
                        "content": [
                            {"text": "Yes."},
                            {"toolUse": {"name": "look", "input": {"at": "it"}}},
                        ],
                    }
                }
            },
            'Yes.; call look(at="it")',
        ),
        ("Hello.", "Hello."),
        ({"other": 1}, None),
        (7, None),
    ],
)
def test_an_answer_in_a_line(answer: Any, line: str | None) -> None:
    """What it says; nothing for a shape that nobody knows."""
    assert answered_line(answer) == line


def test_tokens_in_a_line() -> None:
    """Only what is known."""
    assert tokens_line({"input_tokens": 1200, "output_tokens": 0}) == "1,200 tokens in, 0 out"
    assert tokens_line({"output_tokens": 5}) == "5 out"
    assert tokens_line({}) == ""


def test_the_parts_of_a_request() -> None:
    """Each message is one, so that a difference names it."""
    assert parts({"model": "m", "messages": ["a", "b"]}) == {
        "model": "m",
        "messages[0]": "a",
        "messages[1]": "b",
    }
    assert parts("text") == {"request": "text"}


def test_items_of_the_responses_api_stand_by_themselves() -> None:
    """A call and its result are no messages, and read as those in a message do."""
    called = {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"what": "air"}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "found air"}
    assert answered_line({"output": [called]}) == 'call search(what="air")'
    assert summary({"input": [called, result]}, "x")["last"] == "result found air"


def test_an_answer_that_is_a_message_of_anthropic_on_a_line() -> None:
    """Its text and its calls, not its thoughts."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    use = {"type": "tool_use", "id": "1", "name": "search", "input": {"what": "air"}}
    content = [thinking, {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "I look."}, use]
    assert answered_line({"role": "assistant", "content": content}) == 'I look.; call search(what="air")'
