"""What ``holdfast.testing`` gives to users: a store that fails, a clock that is set, a model that says what it is told."""

import json
import urllib.error
import urllib.request
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast import limits
from holdfast.testing.agent_runner import where_is
from holdfast.testing.crash_matrix import differing
from holdfast.testing.fake_clock import FakeClock
from holdfast.testing.faulty_store import faulty_store
from holdfast.testing.model_server import CutOff, Failure, ModelServer, ToolCall


def new_url() -> str:
    return f"memory://{uuid4().hex}"


def ask(model: ModelServer, **more: Any) -> bytes:
    asked = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **more}).encode()
    request = urllib.request.Request(f"{model.base_url}/chat/completions", asked)
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


def test_a_write_that_fails_after_it_was_made_is_not_made_twice() -> None:
    """The outcome is read back: the step runs once, and is recorded once."""
    store, faults = faulty_store(new_url(), clock=FakeClock())
    ran: list[int] = []
    with holdfast.run("r", store=store) as run:
        faults.fail("append", when="after")
        run.step("look", ran.append, 1)
    assert (len(ran), faults.raised) == (1, 1)
    assert [event.kind for event in store.events("r")].count("step.finished") == 1


def test_a_store_that_fails_before_a_write_is_tried_again_until_it_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An outcome is held for as long as the store refuses it; the clock of the test is what passes."""
    monkeypatch.setattr(limits, "OUTCOME_HOLD_S", 600.0)
    clock = FakeClock()
    store, faults = faulty_store(new_url(), clock=clock)
    with holdfast.run("r", store=store) as run:
        faults.fail("append", at=1, times=5)
        holdfast.tool(name="pay")(lambda: "paid")()
        assert run.status == "running"
    assert faults.raised == 5
    assert clock.slept_s > 0


def test_an_unknown_method_is_refused() -> None:
    """A fault that can never strike would make a test that cannot fail."""
    _, faults = faulty_store(new_url())
    with pytest.raises(holdfast.Misuse, match="apend"):
        faults.fail("apend")


def test_the_error_can_be_chosen() -> None:
    """Such as a full disk."""
    store, faults = faulty_store(new_url())
    faults.fail("create_run", error=lambda url: holdfast.DiskFull(store=url, problem="no space", advice=""))
    with pytest.raises(holdfast.DiskFull), holdfast.run("r", store=store):
        pass
    faults.mend()
    with holdfast.run("r", store=store):
        pass


def test_days_pass_in_a_call() -> None:
    """A run that sleeps for a day is parked, and goes on when the test says that the day has passed."""
    clock = FakeClock()
    store, _ = faulty_store(new_url(), clock=clock)

    def attempt() -> None:
        with holdfast.run("r", store=store) as run:
            run.sleep(86_400, wait_s=0)

    with pytest.raises(holdfast.Sleeping):
        attempt()
    clock.advance(86_401)
    attempt()
    assert store.get("r").status == "finished"
    before = clock.monotonic()
    clock.jump(-3_600)
    assert clock.monotonic() == before


def test_the_model_says_what_it_is_told_in_order() -> None:
    """A text, a tool call, an error with a time to wait, and then the rest."""
    with ModelServer(["Hello!", ToolCall("pay", {"n": 3}), Failure(429, 1)], otherwise="bye") as model:
        assert json.loads(ask(model))["choices"][0]["message"]["content"] == "Hello!"
        call = json.loads(ask(model))["choices"][0]["message"]["tool_calls"][0]["function"]
        assert (call["name"], json.loads(call["arguments"])) == ("pay", {"n": 3})
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(model)
        assert (refused.value.code, refused.value.headers["Retry-After"]) == (429, "1")
        refused.value.close()
        assert json.loads(ask(model))["choices"][0]["message"]["content"] == "bye"
    assert len(model.requests) == 4


def test_the_model_answers_by_the_request() -> None:
    """So an agent that is killed and started again, with a new server, is told the same."""
    with ModelServer(["first"], otherwise=lambda asked: asked["messages"][-1]["content"] + "!") as model:
        said = [json.loads(ask(model))["choices"][0]["message"]["content"] for _ in range(2)]
    assert said == ["first", "Hi!"]


def test_two_calls_of_one_tool_have_two_ids() -> None:
    """As with every provider; the same request again has the same id. Both calls were ``call_pay``, which some frameworks refuse."""
    later = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]
    with ModelServer(otherwise=ToolCall("pay", {"n": 3})) as model:
        answers = [json.loads(ask(model, **more)) for more in ({}, {"messages": later}, {})]
    first, second, again = (answer["choices"][0]["message"]["tool_calls"][0]["id"] for answer in answers)
    assert first == again != second


def test_a_stream_breaks_off_where_it_is_told_to() -> None:
    """The pieces before it are there, and no end."""
    with ModelServer(["Hello, you!", CutOff("Hello, you!", pieces=2)]) as model:
        whole, cut = (ask(model, stream=True).decode() for _ in range(2))
    assert whole.endswith("data: [DONE]\n\n")
    assert [json.loads(line[6:])["choices"][0]["delta"]["content"] for line in cut.split("\n\n") if line] == [
        "Hell",
        "o, y",
    ]


def test_effects_are_compared_both_ways() -> None:
    """One too many and one too few are both named."""
    assert differing({"a": 1, "b": 1}, {"a": 2}) == (
        "'a' happened 2 times, undisturbed 1; 'b' happened 0 times, undisturbed 1"
    )
    assert not differing({"a": 1}, {"a": 1})


def test_an_agent_that_no_other_process_can_import_is_refused() -> None:
    """A function inside a function."""

    def inner() -> None: ...

    with pytest.raises(holdfast.Misuse, match="cannot be imported"):
        where_is(inner)
