"""The reasoning trace: what answers of models say and reason, by their shape, and the thoughts of a run in order."""

from typing import Any

import pytest
from tests.unit.journals import Journal, completion

from holdfast.core.llm.reasoning import (
    ModelReply,
    ToolRequest,
    Trace,
    speech_of,
    split_thinking,
    thoughts_in,
)
from holdfast.model.events import Kind

CALL = (ToolRequest("search", {"q": "GR"}),)


@pytest.mark.parametrize(
    ("answer", "speech"),
    [
        ("plain", ModelReply(("plain",))),
        (completion("Yes.", reasoning_content="Hm."), ModelReply(("Yes.",), (), ("Hm.",))),
        (completion("Yes.", reasoning="Hm."), ModelReply(("Yes.",), (), ("Hm.",))),
        (
            completion(
                "Yes.", reasoning="Hm.", reasoning_details=[{"type": "reasoning.text", "text": "Hm."}]
            ),
            ModelReply(("Yes.",), (), ("Hm.",)),
        ),
        (
            completion("Yes.", reasoning_details=[{"type": "reasoning.summary", "summary": "Hm."}]),
            ModelReply(("Yes.",), (), ("Hm.",)),
        ),
        (completion(None, calls=[("search", {"q": "GR"})]), ModelReply((), CALL)),
        (completion("<think>\nHm.\n</think>\n\nYes."), ModelReply(("Yes.",), (), ("Hm.",))),
        (
            {
                "choices": [
                    {
                        "message": {
                            "content": [
                                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                                {"type": "text", "text": "Yes."},
                            ]
                        }
                    }
                ]
            },
            ModelReply(("Yes.",), (), ("Hm.",)),
        ),
        (
            {
                "output": [
                    {
                        "type": "reasoning",
                        "summary": [{"type": "summary_text", "text": "Hm."}],
                        "encrypted_content": "x",
                    },
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "Yes."}],
                    },
                    {"type": "function_call", "name": "search", "arguments": '{"q":"GR"}'},
                ]
            },
            ModelReply(("Yes.",), CALL, ("Hm.",)),
        ),
        (
            {
                "output": [
                    {
                        "type": "reasoning",
                        "summary": [],
                        "content": [{"type": "reasoning_text", "text": "Hm."}],
                    }
                ]
            },
            ModelReply((), (), ("Hm.",)),
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "Yes."},
                    {"type": "tool_use", "id": "1", "name": "search", "input": {"q": "GR"}},
                ],
            },
            ModelReply(("Yes.",), CALL, ("Hm.",)),
        ),
        (
            {
                "candidates": [
                    {
                        "content": {
                            "parts": [
                                {"text": "Hm.", "thought": True},
                                {"text": "Yes."},
                                {"functionCall": {"name": "search", "args": {"q": "GR"}}},
                            ]
                        }
                    }
                ]
            },
            ModelReply(("Yes.",), CALL, ("Hm.",)),
        ),
        (
            {"message": {"role": "assistant", "content": "Yes.", "thinking": "Hm."}},
            ModelReply(("Yes.",), (), ("Hm.",)),
        ),
        ({"response": "Yes.", "thinking": "Hm."}, ModelReply(("Yes.",), (), ("Hm.",))),
        ({"$": "model", "type": "m:C", "v": completion("Yes.")}, ModelReply(("Yes.",))),
        ({"data": [{"embedding": [0.1]}]}, ModelReply()),
        ({"choices": [{"message": None}, 3, {"text": "old"}]}, ModelReply(("old",))),
        (None, ModelReply()),
        ([1, 2], ModelReply()),
        (
            completion(
                None,
                calls=None,
                tool_calls=[{"function": {"name": "f", "arguments": '{"q":'}}, {"function": {}}],
            ),
            ModelReply((), (ToolRequest("f", '{"q":'),)),
        ),
    ],
)
def test_answers_by_their_shape(answer: Any, speech: ModelReply) -> None:
    """Whoever wrote them; what is no answer says nothing."""
    assert speech_of(answer) == speech


def test_thinking_in_front_of_a_text() -> None:
    """Only in front, and also where it was cut off."""
    assert split_thinking("<think>a</think>b") == ("b", "a")
    assert split_thinking("<think>a") == ("", "a")
    assert split_thinking("b <think>a</think>") == ("b <think>a</think>", "")


def texts(journal: Journal) -> list[tuple[tuple[int, ...], str, str, bool]]:
    return [
        (thought.seqs, thought.call, thought.text, thought.is_partial)
        for thought in thoughts_in(journal.events, journal.look)
    ]


def test_the_trace_in_order() -> None:
    """What the agent noted, what its models reasoned, and what one reasons now."""
    journal = Journal().start()
    journal.mark("thought", {"text": "compare first"})
    journal.answer(completion("Yes.", reasoning_content="Short,\nthey said."))
    journal.step("plain", completion("no model", reasoning_content="no thought"))
    key = journal.ask_model("draft")
    journal.chunk(key, 0, 1, "draft", reasoning="I beg")
    journal.chunk(key, 1, 1, "draft", reasoning="in", text="Debt")
    assert texts(journal) == [
        ((3,), "", "compare first", False),
        ((5,), "think", "Short,\nthey said.", False),
        ((9, 10), "draft", "I begin", True),
    ]


def test_a_try_that_began_anew_replaces_the_one_before() -> None:
    """And one that goes on from it adds to it."""
    journal = Journal().start()
    key = journal.ask_model()
    journal.chunk(key, 0, 1, reasoning="old")
    journal.crash().attempt()
    journal.chunk(key, 0, 2, reasoning="new", text="De")
    assert texts(journal) == [((7,), "think", "new", True)]
    journal.chunk(key, 0, 3, reasoning="more", text="bt", continues="prefill")
    assert texts(journal) == [((7, 8), "think", "new\n\nmore", True)]


def test_what_has_ended_is_not_told_twice() -> None:
    """Its pieces are in its answer; those of a call that failed are nobody's thoughts."""
    journal = Journal().start()
    key = journal.ask_model()
    journal.chunk(key, 0, 1, reasoning="Hm")
    journal.add(Kind.STEP_FINISHED, "think", key, usage={}, ms=1.0, value=completion("Yes", reasoning="Hm."))
    failed = journal.ask_model("other")
    journal.chunk(failed, 0, 1, "other", reasoning="lost")
    journal.add(Kind.STEP_FAILED, "other", failed, ms=1.0, error={"type": "builtins:OSError", "message": ""})
    assert texts(journal) == [((5,), "think", "Hm.", False)]


def test_pruned_and_empty_thoughts_are_left_out() -> None:
    """There is nothing to show of them."""
    journal = Journal().start()
    journal.add(Kind.MARK, "thought", "k.1", pruned="reasoning")
    journal.mark("thought", {"text": " "})
    journal.mark("decision", {"text": "no thought", "because": ""})
    assert texts(journal) == []


def test_large_thoughts_are_read_from_where_they_lie() -> None:
    """Whole, unless they are beyond the bound of whoever reads."""
    journal = Journal().start()
    journal.mark("thought", {"text": "long " * 10_000})
    journal.answer(completion("Yes", reasoning="deep " * 10_000))
    assert [len(text) for _, _, text, _ in texts(journal)] == [50_000, 50_000]
    assert thoughts_in(journal.events, lambda *_: None) == []


def test_thoughts_come_one_by_one() -> None:
    """For somebody who follows a run: each when its event comes."""
    journal = Journal().start()
    trace = Trace(journal.look)
    journal.answer(completion("Yes.", reasoning="Hm."))
    counts = [len(trace.add(event)) for event in journal.events]
    assert counts == [0, 0, 0, 1]
