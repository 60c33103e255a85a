"""Half-written answers: what their pieces come to, what is done with them, and the seam where they went on."""

from typing import Any

import pytest

from holdfast.core.llm.streams import (
    GO_ON,
    Fragment,
    Partial,
    chat_completion_of,
    chunks_of_completion,
    complete_calls,
    delta_of_chat_chunk,
    delta_of_response_event,
    fold_partial,
    is_whole,
    join,
    joined,
    merge,
    plan_of,
    response_of,
)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def call_piece(index: int, arguments: str = "", **named: str) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": named.pop("name")} if "name" in named else {})
    return {"index": index, **named, "function": function}


def partial_of(*chunks: dict[str, Any]) -> Partial:
    return fold_partial(delta_of_chat_chunk(one) for one in chunks)


def test_a_chat_stream_comes_to_a_whole_answer() -> None:
    """Texts are appended, fragments of calls find their call, and the facts told last stand."""
    partial = partial_of(
        chunk(role="assistant", content="", reasoning_content="Let me "),
        chunk(reasoning_content="see."),
        chunk(content="I look "),
        chunk(content="it up."),
        chunk(tool_calls=[call_piece(0, id="c1", name="find", type="function")]),
        chunk(tool_calls=[call_piece(0, '{"q":')]),
        chunk(
            tool_calls=[
                call_piece(0, '"debt"}'),
                call_piece(1, '{"x":1}', id="c2", name="add", type="function"),
            ]
        ),
        chunk("tool_calls"),
        {"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}},
    )
    assert partial.text == "I look it up."
    assert partial.calls == [Fragment(0, "c1", "find", '{"q":"debt"}'), Fragment(1, "c2", "add", '{"x":1}')]
    assert is_whole(partial)
    answer = chat_completion_of(partial)
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 5}
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "I look it up.",
                "refusal": None,
                "reasoning_content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "find", "arguments": '{"q":"debt"}'},
                    },
                    {"id": "c2", "type": "function", "function": {"name": "add", "arguments": '{"x":1}'}},
                ],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ]


def test_a_replayed_stream_says_what_the_answer_says() -> None:
    """A completion as chunks, folded again, is the completion; the usage comes last, and only if asked for."""
    answer = chat_completion_of(
        partial_of(
            chunk(role="assistant", content="Hi", reasoning="because", annotations=[{"a": 1}]),
            chunk(tool_calls=[call_piece(0, "{}", id="c1", name="f")]),
            chunk("tool_calls"),
            {"choices": [], "usage": {"total_tokens": 9}},
        )
    )
    assert chat_completion_of(partial_of(*chunks_of_completion(answer, usage=True))) == answer
    assert all("usage" not in one for one in chunks_of_completion(answer))


def test_a_replayed_stream_has_each_call_in_a_chunk_of_its_own() -> None:
    """As providers send them: LlamaIndex reads only the first call of a chunk, and lost the others in a replay."""
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in "ab"]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    answer = {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    deltas = [one["choices"][0]["delta"] for one in chunks_of_completion(answer)]
    assert deltas == [
        {"role": "assistant"},
        {"tool_calls": [{"index": 0, **calls[0]}]},
        {"tool_calls": [{"index": 1, **calls[1]}]},
        {},
    ]


def test_several_answers_at_once_are_kept_apart() -> None:
    """Pieces of a second choice never enter the first. Planted: the index of a choice ignored."""
    second = chunk(content="B")
    second["choices"][0]["index"] = 1
    ended = chunk("stop")
    partial = partial_of(chunk(content="A"), second, chunk(content="A"), second, ended)
    assert partial.text == "AA"
    assert partial.others[1].text == "BB"
    assert not is_whole(partial)
    assert [one["message"]["content"] for one in chat_completion_of(partial)["choices"]] == ["AA", "BB"]
    assert plan_of(partial, "continue", True, []).how == "restart"


@pytest.mark.parametrize(
    ("arguments", "finish", "executable"),
    [
        ('{"path": "a.txt"}', None, True),
        ('{"path": "a.txt"} ', None, True),
        ('{"path": "a.tx', None, False),
        ('{"path": "a.txt"', "length", False),
        ("[1, 2]", None, False),
        ("12", None, False),
        ("null", "tool_calls", False),
        ("", None, False),
        ("", "length", False),
        ("", "tool_calls", True),
    ],
)
def test_only_whole_calls_may_be_executed(arguments: str, finish: str | None, executable: bool) -> None:
    """A call counts with its closing brace. Without arguments it counts only when the model said it had finished.

    Planted: a number, which is JSON also when it was cut off, taken for arguments.
    """
    partial = Partial()
    partial.add({"calls": [{"index": 0, "id": "c", "name": "rm", "arguments": arguments}]})
    if finish:
        partial.add({"facts": {"finish_reason": finish}})
    assert bool(complete_calls(partial)) is executable


def test_what_is_kept_of_a_cut_off_answer_has_no_cut_off_call() -> None:
    """Kept as it is, an answer says that it was interrupted, and has its whole calls only."""
    partial = partial_of(
        chunk(role="assistant", content="Both:"),
        chunk(tool_calls=[call_piece(0, '{"a":1}', id="c1", name="f")]),
        chunk(tool_calls=[call_piece(1, '{"a":', id="c2", name="f")]),
    )
    (choice,) = chat_completion_of(partial)["choices"]
    assert choice["finish_reason"] == "interrupted"
    assert [call["id"] for call in choice["message"]["tool_calls"]] == ["c1"]


def test_servers_that_give_every_call_the_same_index() -> None:
    """Another id is another call. Planted: found by the index alone, which made one call of two."""
    partial = partial_of(
        chunk(tool_calls=[call_piece(0, '{"a":1}', id="c1", name="f")]),
        chunk(tool_calls=[call_piece(0, '{"a":2}', id="c2", name="f")]),
    )
    assert [(call.id, call.arguments) for call in partial.calls] == [("c1", '{"a":1}'), ("c2", '{"a":2}')]


def test_servers_that_repeat_the_name_and_give_no_index() -> None:
    """A name is taken once, and a piece without an index goes on with the last call."""
    partial = partial_of(
        chunk(tool_calls=[{"id": "c1", "function": {"name": "f", "arguments": "{"}}]),
        chunk(tool_calls=[{"function": {"name": "f", "arguments": "}"}}]),
    )
    assert partial.calls == [Fragment(0, "c1", "f", "{}")]


def test_half_a_character_can_still_be_written_down() -> None:
    """What no journal could hold is replaced as it arrives."""
    assert delta_of_chat_chunk(chunk(content="\ud83d"))["text"] == "?"
    assert delta_of_chat_chunk(chunk(content="Zürich"))["text"] == "Zürich"


# -- responses ------------------------------------------------------------------------------------------------


RESPONSE_EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "resp_1", "model": "m", "created_at": 3, "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."},
    {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": []},
    },
    {"type": "response.output_text.delta", "output_index": 1, "delta": "I "},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "look."},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "find", "arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"q":'},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '"x"}'},
    {
        "type": "response.output_item.done",
        "output_index": 2,
        "item": {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"q":"x"}'},
    },
]


def test_a_responses_stream_comes_to_the_same_partial() -> None:
    """Cut off before its end, the finished items, the text and the whole calls are there, marked incomplete."""
    partial = fold_partial(delta_of_response_event(event) for event in RESPONSE_EVENTS)
    assert (partial.text, partial.reasoning) == ("I look.", "Hm.")
    assert partial.calls == [Fragment(2, "c1", "find", '{"q":"x"}')]
    answer = response_of(partial)
    assert answer["status"] == "incomplete"
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message", "function_call"]
    assert answer["output"][0]["encrypted_content"] == "gAAA"
    cut = fold_partial(delta_of_response_event(event) for event in RESPONSE_EVENTS[:8])
    assert [item["type"] for item in response_of(cut)["output"]] == ["reasoning", "message"]


@pytest.mark.parametrize(
    ("kind", "response", "finish", "whole"),
    [
        ("response.completed", {"status": "completed", "output": []}, "stop", True),
        (
            "response.completed",
            {"status": "completed", "output": [{"type": "function_call"}]},
            "tool_calls",
            True,
        ),
        (
            "response.incomplete",
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            True,
        ),
        ("response.failed", {"status": "failed", "error": {"message": "no"}}, "failed", False),
    ],
)
def test_how_a_responses_stream_ends(kind: str, response: dict[str, Any], finish: str, whole: bool) -> None:
    """The whole response is a fact of its last event; one that failed is no answer."""
    partial = fold_partial([delta_of_response_event({"type": kind, "response": response})])
    assert partial.facts["finish_reason"] == finish
    assert response_of(partial) == response
    assert is_whole(partial) is whole


# -- tries ----------------------------------------------------------------------------------------------------


def test_only_the_last_try_counts() -> None:
    """A try that began anew replaces what stood; one that goes on is joined to it, and so on."""
    bodies: list[dict[str, Any]] = [
        {"n": 0, "try": 1, "text": "lost"},
        {"n": 0, "try": 2, "text": "The quick brown "},
        {"n": 1, "try": 2, "text": "fox jumps over"},
        {"n": 0, "try": 3, "continues": "asked", "text": "fox jumps over the"},
        {"n": 1, "try": 3, "text": " lazy"},
        {"n": 0, "try": 4, "continues": "prefill", "text": " dog."},
    ]
    assert fold_partial(bodies).text == "The quick brown fox jumps over the lazy dog."
    assert fold_partial(bodies[:1]).text == "lost"
    assert fold_partial(bodies[:3]).text == "The quick brown fox jumps over"
    assert fold_partial([]).is_empty


def test_a_continued_answer_ends_as_its_last_try_ended() -> None:
    """What went wrong in the first try is no fact of the joined answer; the calls are those of the last."""
    before, after = Partial(), Partial()
    before.add({"text": "Hello", "facts": {"id": "a", "error": {"message": "cut"}}})
    before.add({"calls": [{"index": 0, "name": "f", "arguments": '{"a'}]})
    after.add({"text": " world", "facts": {"id": "b", "finish_reason": "stop"}})
    whole = joined(before, after, "prefill")
    assert (whole.text, whole.calls, whole.facts) == ("Hello world", [], {"id": "b", "finish_reason": "stop"})


# -- what to do -----------------------------------------------------------------------------------------------

ASKED = [{"role": "user", "content": "Tell."}]


def of(**delta: Any) -> Partial:
    partial = Partial()
    partial.add(delta)
    return partial


CUT_CALL = {"index": 0, "id": "c", "name": "f", "arguments": '{"a'}


@pytest.mark.parametrize(
    ("partial", "on_partial", "prefill", "how"),
    [
        (of(), "continue", True, "restart"),
        (of(), "keep", True, "restart"),
        (of(text="Once"), "continue", True, "prefill"),
        (of(text="Once"), "continue", False, "asked"),
        (of(text="Once"), "restart", True, "restart"),
        (of(text="Once"), "keep", True, "keep"),
        (of(text="Once", calls=[CUT_CALL]), "continue", True, "prefill"),
        (of(calls=[CUT_CALL]), "continue", True, "restart"),
        (of(calls=[CUT_CALL]), "continue", False, "restart"),
        (of(calls=[CUT_CALL]), "keep", False, "keep"),
        (of(text=" \n", calls=[CUT_CALL]), "continue", False, "restart"),
        (of(reasoning="Let me see"), "continue", True, "restart"),
        (of(reasoning="Let me see"), "keep", True, "keep"),
        (of(refusal="I can"), "continue", True, "restart"),
        (of(text="Once", facts={"finish_reason": "stop"}), "restart", True, "whole"),
        (of(text="Once", facts={"finish_reason": "failed"}), "continue", True, "prefill"),
    ],
)
def test_what_is_done_with_a_cut_off_answer(
    partial: Partial, on_partial: Any, prefill: bool, how: str
) -> None:
    """By its policy, what the provider can and what there is to go on from; every plan says why."""
    plan = plan_of(partial, on_partial, prefill, ASKED)
    assert plan.how == how
    assert plan.why
    assert (plan.messages is not None) == bool(plan.continues)


def test_what_is_sent_to_go_on() -> None:
    """The history, then the text so far; without prefill also a request to go on. The history is not touched."""
    partial = of(text="Once upon \n", calls=[CUT_CALL])
    assert plan_of(partial, "continue", True, ASKED).messages == [
        *ASKED,
        {"role": "assistant", "content": "Once upon"},
    ]
    assert plan_of(partial, "continue", False, ASKED).messages == [
        *ASKED,
        {"role": "assistant", "content": "Once upon \n"},
        {"role": "user", "content": GO_ON},
    ]
    assert len(ASKED) == 1


# -- the seam -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("Hello wor", "ld.", "Hello world."),
        ("Hello ", "world.", "Hello world."),
        ("Hello", " world.", "Hello world."),
        ("Hello\n\n", "\nworld", "Hello\n\n\nworld"),
        ("", "Hello", "Hello"),
        ("Hello", "", "Hello"),
        # said twice: dropped once
        ("The debt rose in the", "rose in the year 1823.", "The debt rose in the year 1823."),
        ("The debt rose in the", " rose in the year 1823.", "The debt rose in the year 1823."),
        ("The debt rose", "The debt rose in 1823.", "The debt rose in 1823."),
        # too little to tell, or a pattern: kept
        ("The debt rose in the", "the year", "The debt rose in thethe year"),
        ("no no no no no no", "no no no no no no!", "no no no no no nono no no no no no!"),
        ("a: 1\na: 1\na: 1\n", "a: 1\na: 1\na: 1\n", "a: 1\na: 1\na: 1\na: 1\na: 1\na: 1\n"),
        ("        }\n        }\n", "        }\n        }\n", "        }\n" * 4),
        # the middle, not the end
        (
            "The debt rose in 1823 and",
            "The debt rose again.",
            "The debt rose in 1823 andThe debt rose again.",
        ),
    ],
)
def test_what_the_model_said_twice_stands_once(before: str, after: str, whole: str) -> None:
    """After an explicit request to go on; nothing else changes at the seam.

    Planted: the overlap looked for from the shortest, which dropped a part; patterns not left alone, which lost lines.
    """
    assert join(before, after) == whole


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("Hello wor", "ld.", "Hello world."),
        ("Hello ", "world.", "Hello world."),
        ("Hello ", " world.", "Hello world."),
        ("Hello\n", "\n\nworld.", "Hello\n\nworld."),
        ("rose in the year", "rose in the year 1823", "rose in the year 1823"),
        ("The debt rose in the", "rose in the year", "The debt rose in therose in the year"),
    ],
)
def test_the_seam_after_a_prefill(before: str, after: str, whole: str) -> None:
    """Whitespace that was not sent is there once; a server that repeats the prefill is understood; nothing is guessed.

    Planted: the whitespace kept in any case, which doubled the blank.
    """
    assert joined(of(text=before), of(text=after), "prefill").text == whole


def test_reasoning_of_both_halves_is_kept() -> None:
    """Thoughts from before and after the cut stand apart."""
    assert joined(of(text="a", reasoning="one"), of(reasoning="two"), "asked").reasoning == "one\n\ntwo"


def test_merging_keeps_what_is_told_apart() -> None:
    """What is put together for the journal is small, and says which fragment began a call."""
    fragments: list[dict[str, Any]] = [
        {"calls": [{"index": 0, "id": "c", "name": "f"}]},
        {"calls": [{"index": 0, "arguments": "{"}]},
        {"calls": [{"index": 0, "arguments": "}"}]},
        {"text": "a"},
        {"text": "b", "facts": {"x": 1}},
    ]
    assert merge(fragments) == {
        "calls": [{"index": 0, "id": "c", "name": "f"}, {"index": 0, "arguments": "{}"}],
        "text": "ab",
        "facts": {"x": 1},
    }
