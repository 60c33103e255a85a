"""A stop-signal that no program caught: a few lines with the next command, and exit code 3; no traceback.

Seen before: an approval, a budget or a sleep ended a program with 25 lines of traceback and exit code 1.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support import forked

import holdfast

pytestmark = pytest.mark.slow

ASKING = """
import holdfast

with holdfast.run("trip"{store}) as run:
    run.step("look", lambda: "three flights")
    run.finish(run.ask("Book it?", returns=bool))
print("booked")
"""
SLEEPING = """
import holdfast

with holdfast.run("trip") as run:
    run.sleep(1000, wait_s=0)
"""
SPENDING = """
import holdfast

with holdfast.run("trip", budget=holdfast.Budget(calls=1)) as run:
    for n in range(2):
        run.model("m", lambda q: "a", {"n": n})
"""
IN_DOUBT = """
import holdfast

def pay():
    raise OSError("cut off")

with holdfast.run("trip") as run:
    run.once("pay", pay)
"""
APPROVAL = """
import holdfast

@holdfast.tool(approve=True)
def pay(amount: int) -> str:
    return "paid"

with holdfast.run("trip"):
    print(pay(3))
"""
ASYNC = """
import asyncio
import holdfast

async def one(name):
    async with holdfast.run(name) as run:
        await run.ask("Book it?", returns=bool)

async def main():
    {body}

asyncio.run(main())
"""
THREAD = """
import threading
import holdfast

def work():
    with holdfast.run("trip") as run:
        run.ask("Book it?", returns=bool)

thread = threading.Thread(target=work)
thread.start()
thread.join()
print("the program goes on")
"""
OPENED = """
import holdfast

run = holdfast.run("trip", store="elsewhere.db").open()
run.ask("Book it?", returns=bool)
"""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The installed ``holdfast`` on the path, as in an activated environment, and nothing of the tests' own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return plain | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | dict(more or {})


def start(
    program: str, place: Path, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    (place / "agent.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "agent.py"]
    return forked.run(
        command, cwd=place, env=environment(env), capture_output=True, text=True, timeout=60, check=False
    )


def typed(command: str, place: Path) -> "subprocess.CompletedProcess[str]":
    """The command as a person copies it into a shell."""
    return forked.run(
        command,
        shell=True,
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def lines_of(told: "subprocess.CompletedProcess[str]") -> list[str]:
    assert "Traceback" not in told.stderr
    return [line for line in told.stderr.splitlines() if "made a new store" not in line]


def command_in(line: str) -> str:
    return line.partition(": ")[2]


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (ASKING.format(store=""), "holdfast: run trip waits for an answer to q1: Book it?"),
        (APPROVAL, "holdfast: run trip waits for an answer to q1: "),
        (SLEEPING, "holdfast: run trip sleeps until "),
        (SPENDING, "holdfast: run trip is parked: "),
        (IN_DOUBT, "holdfast: step 'pay' of run trip was started at "),
        (ASYNC.format(body="await one('trip')"), "holdfast: run trip waits for an answer to q1: Book it?"),
    ],
    ids=["ask", "approve", "sleep", "budget", "in_doubt", "async"],
)
def test_a_planned_pause_is_no_error(program: str, says: str, tmp_path: Path) -> None:
    """What it waits for, what to do about it, the command that goes on; exit code 3, and the command works as printed."""
    first = start(program, tmp_path)
    assert first.returncode == 3, first.stderr
    told = lines_of(first)
    assert told[0].startswith(says)
    assert 2 <= len(told) <= 3, told
    for line in told[1:]:
        again = typed(command_in(line), tmp_path)
        assert "Traceback" not in again.stderr, again.stderr
        assert "error:" not in again.stderr, again.stderr
        assert again.returncode in {0, 3}, again.stderr


def test_the_guide_shows_what_is_printed(tmp_path: Path) -> None:
    """The block in the guide, letter by letter, but for the name of the interpreter."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "runs.md").read_text(encoding="utf-8")
    shown = guide.partition("$ python trip.py\n")[2].partition("```")[0]
    (tmp_path / "trip.py").write_text(ASKING.format(store=""), encoding="utf-8")
    done = forked.run(
        [sys.executable, "trip.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert lines_of(done) == shown.replace("python trip.py", f"{sys.executable} trip.py").splitlines()


def test_the_printed_commands_go_on(tmp_path: Path) -> None:
    """Answered with the command that its output names, and started with the last line, the run finishes."""
    first = start(ASKING.format(store=""), tmp_path)
    _, answer, go_on = lines_of(first)
    assert typed(f"{command_in(answer)} yes", tmp_path).returncode == 0
    again = typed(command_in(go_on), tmp_path)
    assert (again.returncode, again.stdout) == (0, "booked\n"), again.stderr


def test_after_a_resume_the_commands_work_where_it_was_typed(tmp_path: Path) -> None:
    """Resumed from another directory: what is printed is typed there, and goes on.

    They named no store, and the program without its directory: "there is no store", "can't open file".
    """
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    start(ASKING.format(store=""), home)
    resumed = typed(f"holdfast resume trip --store {home / '.holdfast'}", elsewhere)
    assert resumed.returncode == 3
    answer, go_on = map(command_in, lines_of(resumed)[-2:])
    assert typed(f"{answer} yes", elsewhere).returncode == 0, answer
    again = typed(go_on, elsewhere)
    assert (again.returncode, again.stdout) == (0, "booked\n"), again.stderr


def test_a_program_from_stdin_is_not_told_to_be_typed(tmp_path: Path) -> None:
    """It went on by ``python -``, which waits for a program. Neither the program nor the commands say that now."""
    done = typed(f"{sys.executable} - <<'END'\n{ASKING.format(store='')}\nEND", tmp_path)
    assert done.returncode == 3, done.stderr
    assert lines_of(done)[-1] == "  go on: start the program again"
    for command in ("holdfast show trip", "holdfast answer trip q1 yes"):
        assert "python" not in typed(command, tmp_path).stdout


@pytest.mark.parametrize(
    ("store", "env"),
    [
        (', store="elsewhere/my runs.db"', {}),
        ("", {"HOLDFAST_URL": "elsewhere/my runs.db"}),
    ],
)
def test_another_store_is_named(store: str, env: dict[str, str], tmp_path: Path) -> None:
    """The commands find a store that is not the default one, whether the program or its environment named it."""
    first = start(ASKING.format(store=store), tmp_path, env)
    _, answer, go_on = lines_of(first)
    assert typed(f"{command_in(answer)} yes", tmp_path).returncode == 0, answer
    again = typed(command_in(go_on), tmp_path)
    assert (again.returncode, again.stdout) == (0, "booked\n"), again.stderr


def test_a_run_of_open_names_its_store(tmp_path: Path) -> None:
    """No block was left: the store is known all the same."""
    first = start(OPENED, tmp_path)
    assert first.returncode == 3
    answer = command_in(lines_of(first)[1])
    assert "elsewhere.db" in answer
    assert typed(f"{answer} yes", tmp_path).returncode == 0


def test_a_password_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without it is of no use alone, but a password in a log is worse."""
    from holdfast.api.excepthook import lines_of as lines

    stop = holdfast.AwaitingAnswer(run="trip", question="q1", reason="Book it?")
    stop.store = "postgresql://me@db/agents"
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://me:hunter2@db/agents")
    assert "hunter2" not in "".join(lines(stop))


def test_every_stop_signal_names_commands_that_exist() -> None:
    """At least the message; with a command, one that can be typed. What a program raises itself may lack fields."""
    from tests.architecture.test_errors import CLASSES, sample

    from holdfast.api.excepthook import lines_of as lines
    from holdfast.cli.app import COMMANDS

    for cls in CLASSES:
        if not issubclass(cls, holdfast.StopSignal) or not cls.says:
            continue
        told = lines(sample(cls))  # type: ignore[arg-type]  # a stop-signal, as was asked above
        typed_words = [line.split(": ", 1)[1].split() for line in told[1:] if "holdfast" in line]
        assert all(
            words[words.index("holdfast") + 1] in COMMANDS for words in typed_words if "holdfast" in words
        )
    bare = holdfast.StepInDoubt(run="r", step="s", key="k", started_at="then", reason="was cut off")
    assert [line.split(": ")[0].strip() for line in lines(bare)][1:] == ["settle it", "go on"]


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    """HOLDFAST_DEBUG: everything, and the exit code is the same."""
    done = start(ASKING.format(store=""), tmp_path, {"HOLDFAST_DEBUG": "1"})
    assert done.returncode == 3
    assert "Traceback (most recent call last)" in done.stderr
    assert "holdfast.errors.AwaitingAnswer: run trip waits for an answer" in done.stderr


def test_other_errors_are_shown_as_ever(tmp_path: Path) -> None:
    """An exception of the program, and an error of Holdfast's that is no stop-signal."""
    plain = start(
        ASKING.format(store="").replace('run.step("look", lambda: "three flights")', "1 / 0"), tmp_path
    )
    assert plain.returncode == 1
    assert "ZeroDivisionError" in plain.stderr
    refused = start(ASKING.format(store=', mode="resume"').replace("trip", "gone"), tmp_path)
    assert refused.returncode == 1
    assert "holdfast.errors.UnknownRun" in refused.stderr


def test_stop_signals_of_a_task_group(tmp_path: Path) -> None:
    """A group around several runs: each is told. Beside a real error there is a traceback."""
    group = "async with asyncio.TaskGroup() as g:\n        [g.create_task(one(n)) for n in ('a', 'b')]"
    done = start(ASYNC.format(body=group), tmp_path)
    assert done.returncode == 3
    told = "\n".join(lines_of(done))
    assert "run a waits for" in told or "run b waits for" in told
    failing = group + "\n        g.create_task(asyncio.sleep(0, 1 / 0))"
    mixed = start(ASYNC.format(body=failing), tmp_path)
    assert mixed.returncode == 1
    assert "ZeroDivisionError" in mixed.stderr


def test_in_a_thread(tmp_path: Path) -> None:
    """A thread's stop-signal is told in the same way. As ever, a thread does not decide the exit code."""
    done = start(THREAD, tmp_path)
    assert (done.returncode, done.stdout) == (0, "the program goes on\n")
    assert lines_of(done)[0] == "holdfast: run trip waits for an answer to q1: Book it?"


HOOK = 'import sys\nsys.excepthook = lambda kind, error, trace: print("mine:", kind.__name__)\n'


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_hook_of_the_users_own(when: str, tmp_path: Path) -> None:
    """It shows what it shows: a stop-signal reaches it like every other exception, and Holdfast prints nothing."""
    asking = ASKING.format(store="")
    inside = asking.replace("    run.finish", f"    {HOOK.replace(chr(10), '; ', 1)}    run.finish")
    done = start(HOOK + asking if when == "before" else inside, tmp_path)
    assert done.stdout == "mine: AwaitingAnswer\n", done.stderr
    assert lines_of(done) == []
    assert done.returncode == (3 if when == "before" else 1)


def test_a_hook_that_calls_the_one_before(tmp_path: Path) -> None:
    """Installed behind Holdfast's and calling it, both are heard."""
    chained = 'import sys; old = sys.excepthook; sys.excepthook = lambda *a: (print("mine:", a[0].__name__), old(*a))\n'
    program = ASKING.format(store="").replace("    run.finish", f"    {chained}    run.finish")
    done = start(program, tmp_path)
    assert done.stdout == "mine: AwaitingAnswer\n"
    assert done.returncode == 3
    assert lines_of(done)[0].startswith("holdfast: run trip waits for")


def test_without_a_run_nothing_is_installed(tmp_path: Path) -> None:
    """Importing Holdfast, or opening a store, changes no hook; neither does a run under pytest."""
    probe = (
        "import sys, threading, holdfast; holdfast.store('x.db'); "
        "print(sys.excepthook is sys.__excepthook__, threading.excepthook is threading.__excepthook__)"
    )
    assert start(probe, tmp_path).stdout == "True True\n"
    with holdfast.run("r", store="memory://planned-pauses"):
        assert sys.excepthook is sys.__excepthook__


def test_in_ipython_nothing_is_installed(tmp_path: Path) -> None:
    """IPython and notebooks show exceptions themselves; exiting would end the kernel."""
    probe = "import builtins\nbuiltins.__IPYTHON__ = True\n" + ASKING.format(store="")
    done = start(probe, tmp_path)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_an_interactive_interpreter_lives_on(tmp_path: Path) -> None:
    """At the prompt of ``python -i`` the lines are printed, and the prompt comes back."""
    typed_in = 'import holdfast\nrun = holdfast.run("trip").open()\nrun.ask("Book it?", returns=bool)\nprint(40 + 2)\n'
    done = forked.run(
        [sys.executable, "-i", "-q"],
        cwd=tmp_path,
        env=environment(),
        input=typed_in,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "42" in done.stdout
    assert "run trip waits for an answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_command_on_the_path(tmp_path: Path) -> None:
    """An environment that is not activated has no ``holdfast``: its interpreter is named instead."""
    bare = re.sub(re.escape(str(Path(sys.executable).parent)) + ":?", "", os.environ["PATH"])
    first = start(ASKING.format(store=""), tmp_path, {"PATH": bare})
    answer = command_in(lines_of(first)[1])
    assert answer.startswith(f"{sys.executable} -m holdfast.cli answer")
    assert typed(f"{answer} yes", tmp_path).returncode == 0
