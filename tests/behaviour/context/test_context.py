"""``run.context``: drawn once, the same in every replay, true, and the same for whoever looks from outside."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from orjson import dumps
from tests.support.context_check import verify

import holdfast
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.prune import prune_run
from holdfast.model.context import Context
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind


class Crash(Exception):
    pass


def work(number: int) -> dict[str, int]:
    return {"number": number}


def checked(url: str, place: str, **options: Any) -> Context:
    """The context of a run from outside, every line of it checked against the run's journal."""
    store = holdfast.store(url)
    context = store.context(place, **options)
    events = store.events(place.partition("@")[0])
    blobs: dict[str, bytes] = {}
    for event in events:
        fields, whole = contents_of(event.body), store.content(event)
        for name in [name for name in fields if name.endswith("_blob") and name != "view_blob"]:
            blobs[fields[name]] = dumps(whole[name.removesuffix("_blob")])
    assert (
        verify(context, events, lambda address: blobs.get(address) or read_blob(store._port, address)) == []
    )
    return context


def asked(requests: list[str], answer: str = "fine") -> Any:
    def call(request: dict[str, Any]) -> dict[str, Any]:
        requests.append(request["messages"][0]["content"])
        return {"choices": [{"message": {"role": "assistant", "content": answer}}]}

    return call


def test_a_replay_gets_the_recorded_text(url: str) -> None:
    """Put into a model's request it is the same request, which is answered from the journal; where the program goes on,
    the context tells the present.

    Planted: the context made anew at each call, which stopped the second attempt with Diverged.
    """
    requests: list[str] = []

    def agent(turns: int) -> list[str]:
        told = []
        with holdfast.run("a", goal="Explain debt", store=url) as run:
            for turn in range(turns):
                run.step("work", work, turn)
                told.append(run.context(600))
                request = {"messages": [{"role": "system", "content": told[-1]}]}
                run.model("think", asked(requests), request, model="m")
            raise Crash
        return told

    for turns in (1, 2, 3):
        with pytest.raises(Crash):
            agent(turns)
    assert len(requests) == 3
    assert "This is the first attempt" in requests[0]
    assert "You are resuming this run: attempt 2 began" in requests[1]
    assert "You are resuming this run: attempt 3 began" in requests[2]
    assert "Attempt 2 failed with Crash." in requests[2]


def test_reading_changes_nothing(url: str) -> None:
    """Twice in a row it is the same text, also with drawn values in between; and outside they read the same bytes."""
    with holdfast.run("a", goal="Explain debt", store=url) as run:
        run.step("work", work, 1)
        first = run.context()
        run.now()
        assert run.context() == first
        assert str(holdfast.store(url).context("a")) == first
        run.step("work", work, 2)
        assert run.context() != first


def test_other_options_are_another_context(url: str) -> None:
    """Each is recorded by itself, and found again by itself."""

    def agent() -> list[str]:
        with holdfast.run("a", goal="Explain debt", store=url) as run:
            run.step("work", work, 1)
            told = [run.context(500), run.context(style="facts"), run.context(count=len, budget_tokens=330)]
            raise Crash(told)
        return told

    found = []
    for _ in range(2):
        with pytest.raises(Crash) as crash:
            agent()
        found.append(crash.value.args[0])
    assert found[0] == found[1]
    assert len(set(found[0])) == 3


def test_after_a_restore_it_tells_the_present(url: str) -> None:
    """A program that restores is told what happened since, once, and the same in the attempt after that."""

    def agent(*, crash: bool) -> str:
        with holdfast.run("a", goal="Count", store=url) as run:
            state = run.restore({"i": 0})
            told = run.context(500)
            for i in range(state["i"], 3):
                run.step("work", work, i)
                run.checkpoint({"i": i + 1})
                if crash:
                    raise Crash(told)
            return told
        raise AssertionError

    with pytest.raises(Crash) as crash:
        agent(crash=True)
    assert "first attempt" in crash.value.args[0]
    assert "You are resuming this run: attempt 2" in agent(crash=False)


def test_async_runs_have_it_too(url: str) -> None:
    """The same text."""

    async def agent() -> None:
        async with holdfast.run("a", goal="Explain debt", store=url) as run:
            await run.step("work", work, 1)
            assert await run.context() == str(holdfast.store(url).context("a"))

    asyncio.run(agent())


def test_a_finished_run_tells_nothing_new_to_its_program(url: str) -> None:
    """What it was told is replayed; a context that was never drawn is refused like any new work."""
    with holdfast.run("a", store=url) as run:
        told = run.context()
        run.finish(1)
    with holdfast.run("a", store=url) as run:
        assert run.context() == told
        with pytest.raises(holdfast.RunFinished):
            run.context(style="facts")
    assert "The run is finished; its result is 1." in str(checked(url, "a"))


def test_a_place_is_told_as_it_stood(url: str) -> None:
    """By its point, its event or its label; one that is not there is refused."""
    with holdfast.run("a", goal="Count", store=url) as run:
        run.step("work", work, 1)
        told = run.context()
        run.checkpoint({"i": 1}, label="one")
        run.step("work", work, 2)
    store = holdfast.store(url)
    assert str(store.context("a@1")) == told
    assert str(store.context("a@one")) == told
    assert '"number": 2' not in str(store.context("a@#6"))
    assert '"number": 2' in str(checked(url, "a"))
    with pytest.raises(holdfast.UnknownPoint):
        store.context("a@99")
    with pytest.raises(holdfast.UnknownRun):
        store.context("b")


def test_large_results_are_read_where_they_lie(url: str) -> None:
    """Of one beyond the bound only its size is told."""
    with holdfast.run("a", store=url) as run:
        run.step("page", lambda: "word " * 10_000)
        run.step("film", lambda: "x" * 1_500_000)
    text = str(checked(url, "a"))
    assert 'page() returned "word word' in text
    assert "film() is done; its result of 1,500,002 bytes is too long to be shown" in text


def test_a_fork_is_told_where_it_comes_from(url: str) -> None:
    """Before it has begun, and when somebody goes on with it."""
    with holdfast.run("a", goal="Count", store=url) as run:
        run.step("work", work, 1)
        run.step("work", work, 2)
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    with pytest.raises(Crash), holdfast.run("b", store=url) as run:
        text = run.context()
        assert 'This run is a fork: it shares the history of run "a" up to #4.' in text
        assert "You go on from there, as attempt 2." in text
        assert '"number": 2' not in text
        raise Crash
    checked(url, "b")


def test_a_rewound_run_forgets_what_does_not_count(url: str) -> None:
    """And says that it was moved back."""
    with pytest.raises(Crash), holdfast.run("a", goal="Count", store=url) as run:
        run.step("work", work, 1)
        run.step("work", work, 2)
        raise Crash
    holdfast.store(url).rewind("a@1")
    text = str(checked(url, "a"))
    assert "This run was moved back: what was done after #4 does not count here any more" in text
    assert '"number": 2' not in text


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20], ids=["view in a blob", "view in the event"])
def test_a_compacted_history_is_still_true(
    url: str, monkeypatch: pytest.MonkeyPatch, inline_bytes: int
) -> None:
    """What was kept is cited by the event that stands for the rest, whose view is a blob if it is long.

    It is long in a process with many modules: a once effect records which program made it.
    """
    monkeypatch.setattr(prune_run, "VALUE_INLINE_BYTES_MAX", inline_bytes)
    keep = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=10)
    with pytest.raises(Crash), holdfast.run("a", goal="Count", store=url, retention=keep) as run:
        run.restore(None)
        run.plan(["work", "rest"])
        for i in range(20):
            run.once("work", work, i)
            run.checkpoint({"i": i})
        raise Crash
    store = holdfast.store(url)
    store.prune("a", policy=keep)
    assert any(event.kind == Kind.COMPACTED for event in store.events("a"))
    text = str(checked(url, "a"))
    assert '- "Count" (#' in text
    assert "events before only what they came to is kept" in text
    for style in ("full", "facts"):
        checked(url, "a", style=style)


def test_bad_options_are_refused_before_anything_is_recorded(url: str) -> None:
    """A style that there is none of, a budget of nothing."""
    with holdfast.run("a", store=url) as run:
        for options in ({"style": "verse"}, {"budget_tokens": 0}, {"budget_tokens": 5}):
            with pytest.raises(holdfast.Misuse):
                run.context(**options)
    assert not [event for event in holdfast.store(url).events("a") if event.name == "context"]


@pytest.mark.slow
def test_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    """With another seed for hashes, and at another time."""
    url = f"sqlite:///{tmp_path}/x.db"
    with pytest.raises(Crash), holdfast.run("a", goal="Explain debt", store=url, inputs={"b": {1, 2}}) as run:
        for i in range(30):
            run.step("work", work, i)
            run.think(f"thought {i}")
        raise Crash
    here = str(holdfast.store(url).context("a", 700, style="full"))
    program = f"import holdfast; print(holdfast.store({url!r}).context('a', 700, style='full'), end='')"
    for seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert there.stdout == here


def test_real_model_calls_and_streams_are_told(url: str) -> None:
    """As they stand in a journal that the engine wrote: an answer, a stream, and one that was cut off."""

    def pieces(_: Any) -> Any:
        yield "Debt "
        yield "cycles "
        raise Crash

    with pytest.raises(Crash), holdfast.run("a", goal="Explain debt", store=url) as run:
        run.model(
            "think", asked([], "Let me see."), {"messages": [{"role": "user", "content": "x"}]}, model="m"
        )
        list(run.stream("title", lambda _: iter(["Debt ", "cycles"]), {"prompt": "t"}, model="m"))
        list(run.stream("draft", pieces, {"prompt": "d"}, model="m"))
    text = str(checked(url, "a"))
    assert 'think with model "m" answered "Let me see."' in text
    assert 'title with model "m" answered "Debt cycles"' in text
    checked(url, "a", style="full")


def test_people_times_and_budgets_are_told(url: str) -> None:
    """As they stand in a journal that the engine wrote: a question, its answer, a wait, a budget that runs out."""

    def agent() -> None:
        budget = holdfast.Budget(calls=2, warn_at=0.5)
        with holdfast.run("a", goal="Pay Ada", store=url, budget=budget) as run:
            run.model("think", asked([], "I ask first."), {"messages": [{"content": "x"}]}, model="m")
            run.model("think", asked([], "I ask now."), {"messages": [{"content": "y"}]}, model="m")
            run.ask("May I pay?", returns=bool, about={"to": "Ada", "sum": 5})
            run.sleep(3_600, wait_s=0)

    with pytest.raises(holdfast.Parked):
        agent()
    text = str(checked(url, "a"))
    assert '- "May I pay?", about {"sum": 5, "to": "Ada"} (#' in text
    assert "Attempt 1 was paused" in text
    assert "A budget runs out: " in text
    holdfast.store(url).answer("a", True, by="kim", reason="it is due")
    with pytest.raises(holdfast.Parked):
        agent()
    text = str(checked(url, "a"))
    assert '- "May I pay?" was answered true by "kim", because "it is due" (#' in text
    assert "## Open questions" not in text
    assert "sleep waits" in text
    holdfast.store(url).cancel("a", by="kim", reason="enough")
    assert 'This run was cancelled by "kim": "enough"' in str(checked(url, "a"))
