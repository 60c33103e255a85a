"""Model calls: journaled before anything acts on them, answered from the journal, and as cheap as what is new in them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any

import pytest

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.model.retention import Keep, Retention


class Crash(Exception):
    pass


class Model:
    """A provider that answers with a number and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        text = noise(len(request["messages"]))
        return {
            "model": "m-1",
            "choices": [{"message": {"role": "assistant", "content": text}}],
            "usage": {
                "prompt_tokens": 7,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 2},
            },
        }


def noise(number: int) -> str:
    """Text that does not compress, so that bytes stored twice are seen."""
    return "".join(sha256(f"{number}.{part}".encode()).hexdigest() for part in range(8))


def talk(run: holdfast.Run, model: Model, turns: int) -> list[dict[str, Any]]:
    """A conversation of so many turns."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": noise(1000 + turn)})
        answer = run.model("chat", model, {"model": "m", "messages": messages}, provider="here")
        messages.append(answer["choices"][0]["message"])
    return messages


def attempt(url: str, body: Callable[[holdfast.Run], Any]) -> None:
    """An attempt that ends in the middle, as far as the journal knows."""
    with suppress(Crash), holdfast.run("a", store=url) as run:
        body(run)
        raise Crash


def events(url: str, kind: str) -> list[dict[str, Any]]:
    return [contents_of(event.body) for event in holdfast.store(url).events("a") if event.kind == kind]


def test_a_recorded_answer_is_given_again_without_asking(url: str) -> None:
    """The same request in the next attempt gets the recorded answer; a new one is sent."""
    model = Model()
    attempt(url, lambda run: talk(run, model, 2))
    told: list[Any] = []
    attempt(url, lambda run: told.append(talk(run, model, 3)))
    assert len(model.asked) == 3
    assert len(told[0]) == 6


def test_what_is_recorded_of_a_model_call(url: str) -> None:
    """The intent names model and provider and tells the end of the conversation; the outcome begins with the usage."""
    attempt(url, lambda run: talk(run, Model(), 2))
    first, second = events(url, Kind.STEP_STARTED)
    assert (first["effect"], first["model"], first["provider"]) == ("model", "m", "here")
    assert second["args"]["messages"] == 3
    assert second["args"]["last"].startswith("user: ")
    assert "idempotency_key" not in first
    outcome = events(url, Kind.STEP_FINISHED)[0]
    assert next(iter(outcome)) == "usage"
    assert outcome["usage"] == {
        "model": "m-1",
        "provider": "here",
        "input_tokens": 7,
        "output_tokens": 3,
        "cached_tokens": 2,
    }


def _talk_so_long(turns: int, run: holdfast.Run) -> None:
    talk(run, Model(), turns)


@pytest.mark.slow
def test_a_conversation_costs_what_is_new_in_it(url: str) -> None:
    """Twice the turns take about twice the bytes, across restarts too. Planted: a request
    that a new attempt did not know again took 2.3 times."""
    sizes = []
    for turns in (30, 60, 120):
        attempt(url, partial(_talk_so_long, turns))
        size = holdfast.store(url).size("a")
        assert size is not None
        sizes.append(size)
    assert sizes[1] < sizes[0] * 2.15
    assert sizes[2] < sizes[1] * 2.15


def test_requests_and_states_share_what_they_have_in_common(url: str) -> None:
    """A checkpoint of the messages that were just sent writes next to nothing."""

    def body(run: holdfast.Run) -> None:
        messages = talk(run, Model(), 40)[:-1]
        before = holdfast.store(url).size("a")
        run.checkpoint({"messages": messages})
        after = holdfast.store(url).size("a")
        assert before is not None
        assert after is not None
        assert after - before < 3000

    attempt(url, body)


def test_another_request_at_that_place_stops_the_run(url: str) -> None:
    """A changed prompt is drift: nothing is sent, and the error names the message that differs."""
    model = Model()
    attempt(url, lambda run: talk(run, model, 1))
    with pytest.raises(holdfast.Diverged, match=r"messages\[0\]"), holdfast.run("a", store=url) as run:
        run.model("chat", model, {"model": "m", "messages": [{"role": "user", "content": "other"}]})
    assert len(model.asked) == 1


def test_a_changed_parameter_is_drift_too(url: str) -> None:
    """Another temperature is another request."""
    model = Model()
    request = {"messages": [{"role": "user", "content": "a"}]}
    attempt(url, lambda run: run.model("chat", model, {**request, "temperature": 0}))
    with pytest.raises(holdfast.Diverged, match="temperature"), holdfast.run("a", store=url) as run:
        run.model("chat", model, {**request, "temperature": 1})


def test_a_failure_that_ended_the_attempt_is_tried_again(url: str) -> None:
    """A wrong key, mended, does not come back from the journal."""

    def refused(request: Any) -> Any:
        raise PermissionError("wrong key")

    with pytest.raises(PermissionError), holdfast.run("a", store=url) as run:
        run.model("chat", refused, {"messages": []})
    model = Model()
    with holdfast.run("a", store=url) as run:
        run.model("chat", model, {"messages": []})
    assert len(model.asked) == 1


def test_a_call_that_was_cut_off_is_made_again(url: str) -> None:
    """Between request and answer nothing is in doubt: the model is asked again."""

    class Cut(BaseException):
        pass

    def cut(request: Any) -> Any:
        raise Cut

    with pytest.raises(Cut), holdfast.run("a", store=url) as run:
        run.model("chat", cut, {"messages": []})
    model = Model()
    with holdfast.run("a", store=url) as run:
        run.model("chat", model, {"messages": []})
    assert len(model.asked) == 1


def test_requests_survive_prune_and_compaction(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a request needs is kept with it, and a compacted run talks on. Planted: without the roots of requests their
    packs were reclaimed, and the diff of a drift could not be read."""
    monkeypatch.setattr("holdfast.engine.prune.prune_store.BLOB_GRACE_S", -1.0)
    policy = Retention(checkpoints=Keep(last=1), compact_events=10)
    model = Model()

    def body(run: holdfast.Run) -> None:
        run.restore(None)
        messages = talk(run, model, 12)
        run.checkpoint({"messages": messages})
        run.checkpoint({"messages": messages[:4]})
        run.model("chat", model, {"messages": [{"role": "user", "content": noise(7)}]})

    attempt(url, body)
    store = holdfast.store(url)
    store.prune(policy=policy)
    requests = [body["request"] for body in events(url, Kind.STEP_STARTED)]
    assert requests
    from holdfast.engine.state.state_store import read_state

    for request in requests:
        assert read_state(store._port, request)["messages"]
    with holdfast.run("a", store=url) as run:
        run.restore(None)
        run.model("chat", model, {"messages": [{"role": "user", "content": noise(7)}]})
        run.model("chat", model, {"messages": [{"role": "user", "content": noise(8)}]})


def test_a_call_that_was_open_when_its_run_was_compacted_can_still_be_told_apart(url: str) -> None:
    """What it asked is gone with the stretch, and the drift says so instead of failing. Planted: the base referred to packs
    that were reclaimed, and reading them was Corrupt."""

    class Cut(BaseException):
        pass

    def cut(request: Any) -> Any:
        raise Cut

    def begin(run: holdfast.Run) -> None:
        run.restore(None)
        with suppress(Cut):
            run.model("chat", cut, {"messages": [{"role": "user", "content": noise(5)}]})
        for number in range(20):
            run.step("work", str, number)
        run.checkpoint({"at": 1})

    attempt(url, begin)
    store = holdfast.store(url)
    store.prune("a", policy=Retention(checkpoints=Keep(last=1), compact_events=5))
    assert any(event.kind == Kind.COMPACTED for event in store.events("a"))
    with pytest.raises(holdfast.Diverged, match="last"), holdfast.run("a", store=url) as run:
        run.model("chat", Model(), {"messages": [{"role": "user", "content": noise(6)}]})


def test_an_exported_run_brings_its_requests_along(url: str, tmp_path: Any) -> None:
    """The packs of requests are part of an export."""
    attempt(url, lambda run: talk(run, Model(), 5))
    store = holdfast.store(url)
    store.export("a", tmp_path / "a.holdfast")
    other = holdfast.store(tmp_path / "other.db")
    run = other.import_(tmp_path / "a.holdfast").run
    from holdfast.engine.state.state_store import read_state

    bodies = [contents_of(e.body) for e in other.events(run) if e.kind == Kind.STEP_STARTED]
    assert [len(read_state(other._port, body["request"])["messages"]) for body in bodies] == [1, 3, 5, 7, 9]


def test_an_awaited_model_is_the_same(url: str) -> None:
    """Async and blocking calls leave the same records; either answers the other."""

    async def ask(request: dict[str, Any]) -> dict[str, Any]:
        return Model()(request)

    async def main() -> Any:
        async with holdfast.run("a", store=url) as run:
            return await run.model("chat", ask, {"messages": [1]})

    first = asyncio.run(main())
    model = Model()
    with holdfast.run("a", store=url) as run:
        assert run.model("chat", model, {"messages": [1]}) == first
    assert not model.asked


def test_a_request_that_cannot_be_written_down_is_refused_before_it_is_sent(url: str) -> None:
    """NotStorable names the place in the request; nothing was asked."""
    model = Model()
    with (
        pytest.raises(holdfast.NotStorable, match=r"request of 'chat'.*lock"),
        holdfast.run("a", store=url) as run,
    ):
        run.model("chat", model, {"messages": [], "callback": __import__("threading").Lock()})
    assert not model.asked


def test_model_calls_do_not_hide_that_the_agent_goes_in_circles(url: str) -> None:
    """Each request is new, and the calls between them are the same. Planted: counted as news, nobody noticed."""

    @holdfast.tool(effect="read")
    def search(query: str) -> str:
        return "nothing found"

    model = Model()
    with pytest.raises(holdfast.Looping), holdfast.run("a", store=url) as run:
        messages: list[dict[str, Any]] = []
        for turn in range(12):
            messages.append({"role": "user", "content": f"turn {turn}"})
            run.model("chat", model, {"messages": messages})
            search("debt")
