"""Anthropic's messages: events to deltas, deltas to the message, and the message to events again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.llm.streams import Partial, fold_partial, is_whole, merge
from holdfast.core.llm.streams.message_events import MessageDeltas, blocks_of, events_of_message, message_of

CITED = {"type": "char_location", "cited_text": "salt", "document_index": 0}
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "The tide.", "signature": "sig"},
    {"type": "redacted_thinking", "data": "opaque"},
    {"type": "text", "text": "The sea is "},
    {"type": "text", "text": "salt.", "citations": [CITED]},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "sea"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "A"}]},
    {"type": "tool_use", "id": "t1", "name": "note", "input": {"text": "tide", "n": [1, {"a": None}]}},
    {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
    {"type": "tool_use", "id": "t3", "name": "note", "input": {}, "partial_json": '{"text": "ti'},
]


def message(blocks: list[dict[str, Any]], stop: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-next",
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 11},
    }


def deltas(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made = MessageDeltas()
    return [made.delta_of(event) for event in events]


@given(st.lists(st.sampled_from(BLOCKS), max_size=6), st.data())
def test_a_message_survives_its_events_however_they_are_journaled(
    blocks: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Events, deltas, chunks of the journal cut anywhere, the partial answer, the message."""
    whole = message(blocks)
    made = deltas(events_of_message(whole))
    chunks: list[dict[str, Any]] = []
    while made:
        count = data.draw(st.integers(1, len(made)))
        chunks.append({"try": 1, **merge(made[:count])})
        made = made[count:]
    partial = fold_partial(chunks)
    assert is_whole(partial)
    assert message_of(partial) == whole
    assert partial.text == "".join(block.get("text", "") for block in blocks)


@pytest.mark.parametrize("count", range(1, len(events_of_message(message(BLOCKS)))))
def test_a_message_that_was_cut_off_has_no_half_of_a_block(count: int) -> None:
    """Finished blocks, and text; a call only if its block was ended."""
    events = events_of_message(message(BLOCKS))
    partial = fold_partial([{"try": 1, **merge(deltas(events)[:count])}])
    cut = message_of(partial)
    assert cut["stop_reason"] == "interrupted"
    ended = {event["index"] for event in events[:count] if event["type"] == "content_block_stop"}
    for block in cut["content"]:
        assert block in BLOCKS or (block["type"] == "text" and block["text"] in {"The sea is ", "salt."})
    calls = [block for block in cut["content"] if block["type"] == "tool_use"]
    assert calls == [BLOCKS[index] for index in sorted(ended) if BLOCKS[index]["type"] == "tool_use"]


def test_a_continuation_is_part_of_the_first_message() -> None:
    """Its text is joined, its calls follow; its thoughts, and calls from before the cut, are left out."""
    first = events_of_message(message([BLOCKS[0], {"type": "text", "text": "The sea"}, BLOCKS[7]]))
    made = MessageDeltas()
    before = merge([made.delta_of(event) for event in first[:-1]])
    made.go_on(fold_partial([{"try": 1, **before}]))
    second = events_of_message(
        {**message([BLOCKS[0], {"type": "text", "text": " is salt."}, BLOCKS[6]], "tool_use"), "id": "msg_2"}
    )
    after = merge([made.delta_of(event) for event in second])
    joined = fold_partial([{"try": 1, **before}, {"try": 2, "continues": "prefill", **after}])
    found = message_of(joined)
    texts = [{"type": "text", "text": "The sea"}, {"type": "text", "text": " is salt."}]
    assert found["content"] == [BLOCKS[0], *texts, BLOCKS[6]]  # the first one had ended before the cut
    assert (found["id"], found["stop_reason"]) == ("msg_1", "tool_use")


def test_a_text_whose_end_a_prefill_replaced_is_one_block() -> None:
    """The whitespace at its end was not sent, and the model wrote other whitespace."""
    partial = Partial()
    partial.text = "The sea\nis salt."
    partial.facts = {"block.0": {"type": "text", "text": "The sea "}, "first": 1}
    assert blocks_of(partial) == ([], "The sea\nis salt.", [])
