"""The conversation as a provider must see it: what is wrong with one, how it is mended, what another model gets."""

from typing import Any

import pytest

from holdfast.core.llm.conversation import (
    AGAIN,
    DOUBT,
    NOT_RUN,
    Ask,
    Known,
    Settler,
    for_model,
    mend,
    plain_of,
    prepare_request,
    tag,
    validate,
)
from holdfast.core.steps.identity import keyed
from holdfast.errors import InvalidHistory

Message = dict[str, Any]


def user(text: Any = "go") -> Message:
    return {"role": "user", "content": text}


def calls(*named: str, arguments: str = "{}") -> Message:
    asked = [
        {"id": one, "type": "function", "function": {"name": "find", "arguments": arguments}} for one in named
    ]
    return {"role": "assistant", "content": None, "tool_calls": asked}


def result(call: str, text: str = "found") -> Message:
    return {"role": "tool", "tool_call_id": call, "content": text}


def item_call(call: str, arguments: str = "{}") -> Message:
    return {"type": "function_call", "call_id": call, "name": "find", "arguments": arguments}


def item_result(call: str, text: str = "found") -> Message:
    return {"type": "function_call_output", "call_id": call, "output": text}


def uses(*named: str) -> Message:
    content = [{"type": "tool_use", "id": one, "name": "find", "input": {}} for one in named]
    return {"role": "assistant", "content": [{"type": "text", "text": "I look."}, *content]}


def part(call: str, text: str = "found") -> Message:
    return {"type": "tool_result", "tool_use_id": call, "content": text}


TEXT = {"type": "text", "text": "and on"}
ANSWER = {"role": "assistant", "content": "Done."}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "Be brief."}, user(), ANSWER],
        [user(), calls("a", "b"), result("b"), result("a"), ANSWER],
        [user(), calls("a"), result("a"), calls("a"), result("a")],
        [user(), {**calls("a"), "content": "I look."}, result("a"), user()],
        [user(), item_call("a"), item_call("b"), item_result("a"), item_result("b")],
        [user(), {"type": "reasoning", "id": "r"}, item_call("a"), user("wait"), item_result("a")],
        [{"type": "item_reference", "id": "i"}, item_result("a")],
        [user(), uses("a", "b"), user([part("a"), part("b"), TEXT]), ANSWER],
        [{"role": "user", "content": ""}, {"role": "developer", "content": "x"}],
        [{"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}],
        [calls("a", arguments=""), result("a")],
        [{"role": "assistant", "content": "", "reasoning_content": "hm"}],
    ],
)
def test_what_providers_take_is_not_touched(messages: list[Any]) -> None:
    """A valid conversation has no problems, and mended it has the very same messages."""
    assert validate(messages) == []
    mended, repairs = mend(messages)
    assert repairs == []
    assert len(mended) == len(messages)
    assert all(one is other for one, other in zip(mended, messages, strict=True))


@pytest.mark.parametrize(
    ("messages", "codes", "mended"),
    [
        # the shape of chat completions
        ([user(), calls("a")], ["orphaned_call"], [user(), calls("a"), result("a", DOUBT)]),
        (
            [calls("a", "b"), result("b"), user()],
            ["orphaned_call"],
            [calls("a", "b"), result("b"), result("a", DOUBT), user()],
        ),
        ([user(), result("a")], ["result_without_call"], [user()]),
        ([calls("a"), result("a"), result("a", "2")], ["duplicate_result"], [calls("a"), result("a")]),
        (
            [calls("a"), user(), result("a")],
            ["orphaned_call", "misplaced_result"],
            [calls("a"), result("a"), user()],
        ),
        (
            [result("a"), calls("a")],
            ["misplaced_result", "orphaned_call"],
            [calls("a"), result("a")],
        ),
        ([user(), {"role": "assistant", "content": None}], ["empty_assistant"], [user()]),
        (
            [calls("a", arguments='{"q":'), result("a")],
            ["bad_arguments"],
            [calls("a", arguments='{"INVALID_JSON":"{\\"q\\":"}'), result("a")],
        ),
        (
            [calls("a", "a"), result("a")],
            ["duplicate_id"],
            [calls("a"), result("a")],
        ),
        # items
        ([item_call("a"), user()], ["orphaned_call"], [item_call("a"), item_result("a", DOUBT), user()]),
        (
            [item_call("a"), item_call("b"), item_result("b")],
            ["orphaned_call"],
            [item_call("a"), item_call("b"), item_result("a", DOUBT), item_result("b")],
        ),
        (
            [item_result("a"), item_call("a")],
            ["misplaced_result", "orphaned_call"],
            [item_call("a"), item_result("a")],
        ),
        (
            [item_call("a"), item_result("a"), item_call("a"), item_result("a")],
            ["duplicate_id", "duplicate_result"],
            [item_call("a"), item_result("a"), item_call("a-2"), item_result("a-2")],
        ),
        # content parts
        ([uses("a")], ["orphaned_call"], [uses("a"), user([part("a", DOUBT)])]),
        (
            [uses("a"), user("go on")],
            ["orphaned_call"],
            [uses("a"), user([part("a", DOUBT), {"type": "text", "text": "go on"}])],
        ),
        (
            [uses("a"), ANSWER],
            ["orphaned_call"],
            [uses("a"), user([part("a", DOUBT)]), ANSWER],
        ),
        (
            [uses("a"), user([TEXT, part("a")])],
            ["misplaced_result"],
            [uses("a"), user([part("a"), TEXT])],
        ),
        (
            [uses("a", "b"), user([part("a")]), ANSWER, user([part("b")])],
            ["orphaned_call", "misplaced_result"],
            [uses("a", "b"), user([part("a"), part("b")]), ANSWER],
        ),
        (
            [uses("a"), user([part("a")]), uses("a"), user([part("a")])],
            ["duplicate_id", "duplicate_result"],
            None,
        ),
    ],
)
def test_what_providers_refuse_is_found_and_mended(
    messages: list[Any], codes: list[str], mended: list[Any] | None
) -> None:
    """Each problem has its code, and its one mending."""
    assert [problem.code for problem in validate(messages)] == codes
    made, repairs = mend(messages)
    assert repairs
    assert validate(made) == []
    if mended is not None:
        assert made == mended


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("hello", "not_an_object"),
        (None, "not_an_object"),
        ({"content": "hello"}, "unknown_role"),
        ({"role": "model", "parts": []}, "unknown_role"),
        ({"role": "tool", "content": "x"}, "missing_id"),
        (calls(""), "missing_id"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]}, "nameless_call"),
    ],
)
def test_what_nobody_can_mend_is_named_and_left(message: Any, code: str) -> None:
    """It stays as it is, and stays a problem."""
    assert code in [problem.code for problem in validate([message])]
    mended, _ = mend([user(), message])
    assert mended[1] is message
    assert code in [problem.code for problem in validate(mended)]


def test_every_repair_says_what_was_done() -> None:
    """For the journal and for people: where, what, and in words."""
    messages = [result("x"), user(), calls("a", "b"), user(), result("b", "late")]
    _, repairs = mend(messages, results={"a": "it rained"})
    assert [(repair.at, repair.what, repair.text) for repair in repairs] == [
        (0, "dropped", "a result: call x is not in the conversation"),
        (2, "settled", "call a (find) had no result: it rained"),
        (4, "moved", "the result of call b (find) did not stand behind it"),
    ]


def test_the_results_that_somebody_knows_come_first() -> None:
    """By the call's id, then by asking; only then it is told to be in doubt. Planted: the order the other way round."""
    seen: list[tuple[str, int]] = []

    def found(ask: Ask, index: int) -> str | None:
        seen.append((ask.id, index))
        return "asked" if ask.id == "b" else None

    mended, _ = mend([user(), calls("a", "b", "c")], {"a": "known"}, found)
    assert [one["content"] for one in mended[2:]] == ["known", "asked", DOUBT]
    assert seen == [("b", 1), ("c", 1)]


def test_a_request_that_goes_on_where_the_provider_remembers() -> None:
    """Results may come without their calls there; elsewhere they may not."""
    assert validate([item_result("a")], continues=True) == []
    assert mend([item_result("a")], continues=True)[1] == []
    assert prepare_request([item_result("a")], None, None, continues=True) == [item_result("a")]
    with pytest.raises(InvalidHistory):
        prepare_request([item_result("a")], None, None)


# -- what the journal knows -----------------------------------------------------------------------------------


def step(seq: int, name: str = "find", arguments: Any = None, **fields: Any) -> Known:
    fields = {"key": f"k{seq}", "repeatable": True, "result": f"r{seq}", **fields}
    return Known(seq, fields.pop("key"), name, {} if arguments is None else arguments, **fields)


@pytest.mark.parametrize(
    ("steps", "ask", "told"),
    [
        ([step(5, arguments={"q": 1})], Ask("a", "find", '{"q":1}'), "r5"),
        ([step(5, arguments={"q": 1, "limit": 10})], Ask("a", "find", '{"q":1}'), "r5"),
        ([step(5, arguments={"request": {"q": 1}})], Ask("a", "find", '{"q":1}'), "r5"),
        ([step(5, arguments={"q": 2})], Ask("a", "find", '{"q":1}'), NOT_RUN),
        ([step(5, "pay")], Ask("a", "find", "{}"), DOUBT),
        ([step(5, "pay", is_tool=True)], Ask("a", "find", "{}"), NOT_RUN),
        ([step(5, result=None)], Ask("a", "find", None), AGAIN),
        ([step(5, result=None, repeatable=False)], Ask("a", "find", ""), DOUBT),
        ([step(5, "other", key=keyed("a"))], Ask("a", "find", "{}"), "r5"),
        ([step(2), step(5), step(7)], Ask("a", "find", {}), "r5"),
        ([], Ask("a", "find", "{}"), DOUBT),
    ],
)
def test_what_became_of_a_call(steps: list[Known], ask: Ask, told: str) -> None:
    """By key, or by name and arguments, among the steps after the message. Whether a call was begun is said only where
    calls are recorded at all.

    Planted: any recorded step of the run taken, which told the result of an earlier call.
    """
    assert Settler(steps).text_of(ask, after_seq=3) == told


def test_a_recorded_step_is_the_result_of_one_call() -> None:
    """Two calls alike have two steps, in their order; the third was not begun."""
    settler = Settler([step(5), step(6)])
    ask = Ask("a", "find", "{}")
    assert [settler.text_of(ask, after_seq=1) for _ in range(3)] == ["r5", "r6", NOT_RUN]
    assert Settler([step(5), step(6)]).text_of(ask) == "r6"


# -- what goes out --------------------------------------------------------------------------------------------


def test_thoughts_go_only_to_the_model_that_had_them() -> None:
    """Fields, parts, items with their encrypted content, and signatures beside calls; the tag itself never goes."""
    thoughts: list[Message] = [
        {"role": "assistant", "content": "Hi", "reasoning_content": "hm", "reasoning_details": [1]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, TEXT]},
        {"role": "assistant", "content": "", "reasoning": "only a thought"},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [TEXT]},
        {**calls("a"), "tool_calls": [{**calls("a")["tool_calls"][0], "extra_content": {"google": {}}}]},
        result("a"),
    ]
    tagged = [tag(one, "openai", "o9-2026-01-01") for one in thoughts]
    assert for_model(tagged, "openai", "o9") == thoughts
    assert for_model(tagged, None, None) == thoughts
    foreign = [
        {"role": "assistant", "content": "Hi"},
        {"role": "assistant", "content": [TEXT]},
        {"type": "message", "role": "assistant", "content": [TEXT]},
        calls("a"),
        result("a"),
    ]
    assert for_model(tagged, "openai", "o9-mini") == foreign
    assert for_model(tagged, "ollama", "o9") == foreign
    assert for_model(thoughts, "ollama", "llama") == thoughts


def test_a_request_is_refused_with_the_message_and_the_next_command() -> None:
    """Nothing that a provider would refuse is sent."""
    with pytest.raises(
        InvalidHistory, match="message 1 of the conversation cannot be sent: call a"
    ) as refused:
        prepare_request([user(), calls("a")], "openai", "m")
    assert (refused.value.index, refused.value.code, refused.value.count) == (1, "orphaned_call", 1)
    assert "run.messages.mend()" in str(refused.value.hint)


def test_small_matters_are_smoothed_in_what_is_sent() -> None:
    """An empty message of the assistant and arguments that are no JSON: only some providers mind."""
    messages = [user(), {"role": "assistant", "content": ""}, calls("a", arguments="oops"), result("a")]
    sent = prepare_request(messages, None, None)
    assert sent == [user(), calls("a", arguments='{"INVALID_JSON":"oops"}'), result("a")]


def test_a_recorded_object_is_sent_as_its_fields() -> None:
    """Typed messages are plain again, with the fields that the SDK did not know, and without those nobody set."""
    recorded = {
        "$": "model",
        "type": "openai:ChatCompletionMessage",
        "v": {"role": "assistant", "content": "Hi", "audio": None, "pair": {"$": "tuple", "v": [1, 2]}},
        "extra": {"reasoning_content": "hm"},
    }
    assert plain_of([recorded]) == [
        {"role": "assistant", "content": "Hi", "pair": [1, 2], "reasoning_content": "hm"}
    ]
