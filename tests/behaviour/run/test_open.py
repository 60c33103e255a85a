"""Entering and leaving a run: start or resume by the same line, and every way to end an attempt."""

import logging
from typing import Any

import pytest

import holdfast
from holdfast import errors
from holdfast.model.events import Kind


def kinds(url: str, run: str) -> list[str]:
    return [event.kind for event in holdfast.store(url).events(run)]


def test_same_line_starts_then_resumes(url: str) -> None:
    """The first entry starts the run, the next one resumes it as another attempt."""
    with pytest.raises(RuntimeError), holdfast.run("a", goal="g", store=url) as run:
        assert (run.attempt, run.resumed, run.status) == (1, False, "running")
        raise RuntimeError
    with holdfast.run("a", goal="g", store=url) as run:
        assert (run.attempt, run.resumed) == (2, True)
    assert holdfast.store(url).get("a").status == "finished"


def test_starting_and_resuming_are_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the id, the attempt and the store."""
    caplog.set_level(logging.INFO, "holdfast")
    with pytest.raises(RuntimeError), holdfast.run("a", store=url):
        raise RuntimeError
    with holdfast.run("a", store=url):
        pass
    texts = [record.getMessage() for record in caplog.records]
    shown = holdfast.store(url).url
    assert f"starting run a, attempt 1, in {shown}" in texts
    assert f"resuming run a, attempt 2, in {shown}" in texts


def test_normal_exit_finishes_with_the_given_result(url: str) -> None:
    """``finish`` records the result; it is there for the next one who asks."""
    with holdfast.run("a", store=url) as run:
        run.finish({"report": ("x", 1)})
        assert run.status == "finished"
    with holdfast.run("a", store=url) as run:
        assert run.result == {"report": ("x", 1)}


def test_exception_fails_and_stays_resumable(url: str) -> None:
    """An exception ends the attempt as failed, with the error on record, and the run can go on."""
    with pytest.raises(ZeroDivisionError), holdfast.run("a", store=url):
        _ = 1 / 0
    assert holdfast.store(url).get("a").status == "failed"
    ended = holdfast.store(url).events("a")[-1]
    assert ended.kind == Kind.ATTEMPT_ENDED
    assert b"ZeroDivisionError" in ended.body


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, errors.Terminated, SystemExit])
def test_interrupts_are_recorded_and_release_the_lease(url: str, interrupt: type[BaseException]) -> None:
    """Ctrl-C, SIGTERM and sys.exit end the attempt as interrupted and let the lease go."""
    with pytest.raises(interrupt), holdfast.run("a", store=url):
        raise interrupt
    info = holdfast.store(url).get("a")
    assert (info.status, info.lease.owner) == ("interrupted", "")


def test_mode_new_refuses_an_existing_run(url: str) -> None:
    """mode="new" never touches a run that is there."""
    with holdfast.run("a", store=url, mode="new"):
        pass
    with (
        pytest.raises(holdfast.RunExists, match="run a already exists"),
        holdfast.run("a", store=url, mode="new"),
    ):
        pass


def test_mode_resume_refuses_an_unknown_run(url: str) -> None:
    """mode="resume" never starts one, and leaves nothing behind."""
    with pytest.raises(holdfast.UnknownRun, match="no run 'a'"), holdfast.run("a", store=url, mode="resume"):
        pass
    assert holdfast.store(url).runs() == []


def test_other_inputs_under_the_same_id_are_refused_with_a_diff(url: str) -> None:
    """Inputs are part of what a run is; the error shows what differs and nothing is written."""
    with holdfast.run("a", inputs={"n": 1, "same": True}, store=url):
        pass
    before = kinds(url, "a")
    with (
        pytest.raises(holdfast.InputsChanged, match=r"- n: 1\n  \+ n: 2"),
        holdfast.run("a", inputs={"n": 2, "same": True}, store=url, if_finished="reopen"),
    ):
        pass
    assert kinds(url, "a") == before
    assert holdfast.store(url).get("a").lease.owner == ""


def test_another_goal_under_the_same_id_is_refused(url: str) -> None:
    """The goal is the run's, too."""
    with pytest.raises(RuntimeError), holdfast.run("a", goal="one", store=url):
        raise RuntimeError
    with pytest.raises(holdfast.InputsChanged, match="goal"), holdfast.run("a", goal="two", store=url):
        pass


def test_inputs_of_equal_value_and_other_order_are_the_same(url: str) -> None:
    """The order of keys does not make other inputs; a tuple instead of a list does."""
    with pytest.raises(RuntimeError), holdfast.run("a", inputs={"x": 1, "y": [1]}, store=url):
        raise RuntimeError
    with pytest.raises(RuntimeError), holdfast.run("a", inputs={"y": [1], "x": 1}, store=url):
        raise RuntimeError
    with pytest.raises(holdfast.InputsChanged), holdfast.run("a", inputs={"x": 1, "y": (1,)}, store=url):
        pass


def test_finished_run_replays_without_writing(url: str) -> None:
    """if_finished="replay": the program runs again, everything is answered, nothing is appended."""
    for n in (5, 6):
        with holdfast.run("a", store=url) as run:
            assert run.options(ignore="n").step("s", lambda n: n, n) == 5
            run.think("hm")
    assert kinds(url, "a").count(Kind.ATTEMPT_STARTED) == 1


def test_finished_run_refuses_new_work(url: str) -> None:
    """A call that a finished run does not hold is refused, with the way to go on."""
    with holdfast.run("a", store=url):
        pass
    with (
        pytest.raises(holdfast.RunFinished, match="'new' is not in its journal") as refused,
        holdfast.run("a", store=url) as run,
    ):
        run.step("new", lambda: 1)
    assert "reopen" in refused.value.hint


def test_reopen_continues_a_finished_run(url: str) -> None:
    """if_finished="reopen" appends to the same run."""
    with holdfast.run("a", store=url) as run:
        run.step("s", lambda: 1)
    with holdfast.run("a", store=url, if_finished="reopen") as run:
        assert run.step("s", lambda: 2) == 1
        assert run.step("t", lambda: 3) == 3
    assert Kind.RUN_REOPENED in kinds(url, "a")


def test_if_finished_new_continues_as_a_series(url: str) -> None:
    """if_finished="new" starts daily, daily.2, daily.3, and resumes the one that is not finished."""
    ids = []
    for _ in range(3):
        with holdfast.run("daily", store=url, if_finished="new") as run:
            ids.append(run.id)
    with pytest.raises(RuntimeError), holdfast.run("daily", store=url, if_finished="new") as run:
        raise RuntimeError
    with holdfast.run("daily", store=url, if_finished="new") as run:
        ids.append(run.id)
        assert run.resumed
    assert ids == ["daily", "daily.2", "daily.3", "daily.4"]


def test_holdfast_run_opens_the_named_run(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """HOLDFAST_RUN=X opens X where the script asks for an id of X's lineage, and only there; a second store has no X."""
    with holdfast.run("x", store=url):
        pass
    monkeypatch.setenv("HOLDFAST_RUN", "x")
    with holdfast.run("x", store=url) as run:
        assert run.id == "x"
    with holdfast.run("other", store=url) as run:
        assert run.id == "other"
    monkeypatch.setenv("HOLDFAST_RUN", "gone")
    with holdfast.run("y", store=url) as run:
        assert run.id == "y"
    assert "HOLDFAST_RUN=gone names no run" in caplog.text


def test_open_and_close_for_notebooks(url: str) -> None:
    """``.open()`` gives the run without a block; ``close`` leaves it resumable, ``finish`` finishes it."""
    run = holdfast.run("a", store=url).open()
    assert run.step("s", lambda: 1) == 1
    assert holdfast.current() is run
    run.close()
    with pytest.raises(holdfast.HandleClosed, match="run a is closed"):
        run.step("t", lambda: 1)
    again = holdfast.run("a", store=url).open()
    assert again.resumed
    again.finish("done")
    again.close()
    assert holdfast.store(url).get("a").status == "finished"


def test_nested_run_is_a_child(url: str) -> None:
    """A run inside a run is ``parent/name``, noted in the parent's journal once."""
    for _ in range(2):
        with pytest.raises(RuntimeError), holdfast.run("parent", store=url) as parent:
            with holdfast.run("child", store=url) as child:
                assert child.id == "parent/child"
                assert child.step("s", lambda: 1) == 1
            assert holdfast.current() is parent
            raise RuntimeError
    marks = [event for event in holdfast.store(url).events("parent") if event.name == "child"]
    assert len(marks) == 1


def test_stop_signals_can_be_suppressed(url: str) -> None:
    """stops="suppress" leaves the block quietly; the run's status tells."""

    def unsure() -> None:
        raise OSError("cut")

    with holdfast.run("a", store=url, stops="suppress") as run:
        run.once("pay", unsure)
        raise AssertionError("unreachable")
    assert run.status == "in_doubt"
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("a", store=url) as run:
        run.once("pay", unsure)


def test_stop_signal_in_a_group_is_unwrapped(url: str) -> None:
    """Task groups wrap exceptions; the block lets the stop-signal itself out."""
    stop = holdfast.Parked(run="a", reason="waiting")
    with pytest.raises(holdfast.Parked) as raised, holdfast.run("a", store=url):
        raise BaseExceptionGroup("tasks", [ValueError(), BaseExceptionGroup("inner", [stop])])
    assert raised.value is stop
    assert holdfast.store(url).get("a").status == "parked"


def test_a_second_live_attempt_is_refused_with_who_and_since_when(url: str) -> None:
    """Two live attempts of one run: the second is refused, the first goes on."""
    with holdfast.run("a", store=url) as run:
        run.step("s", lambda: 1)
        import contextvars

        def second() -> None:
            with holdfast.run("a", store=url):
                pass

        with pytest.raises(holdfast.RunHeld, match="this process") as refused:
            contextvars.Context().run(second)
        assert refused.value.since.endswith("UTC")
        run.step("t", lambda: 2)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        ("x" * 201, "201 characters"),
        ("a\nb", "printed"),
        (" a", "blank"),
        ("a@3", "'@'"),
        ("-a", "dash"),
    ],
)
def test_bad_run_names_are_refused(url: str, name: str, problem: str) -> None:
    """A run's id can be typed back; otherwise the error names it and why."""
    with pytest.raises(holdfast.BadName, match=problem), holdfast.run(name, store=url):
        pass


@pytest.mark.parametrize(
    "options", [{"mode": "old"}, {"if_finished": "x"}, {"stops": "x"}, {"on_drift": "x"}]
)
def test_bad_options_are_refused_before_anything_happens(url: str, options: Any) -> None:
    """An option outside its choices is named with the choices."""
    with pytest.raises(holdfast.BadOption, match="is not one of"):
        holdfast.run("a", store=url, **options)


def test_an_opening_is_single_use(url: str) -> None:
    """The same object cannot be entered twice."""
    opening = holdfast.run("a", store=url)
    with opening:
        pass
    with pytest.raises(holdfast.Misuse, match="entered through this object before"), opening:
        pass
