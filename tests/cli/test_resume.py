"""``holdfast resume``: a killed program goes on from anywhere, what that would do is shown before, and each refusal.

Planted once, and caught here: not going to the recorded directory; a failure that the program went past told as
running again; one that came right before a crash told as answered.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import forked

import holdfast
from holdfast.cli.relaunch import program_of
from holdfast.core.resume.resume_plan import Asked
from holdfast.model.waits import Waiting
from holdfast.views.in_doubt import StoppedLine, UnclaimedLine

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Shop

PROGRAM = Path(__file__).parent / "programs" / "supervised.py"
PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]
BEGUN = 1772373731.0
DEADLINE_S = 120
TWO_STEPS = """\
import sys, holdfast
from rates import scaled

def one(n):
    return scaled(n)

def two(n):
    return scaled(n) + 1

with holdfast.run(sys.argv[1]) as run:
    run.step("one", one, 1)
    run.step("two", two, 1)
    raise SystemExit(1)
"""


def environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}


class Project:
    """A directory with an agent in it; its store is found from there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.script = path / "agent.py"
        shutil.copy(PROGRAM, self.script)

    def begin(self, mode: str, run: str = "jobs", python: str = sys.executable) -> int:
        done = forked.run(
            [python, "agent.py", run, mode],
            cwd=self.path, env=environ(), capture_output=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        return done.returncode

    def resume(self, *words: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [*HOLDFAST, "resume", *words, "--store", str(self.path / ".holdfast")]
        return forked.run(
            command, cwd=cwd, env=environ(), capture_output=True, text=True, timeout=DEADLINE_S, check=False, **options
        )  # fmt: skip

    @property
    def store(self) -> holdfast.Store:
        return holdfast.store(self.path / ".holdfast")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "project").mkdir()
    made = Project(tmp_path / "project")
    yield made
    made.store.close()


class TestGoingOn:
    """The program of the last attempt, in its own directory, with the run and the store that were named."""

    def test_a_killed_program_goes_on_from_another_directory(self, project: Project, tmp_path: Path) -> None:
        """Killed twice, resumed twice from elsewhere; the output is the program's, and the end is the run's."""
        assert project.begin("parts") == -signal.SIGKILL
        killed = project.resume("jobs", cwd=tmp_path)
        assert killed.returncode == -signal.SIGKILL, "the program takes the place of the command"
        done = project.resume("--last", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "started jobs\nattempt 3 finished jobs\n"), done.stderr
        assert done.stderr.splitlines()[0] == (
            "resuming jobs, attempt 3: 2 steps and 0 marks from the journal, 1 step again"
        )
        assert project.store.get("jobs").status == "finished"
        assert not (tmp_path / ".holdfast").exists()

    def test_a_fork_goes_on_with_the_unchanged_program(self, project: Project, tmp_path: Path) -> None:
        """It has no attempt of its own yet: the command is that of the run it comes from, and the run is the fork."""
        project.begin("parts")
        project.store.fork("jobs", as_="try-b")
        assert project.resume("--last", cwd=tmp_path).returncode == -signal.SIGKILL
        done = project.resume("try-b", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "started jobs\nattempt 3 finished jobs\n"), done.stderr
        assert project.store.get("try-b").status == "finished"
        assert project.store.get("jobs").status == "crashed"

    def test_the_shell_sees_the_signal(self, project: Project, tmp_path: Path) -> None:
        """128 + n, as for any program."""
        project.begin("stuck")
        done = forked.run(
            ["sh", "-c", '"$@"; exit $?', "sh", *HOLDFAST, "resume", "jobs", "--store", project.path / ".holdfast"],
            cwd=tmp_path, env=environ(), capture_output=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 128 + signal.SIGKILL

    @pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -2)])
    def test_signals_reach_the_program(
        self, project: Project, tmp_path: Path, signum: signal.Signals, code: int
    ) -> None:
        """It records its interruption and lets the lease go."""
        assert project.begin("fail") == 1
        program = project.script.read_text(encoding="utf-8")
        project.script.write_text(
            program.replace('mode == "fail"', 'mode == "wait"').replace('"wait"', '"fail"', 1)
        )
        command = [*HOLDFAST, "resume", "jobs", "--store", str(project.path / ".holdfast")]
        with forked.Popen(
            command, cwd=tmp_path, env=environ(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line == "inside\n":
                        break
                process.send_signal(signum)
                assert process.wait(DEADLINE_S) == code
            finally:
                process.kill()
        info = project.store.get("jobs")
        assert (info.status, info.lease.owner) == ("interrupted", "")

    def test_stdin_is_the_programs(self, project: Project, tmp_path: Path) -> None:
        """What is piped into the command is there for the program."""
        project.begin("stuck")
        project.script.write_text("import sys\nprint(sys.stdin.read().upper(), sys.argv[1:])\n")
        done = project.resume("jobs", cwd=tmp_path, input="typed")
        assert done.stdout == "TYPED ['jobs', 'stuck']\n"


class TestPlan:
    """``--dry-run``: what would happen, and nothing happens."""

    def test_the_plan(self, shop: "Shop") -> None:
        """What the journal answers, what is in doubt, and the command; nothing is started."""
        before = shop.store.get("nightly").head
        assert shop("resume", "nightly", "--dry-run").out == dedent("""\
            run                nightly
            status             crashed, attempt 2 would begin
            from the journal   5 steps, 4 marks and 1 checkpoint
            not spent again    2.8 s
            latest checkpoint  draft-1, point 6
            premises           SOME hold, 2 not known yet
            next in its plan   draft

            In doubt
            create_contact (d18)  undecided  the run stops and asks a person

            Would start
              in       HERE
              with     HOLDFAST_RUN=nightly HOLDFAST_URL=URL
              command  python agent.py STORE nightly 1772373671.0 crash
            """)
        assert shop.store.get("nightly").head == before

    def test_what_failed_runs_again(self, shop: "Shop") -> None:
        """A failure that ended the attempt is tried again, and is not answered from the journal."""
        assert shop("resume", "ledger", "--dry-run").out == dedent("""\
            run               ledger
            status            failed, attempt 2 would begin
            from the journal  0 steps and 0 marks
            premises          SOME hold

            Runs again
            load  read  failed, 2 tries  ConnectionError: the ledger is locked

            Would start
              in       HERE
              with     HOLDFAST_RUN=ledger HOLDFAST_URL=URL
              command  python agent.py STORE ledger 1772373131.0 fail
            """)

    def test_on_a_terminal(self, shop: "Shop") -> None:
        """Wrapped to its width; the command line is whole."""
        seen = shop.on_terminal("resume", "nightly", "--dry-run", NO_COLOR="1")
        assert "? create_contact (d18)  undecided  the run stops and asks a person" in seen

    def test_a_resolution_that_waits(self, own_shop: "Shop") -> None:
        """What a person said is what becomes of it."""
        own_shop.work("debt-cycles", "crash")
        own_shop("resolve", "debt-cycles", "--retry")
        seen = own_shop("resume", "debt-cycles", "--dry-run").out
        assert "create_contact (d18)  retry  runs again, under the same idempotency key" in seen

    def test_what_was_cut_off_runs_again(self, project: Project, tmp_path: Path) -> None:
        """A read step that was cut off stands there with its arguments and how often it was begun."""
        project.begin("parts")
        plan = json.loads(project.resume("jobs", "--dry-run", "--json", cwd=tmp_path).stdout)
        assert plan["answers"]["steps"] == 1
        (again,) = plan["again"]
        assert (again["step"], again["why"], again["tries"]) == ("part", "cut_off", 1)
        assert again["detail"] == '{"number": 1}'
        assert plan["launch"]["argv"] == [sys.executable, "agent.py", "jobs", "parts"]

    def test_a_failure_that_the_program_went_past(self, project: Project, tmp_path: Path) -> None:
        """It is answered from the journal as the failure it was, and does not run again."""
        project.begin("past")
        plan = json.loads(project.resume("jobs", "--dry-run", "--json", cwd=tmp_path).stdout)
        assert (plan["answers"]["steps"], plan["answers"]["marks"], plan["again"]) == (1, 1, [])

    def test_a_failure_that_was_the_last_thing_before_a_crash(self, project: Project, tmp_path: Path) -> None:
        """Nothing shows that the program went past it: it runs again, although no attempt has recorded that yet."""
        project.begin("caught")
        plan = json.loads(project.resume("jobs", "--dry-run", "--json", cwd=tmp_path).stdout)
        assert [(again["step"], again["why"]) for again in plan["again"]] == [("failing", "failed")]
        assert plan["answers"]["steps"] == 0

    def test_a_changed_helper_is_named_and_shown(self, project: Project, tmp_path: Path) -> None:
        """The step, what it uses that has changed, and the difference, once however many steps use it."""
        project.script.write_text(TWO_STEPS)
        helper = project.path / "rates.py"
        helper.write_text("RATE = 3\n\n\ndef scaled(n):\n    return n * RATE\n")
        assert project.begin("", run="jobs") == 1
        helper.write_text("RATE = 3\n\n\ndef scaled(n):\n    # twice\n    return n * RATE * 2\n")
        seen = project.resume("jobs", "--dry-run", cwd=tmp_path).stdout
        # How many hold depends on what other tests had the fork server import: each package is a premise.
        assert re.search(r"^premises +\d+ hold, 2 do not hold$", seen, re.MULTILINE)
        assert " ".join(seen.split("Does not hold")[1].split("Changed source")[0].split()) == (
            "source:one is warned about uses what has changed: rates.scaled (recorded as #3) "
            "source:two is warned about uses what has changed: rates.scaled (recorded as #5)"
        )
        assert seen.split("Changed source\n")[1].split("\n\n")[0] == dedent("""\
              rates.scaled
                 def scaled(n):
                -    return n * RATE
                +    # twice
                +    return n * RATE * 2""").replace("\n", "\n  ").replace("rates", "  rates", 1)
        plan = json.loads(project.resume("jobs", "--dry-run", "--json", cwd=tmp_path).stdout)
        assert [one["diffs"][0]["name"] for one in plan["premises"] if one["diffs"]] == ["rates.scaled"] * 2

    def test_the_fields_are_on_the_page(self, shop: "Shop") -> None:
        """Documented and printed fields are the same."""
        section = PAGE.read_text(encoding="utf-8").split("## `holdfast resume`")[1].split("\n## ")[0]
        found = set()
        for run in ("nightly", "ledger"):
            plan = json.loads(shop("resume", run, "--dry-run", "--json").out)
            for name, part in plan.items():
                rows = part if isinstance(part, list) else [part]
                for row in rows:
                    dots = "[]." if isinstance(part, list) else "."
                    found |= {f"{name}{dots}{field}" for field in row} if isinstance(row, dict) else {name}
        found |= {f"questions[].{name}" for name in Asked._fields} | {f"waits[].{n}" for n in Waiting._fields}
        found |= {f"stopped[].{name}" for name in StoppedLine._fields}
        found |= {f"unclaimed[].{name}" for name in UnclaimedLine._fields}
        found -= {"questions", "waits", "stopped", "unclaimed"}
        found.add("secrets")  # sentences, if a secret was rotated or is gone
        found = (found - {"launch.environ"}) | {
            f"launch.environ.{name}" for name in plan["launch"]["environ"]
        }
        assert set(re.findall(r"^\| `([a-z_][\w.\[\]]*)` \|", section, flags=re.MULTILINE)) == found


class TestRefusals:
    """Each with its exit code, what refused, and the next move; nothing is started.

    Inside this process only with ``--dry-run``, which refuses the same: what is not refused would take pytest's place.
    """

    def test_an_unknown_run(self, shop: "Shop") -> None:
        """With the command that lists the known ones."""
        answer = shop("resume", "nope", "--dry-run")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == (
            "error: no run 'nope' in URL\nhint: `holdfast runs --store URL` lists its runs\n"
        )

    def test_a_finished_run(self, shop: "Shop") -> None:
        """There is nothing to resume, and its result can be looked at."""
        answer = shop("resume", "daily.2", "--dry-run")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == (
            "error: run daily.2 is finished: there is nothing to resume\n"
            "hint: `holdfast show daily.2 --store STORE` shows its result\n"
        )

    def test_a_held_run(self, own_shop: "Shop") -> None:
        """Who holds it, since when, and how to continue."""
        with holdfast.run("mine", store=own_shop.store):
            for words in (["mine"], ["--last"]):
                answer = own_shop("resume", *words, "--dry-run")
                assert (answer.code, answer.out) == (1, "")
                assert answer.err == (
                    "error: run mine is held by process 4242 on host since 2026-03-01 14:07:11 UTC "
                    "(fence 1, last sign of life just now)\n"
                    "hint: wait for it or stop that process; one that died on another machine is noticed when its lease runs out\n"
                )

    def test_nothing_left_to_resume(self, own_shop: "Shop") -> None:
        """``--last`` where every run is finished."""
        own_shop.work("done", "finish")
        answer = own_shop("resume", "--last", "--dry-run")
        assert answer.code == 1
        assert answer.err.startswith("error: every run in URL is finished, or has never started\n")

    def test_a_run_that_was_never_begun(self, own_shop: "Shop") -> None:
        """Queued, and no process has worked on it: no command is recorded."""

        @holdfast.agent("tide-watcher")
        def watcher() -> None: ...

        watcher.submit("queued", store=own_shop.store)
        answer = own_shop("resume", "queued", "--dry-run")
        assert answer.code == 1
        assert answer.err.startswith("error: run queued has never started: no command is recorded for it\n")

    def test_a_directory_that_is_gone(self, project: Project, tmp_path: Path) -> None:
        """It is named, and so is what the program needs elsewhere."""
        project.begin("stuck")
        moved = Project.__new__(Project)
        moved.path = tmp_path / "moved"
        project.path.rename(moved.path)
        done = moved.resume("jobs", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            f"error: run jobs was last started in {project.path}, which no longer exists\n"
        )
        assert "HOLDFAST_RUN=jobs HOLDFAST_URL=sqlite:///" in done.stderr

    def test_an_interpreter_that_is_gone(self, project: Project, tmp_path: Path) -> None:
        """It is named."""
        python = tmp_path / "venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        (tmp_path / "venv" / "pyvenv.cfg").write_text((Path(sys.prefix) / "pyvenv.cfg").read_text())
        (tmp_path / "venv" / "lib").symlink_to(Path(sys.prefix) / "lib")
        assert project.begin("stuck", python=str(python)) == -signal.SIGKILL
        python.unlink()
        done = project.resume("jobs", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            f"error: run jobs was last started with {python}, which can no longer be started\n"
        )

    def test_a_script_that_is_gone(self, project: Project, tmp_path: Path) -> None:
        """It is named by its whole path."""
        project.begin("stuck")
        project.script.unlink()
        done = project.resume("jobs", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            f"error: run jobs was last started from {project.script}, which no longer exists\n"
        )

    def test_a_program_in_no_file(self, project: Project, tmp_path: Path) -> None:
        """Typed after ``python -c``: there is nothing to start again."""
        code = "import holdfast, os\nwith holdfast.run('jobs'): os.kill(os.getpid(), 9)"
        forked.run([sys.executable, "-c", code], cwd=project.path, env=environ(), check=False)
        done = project.resume("jobs", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            "error: the program of run jobs was typed after `python -c`: there is no command to start again\n"
        )

    @pytest.mark.parametrize("words", [["a", "--last"], ["a", "--json"], ["a@4"]])
    def test_misuse(self, tmp_path: Path, holdfast_in: "Callable[..., Answer]", words: list[str]) -> None:
        """Two ways to name one, a plan without asking for it, a point in a run."""
        holdfast.store(tmp_path / ".holdfast" / "holdfast.db").close()
        assert holdfast_in(tmp_path, "resume", *words).code == 2


@pytest.mark.parametrize(
    ("line", "kind", "name"),
    [
        ("python agent.py --top 3", "script", "agent.py"),
        ("python -X dev -W error -u agent.py", "script", "agent.py"),
        ("python -Werror -Xdev agent.py -c", "script", "agent.py"),
        ("python --check-hash-based-pycs never agent.py", "script", "agent.py"),
        ("python -m agent.cli run", "module", "agent.cli"),
        ("python -Bm agent", "module", "agent"),
        ("python -m ipykernel_launcher -f x.json", "notebook", "ipykernel_launcher"),
        ("python -c pass", "code", ""),
        ("python -Ic pass", "code", ""),
        ("python -", "stdin", ""),
        ("python -i", "interactive", ""),
        ("python", "interactive", ""),
        ("", "interactive", ""),
    ],
)
def test_what_a_command_line_runs(line: str, kind: str, name: str) -> None:
    """Options are read as the interpreter reads them."""
    assert program_of(line.split()) == (kind, name)
