"""Laws of valid history, over any list of anything."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from holdfast.core.llm.conversation import (
    MENDABLE,
    for_model,
    mend,
    prepare_request,
    tag,
    validate,
)
from holdfast.errors import InvalidHistory

relaxed = settings(max_examples=examples(300), deadline=None)

ids = st.sampled_from(["a", "b", "c", ""])
names = st.sampled_from(["find", "pay", ""])
arguments = st.sampled_from(["{}", '{"q":1}', '{"q":', "12", "", None])
words = st.sampled_from(["", "hi", "look", None])


def chat_call(call: str, name: str, given_: Any) -> dict[str, Any]:
    return {"id": call, "type": "function", "function": {"name": name, "arguments": given_}}


chat = st.one_of(
    st.builds(
        lambda text, calls: {"role": "assistant", "content": text, "tool_calls": calls},
        words,
        st.lists(st.builds(chat_call, ids, names, arguments), max_size=3),
    ),
    st.builds(lambda call, text: {"role": "tool", "tool_call_id": call, "content": text}, ids, words),
)
items = st.one_of(
    st.builds(
        lambda call, name, given_: {
            "type": "function_call",
            "call_id": call,
            "name": name,
            "arguments": given_,
        },
        ids,
        names,
        arguments,
    ),
    st.builds(lambda call: {"type": "function_call_output", "call_id": call, "output": "o"}, ids),
    st.just({"type": "reasoning", "id": "rs"}),
)
text_part = st.just({"type": "text", "text": "t"})
parts = st.one_of(
    st.builds(
        lambda content: {"role": "assistant", "content": content},
        st.lists(
            text_part
            | st.builds(lambda c, n: {"type": "tool_use", "id": c, "name": n, "input": {}}, ids, names),
            max_size=3,
        ),
    ),
    st.builds(
        lambda content: {"role": "user", "content": content},
        st.lists(
            text_part | st.builds(lambda c: {"type": "tool_result", "tool_use_id": c, "content": "r"}, ids),
            max_size=3,
        ),
    ),
)
said = st.builds(
    lambda role, text: {"role": role, "content": text},
    st.sampled_from(["system", "user", "assistant"]),
    words,
)
odd = st.sampled_from(["a text", None, 3, {}, {"role": "model", "parts": []}, {"role": None}, [1]])
conversations = (
    st.lists(chat | said, max_size=8)
    | st.lists(items | said, max_size=8)
    | st.lists(parts | said, max_size=8)
    | st.lists(chat | items | parts | said | odd, max_size=8)
)


@relaxed
@given(conversations)
def test_mended_is_valid_but_for_what_nobody_can_mend(messages: list[Any]) -> None:
    """Whatever is left are messages that nobody can understand, and they are named.

    Planted: results looked for in front of their call only; a stray result left; a renamed call without its result.
    """
    mended, _ = mend(messages)
    assert not [problem for problem in validate(mended) if problem.code in MENDABLE]


class Fields(dict[str, Any]):
    """An object of another class than ``dict``, which is read with more care."""


@relaxed
@given(conversations)
@example(
    [
        {"role": "assistant", "content": None, "tool_calls": [chat_call("a", "find", "{}")]},
        {"role": "user", "content": "hi"},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
    ]
)
def test_texts_are_judged_like_all_messages(messages: list[Any]) -> None:
    """A text is known at a glance, and the verdict is the same. Planted: a text did not end the turn of a call."""
    careful = [Fields(one) if isinstance(one, dict) else one for one in messages]
    assert validate(messages) == validate(careful)


@relaxed
@given(conversations)
def test_mending_twice_is_mending_once(messages: list[Any]) -> None:
    """What is mended needs nothing, and a conversation that needs nothing keeps its very messages."""
    mended, repairs = mend(messages)
    again, more = mend(mended)
    assert more == []
    assert len(again) == len(mended)
    assert all(one is other for one, other in zip(again, mended, strict=True))
    assert bool(repairs) == any(problem.code in MENDABLE for problem in validate(messages))


@relaxed
@given(conversations)
def test_mending_touches_nothing_that_it_is_given(messages: list[Any]) -> None:
    """The old conversation is as it was, and everything that was said stays: texts, and calls by their names."""
    before = repr(messages)
    mended, _ = mend(messages)
    assert repr(messages) == before
    assert texts(mended) == texts(messages)


def texts(messages: list[Any]) -> list[Any]:
    found: list[Any] = []
    for message in messages:
        if isinstance(message, dict) and message.get("role") in {"system", "user", "assistant"}:
            content = message.get("content")
            found += [content] if content and isinstance(content, str) else []
            found += (
                [part["text"] for part in content if part["type"] == "text"]
                if isinstance(content, list)
                else []
            )
    return found


@relaxed
@given(conversations)
def test_what_is_sent_is_valid_or_refused(messages: list[Any]) -> None:
    """A request is prepared whole or not at all: no problem passes, and the refusal names the first message."""
    if any(problem.code not in {"bad_arguments", "empty_assistant"} for problem in validate(messages)):
        with pytest.raises(InvalidHistory) as refused:
            prepare_request(messages, "p", "m")
        assert 0 <= refused.value.index < len(messages)
    else:
        assert validate(prepare_request(messages, "p", "m")) == []


thoughtful = st.builds(
    lambda text, provider, model: tag(
        {"role": "assistant", "content": text, "reasoning_content": "secret"}, provider, model
    ),
    st.sampled_from(["", "hi"]),
    st.sampled_from(["openai", "ollama"]),
    st.sampled_from(["m", "m-2026-01-01", "n"]),
)


@relaxed
@given(st.lists(thoughtful, max_size=4))
def test_nobody_gets_anothers_thoughts(messages: list[Any]) -> None:
    """Tags never leave, own thoughts go back as they were, others' never; what is left of a mere thought is nothing."""
    sent = for_model(messages, "openai", "m")
    own = [
        one
        for one in messages
        if one["holdfast"]["provider"] == "openai" and one["holdfast"]["model"] in {"m", "m-2026-01-01"}
    ]
    assert [one for one in sent if "reasoning_content" in one] == [
        {name: value for name, value in one.items() if name != "holdfast"} for one in own
    ]
    assert not any("holdfast" in one for one in sent)
    assert all(one["content"] or "reasoning_content" in one for one in sent)
