"""What an attempt gets from those before it: outcomes, failures, marks, state; and what runs again."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import holdfast
from holdfast.model.events import Kind

calls: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


class Crash(Exception):
    pass


class OutOfStock(Exception):
    """An exception with a shape of its own."""

    def __init__(self, item: str, *, left: int) -> None:
        super().__init__(f"no {item}")
        self.item = item
        self.left = left


def attempt(url: str, body: Callable[[holdfast.Run], Any], *, fails: bool = True, run: str = "a") -> Any:
    """One attempt at the run; by default it fails at the end, so that there is a next one."""
    out = None
    try:
        with holdfast.run(run, store=url) as handle:
            out = body(handle)
            if fails:
                raise Crash
    except Crash:
        pass
    return out


def note(value: object = None) -> object:
    calls.append(value)
    return value


def refuse(item: str) -> None:
    calls.append(item)
    raise OutOfStock(item, left=3)


def test_a_failure_the_program_went_past_is_replayed_as_its_own_class(url: str) -> None:
    """Caught once, it is raised again on replay without running: the same class, with its attributes."""

    def body(run: holdfast.Run) -> tuple[str, int, str]:
        try:
            run.step("buy", refuse, "tea")
        except OutOfStock as error:
            run.step("after", note)
            return (error.item, error.left, str(error))
        raise AssertionError

    assert attempt(url, body) == attempt(url, body) == ("tea", 3, "no tea")
    assert calls == ["tea", None]


def test_only_a_failure_that_ended_the_attempt_is_tried_again(url: str) -> None:
    """Of two failures, the caught one is replayed and the one that ended the attempt runs again."""

    def body(run: holdfast.Run) -> None:
        with pytest.raises(OutOfStock):
            run.step("buy", refuse, "tea")
        run.step("buy", refuse, "milk")

    for _ in range(2):
        with pytest.raises(OutOfStock):
            attempt(url, body)
    assert calls == ["tea", "milk", "milk"]


def test_a_failure_wrapped_by_the_program_is_tried_again(url: str) -> None:
    """``raise X from failure``, or raised in its handler, still ended the attempt because of that failure."""

    def body(run: holdfast.Run) -> None:
        try:
            run.step("buy", refuse, "tea")
        except OutOfStock as error:
            raise ValueError("no tea today") from error

    for _ in range(2):
        with pytest.raises(ValueError, match="today"):
            attempt(url, body)
    assert calls == ["tea", "tea"]


def test_a_failure_inside_a_step_is_tried_again_with_it(url: str) -> None:
    """The inner failure that ended the outer step runs again when the outer one does."""

    def inner() -> str:
        calls.append("inner")
        if len(calls) < 2:
            raise OutOfStock("x", left=0)
        return "ok"

    def body(run: holdfast.Run) -> str:
        return run.step("outer", lambda: run.step("inner", inner))

    with pytest.raises(OutOfStock):
        attempt(url, body)
    assert attempt(url, body) == "ok"
    assert calls == ["inner", "inner"]


def test_a_failed_call_made_again_keeps_its_place(url: str) -> None:
    """Fail, then succeed with the same call: replay gives the failure, then the success; nothing runs."""

    def flaky() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise OutOfStock("x", left=0)
        return "ok"

    def body(run: holdfast.Run) -> list[str]:
        seen = []
        for _ in range(2):
            try:
                seen.append(run.step("flaky", flaky))
            except OutOfStock:
                seen.append("failed")
        return seen

    assert attempt(url, body) == attempt(url, body) == ["failed", "ok"]
    assert len(calls) == 2


def test_a_local_exception_class_comes_back_named(url: str) -> None:
    """A class that cannot be found any more is raised as ReplayedFailure with its name and message."""

    def body(run: holdfast.Run) -> str:
        class Local(Exception):
            pass

        def fail() -> None:
            raise Local("gone")

        try:
            run.step("s", fail)
        except holdfast.ReplayedFailure as error:
            return str(error)
        except Local:
            return "first"
        raise AssertionError

    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        assert body(run) == "first"
        run.think("went past it")
        raise Crash
    with holdfast.run("a", store=url) as run:
        assert "Local: gone" in body(run)


def test_an_answered_step_consumes_its_subtree(url: str) -> None:
    """A recorded outer step is answered whole: neither it nor what it called runs."""

    def outer(run: holdfast.Run) -> Any:
        calls.append("outer")
        return run.step("inner", note, "inner")

    def body(run: holdfast.Run) -> Any:
        return run.step("outer", lambda: outer(run))

    assert attempt(url, body) == attempt(url, body) == "inner"
    assert calls == ["outer", "inner"]


def test_inner_steps_survive_an_outer_that_was_cut_off(url: str) -> None:
    """The outer step runs again, its finished inner steps are answered."""

    def body(run: holdfast.Run) -> Any:
        def outer() -> Any:
            first = run.step("inner", note, 1)
            if len(calls) < 2:
                note("cut")
                raise KeyboardInterrupt
            return first

        return run.step("outer", outer)

    with pytest.raises(KeyboardInterrupt):
        attempt(url, body)
    assert attempt(url, body) == 1
    assert calls == [1, "cut"]


def test_marks_are_consumed_and_never_appended_twice(url: str) -> None:
    """think, plan, decide, discover and say stand once in the journal however often the program runs."""

    def body(run: holdfast.Run) -> None:
        run.plan(["a", "b"])
        run.think("hm")
        run.think("hm")
        run.decide("skip", because="slow")
        run.discover("it is 42")
        run.say("hello", to="ada")

    for _ in range(3):
        attempt(url, body)
    names = [event.name for event in holdfast.store(url).events("a") if event.kind == Kind.MARK]
    assert names == ["plan", "thought", "thought", "decision", "discovery", "said"]


def test_time_and_chance_are_drawn_once(url: str) -> None:
    """now, uuid and random are the same in every replay, each draw its own."""

    def body(run: holdfast.Run) -> list[Any]:
        return [run.now(), run.now(), run.uuid(), run.uuid(), run.random(), run.random()]

    first = attempt(url, body)
    assert attempt(url, body) == first
    assert len(set(map(str, first))) == 6
    assert isinstance(first[0], datetime)
    assert first[0].tzinfo == UTC
    assert 0 <= first[4] < 1


def test_restore_gives_the_latest_state_and_moves_the_cursor(url: str) -> None:
    """After restore, calls recorded before the checkpoint count as made: the loop goes on from the state."""

    def body(run: holdfast.Run) -> list[int]:
        state = run.restore({"i": 0, "out": []})
        while state["i"] < 3:
            state["out"].append(run.step("work", note, state["i"]))
            state["i"] += 1
            run.checkpoint(state, label=f"after-{state['i']}")
        out: list[int] = state["out"]
        return out

    def first_two(run: holdfast.Run) -> None:
        state = run.restore({"i": 0, "out": []})
        for _ in range(2):
            state["out"].append(run.step("work", note, state["i"]))
            state["i"] += 1
            run.checkpoint(state)

    attempt(url, first_two)
    assert attempt(url, body) == [0, 1, 2]
    assert calls == [0, 1, 2]


def test_restore_continues_the_counters(url: str) -> None:
    """Equal calls after a restore are the next ones, not answers to the first ones."""

    def first(run: holdfast.Run) -> None:
        run.step("same", note, "x")
        run.step("same", note, "x")
        run.checkpoint({"n": 2})

    def second(run: holdfast.Run) -> None:
        assert run.restore(None) == {"n": 2}
        run.step("same", note, "x")

    attempt(url, first)
    attempt(url, second)
    assert len(calls) == 3


def test_calls_after_the_restored_checkpoint_are_still_answered(url: str) -> None:
    """What was recorded after the latest checkpoint replays."""

    def first(run: holdfast.Run) -> None:
        run.step("before", note, 1)
        run.checkpoint({"n": 1})
        run.step("after", note, 2)

    def second(run: holdfast.Run) -> Any:
        run.restore(None)
        return run.step("after", note, 2)

    attempt(url, first)
    assert attempt(url, second) == 2
    assert calls == [1, 2]


def test_restored_state_is_equal_and_not_aliased(url: str) -> None:
    """Changing what restore gave does not change what is stored."""
    attempt(url, lambda run: run.checkpoint({"list": [1], "t": (1, 2)}))

    def body(run: holdfast.Run) -> None:
        state = run.restore(None)
        state["list"].append(2)
        assert run.state == {"list": [1], "t": (1, 2)}

    attempt(url, body)


def test_restore_on_a_fresh_run_gives_the_default(url: str) -> None:
    """Without a checkpoint there is nothing to restore."""
    assert attempt(url, lambda run: run.restore("default")) == "default"


def test_checkpoints_are_consumed_on_replay(url: str) -> None:
    """The same checkpoint again has the same number and is not written again."""

    def body(run: holdfast.Run) -> list[object]:
        return [run.step("s", note, 1), run.checkpoint({"a": 1}, label="x")]

    assert attempt(url, body) == attempt(url, body) == [1, 2]
    assert sum(event.kind == Kind.CHECKPOINT for event in holdfast.store(url).events("a")) == 1


def test_replaying_tells_when_the_recorded_part_ends(url: str) -> None:
    """``run.replaying`` is on until the last recorded outcome was given."""
    seen: list[bool] = []

    def first(run: holdfast.Run) -> None:
        assert not run.replaying
        run.step("a", note, 1)
        run.step("b", note, 2)

    def second(run: holdfast.Run) -> None:
        seen.append(run.replaying)
        run.step("a", note, 1)
        seen.append(run.replaying)
        run.step("b", note, 2)
        seen.append(run.replaying)
        run.step("c", note, 3)
        seen.append(run.replaying)

    attempt(url, first)
    attempt(url, second)
    assert seen == [True, True, False, False]


def test_a_large_value_is_kept_as_a_blob(url: str) -> None:
    """Beyond the inline limit a value is compressed beside the journal, and comes back equal."""
    big = {"text": "abc " * 20_000, "t": (1, 2)}

    def make() -> Any:
        calls.append(1)
        return {"text": "abc " * 20_000, "t": (1, 2)}

    for _ in range(2):
        assert attempt(url, lambda run: run.step("big", make)) == big
    assert calls == [1]
    assert max(len(event.body) for event in holdfast.store(url).events("a")) < 20_000


def test_large_arguments_are_kept_as_a_blob(url: str) -> None:
    """Arguments of any size are part of the identity."""
    for text in ("a" * 50_000, "b" * 50_000, "a" * 50_000):
        attempt(url, lambda run, text=text: run.step("s", note, text))  # type: ignore[misc]
    assert len(calls) == 2


def test_a_result_that_cannot_be_stored_is_recorded_as_done_first(url: str) -> None:
    """The effect happened: it is never repeated; the error names the path to the value, now and on replay."""

    def unstorable() -> dict[str, Any]:
        calls.append(1)
        return {"lock": [object()]}

    for _ in range(2):
        with pytest.raises(holdfast.NotStorable, match=r"result of 's' holds .* at \$\.lock\[0\]"):
            attempt(url, lambda run: run.once("s", unstorable))
    assert calls == [1]


def test_positions_count_steps_and_checkpoints(url: str) -> None:
    """Steps and checkpoints share one counter, across attempts."""

    def body(run: holdfast.Run) -> int:
        run.step("a", note, 1)
        run.think("x")
        run.checkpoint({})
        run.step("b", note, 2)
        return run.position

    assert attempt(url, body) == attempt(url, body) == 3


def test_finishing_is_durable_before_the_block_ends(url: str) -> None:
    """After ``finish`` an exception ends the attempt, not the run's success."""
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        run.finish("result")
        raise Crash
    assert holdfast.store(url).get("a").status == "finished"
    with holdfast.run("a", store=url) as run:
        assert run.result == "result"


def test_retries_run_again_in_the_same_attempt(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``retries=`` tries again with a pause; each failed try is noted, only the end is the outcome."""
    monkeypatch.setattr("holdfast.engine.steps.step.RETRY_BACKOFF_S", 0.0)

    def flaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OutOfStock("x", left=0)
        return "ok"

    assert attempt(url, lambda run: run.options(retries=2).step("s", flaky)) == "ok"
    kinds = [event.kind for event in holdfast.store(url).events("a")]
    assert kinds.count(Kind.STEP_RETRIED) == 2
    assert kinds.count(Kind.STEP_FAILED) == 0


def test_retries_run_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no tries left the failure is the outcome."""
    monkeypatch.setattr("holdfast.engine.steps.step.RETRY_BACKOFF_S", 0.0)
    with pytest.raises(OutOfStock):
        attempt(url, lambda run: run.options(retries=2).step("buy", refuse, "tea"))
    assert len(calls) == 3
