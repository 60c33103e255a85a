"""The resume plan: what is reused and what that saved, what is in doubt and what becomes of it, who is asked, what runs next.

Planted once, and caught here: the time of a step inside another counted twice; an unknown cost counted as nothing; the
policy of a tool in doubt not told.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import pytest
from tests.support import forked

import holdfast
from holdfast.core.resume.resume_plan import Saved

HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]
DEADLINE_S = 120


class Stop(Exception):
    """Ends an attempt and leaves the run to be resumed."""


def test_what_is_reused_and_what_that_saved(store: holdfast.Store) -> None:
    """Steps, marks and checkpoints; the time of a step inside another is part of that one's."""

    def inner() -> None:
        time.sleep(0.02)

    def outer() -> None:
        holdfast.current().step("inner", inner)

    with pytest.raises(Stop), holdfast.run("job", store=store) as run:
        run.think("hm")
        began = time.monotonic()
        run.step("outer", outer)
        taken_s = time.monotonic() - began
        run.checkpoint({"a": 1}, label="half")
        raise Stop
    plan = store.resume_plan("job")
    assert plan.answers == (2, 1, 1, 3, "half")
    assert 0.02 <= plan.saved.seconds <= taken_s
    assert plan.saved[1:] == (0, 0, 0, 0.0, 0)


def test_tokens_and_cost_that_nobody_counted_are_unknown(store: holdfast.Store) -> None:
    """They are neither zero nor left out: of how many calls they are known is said."""

    def ask(run: holdfast.Run, model: str, answer: Any) -> None:
        run.model("chat", lambda _: answer, {"model": model, "prompt": model})

    usage = {"usage": {"prompt_tokens": 100, "completion_tokens": 20}}
    with pytest.raises(Stop), holdfast.run("job", store=store) as run:
        ask(run, "smollm2", "hm")
        raise Stop
    assert store.resume_plan("job").saved[1:] == Saved(0, 1, None, 1, None, 1)[1:]
    with pytest.raises(Stop), holdfast.run("job", store=store) as run:
        ask(run, "smollm2", "hm")
        ask(run, "gpt-4o", usage)
        raise Stop
    saved = store.resume_plan("job").saved
    assert (saved.model_calls, saved.tokens, saved.tokens_unknown, saved.cost_unknown) == (2, 120, 1, 1)
    assert saved.cost is not None
    assert saved.cost > 0


@pytest.mark.parametrize(
    ("declared", "fate", "act"),
    [
        ({}, "the run stops and asks a person", "pause"),
        ({"in_doubt": "tell"}, "the program gets EffectUnknown", "warn"),
        ({"in_doubt": "retry"}, "it runs again, under the same idempotency key", "warn"),
        (
            {"verify": holdfast.Unknown},
            "its verify decides; if that cannot tell, the run stops and asks a person",
            "warn",
        ),
    ],
)
def test_what_each_policy_does_about_a_doubt(
    store: holdfast.Store, declared: dict[str, Any], fate: str, act: str
) -> None:
    """The declaration stands in the intent, so that it is known without the program."""

    def cut() -> None:
        raise KeyboardInterrupt

    pay = holdfast.tool(name="pay", **declared)(cut)
    with pytest.raises(KeyboardInterrupt), holdfast.run("job", store=store):
        pay()
    plan = store.resume_plan("job")
    (doubt,) = plan.doubts
    assert (doubt.step, doubt.fate) == ("pay", fate)
    (judged,) = [one for one in plan.premises if one.premise.kind == "effect"]
    assert (judged.verdict, judged.act) == ("unknown", act)
    store.resolve("job", "pay", "retry")
    plan = store.resume_plan("job")
    assert plan.doubts[0].fate == "runs again, under the same idempotency key"
    assert not [one for one in plan.premises if one.premise.kind == "effect"]


def test_questions_waits_and_what_comes_next(store: holdfast.Store) -> None:
    """An answer that lies in the inbox is told; of the plan, the item after the one that was worked on."""
    with pytest.raises(holdfast.Parked), holdfast.run("job", store=store) as run:
        run.plan(["survey", "compare", "draft"])
        run.step("survey", str)
        run.ask("Go on?", returns=bool)
    plan = store.resume_plan("job")
    (asked,) = plan.questions
    assert (asked.text, asked.answered_by) == ("Go on?", "")
    assert plan.next_item == "compare"
    store.answer("job", True, by="Ada")
    assert store.resume_plan("job").questions[0].answered_by == "Ada"
    with pytest.raises(holdfast.Parked), holdfast.run("nap", store=store) as run:
        run.sleep(3600, wait_s=0)
    (wait,) = store.resume_plan("nap").waits
    assert (wait.reason, wait.until is not None) == ("time", True)


def test_what_runs_again(store: holdfast.Store) -> None:
    """Cut off, with its arguments; failed, with its failure; what the program went past is neither."""

    def fail(number: int) -> None:
        raise ValueError(f"no {number}")

    with pytest.raises(ValueError, match="no 2"), holdfast.run("job", store=store) as run:
        try:
            run.step("fail", fail, 1)
        except ValueError:
            run.think("never mind")
        run.step("fail", fail, 2)
    plan = store.resume_plan("job")
    assert [(one.step, one.why, one.detail) for one in plan.again] == [("fail", "failed", "ValueError: no 2")]
    assert plan.answers.steps == 1


def test_the_plan_of_this_very_entry(store: holdfast.Store) -> None:
    """What was reused when the attempt began, however far it has come since; an empty one for a fresh run."""
    Path("data.csv").write_text("one")
    with pytest.raises(Stop), holdfast.run("job", store=store, workspace=".") as run:
        plan = run.resume_plan()
        assert (plan.attempt, plan.answers.steps, plan.premises) == (1, 0, ())
        run.depends_on("data.csv")
        run.step("one", str, 1)
        raise Stop
    Path("data.csv").write_text("two")
    with holdfast.run("job", store=store) as run:
        run.step("one", str, 1)
        run.step("two", str, 2)
        plan = run.resume_plan()
        assert (plan.attempt, plan.status, plan.answers.steps) == (2, "failed", 1)
        (judged,) = [one for one in plan.premises if one.premise.kind == "file"]
        assert (judged.verdict, judged.act) == ("changed", "warn")


# -- with real processes -------------------------------------------------------------------------------------------

PROGRAM = """\
import os, signal
import holdfast

def compare(country: str) -> int:
    return len(country)

def cut_off() -> str:
    if not os.path.exists("go-on"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"

with holdfast.run("job") as run:
    run.depends_on("data.csv")
    run.step("compare", compare, "GR")
    run.step("cut_off", cut_off)
    print("finished")
"""


def started(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return forked.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, **options)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A program that was killed in the middle of a step."""
    (tmp_path / "agent.py").write_text(PROGRAM)
    (tmp_path / "data.csv").write_text("one")
    assert started(sys.executable, "agent.py").returncode == -signal.SIGKILL
    (tmp_path / "go-on").touch()
    return tmp_path


@pytest.mark.slow
def test_a_killed_program_whose_code_was_edited(killed: Path) -> None:
    """The plan tells without importing it; resumed, it is warned about, once, and goes on."""
    (killed / "agent.py").write_text(PROGRAM.replace("len(country)", "len(country) + 1"))
    seen = started(*HOLDFAST, "resume", "job", "--dry-run").stdout
    assert f"source:compare  is warned about  is other code now: compare in {killed}/agent.py" in seen
    done = started(*HOLDFAST, "resume", "job")
    assert (done.returncode, done.stdout) == (0, "finished\n"), done.stderr
    assert done.stderr.count("source:compare") == 1
    assert "1 premise not as recorded" in done.stderr.splitlines()[0]


@pytest.mark.slow
def test_a_killed_program_whose_data_is_gone(killed: Path) -> None:
    """It is not entered; put back or accepted, it goes on."""
    (killed / "data.csv").unlink()
    assert (
        "file:data.csv  pauses the run  is not there any more"
        in started(*HOLDFAST, "resume", "job", "--dry-run").stdout
    )
    stopped = started(*HOLDFAST, "resume", "job")
    assert stopped.returncode == 3  # a person is to bring it back, or to accept that it is gone
    assert "run job relies on file:data.csv" in stopped.stderr
    assert "finished" not in stopped.stdout
    shown = started(*HOLDFAST, "show", "job").stdout
    assert "holdfast resume job --accept file:data.csv  # accept it as it is now" in shown
    done = started(*HOLDFAST, "resume", "job", "--accept", "file:data.csv")
    assert (done.returncode, done.stdout) == (0, "finished\n"), done.stderr


@pytest.mark.slow
def test_accepting_what_is_no_premise(killed: Path) -> None:
    """Refused with what there is; nothing is started."""
    done = started(*HOLDFAST, "resume", "job", "--accept", "file:date.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: run job relies on no 'file:date.csv'\nhint: it relies on: file:data.csv"
    )
    both = started(*HOLDFAST, "resume", "job", "--accept", "file:data.csv", "--dry-run")
    assert both.returncode == 2
    assert (killed / "data.csv").read_text() == "one"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_file_that_cannot_be_read_any_more(tmp_path: Path) -> None:
    """As good as gone: told with the reason. The process that looks is one that permissions count for."""
    code = dedent(
        f"""
        import os, sys
        sys.path[:0] = {sys.path!r}
        import holdfast
        from holdfast.engine.premises.probes import look_at_place
        import json
        os.setuid(65534)
        print(json.dumps(look_at_place(sys.argv[1])))
        """
    )
    path = Path("/tmp") / f"holdfast-{uuid4().hex}"
    path.write_text("secret")
    try:
        path.chmod(0o600)
        told = started(sys.executable, "-c", code, str(path)).stdout
    finally:
        path.unlink()
    assert told == '[null, "cannot be read: Permission denied", true]\n'
