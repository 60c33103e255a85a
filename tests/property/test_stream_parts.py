"""Laws of half-written answers, over any stream, any way to cut it, and any moment of the kill."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from orjson import dumps, loads
from tests.support.examples import examples

from holdfast.core.llm.streams import (
    Partial,
    chat_completion_of,
    chunks_of_completion,
    complete_calls,
    delta_of_chat_chunk,
    fold_partial,
    join,
    joined,
    merge,
    plan_of,
)

relaxed = settings(max_examples=examples(100), deadline=None)

texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.integers(0, 9)
pieces = texts | st.lists(numbers, max_size=2) | st.none()
fragments = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 2),
        "id": st.sampled_from(["a", "b", "c"]),
        "name": st.sampled_from(["f", "g"]),
        "arguments": st.sampled_from(["{", '"x"', ":1", "}", ""]),
        "whole": st.booleans(),
        "type": st.sampled_from(["function", "custom"]),
    },
)
facts = st.dictionaries(
    st.sampled_from(["id", "usage", "finish_reason"]), st.sampled_from(["stop", "length", "x"]), max_size=2
)
plain = st.fixed_dictionaries(
    {},
    optional={
        "text": texts,
        "reasoning": texts,
        "refusal": texts,
        "calls": st.lists(fragments, max_size=3),
        "facts": facts,
        "logprobs": st.dictionaries(st.sampled_from(["content"]), st.lists(numbers, max_size=2)),
        "more": st.dictionaries(
            st.sampled_from(["m", "n"]), st.lists(pieces, min_size=1, max_size=2), max_size=2
        ),
        "items": st.lists(st.fixed_dictionaries({"type": st.just("reasoning")}), max_size=1),
    },
)
deltas = st.builds(
    lambda delta, others: delta | ({"choices": others} if others else {}),
    plain,
    st.lists(st.builds(lambda delta, index: {"index": index, **delta}, plain, st.integers(1, 2)), max_size=1),
)


@relaxed
@given(st.lists(deltas, max_size=8), st.data())
def test_any_flushing_folds_to_the_same_partial(stream: list[dict[str, Any]], data: st.DataObject) -> None:
    """How many pieces are written to the journal at once does not matter, through JSON and back.

    Planted: fragments of calls put together by their index alone; facts appended like texts.
    """
    one_by_one = fold_partial(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    edges = [0, *cuts, len(stream)]
    flushed = [merge(stream[a:b]) for a, b in pairwise(edges)]
    bodies = [loads(dumps({"n": n, **delta})) for n, delta in enumerate(flushed)]
    assert fold_partial(bodies) == one_by_one
    assert fold_partial([merge(stream)]) == one_by_one


arguments = st.dictionaries(texts, texts | st.integers(-9, 9) | st.booleans(), max_size=3).map(
    lambda given: dumps(given).decode()
)
messages = st.builds(
    lambda text, thought, calls: {
        "role": "assistant",
        "content": text or (None if calls else ""),
        "refusal": None,
        **({"reasoning_content": thought} if thought else {}),
        **({"tool_calls": calls} if calls else {}),
    },
    texts,
    texts,
    st.lists(arguments, max_size=3).map(
        lambda given: [
            {"id": f"c{n}", "type": "function", "function": {"name": "act", "arguments": one}}
            for n, one in enumerate(given)
        ]
    ),
)


def completion(message: dict[str, Any]) -> dict[str, Any]:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def characters(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The answer as a stream of single characters."""
    (said, *calls, ended) = chunks_of_completion(completion(message))
    delta = said["choices"][0]["delta"]
    stream: list[dict[str, Any]] = [{"role": "assistant"}]
    stream += [{"reasoning_content": one} for one in delta.get("reasoning_content", "")]
    stream += [{"content": one} for one in delta.get("content", "")]
    for (call,) in (one["choices"][0]["delta"]["tool_calls"] for one in calls):
        function = call["function"]
        stream.append({"tool_calls": [{**call, "function": {"name": function["name"], "arguments": ""}}]})
        stream += [
            {"tool_calls": [{"index": call["index"], "function": {"arguments": one}}]}
            for one in function["arguments"]
        ]
    pieces = [{**said, "choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in stream]
    return [*pieces, ended]


@relaxed
@given(messages)
def test_a_streamed_answer_is_the_answer(message: dict[str, Any]) -> None:
    """Character by character, or replayed in one piece: the same completion comes out."""
    whole = completion(message)
    assert chat_completion_of(fold_partial(map(delta_of_chat_chunk, characters(message)))) == whole
    assert chat_completion_of(fold_partial(map(delta_of_chat_chunk, chunks_of_completion(whole)))) == whole


@relaxed
@given(messages, st.data())
def test_cut_anywhere_no_half_call_is_executable(message: dict[str, Any], data: st.DataObject) -> None:
    """Whatever is executable after a cut is one of the model's calls, whole; and so is what a kept answer has.

    Planted: calls with an empty or cut-off text of arguments kept.
    """
    stream = characters(message)
    cut = fold_partial(map(delta_of_chat_chunk, stream[: data.draw(st.integers(0, len(stream)))]))
    meant = [(call["id"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    executable = [(call.id, call.arguments) for call in complete_calls(cut)]
    assert executable == meant[: len(executable)]
    kept = chat_completion_of(cut)["choices"][0]["message"]
    assert [(call["id"], call["function"]["arguments"]) for call in kept.get("tool_calls", ())] == executable
    plan = plan_of(cut, "continue", False, [])
    assert all("tool_calls" not in sent for sent in plan.messages or ())


@relaxed
@given(texts, texts)
def test_the_seam_loses_nothing(before: str, after: str) -> None:
    """What stood before stays at the beginning, and what is added is an end of what came after."""
    whole = join(before, after)
    assert whole.startswith(before)
    assert after.endswith(whole[len(before) :])


@relaxed
@given(st.text(" \nab", max_size=8), st.text(" \nab", max_size=8))
def test_a_prefilled_seam_keeps_every_word(before: str, after: str) -> None:
    """Only whitespace may be written once instead of twice."""
    first, second = Partial(), Partial()
    first.text, second.text = before, after
    assert "".join(joined(first, second, "prefill").text.split()) == "".join((before + after).split())
