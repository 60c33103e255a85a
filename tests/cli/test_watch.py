"""``holdfast watch``: real children that kill themselves; restarts, stops, the breaker, and signals that pass through.

Planted once, and caught here: a new attempt counted as progress; SIGINT passed on although the terminal had sent it;
runs of other processes counted as the command's; those behind a wrapper not.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import forked

import holdfast
from holdfast.cli.watch.breaker import DELAY_S_MAX, WINDOW_S, Breaker
from holdfast.cli.watch.progress import RunProgress, RunStatus
from holdfast.cli.watch.verdicts import judge

if TYPE_CHECKING:
    from tests.cli.conftest import Answer

PROGRAM = Path(__file__).parent / "programs" / "supervised.py"
HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]
DEADLINE_S = 120


class Yard:
    """A directory with a store in it, and watches that work there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def command(self, mode: str, *options: str, run: str = "jobs") -> list[str]:
        child = [sys.executable, str(PROGRAM), run, mode]
        return [*HOLDFAST, "watch", "--backoff", "0.01", *options, "--", *child]

    def watch(self, mode: str, *options: str, run: str = "jobs") -> subprocess.CompletedProcess[str]:
        return forked.run(
            self.command(mode, *options, run=run),
            cwd=self.path, env=environ(), capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip

    def start(self, command: list[str]) -> "subprocess.Popen[str]":
        """In a session of its own: a test that is run in a terminal has that terminal's Ctrl-C otherwise."""
        return forked.Popen(
            command, cwd=self.path, env=environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    @property
    def store(self) -> holdfast.Store:
        return holdfast.store(self.path / ".holdfast" / "holdfast.db")


def environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}


def told(stderr: str) -> list[str]:
    """The lines of a watch, without their times."""
    return re.findall(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z watch: (.*)$", stderr, flags=re.MULTILINE)


def was_told(stderr: str, pattern: str) -> bool:
    return any(re.fullmatch(pattern, line) for line in told(stderr))


def shape(stderr: str) -> list[str]:
    """The lines with a name for whatever differs from one time to the next."""
    text = re.sub(r"process \d+", "process PID", "\n".join(told(stderr)))
    text = re.sub(r"started process PID: .*", "started process PID", text)
    return re.sub(r"\d[\d.]* (?:s|ms|µs)\b", "TIME", text).splitlines()


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.store.close()


class TestRestarting:
    """A crash is no end."""

    def test_a_command_that_is_killed_is_started_again(self, yard: Yard) -> None:
        """SIGKILL in the middle, twice; the third start finishes the run, and stdout is the command's alone."""
        done = yard.watch("parts")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "started jobs\nstarted jobs\nstarted jobs\nattempt 3 finished jobs\n"
        crash = ["crashed with SIGKILL after TIME", "restarting in TIME: it had made progress"]
        begin = "started process PID"
        assert shape(done.stderr) == [
            begin, *crash, begin, *crash, begin, "finished after TIME",
        ]  # fmt: skip
        assert yard.store.get("jobs").status == "finished"

    def test_a_failure_is_a_crash_too(self, yard: Yard) -> None:
        """An exception's exit code 1 is tried again, until the breaker opens."""
        done = yard.watch("fail", "--max-crashes", "2")
        assert done.returncode == 1
        assert was_told(done.stderr, "crashed with exit code 1 after .*")
        assert len(yard.store.view("jobs").attempts) == 2

    def test_the_breaker_opens(self, yard: Yard) -> None:
        """A run that dies at one spot is given up; that attempts and steps begin is no progress."""
        done = yard.watch("stuck", "--max-crashes", "3")
        assert done.returncode == 1
        assert shape(done.stderr)[-7:] == [
            "restarting in TIME: crash 1 of 3 without progress",
            "started process PID",
            "crashed with SIGKILL after TIME",
            "restarting in TIME: crash 2 of 3 without progress",
            "started process PID",
            "crashed with SIGKILL after TIME",
            "gave up: 3 crashes within 10 min without progress (`holdfast runs` shows the status of its runs)",
        ]
        assert len(yard.store.view("jobs").attempts) == 3

    def test_a_command_that_never_opens_a_run(self, yard: Yard) -> None:
        """There is no store, and none is made; exit codes alone decide."""
        done = yard.watch("7", "--max-crashes", "2")
        assert (done.returncode, done.stdout) == (1, "started jobs\nstarted jobs\n")
        assert not (yard.path / ".holdfast").exists()

    def test_a_store_that_was_named_is_the_commands_too(self, yard: Yard) -> None:
        """``--store`` reaches the command, unless that names another itself."""
        done = yard.watch("parts", "--store", "elsewhere/it's 100%?.db")
        assert done.returncode == 0, done.stderr
        assert not (yard.path / ".holdfast").exists()
        elsewhere = holdfast.store(yard.path / "elsewhere" / "it's 100%?.db")
        assert elsewhere.get("jobs").status == "finished"
        elsewhere.close()

    def test_it_watches_a_resume(self, yard: Yard) -> None:
        """``holdfast resume`` is the program itself: its death by a signal is seen as such, and it is resumed again."""
        forked.run([sys.executable, str(PROGRAM), "jobs", "parts"], cwd=yard.path, env=environ(), check=False)
        command = [*HOLDFAST, "watch", "--backoff", "0.01", "--", *HOLDFAST, "resume", "jobs"]
        done = forked.run(
            command,
            cwd=yard.path,
            env=environ(),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert was_told(done.stderr, "crashed with SIGKILL after .*")
        assert yard.store.get("jobs").status == "finished"


class TestStopping:
    """Where the run stands decides, and then the exit code."""

    @pytest.mark.parametrize("mode", ["doubt", "swallow"])
    def test_in_doubt(self, yard: Yard, mode: str) -> None:
        """Killed inside a once step: started again, the run asks; so does the watch, also if the program swallows it."""
        done = yard.watch(mode)
        assert done.returncode == 3, done.stderr
        assert shape(done.stderr)[-1] == (
            "stopped after TIME: run jobs is in doubt (`holdfast resolve jobs` shows what to settle)"
        )
        assert len(yard.store.view("jobs").attempts) == 2

    def test_a_store_that_was_named_is_named_in_the_hint(self, yard: Yard) -> None:
        """What is to be typed next would look elsewhere otherwise."""
        done = yard.watch("doubt", "--store", "own.db")
        assert done.returncode == 3
        assert "(`holdfast resolve jobs --store own.db` shows what to settle)" in done.stderr

    def test_parked(self, yard: Yard) -> None:
        """A run that waits is not restarted into waiting."""
        done = yard.watch("park")
        assert done.returncode == 3
        assert was_told(done.stderr, "stopped after .*: run jobs is parked .*")

    def test_asleep(self, yard: Yard) -> None:
        """A run that waits for a time is started again then, and not before: nobody has to do it."""
        done = yard.watch("sleep")
        assert done.returncode == 0, done.stderr
        assert was_told(done.stderr, "run jobs is parked until .*: starting it again then")
        view = yard.store.view("jobs")
        assert len(view.attempts) == 2
        first, second = view.attempts
        assert first.ended_at is not None
        assert second.event.at - first.ended_at >= 0.5

    def test_parked_because_it_goes_in_circles(self, yard: Yard) -> None:
        """Starting it again would let it go on; that is for a person to decide."""
        done = yard.watch("circle")
        assert done.returncode == 3
        assert was_told(done.stderr, "stopped after .*: run jobs is parked .*")
        assert len(yard.store.view("jobs").attempts) == 1

    def test_diverged(self, yard: Yard) -> None:
        """A changed program does not change back by being started again."""
        done = yard.watch("diverge")
        assert done.returncode == 1
        assert shape(done.stderr)[-1] == (
            "stopped after TIME: run jobs diverged (`holdfast show jobs` shows how to continue)"
        )

    @pytest.mark.parametrize(("mode", "code"), [("0", 0), ("2", 2), ("3", 3)])
    def test_exit_codes_that_end_it(self, yard: Yard, mode: str, code: int) -> None:
        """Done, misuse, waiting: one start."""
        done = yard.watch(mode)
        assert (done.returncode, done.stdout) == (code, "started jobs\n")

    def test_another_run_of_the_store_is_not_its_business(self, yard: Yard) -> None:
        """A run that was in doubt before, and is not worked on, stops nothing."""
        assert yard.watch("doubt", run="other").returncode == 3
        assert yard.watch("parts").returncode == 0

    def test_a_cut_off_run_goes_on_before_another_is_waited_for(self) -> None:
        """Of two runs of one process, one parked and one cut off by the kill: the second still can go on."""
        parked, crashed = RunStatus("a", "parked"), RunStatus("b", "crashed")
        assert judge(-9, [parked, crashed]).code is None
        assert judge(0, [parked]).code == 3
        assert judge(0, [crashed]).code == 0, "it says itself that it is done"

    def test_whose_runs_they_are(self, yard: Yard) -> None:
        """Those of the process that was started; behind a wrapper, whose process is unknown, those begun meanwhile."""
        progress = RunProgress(yard.store.url)
        with holdfast.run("mine", store=yard.store):
            assert yard.watch("park").returncode == 3
            mine, other = RunStatus("mine", "running"), RunStatus("jobs", "parked")
            assert progress.work(os.getpid()).runs == (mine,)
            assert set(progress.work(-1).runs) == {mine, other}
            progress.begin()
            assert progress.work(-1).runs == ()

    def test_behind_a_shell(self, yard: Yard) -> None:
        """The process that works is not the one that was started: where its runs stand counts all the same."""
        child = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, str(PROGRAM), "jobs", "doubt"]
        with yard.start([*HOLDFAST, "watch", "--backoff", "0.01", "--", *child]) as process:
            _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 3, err
        assert was_told(err, "crashed with exit code 137 after .*")


class TestBreaker:
    """Delays and counts, without waiting for them."""

    def test_delays_double_up_to_a_limit(self) -> None:
        """Twice as long each time; at most a minute, give or take the jitter."""
        breaker = Breaker(crashes_max=100, backoff_s=1.0, chance=lambda: 0.5)
        delays = [breaker.crashed(float(at), got_on=False) for at in range(9)]
        assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, DELAY_S_MAX, DELAY_S_MAX, DELAY_S_MAX]

    def test_jitter(self) -> None:
        """A fifth less to a fifth more."""
        for chance, delay in ((0.0, 0.8), (1.0, 1.2)):
            breaker = Breaker(crashes_max=5, backoff_s=1.0, chance=lambda chance=chance: chance)  # type: ignore[misc]
            assert breaker.crashed(0.0, got_on=False) == pytest.approx(delay)

    def test_progress_forgives(self) -> None:
        """The count begins anew, and so do the delays."""
        breaker = Breaker(crashes_max=3, backoff_s=1.0, chance=lambda: 0.5)
        delays = [breaker.crashed(0.0, got_on=got_on) for got_on in (False, False, True, False, False, False)]
        assert delays == [1.0, 2.0, 1.0, 1.0, 2.0, None]

    def test_old_crashes_do_not_count(self) -> None:
        """One a quarter of an hour is no storm."""
        breaker = Breaker(crashes_max=2, backoff_s=1.0, chance=lambda: 0.5)
        assert [breaker.crashed(WINDOW_S * n, got_on=False) for n in range(5)] == [1.0] * 5


class TestSignals:
    """What is sent to the watch reaches the command; then it is not started again."""

    @pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_they_are_passed_on(self, yard: Yard, signum: signal.Signals, code: int) -> None:
        """The run records its interruption and lets the lease go; nothing stays behind."""
        with yard.start(yard.command("wait")) as process:
            try:
                hear(process, "inside")
                process.send_signal(signum)
                _, err = process.communicate(timeout=DEADLINE_S)
            finally:
                process.kill()
        assert process.returncode == code
        assert was_told(err, f"passed {signum.name} on to process \\d+")
        assert was_told(err, "ended by .*; not restarting")
        check_interrupted(yard)

    def test_ctrl_c_in_a_terminal_comes_once(self, yard: Yard) -> None:
        """The terminal sends it to both; passed on as well, a second one would hurry a run that waits for a payment."""
        master, slave = pty.openpty()
        grab = "import os, sys; os.open(sys.argv[1], os.O_RDWR); os.execv(sys.argv[2], sys.argv[2:])"
        command = [sys.executable, "-c", grab, os.ttyname(slave), *yard.command("wait")]
        try:
            with yard.start(command) as process:
                try:
                    hear(process, "inside")
                    os.write(master, b"\x03")
                    _, err = process.communicate(timeout=DEADLINE_S)
                finally:
                    process.kill()
        finally:
            os.close(slave)
            os.close(master)
        assert process.returncode == 130, err
        assert was_told(err, "SIGINT: waiting for process \\d+ to end")
        assert not any("passed" in line for line in told(err))
        check_interrupted(yard)

    def test_while_it_waits_for_the_next_start(self, yard: Yard) -> None:
        """No child is there to pass it on to: it leaves at once, with the signal's exit code."""
        with yard.start(yard.command("stuck", "--backoff", "3000")) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    if "restarting in" in line:
                        break
                process.terminate()
                _, err = process.communicate(timeout=DEADLINE_S)
            finally:
                process.kill()
        assert process.returncode == 143
        assert was_told(err, "SIGTERM while waiting; not restarting")


def hear(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"it ended without saying {word!r}")


def check_interrupted(yard: Yard) -> None:
    info = yard.store.get("jobs")
    assert (info.status, info.lease.owner) == ("interrupted", "")
    assert len(yard.store.view("jobs").attempts) == 1


class TestTelling:
    """Objects for programs, and what cannot be started."""

    def test_json(self, yard: Yard) -> None:
        """One object a line on stderr, with the fields that the page lists."""
        done = yard.watch("3", "--json")
        objects: list[dict[str, Any]] = [json.loads(line) for line in done.stderr.splitlines()]
        assert [notice["event"] for notice in objects] == ["started", "stopped"]
        assert (objects[1]["pid"], objects[1]["code"]) == (objects[0]["pid"], 3)
        page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
        section = page.split("## `holdfast watch`")[1].split("\n## ")[0].split("| field |")[1]
        assert set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)) == set(objects[0])

    def test_no_command_is_misuse(self, tmp_path: Path, holdfast_in: "Callable[..., Answer]") -> None:
        """Also with ``--`` and nothing after it."""
        for words in (["watch"], ["watch", "--"]):
            answer = holdfast_in(tmp_path, *words)
            assert (answer.code, answer.out) == (2, "")
            assert answer.err == (
                "error: missing argument 'COMMAND...'\nhint: `holdfast watch --help` shows how it is used\n"
            )

    def test_a_command_that_is_not_there(self, tmp_path: Path, holdfast_in: "Callable[..., Answer]") -> None:
        """Refused and not retried; the hint is not given the ``--store`` of the command."""
        answer = holdfast_in(tmp_path, "watch", "--", "no-such-program", "--store", "x")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == (
            "error: cannot start no-such-program: No such file or directory\n"
            "hint: give a command after --, as you would type it\n"
        )

    def test_a_file_that_is_no_store(self, tmp_path: Path, holdfast_in: "Callable[..., Answer]") -> None:
        """Refused before anything is started."""
        (tmp_path / "notes.txt").write_text("not a store, and long enough to be seen as something else" * 40)
        answer = holdfast_in(tmp_path, "watch", "--store", "notes.txt", "--", "touch", "started")
        assert answer.code == 1
        assert not (tmp_path / "started").exists()
