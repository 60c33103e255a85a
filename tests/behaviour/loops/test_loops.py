"""An agent in a loop: warned, nudged, parked; across restarts, in threads and tasks, and not where it is told not to."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast.model.events import Event, Kind

NUDGE = "You have called search with the same arguments 3 times and got the same result; try something else or finish."
calls: list[object] = []


class Crash(Exception):
    pass


class Seen(NamedTuple):
    """What an attempt saw: the nudge after each thing it did, and how it ended."""

    nudges: list[str | None]
    end: str


Do = tuple[str, Any]
"""A thing to do: the name of a step and its argument, or ``think`` and the thought."""
Attempt = Callable[..., Seen]

SAME: list[Do] = [("search", "debt")]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def work(name: str, argument: object) -> object:
    """Says the same whenever it is asked the same."""
    calls.append((name, argument))
    if name == "fail":
        raise LookupError(argument)
    return f"{name} of {argument}"


async def work_async(name: str, argument: object) -> object:
    return work(name, argument)


def tool(name: str, fn: Callable[..., Any] = work) -> Callable[..., Any]:
    """Tools are what a model calls, and what is paused."""
    return holdfast.tool(effect="read", name=name)(fn)


def blocking(url: str, todo: Sequence[Do], **options: Any) -> Seen:
    nudges = []
    try:
        with holdfast.run("a", store=url, **options) as run:
            for name, argument in todo:
                try:
                    if name == "think":
                        run.think(argument)
                    else:
                        tool(name)(name, argument)
                except LookupError:
                    pass
                nudges.append(run.nudge)
            raise Crash
    except (Crash, holdfast.Parked) as end:
        return Seen(nudges, type(end).__name__)
    raise AssertionError("unreachable")


def awaiting(url: str, todo: Sequence[Do], **options: Any) -> Seen:
    nudges = []

    async def main() -> None:
        async with holdfast.run("a", store=url, **options) as run:
            for name, argument in todo:
                try:
                    if name == "think":
                        await run.think(argument)
                    else:
                        await tool(name, work_async)(name, argument)
                except LookupError:
                    pass
                nudges.append(run.nudge)
            raise Crash

    try:
        asyncio.run(main())
    except (Crash, holdfast.Parked) as end:
        return Seen(nudges, type(end).__name__)
    raise AssertionError("unreachable")


@pytest.fixture(params=[blocking, awaiting], ids=["sync", "async"])
def attempt(request: pytest.FixtureRequest) -> Attempt:
    made: Attempt = request.param
    return made


def signs(url: str, run: str = "a") -> list[str]:
    """What was said, from the journal."""
    store = holdfast.store(url)
    return [_told(store, event) for event in store.events(run) if event.kind.startswith("loop.")]


def _told(store: holdfast.Store, event: Event) -> str:
    if event.kind == Kind.LOOP_LEFT:
        return "left"
    body = store.content(event)
    return f"{body['level']} {body['pattern']} {body['times']}"


# -- warn, nudge, pause -----------------------------------------------------------------------------------------


def test_warned_then_nudged_then_parked(url: str, attempt: Attempt, caplog: pytest.LogCaptureFixture) -> None:
    """Twice, three times, five times; what was done is recorded, also the call that was one too many."""
    with caplog.at_level(logging.WARNING, "holdfast"):
        seen = attempt(url, SAME * 9)
    assert seen == Seen([None, None, NUDGE, NUDGE], "Looping")
    assert signs(url) == ["warn repeat 2", "nudge repeat 3", "pause repeat 5"]
    assert [record.getMessage() for record in caplog.records] == [
        "run a seems to be in a loop: search ran 2 times with the same arguments and the same result",
        "run a seems to be in a loop: search ran 3 times with the same arguments and the same result",
    ]
    events = holdfast.store(url).events("a")
    assert sum(event.kind == Kind.STEP_FINISHED for event in events) == len(calls) == 5
    assert holdfast.store(url).get("a").status == "parked"


def test_the_stop_says_what_is_repeated(url: str) -> None:
    """A ``Parked`` that names the circle, with what to type next."""
    with pytest.raises(holdfast.Parked) as raised, holdfast.run("a", store=url):
        for _ in range(5):
            tool("search")("search", "debt")
    assert str(raised.value) == (
        "run a is parked: loop detected: search ran 5 times with the same arguments and the same result"
    )
    assert "`holdfast resume a` lets it continue" in raised.value.hint


def test_a_sign_stands_with_its_outcome(url: str, attempt: Attempt) -> None:
    """In one append: no kill leaves one without the other, and none is signed twice."""
    attempt(url, SAME * 3)
    events = holdfast.store(url).events("a")
    for before, event in pairwise(events):
        if event.kind == Kind.LOOP_NOTICED:
            assert (before.kind, before.key, before.at) == (Kind.STEP_FINISHED, event.key, event.at)


def test_alternations_and_failures_count(url: str, attempt: Attempt) -> None:
    """A-B-A-B, where A fails the same way each time and the program goes past it."""
    seen = attempt(url, [("fail", "x"), ("search", "y")] * 5)
    assert seen.end == "Looping"
    assert signs(url) == ["warn alternation 2", "nudge alternation 3", "pause alternation 5"]


def test_thoughts_count(url: str, attempt: Attempt) -> None:
    """The same thought with nothing new done; planted: marks not looked at."""
    seen = attempt(url, [("think", "I should search again.")] * 9)
    assert (len(seen.nudges), seen.end) == (5, "Looping")
    assert signs(url) == ["warn thought 3", "nudge thought 4", "pause thought 6"]
    assert seen.nudges[3] is not None


def test_something_new_ends_the_nudge(url: str, attempt: Attempt) -> None:
    """Another call, or another result; that it led out of the circle is recorded, and the counts begin again."""
    seen = attempt(url, [*SAME * 4, ("think", "hm"), ("search", "cycles"), *SAME * 2])
    assert seen == Seen([None, None, NUDGE, NUDGE, NUDGE, None, None, None], "Crash")
    assert signs(url) == ["warn repeat 2", "nudge repeat 3", "left", "warn repeat 6"]


def test_the_place_of_a_call_does_not_hide_it(url: str) -> None:
    """In another scope each time, and inside a step that is itself repeated. Planted: the site for the arguments."""
    with pytest.raises(holdfast.Looping), holdfast.run("a", store=url) as run:
        for turn in range(9):
            with run.scope(f"turn {turn}"):
                tool("search")("search", "debt")
    with pytest.raises(holdfast.Looping) as raised, holdfast.run("b", store=url):
        for _ in range(9):
            tool("outer", lambda: tool("inner")("inner", 1))()
    assert "inner, outer followed each other 5 times" in str(raised.value)


# -- restarts ---------------------------------------------------------------------------------------------------


def test_counts_survive_restarts(url: str, attempt: Attempt) -> None:
    """They are derived from the journal: each attempt goes one further, and replay counts nothing twice."""
    for times in range(1, 5):
        assert attempt(url, SAME * times).end == "Crash"
    assert signs(url) == ["warn repeat 2", "nudge repeat 3"]
    assert attempt(url, SAME * 5).end == "Looping"
    assert len(calls) == 5


def test_a_replay_signs_nothing(url: str, attempt: Attempt, caplog: pytest.LogCaptureFixture) -> None:
    """No event and no warning for what was said before. Planted: answered steps counted as live ones."""
    attempt(url, SAME * 3)
    head = len(signs(url))
    caplog.clear()
    for _ in range(3):
        attempt(url, SAME * 3)
    assert len(signs(url)) == head
    assert not caplog.records


def test_the_nudge_stands_at_the_same_place_in_every_replay(url: str, attempt: Attempt) -> None:
    """A program that hands it to its model asks the model the same again. Planted: the latest nudge told at once."""
    todo: list[Do] = [*SAME * 4, ("search", "cycles"), ("search", "defaults"), *SAME * 2]
    first = attempt(url, todo)
    assert first.nudges == [None, None, NUDGE, NUDGE, None, None, None, None]
    assert attempt(url, todo) == first
    assert attempt(url, todo[:3]) == Seen(first.nudges[:3], "Crash")
    with holdfast.run("a", store=url) as run:
        run.finish()
    with holdfast.run("a", store=url) as finished:
        got = []
        for name, argument in todo:
            finished.step(name, work, name, argument)
            got.append(finished.nudge)
    assert got == first.nudges


def test_a_parked_run_goes_on_with_new_counts(url: str, attempt: Attempt) -> None:
    """Whoever starts it again has looked at it. Planted: not forgotten, it was parked again by its next call."""
    assert attempt(url, SAME * 5).end == "Looping"
    seen = attempt(url, SAME * 9)
    assert seen == Seen([None, None, NUDGE, NUDGE, None, None, None, NUDGE, NUDGE], "Crash")
    assert attempt(url, SAME * 9) == seen
    assert attempt(url, SAME * 10).end == "Looping"
    assert len(calls) == 10


def test_behind_a_snapshot_counts_are_the_same(
    url: str, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies are paged in; what was said stands in the snapshot."""
    monkeypatch.setattr("holdfast.engine.journal.load_view.SNAPSHOT_EVENTS_MIN", 3)
    monkeypatch.setattr("holdfast.engine.journal.load_view.PAGE_EVENTS", 2)
    for times in range(1, 4):
        attempt(url, SAME * times)
    seen = attempt(url, SAME * 9)
    assert seen == Seen([None, None, NUDGE, NUDGE], "Looping")
    for _ in range(2):
        assert attempt(url, SAME * 6).nudges == [None, None, NUDGE, NUDGE, None, None]


def test_a_failure_that_ended_the_attempt_is_no_circle(url: str) -> None:
    """Started again and again while something is down, a run fails, and is not parked."""
    for _ in range(8):
        with pytest.raises(LookupError), holdfast.run("a", store=url):
            tool("fail")("fail", 1)
    assert signs(url) == []


def test_a_failure_with_a_sign_is_tried_again(url: str) -> None:
    """The sign stands behind the outcome, and does not take its place. Planted: the seq of the sign for the failure's."""
    for _ in range(2):
        with pytest.raises(LookupError), holdfast.run("a", store=url) as run:
            with suppress(LookupError):
                tool("fail")("fail", 1)
            run.think("once more")
            tool("fail")("fail", 1)
    assert len(calls) == 3
    assert signs(url) == ["warn repeat 2"]


def test_large_arguments_and_results_count(url: str, attempt: Attempt) -> None:
    """They lie beside the journal, and are told by their addresses; also across a restart."""
    large: list[Do] = [("search", "x" * 20_000)]
    attempt(url, large * 2)
    assert attempt(url, large * 3).nudges[2] == NUDGE


def test_an_explicit_key_is_the_call(url: str) -> None:
    """With another key it is another call; the same one again, failing the same way, is a circle."""
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        for number in range(9):
            run.options(key=f"k{number}").step("search", work, "search", "debt")
        raise Crash
    assert signs(url) == []
    for times in (2, 3):
        with pytest.raises(Crash), holdfast.run("a", store=url) as run:
            for _ in range(times):
                with suppress(LookupError):
                    run.options(key="again").step("fail", work, "fail", 1)
            run.think("enough")
            raise Crash
    assert signs(url) == ["warn repeat 2", "nudge repeat 3"]


def test_what_was_settled_counts(url: str) -> None:
    """A large once call whose end an earlier attempt did not see, and its verifier found."""

    def find(text: str) -> holdfast.Done:
        return holdfast.Done(len(text))

    @holdfast.tool(effect="once", verify=find)
    def post(text: str) -> int:
        calls.append(text)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return len(text)

    with pytest.raises(KeyboardInterrupt), holdfast.run("a", store=url):
        for _ in range(5):
            post("x" * 20_000)
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        for _ in range(3):
            post("x" * 20_000)
        assert run.nudge is not None
        raise Crash
    assert len(calls) == 3
    assert signs(url) == ["warn repeat 2", "nudge repeat 3"]


def test_a_fork_knows_what_its_origin_repeated(url: str, attempt: Attempt) -> None:
    """Its history is the origin's up to the point."""
    attempt(url, SAME * 4)
    store = holdfast.store(url)
    store.fork("a@3", as_="b")
    with pytest.raises(holdfast.Looping), holdfast.run("b", store=url) as run:
        for _ in range(9):
            tool("search")("search", "debt")
    assert run.position == 5


def test_a_fork_at_a_point_has_the_sign_of_that_point(url: str, attempt: Attempt) -> None:
    """Its program gets the nudge that the origin's got there, and the sign is not recorded a second time.

    The same for a rewind to the point.
    """
    attempt(url, SAME * 4)
    store = holdfast.store(url)
    store.fork("a@3", as_="b")
    with pytest.raises(Crash), holdfast.run("b", store=url) as run:
        nudges = []
        for _ in range(4):
            tool("search")("search", "debt")
            nudges.append(run.nudge)
        raise Crash
    assert nudges == [None, None, NUDGE, NUDGE]
    assert signs(url, "b") == ["warn repeat 2", "nudge repeat 3"]
    store.rewind("a@3")
    assert attempt(url, SAME * 4).nudges == [None, None, NUDGE, NUDGE]
    assert signs(url) == ["warn repeat 2", "nudge repeat 3"]


def test_counts_survive_compaction(url: str) -> None:
    """Killed behind a compaction, the next attempt goes on counting; it neither nudges again nor begins at one.

    Twice: what a compaction carried, the next one carries on. Thoughts and failures count as ever.
    """
    store = holdfast.store(url)
    keep = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=0)
    nudges: list[str | None] = []
    for number in range(4):
        with pytest.raises(Crash), holdfast.run("a", store=url) as run:
            run.restore()
            tool("search")("search", "debt")
            with suppress(LookupError):
                tool("fail")("fail", "x" * 20_000)
            nudges.append(run.nudge)
            run.checkpoint(number)
            run.checkpoint(number)
            raise Crash
        store.prune("a", policy=keep)
        assert [event.kind for event in store.events("a") if event.kind.startswith("step.")] == []
    assert nudges[:2] == [None, None]
    assert nudges[3] == nudges[2] is not None
    assert "3 times" in str(nudges[2])
    with pytest.raises(holdfast.Looping), holdfast.run("a", store=url) as run:
        run.restore()
        tool("search")("search", "debt")
        tool("fail")("fail", "x" * 20_000)
    assert signs(url) == ["pause alternation 5"]


def test_thoughts_count_across_a_compaction(url: str) -> None:
    """The same thought before and after it; a new call in between ends the count."""
    store = holdfast.store(url)
    keep = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=0)
    for number in range(5):
        with pytest.raises(Crash), holdfast.run("a", store=url) as run:
            run.restore()
            run.think("it must be in the archive")
            run.checkpoint(number)
            run.checkpoint(number)
            raise Crash
        store.prune("a", policy=keep)
    with pytest.raises(holdfast.Looping), holdfast.run("a", store=url) as run:
        run.restore()
        run.think("It must be in the archive!")


# -- what is told to whom ---------------------------------------------------------------------------------------


def test_a_swallowed_stop_repeats_no_effect(url: str) -> None:
    """A framework that calls the tool again after the stop is given what is recorded. Planted: the outcome as given."""

    @holdfast.tool(effect="once")
    def pay(name: str) -> str:
        calls.append(name)
        return name

    with pytest.raises(Crash), holdfast.run("a", store=url):
        for _ in range(4):
            pay("Ada")
        with pytest.raises(holdfast.Looping):
            pay("Ada")
        assert pay("Ada") == "Ada"
        assert len(calls) == 5
        with pytest.raises(holdfast.Looping):
            pay("Ada")
        raise Crash
    assert len(calls) == 6


def test_a_loop_of_the_programs_own_is_not_stopped(url: str) -> None:
    """Plain steps are warned and nudged about, and go on; a policy can ask for more. Planted: tools' thresholds for all."""
    with holdfast.run("a", store=url) as run:
        for _ in range(20):
            run.step("tick", lambda: "tock")
    assert signs(url) == ["warn repeat 2", "nudge repeat 3"]
    strict = holdfast.LoopPolicy(steps=holdfast.Thresholds())
    with pytest.raises(holdfast.Looping), holdfast.run("b", store=url, loops=strict) as run:
        for _ in range(20):
            run.step("tick", lambda: "tock")


def test_stops_can_be_suppressed(url: str) -> None:
    """The block is left quietly, and the status tells."""
    with holdfast.run("a", store=url, stops="suppress") as run:
        for _ in range(9):
            tool("search")("search", "debt")
    assert run.status == "parked"


def test_calls_side_by_side_count_too(url: str) -> None:
    """From threads and from tasks; whichever ends fifth parks the run."""
    with pytest.raises(holdfast.Looping), holdfast.run("a", store=url) as run, ThreadPoolExecutor(3) as pool:
        list(pool.map(run.bind(tool("search")), ["search"] * 20, ["debt"] * 20))

    async def main() -> None:
        async with holdfast.run("b", store=url):
            await asyncio.gather(*(tool("search", work_async)("search", "debt") for _ in range(5)))

    with pytest.raises(holdfast.Looping):
        asyncio.run(main())


# -- what is not a circle ---------------------------------------------------------------------------------------


def test_the_off_switch(url: str, attempt: Attempt) -> None:
    """Nothing is said and nothing recorded; switched on again, what was done counts."""
    assert attempt(url, SAME * 9, loops=False) == Seen([None] * 9, "Crash")
    assert attempt(url, SAME * 10, loops=holdfast.LoopPolicy(on=False)).end == "Crash"
    assert signs(url) == []
    assert attempt(url, SAME * 11).end == "Looping"


def test_thresholds_by_policy(url: str, attempt: Attempt) -> None:
    """For all, and by name."""
    policy = holdfast.LoopPolicy(
        thresholds=holdfast.Thresholds(0, 0, 3), tools={"search": holdfast.Thresholds(0, 7, 0)}
    )
    assert attempt(url, SAME * 9, loops=policy).end == "Crash"
    assert signs(url) == ["nudge repeat 7"]
    assert attempt(url, [*SAME * 9, *[("fetch", 1)] * 9], loops=policy).end == "Looping"
    assert len(calls) == 12


def test_thresholds_by_tool(url: str) -> None:
    """Declared where the tool is written; known again after a restart, also to others that alternate with it."""

    @holdfast.tool(effect="read", loops=holdfast.Thresholds(warn=0, nudge=0, pause=0))
    def look() -> int:
        calls.append("look")
        return 1

    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        for _ in range(9):
            look()
        raise Crash
    assert signs(url) == []
    patient = holdfast.Thresholds(warn=0, nudge=2, pause=12)
    with pytest.raises(holdfast.Looping), holdfast.run("a", store=url) as run:
        for _ in range(9):
            look()
        for _ in range(20):
            run.options(loops=patient).step("search", work, "search", 1)
    assert len(calls) == 9 + 12


@pytest.mark.parametrize("how", ["tool", "options", "policy"])
def test_polling_is_no_circle(url: str, how: str) -> None:
    """Declared by the tool, by the call or by the policy: asked as often as it likes, also across a restart."""

    def status() -> str:
        calls.append("asked")
        return "pending" if len(calls) < 30 else "done"

    ask = holdfast.tool(effect="read", polling=how == "tool")(status)
    policy = holdfast.LoopPolicy(polling=frozenset({"status"} if how == "policy" else ()))
    for upto in (15, 30):
        with pytest.raises(Crash), holdfast.run("a", store=url, loops=policy) as run:
            for _ in range(upto):
                if how == "options":
                    run.options(polling=True).step("status", status)
                else:
                    ask()
                if len(calls) % 4 == 0:
                    tool("note")("note", len(calls))
            raise Crash
    assert len([call for call in calls if call == "asked"]) == 30
    assert signs(url) == []


def test_a_call_can_be_left_out(url: str) -> None:
    """A model's answers are new each time, and must not hide that the same tool runs again; also across a restart."""

    def model(messages: list[str]) -> str:
        return f"answer {len(messages)}"

    def agent(run: holdfast.Run, *, count: bool, turns: int = 9) -> None:
        messages: list[str] = []
        for _ in range(turns):
            messages.append(run.options(loops=count).step("model", model, messages))
            tool("search")("search", "debt")

    with holdfast.run("b", store=url) as run:
        agent(run, count=True)
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        agent(run, count=False, turns=2)
        raise Crash
    with pytest.raises(holdfast.Looping), holdfast.run("a", store=url) as run:
        agent(run, count=False)
    assert signs(url) == ["warn repeat 2", "nudge repeat 3", "pause repeat 5"]


def test_a_step_around_a_tool_counts_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """``run.step("search", search, q)``, with a tool: its one call was taken for two, and warned of at once.

    Also in the next attempt, which counts from the journal.
    """

    @holdfast.tool(effect="read")
    def search(query: str) -> str:
        return "nothing"

    with pytest.raises(RuntimeError), holdfast.run("a", store=url) as run:
        run.step("search", search, "debt")
        assert not [record for record in caplog.records if "loop" in record.getMessage()]
        raise RuntimeError
    with holdfast.run("a", store=url) as run:
        for _ in range(2):
            run.step("search", search, "debt")
        assert [record.getMessage() for record in caplog.records if "loop" in record.getMessage()] == [
            "run a seems to be in a loop: search ran 2 times with the same arguments and the same result"
        ]
        assert run.nudge is None


def test_an_agent_has_its_own_policy(url: str) -> None:
    """Declared with the agent, for all of its runs."""

    def many(run: holdfast.Run) -> int:
        for _ in range(9):
            tool("search")("search", "debt")
        return 9

    assert holdfast.agent("calm", loops=False)(many).run("calm", store=url) == 9
    with pytest.raises(holdfast.Looping):
        holdfast.agent("watched")(many).run("watched", store=url)


@pytest.mark.parametrize(
    "loops",
    [
        "yes",
        holdfast.LoopPolicy(memory=0),
        holdfast.LoopPolicy(similarity=2.0),
        holdfast.LoopPolicy(thresholds=holdfast.Thresholds(pause=-1)),
        holdfast.LoopPolicy(tools={"search": 5}),  # type: ignore[dict-item]
    ],
)
def test_a_policy_that_cannot_be_is_refused(loops: Any) -> None:
    """Where it is given, before anything runs."""
    with pytest.raises(holdfast.Misuse):
        holdfast.run("a", store="memory://x", loops=loops)


def test_a_tool_that_cannot_be_is_refused() -> None:
    """Polling with thresholds means nothing; 5 is no threshold."""
    with pytest.raises(holdfast.Misuse):
        holdfast.tool(effect="read", polling=True, loops=holdfast.Thresholds())
    with pytest.raises(holdfast.Misuse):
        holdfast.tool(effect="read", loops=5)  # type: ignore[call-overload]
