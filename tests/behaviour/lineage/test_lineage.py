"""Fork and rewind: another history from a point of this one, and what it shares."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.damage import damage

import holdfast
from holdfast.model.events import Kind
from holdfast.stores.url import open_store

calls: list[object] = []
keys: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    keys.clear()


class Crash(Exception):
    pass


def note(value: object) -> object:
    calls.append(value)
    return value


def pay(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
    calls.append(to)
    keys.append(idempotency_key)
    return idempotency_key


def attempt(url: str, body: Callable[[holdfast.Run], Any], run: str = "a") -> Any:
    out = None
    try:
        with holdfast.run(run, store=url) as handle:
            out = body(handle)
            raise Crash
    except Crash:
        pass
    return out


def three(run: holdfast.Run) -> list[Any]:
    return [run.step("s", note, n) for n in range(3)]


def own_events(url: str, run: str) -> int:
    return len(holdfast.store(url)._port.read_events(run, limit=1000))


def test_a_fork_shares_what_was_recorded_up_to_its_point(url: str) -> None:
    """The first two steps are answered, the third runs again; the origin is untouched; nothing is copied."""
    attempt(url, three)
    info = holdfast.store(url).fork("a@2", as_="b")
    assert (info.run, info.status) == ("b", "not_begun")
    assert own_events(url, "b") == 0
    before = own_events(url, "a")
    assert attempt(url, three, "b") == [0, 1, 2]
    assert calls == [0, 1, 2, 2]
    assert own_events(url, "a") == before
    assert attempt(url, three, "b") == attempt(url, three) == [0, 1, 2]
    assert len(calls) == 4


def test_fork_of_fork_of_fork_reads_like_its_own_history(url: str) -> None:
    """Each generation answers what all before it recorded, and goes on from there."""
    attempt(url, three)
    store = holdfast.store(url)
    store.fork("a", as_="b")
    attempt(url, lambda run: [*three(run), run.step("t", note, "b")], "b")
    store.fork("b", as_="c")
    attempt(url, lambda run: [*three(run), run.step("t", note, "b"), run.step("u", note, "c")], "c")
    store.fork("c", as_="d")

    def body(run: holdfast.Run) -> Any:
        return [
            *three(run),
            run.step("t", note, "b"),
            run.step("u", note, "c"),
        ]

    assert attempt(url, body, "d") == [0, 1, 2, "b", "c"]
    assert calls == [0, 1, 2, "b", "c"]
    seqs = [event.seq for event in store.events("d")]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_fork_at_an_ancestors_point_hangs_on_the_ancestor(url: str) -> None:
    """Forking b at a point that a recorded makes a fork of a."""
    attempt(url, three)
    store = holdfast.store(url)
    store.fork("a@2", as_="b")
    attempt(url, three, "b")
    store.fork("b@1", as_="c")
    branch = store.lineage("c")
    assert branch.run == "a"
    assert {child.run for child in branch.children} == {"b", "c"}
    assert attempt(url, three, "c") == [0, 1, 2]


def test_a_label_that_several_checkpoints_have_is_not_guessed(url: str) -> None:
    """A typed error that names their points, and how to say which. Planted: the newest one was simply taken."""
    attempt(url, lambda run: [run.checkpoint({"round": i}, label="round") for i in range(3)])
    with pytest.raises(holdfast.AmbiguousLabel, match="points 1, 2, 3") as refused:
        holdfast.store(url).fork("a@round", as_="b")
    assert "a@3" in refused.value.hint
    assert [info.run for info in holdfast.store(url).runs()] == ["a"]


def test_points_events_and_labels_name_places(url: str) -> None:
    """RUN@2, RUN@#5, RUN@label and RUN; what does not exist is named with what does."""
    attempt(
        url,
        lambda run: [run.step("s", note, 1), run.checkpoint({"x": 1}, label="draft"), run.step("t", note, 2)],
    )
    store = holdfast.store(url)
    store.fork("a@draft", as_="by-label")
    assert attempt(url, lambda run: run.restore(None), "by-label") == {"x": 1}
    store.fork("a@#4", as_="by-event")
    store.fork("a", as_="by-head")
    for place, what in (("a@9", "9"), ("a@#99", "#99"), ("a@nothing", "nothing")):
        with pytest.raises(holdfast.UnknownPoint, match=f"has no {what}; its last point is 3"):
            store.fork(place, as_="x")
    with pytest.raises(holdfast.UnknownRun):
        store.fork("nobody@1", as_="x")
    with pytest.raises(
        holdfast.RunExists, match=r"^run \S+ already exists \(\w+\)\nhint: choose another name for the fork$"
    ):
        store.fork("a@1", as_="by-head")


def test_an_override_replaces_a_recorded_outcome(url: str) -> None:
    """What if the survey had said something else: the fork gets that answer, the origin keeps its own."""
    attempt(url, lambda run: run.step("survey", note, "x"))
    holdfast.store(url).fork("a@1", as_="b", override={"survey": ["other", ("t",)]})
    assert attempt(url, lambda run: run.step("survey", note, "x"), "b") == ["other", ("t",)]
    assert attempt(url, lambda run: run.step("survey", note, "x")) == "x"
    with pytest.raises(holdfast.UnknownStep, match="no recorded step 'nothing'"):
        holdfast.store(url).fork("a@1", as_="c", override={"nothing": 1})


def test_effects_before_the_point_are_not_repeated_and_later_ones_may_get_new_keys(url: str) -> None:
    """A fork inherits keys up to its point and mints new ones after, where later effects are to happen again; they are listed."""

    def body(run: holdfast.Run) -> Any:
        return [
            run.once("pay", pay, "ada"),
            run.once("pay", pay, "bob"),
        ]

    first = attempt(url, body)
    store = holdfast.store(url)
    assert store.later_effects("a@1") == ["pay"]
    store.fork("a@1", as_="b", effects="again")
    second = attempt(url, body, "b")
    assert calls == ["ada", "bob", "bob"]
    assert second[0] == first[0]
    assert second[1] != first[1]


def test_an_effect_under_way_at_the_point_is_settled_from_the_origin(url: str) -> None:
    """Its intent is inherited, its outcome lies behind the point: the origin's journal knows how it ended."""
    attempt(url, lambda run: run.once("pay", pay, "ada"))
    started = next(e for e in holdfast.store(url).events("a") if e.kind == Kind.STEP_STARTED)
    holdfast.store(url).fork(f"a@#{started.seq}", as_="b")
    assert attempt(url, lambda run: run.once("pay", pay, "ada"), "b") == keys[0]
    assert calls == ["ada"]


def test_an_effect_in_doubt_at_the_point_is_in_doubt_in_the_fork(url: str) -> None:
    """Nobody knows in either history; a repeat that a person allows keeps the inherited key."""

    def cut(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise KeyboardInterrupt
        return "ok"

    with pytest.raises(KeyboardInterrupt):
        attempt(url, lambda run: run.once("pay", cut, "ada"))
    store = holdfast.store(url)
    store.fork("a", as_="b")
    with pytest.raises(holdfast.StepInDoubt):
        attempt(url, lambda run: run.once("pay", cut, "ada"), "b")
    store.resolve("b", "pay", "retry")
    assert attempt(url, lambda run: run.once("pay", cut, "ada"), "b") == "ok"
    assert len(keys) == 2
    assert keys[0] != ""


def test_a_fork_of_a_live_run(url: str) -> None:
    """The origin goes on while its fork is made and run."""
    with holdfast.run("a", store=url) as run:
        run.step("s", note, 0)
        holdfast.store(url).fork("a", as_="b")
        run.step("s", note, 1)
        import contextvars

        assert contextvars.Context().run(attempt, url, three, "b") == [0, 1, 2]
        run.step("s", note, 2)
    assert calls == [0, 1, 1, 2, 2]


def test_a_fork_of_a_finished_run_goes_on(url: str) -> None:
    """The fork is not finished, whatever its origin is."""
    with holdfast.run("a", store=url) as run:
        run.finish(three(run))
    holdfast.store(url).fork("a", as_="b")
    assert attempt(url, lambda run: [*three(run), run.step("more", note, "m")], "b") == [0, 1, 2, "m"]
    assert holdfast.store(url).get("a").status == "finished"


def test_a_fork_runs_with_the_unchanged_script(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under HOLDFAST_RUN=b, the script that asks for a opens b."""
    attempt(url, three)
    holdfast.store(url).fork("a@1", as_="b")
    monkeypatch.setenv("HOLDFAST_RUN", "b")
    with holdfast.run("a", store=url) as run:
        assert run.id == "b"
        assert three(run) == [0, 1, 2]


def test_rewind_moves_the_head_and_keeps_the_old_branch(url: str) -> None:
    """The run goes on from the point; what lay after it is a fork, complete and resumable."""
    attempt(url, lambda run: [*three(run), run.checkpoint({"n": 3})])
    rewound = holdfast.store(url).rewind("a@1")
    assert rewound.kept == "a~1"
    assert attempt(url, lambda run: [run.position, run.state, *three(run)]) == [1, None, 0, 1, 2]
    assert calls == [0, 1, 2, 1, 2]
    assert attempt(url, lambda run: [run.state, *three(run)], "a~1") == [{"n": 3}, 0, 1, 2]
    assert len(calls) == 5


def test_rewinding_twice_and_forking_what_was_left_behind(url: str) -> None:
    """Each rewind keeps its branch; an event that was left behind can still be forked."""
    attempt(url, three)
    store = holdfast.store(url)
    last = store.events("a")[-1].seq
    store.rewind("a@2")
    attempt(url, lambda run: [run.step("s", note, n) for n in (0, 1, 9)])
    assert store.rewind("a@1").kept == "a~2"
    assert attempt(url, three) == [0, 1, 2]
    store.fork(f"a@#{last}", as_="old")
    before = len(calls)
    assert attempt(url, three, "old") == [0, 1, 2]
    assert len(calls) == before
    assert attempt(url, lambda run: [run.step("s", note, n) for n in (0, 1, 9)], "a~2") == [0, 1, 9]
    assert len(calls) == before


def test_kept_branches_and_series_are_bounded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound a typed error says so, and nothing is changed."""
    monkeypatch.setattr("holdfast.engine.lineage.rewind.BRANCHES_MAX", 1)
    monkeypatch.setattr("holdfast.engine.run.open.SERIES_RUNS_MAX", 1)
    attempt(url, three)
    holdfast.store(url).rewind("a@2")
    with pytest.raises(holdfast.TooLarge, match="kept branches"):
        holdfast.store(url).rewind("a@1")
    assert holdfast.store(url).view("a").points == 2
    with holdfast.run("daily", store=url, if_finished="new"):
        pass
    with (
        pytest.raises(holdfast.TooLarge, match="series of daily"),
        holdfast.run("daily", store=url, if_finished="new"),
    ):
        pass


def test_after_a_rewind_the_same_effect_has_a_new_key(url: str) -> None:
    """Where it is to happen again: the outside service must not take the new branch's payment for the old one's."""
    attempt(url, lambda run: [run.step("s", note, 1), run.once("pay", pay, "ada")])
    holdfast.store(url).rewind("a@1", effects="again")
    attempt(url, lambda run: [run.step("s", note, 1), run.once("pay", pay, "ada")])
    assert calls == [1, "ada", "ada"]
    assert len(set(keys)) == 2


def test_attempts_go_on_counting_after_a_rewind(url: str) -> None:
    """An attempt's number is never used twice."""
    attempt(url, three)
    attempt(url, three)
    holdfast.store(url).rewind("a@1")
    assert attempt(url, lambda run: run.attempt) == 3


def test_a_held_run_is_not_rewound(url: str) -> None:
    """Who holds it is named; nothing changes."""
    with holdfast.run("a", store=url) as run:
        run.step("s", note, 1)
        with pytest.raises(holdfast.RunHeld):
            holdfast.store(url).rewind("a@1")
        run.step("s", note, 2)
    assert [info.run for info in holdfast.store(url).runs()] == ["a"]


def test_the_lineage_is_a_tree(url: str) -> None:
    """Whoever asks sees the whole tree, from its root."""
    attempt(url, three)
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    store.fork("a@2", as_="c")
    attempt(url, three, "c")
    store.fork("c", as_="d")
    branch = store.lineage("d")
    assert branch.run == "a"
    assert [child.run for child in branch.children] == ["b", "c"]
    assert [child.run for child in branch.children[1].children] == ["d"]


def test_forks_in_async_runs(url: str) -> None:
    """The same rules, awaited."""
    attempt(url, three)
    holdfast.store(url).fork("a@2", as_="b")

    async def main() -> None:
        async with holdfast.run("b", store=url) as run:
            assert [await run.step("s", note, n) for n in range(3)] == [0, 1, 2]

    asyncio.run(main())
    assert calls == [0, 1, 2, 2]


def test_one_damaged_row_does_not_hide_the_others(url: str) -> None:
    """``show`` of a sound run draws its tree, though the row of another run is damaged."""
    for name in ("a", "broken"):
        with holdfast.run(name, store=url):
            pass
    store = holdfast.store(url)
    store.fork("a", as_="b")
    damage(open_store(url), "run", "broken")
    assert [child.run for child in store.lineage("a").children] == ["b"]
    assert store.givers() == {}
