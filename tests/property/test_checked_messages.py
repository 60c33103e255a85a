"""The law of a conversation that is checked as it grows: the answer is that of a check of the whole."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from holdfast.core.llm.conversation import is_ready
from holdfast.core.llm.conversation.checked_messages import CheckedMessages

IDS = st.sampled_from(["a", "b", "c", ""])


def call(one: str) -> dict[str, Any]:
    function = {"name": "find", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": one, "type": "function", "function": function}],
    }


def turn(one: str) -> list[Any]:
    return [call(one), {"role": "tool", "tool_call_id": one, "content": "found"}]


def item_turn(one: str) -> list[Any]:
    asked = {"type": "function_call", "call_id": one, "name": "find", "arguments": "{}"}
    return [asked, {"type": "function_call_output", "call_id": one, "output": "found"}]


def part_turn(one: str) -> list[Any]:
    used = {"type": "tool_use", "id": one, "name": "find", "input": {}}
    return [
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": "found"}]},
    ]


SAID = st.one_of(
    st.just([{"role": "user", "content": "go"}]),
    st.just([{"role": "assistant", "content": ""}]),
    st.just([{"role": "user", "content": "go", "holdfast": {"provider": "p", "model": "m"}}]),
    st.just([{"type": "item_reference", "id": "a"}]),
    st.sampled_from([[1], [12], [123]]),
    IDS.map(turn),
    IDS.map(item_turn),
    IDS.map(part_turn),
    IDS.map(lambda one: [call(one)]),
    IDS.map(lambda one: turn(one)[1:]),
    IDS.map(lambda one: item_turn(one)[1:]),
)
ACTS = st.lists(st.tuples(st.sampled_from(["add", "add", "add", "drop", "edit", "other"]), SAID), max_size=12)


@given(ACTS)
@settings(max_examples=examples(300))
def test_a_growing_conversation_gets_the_answer_of_a_whole_check(acts: list[tuple[str, list[Any]]]) -> None:
    """Whatever was found ready before, and whichever run asks."""
    checked = CheckedMessages()
    messages: list[Any] = []
    for act, said in acts:
        if act == "drop":
            messages = messages[len(said) :]
        elif act == "edit" and messages:
            messages = [*messages[:-1], *said]
        else:
            messages = [*messages, *said]
        run = "other" if act == "other" else "run"
        assert checked.is_ready(run, messages) == is_ready(messages), messages
