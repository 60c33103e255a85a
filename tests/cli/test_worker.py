"""``holdfast submit`` and ``holdfast worker``, as people type them, in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_docs_page import documented
from tests.support import forked

import holdfast
from holdfast.model.event_fields import contents_of

MODULE = Path(__file__).parent / "programs" / "clerks.py"


class CommandBuilder:
    """A directory with a store in it, and a shell."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"sqlite:///{directory / 'queue.db'}"

    def __call__(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", "from holdfast.cli.app import app; app()", *words]
        environ = {**os.environ, "HOLDFAST_URL": self.url, "COLUMNS": "100"}
        return forked.run(
            command, cwd=self.directory, env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    def events(self, *words: str) -> list[dict[str, object]]:
        """What a worker told, until it was idle."""
        done = self("worker", str(MODULE), "--until-idle", "--json", *words)
        return [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]


@pytest.fixture
def desk(tmp_path: Path) -> CommandBuilder:
    return CommandBuilder(tmp_path)


def test_a_submitted_run_is_run_by_a_worker(desk: CommandBuilder) -> None:
    """From the queue to its result; the store is made by the first who submits."""
    told = desk("submit", "clerk", "c-1", "--inputs", '{"letters": 3}')
    assert told.returncode == 0, told.stderr
    assert told.stdout == (
        "run     c-1 of clerk\n"
        "status  queued: any worker that serves the agent runs it\n"
        "\n"
        "  holdfast show c-1  # its progress\n"
    )
    events = desk.events()
    assert [event["event"] for event in events] == ["started", "took", "finished", "draining"]
    assert set(events[1]) == documented("worker")
    again = desk("submit", "clerk", "c-1", "--json")
    assert json.loads(again.stdout) == {
        "run": "c-1",
        "agent": "clerk",
        "is_queued": False,
        "status": "finished",
        "store": desk.url,
    }
    assert set(json.loads(again.stdout)) == documented("submit")
    store = holdfast.store(desk.url)
    assert contents_of(store.view("c-1").result or b"")["value"] == "XXX"
    store.close()


def test_what_a_worker_tells_people(desk: CommandBuilder) -> None:
    """One line each, on stderr; a module may be named as in ``import``."""
    (desk.directory / "my_clerks.py").write_text(MODULE.read_text())
    desk("submit", "asker", "q-1")
    done = desk("worker", "my_clerks", "--agent", "asker", "--until-idle")
    assert (done.returncode, done.stdout) == (0, "")
    lines = [line.partition(" ")[2] for line in done.stderr.splitlines()]
    assert lines[0] == f"serving asker from {desk.url}"
    assert lines[1] == "starting q-1 (asker)"
    assert lines[2].startswith("parked q-1 (asker) after ")
    assert lines[2].endswith(": run q-1 waits for an answer to q1: Go on?")
    assert lines[3] == "draining: no run is active"


def test_what_to_type_next_is_not_the_workers_command_line(desk: CommandBuilder) -> None:
    """A worker's run goes on by itself once it is answered; resumed, it is submitted again."""
    desk("submit", "asker", "q-1")
    desk.events()
    assert "holdfast worker" not in desk("show", "q-1").stdout
    refused = desk("resume", "q-1")
    assert refused.returncode == 1
    assert refused.stderr == (
        "error: run q-1 is run by workers: there is no command of its own to start again\n"
        "hint: `holdfast submit asker q-1` lets any worker continue it\n"
    )
    answered = desk("answer", "q-1", "yes")
    assert "any worker of its agent reads it and continues" in answered.stdout
    assert [event["event"] for event in desk.events()][2] == "finished"


def test_poison_is_parked_with_the_reasons(desk: CommandBuilder) -> None:
    """After so many crashes, each of which took the worker with it; submitted again, it is tried again."""
    desk("submit", "bomb", "b-1")
    for _ in range(2):
        desk.events("--crashes", "2")
    events = desk.events("--crashes", "2")
    assert [event["event"] for event in events] == ["started", "took", "parked", "draining"]
    assert "its last 2 attempts crashed without getting on: attempt 1 (process " in str(events[2]["text"])
    assert "holdfast submit bomb b-1" in desk("show", "b-1").stdout
    assert len(desk.events("--crashes", "2")) == 2, "nobody tries it by itself"
    assert json.loads(desk("submit", "bomb", "b-1", "--json").stdout)["is_queued"] is True
    assert [event["event"] for event in desk.events("--crashes", "2")] == ["started", "took"]


@pytest.mark.parametrize(
    ("words", "code", "error", "hint"),
    [
        (("submit", "clerk", "c", "--inputs", "{"), 2, "--inputs is not JSON", "use --inputs '{"),
        (("submit", "clerk", "c", "--inputs", "[1]"), 2, "--inputs is not a JSON object", "use --inputs"),
        (("submit", "", "c"), 2, "agent name '' is empty", "use 1 to"),
        (("submit", "clerk", "c-1", "--inputs", '{"letters": 4}'), 1, "other inputs", "use a new id"),
        (("submit", "bomb", "c-1"), 1, "other agent", "use a new id"),
        (("worker", "nowhere"), 2, "there is no module 'nowhere'", "name its file"),
        (("worker", "nowhere.py"), 2, "there is no file nowhere.py", "name a module"),
        (("worker", "json"), 2, "none is declared", "@holdfast.agent"),
        (("worker", str(MODULE), "--agent", "ghost"), 2, "no agent 'ghost'", "asker, bomb, clerk"),
        (("worker", str(MODULE), "--store", "sqlite:////dev/null/x.db"), 1, "/dev/null/x.db", ""),
    ],
)
def test_bad_input_is_named(
    desk: CommandBuilder, words: tuple[str, ...], code: int, error: str, hint: str
) -> None:
    """With what to do about it, and nothing is written."""
    desk("submit", "clerk", "c-1", "--inputs", '{"letters": 3}')
    done = desk(*words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert error in done.stderr.splitlines()[0] + done.stderr
    assert hint in done.stderr.rpartition("hint:")[2]
    store = holdfast.store(desk.url)
    assert [info.run for info in store.runs()] == ["c-1"]
    store.close()
