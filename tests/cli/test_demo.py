"""``holdfast demo`` kills a real process, tells what happened as the journal has it, and fails when it must."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support import forked

import holdfast
from holdfast.cli.demo.agent import PROGRAM
from holdfast.cli.demo.fake_model import Provider, scripted_provider
from holdfast.cli.demo.killer import choose_kill
from holdfast.cli.demo.model_client import Unanswered, base_url
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind

DEMO = [sys.executable, "-c", "from holdfast.cli import main; main()", "demo"]
DEADLINE_S = 120.0


def demo(
    *arguments: str, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return forked.run(
        [*DEMO, *arguments],
        cwd=cwd,
        env=kept | {"COLUMNS": "80"} | (environment or {}),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def reported(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def check_against_evidence(report: dict[str, Any], kills: int) -> None:
    """Hold what the report says against the kept journal and ledger, read here by other means."""
    assert report["holds"]
    assert all(claim["holds"] for claim in report["proof"])
    assert [one["ended"] for one in report["processes"]] == ["killed"] * kills + ["finished"]
    entries = [json.loads(line) for line in Path(report["ledger"]).read_text().splitlines()]
    assert sorted(entry["topic"] for entry in entries) == ["fronds", "holdfasts", "urchins"]
    assert len({entry["key"] for entry in entries}) == 3
    store = holdfast.store(report["store"])
    try:
        assert store.get(report["run"]).status == "finished"
        events = store.events(report["run"])
    finally:
        store.close()
    outcomes = outcomes_by_step(events)
    for row in report["steps"]:
        assert len(outcomes[row["step"]]) == 1, f"{row['step']} was recorded {outcomes[row['step']]}"
        check_row(row, outcomes[row["step"]][0], report["processes"])


def check_row(row: dict[str, Any], recorded_seq: int, processes: list[dict[str, Any]]) -> None:
    for process, cell in zip(processes, row["processes"], strict=True):
        first, last = process["events"]
        if cell["outcome"] in {"recorded", "ran again", "found done"}:
            assert first <= recorded_seq <= last, row
        elif cell["outcome"] == "replayed":
            assert recorded_seq < first, row
        elif cell["outcome"] in {"cut off", "cut off again"}:
            assert recorded_seq > last, row
        else:
            assert cell["outcome"] == "not reached", row
        assert bool(cell["why"]) == (cell["outcome"] in {"ran again", "found done", "cut off again"})
    assert row["processes"][-1]["outcome"] != "not reached"


def outcomes_by_step(events: list[Any]) -> dict[str, list[int]]:
    names: dict[str, str] = {}
    found: dict[str, list[int]] = {}
    for event in events:
        body = contents_of(event.body)
        if event.kind == Kind.STEP_STARTED:
            names[event.key] = f"{event.name} {body['args'].get('topic', '')}".strip()
        elif event.kind == Kind.MARK:
            found.setdefault(event.name, []).append(event.seq)
        elif event.kind == Kind.STEP_FINISHED or (event.kind == Kind.STEP_SETTLED and body["how"] == "done"):
            found.setdefault(names[event.key], []).append(event.seq)
    return found


# -- it holds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("step", ["ask holdfasts", "file urchins", "summarise"])
def test_one_kill(tmp_path: Path, step: str, when: str) -> None:
    """Killed in a question, in a ledger entry, in the summary: exit 0, and the journal bears the report out."""
    seed = seed_for(step, when)
    report = reported(demo("--seed", str(seed), "--keep", str(tmp_path / "kept"), "--json"))
    assert report["seed"] == seed
    check_against_evidence(report, kills=1)
    outcomes = {row["step"]: [cell["outcome"] for cell in row["processes"]] for row in report["steps"]}
    assert outcomes["plan"] == ["recorded", "replayed"]
    is_found = when == "before" and step.startswith("file ")
    assert outcomes[step] == ["cut off", "found done" if is_found else "ran again"]
    assert report["requests"] == (5 if when == "before" and not step.startswith("file ") else 4)


def test_three_kills_in_one_run(tmp_path: Path) -> None:
    """``--kills 3``: four processes, one run, every step recorded exactly once; files of the user are left alone."""
    (tmp_path / "json.py").write_text("raise ImportError('a file of the user was taken for a module')")
    report = reported(demo("--kills", "3", "--seed", "1", "--keep", str(tmp_path), "--json"))
    check_against_evidence(report, kills=3)


def test_plain_text_in_a_pipe(tmp_path: Path) -> None:
    """Readable at 80 columns, without escape codes; it leaves the user's store and directory alone."""
    mine = tmp_path / "mine.db"
    done = demo(
        "--seed", "4", cwd=tmp_path, environment={"HOLDFAST_URL": str(mine), "HOLDFAST_RUN": "somebody-elses"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert all(line == line.rstrip() for line in done.stdout.splitlines())
    for words in ("seed 4", "before the kill", "after the restart", "killed with SIGKILL", "replayed"):
        assert words in done.stdout
    assert re.findall(r"^ok +(\w+)", done.stdout, re.MULTILINE) == ["run", "ledger", "model"]
    assert list(tmp_path.iterdir()) == []


def test_a_kept_directory_is_not_mixed_with_another_demo(tmp_path: Path) -> None:
    """A second demo in the same directory is refused before anything is started."""
    (tmp_path / "ledger.jsonl").touch()
    done = demo("--keep", str(tmp_path))
    assert done.returncode == 1
    assert "holds a store already" in done.stderr
    assert "hint: give --keep a new directory" in done.stderr


def test_a_kill_is_the_same_for_the_same_seed_and_never_comes_too_late() -> None:
    """For every number of steps and kills that may be left: an append that the process is sure to make."""
    for seed in range(200):
        for steps_left in range(len(PROGRAM) + 1):
            for kills_left in (1, 3, 20):
                left = {"steps_left": steps_left, "kills_left": kills_left}
                kill = choose_kill(Random(seed), **left, is_first=False)
                assert kill == choose_kill(Random(seed), **left, is_first=False)
                assert 0 <= kill.at <= max(0, 2 * steps_left - 1)


def test_the_first_kill_hits_the_middle_of_any_step_on_both_sides_of_its_work() -> None:
    """Behind the intent, where the work is not begun; before the outcome, where it is done: each about as often."""
    hits = Counter(map(first_hit, range(1000)))
    assert set(hits) == {(step, when) for step in PROGRAM[1:] for when in ("after", "before")}
    assert min(hits.values()) > 1000 / len(hits) / 2


def first_hit(seed: int) -> tuple[str, str]:
    """The step that the only kill of this seed hits, and the side of the append: intents are even, outcomes odd."""
    kill = choose_kill(Random(seed), steps_left=len(PROGRAM), kills_left=1, is_first=True)
    assert (kill.when, kill.verb) == ("before" if kill.at % 2 else "after", "append")
    return PROGRAM[kill.at // 2], kill.when


def seed_for(step: str, when: str) -> int:
    return next(seed for seed in range(1000) if first_hit(seed) == (step, when))


# -- it fails when it must --------------------------------------------------------------------------------------


def planted(tmp_path: Path, bug: str) -> dict[str, str]:
    """An environment in which every process starts with a bug in the engine."""
    (tmp_path / "sitecustomize.py").write_text(bug)
    return {"PYTHONPATH": str(tmp_path)}


def test_a_journal_that_is_not_read_fails_the_proof(tmp_path: Path) -> None:
    """Planted: recorded outcomes are never given back, so all is done again. Exit 1, and it says where."""
    bug = """
from holdfast.engine.run.held_run import HeldRun
entered = HeldRun.__init__
def forget(self, *args, **named):
    entered(self, *args, **named)
    self.view.calls.clear()
HeldRun.__init__ = forget
"""
    seed = seed_for("summarise", "before")
    done = demo("--seed", str(seed), environment=planted(tmp_path, bug))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(
        r"^FAILED +ledger .*twice or more: fronds, holdfasts, urchins", done.stdout, re.MULTILINE
    )
    assert re.search(r"^FAILED +model .*asked again: ask fronds", done.stdout, re.MULTILINE)
    assert re.search(r"^FAILED +run .*repeated plan, ", done.stdout, re.MULTILINE)
    assert "must not happen" in done.stdout


def test_a_verify_that_is_not_believed_fails_the_proof(tmp_path: Path) -> None:
    """Planted: whatever verify says counts as NotDone. A kill after the entry was written gives a second one."""
    bug = """
from holdfast.engine.steps import in_doubt as doubt
from holdfast.model.verdicts import NotDone
async def lie(work): return NotDone()
doubt._verdict = lie
"""
    seed = seed_for("file fronds", "before")
    done = demo("--seed", str(seed), environment=planted(tmp_path, bug))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^FAILED +ledger 4 lines, 3 findings: twice or more", done.stdout, re.MULTILINE)


def test_an_agent_that_fails_by_itself_is_shown(tmp_path: Path) -> None:
    """Planted: the agent's process raises. Exit 1 with its last words, no table, no proof."""
    bug = """
import holdfast
def boom(*_): raise RuntimeError("planted failure")
holdfast.Run.plan = boom
"""
    done = demo(environment=planted(tmp_path, bug))
    assert done.returncode == 1
    assert "RuntimeError: planted failure" in done.stderr
    assert "ended with exit status 1" in done.stderr
    assert "ok" not in done.stdout.split()


def test_ctrl_c_ends_the_agent_too() -> None:
    """SIGINT to the demo alone: exit 130, and the process it had started is gone.

    Seen to fail: interrupted right after its "started" line was printed, the demo left the process running.
    """
    with forked.Popen([*DEMO, "--seed", "15"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        for line in parent.stdout:
            if "process 1 started" in line:
                break
        else:
            pytest.fail("it started nothing")
        child = wait_for_child(parent.pid)
        parent.send_signal(signal.SIGINT)
        parent.stdout.read()
        assert parent.wait(DEADLINE_S) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def wait_for_child(parent: int) -> int:
    """The process id of the agent that a demo has started."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        listed = forked.run(["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False)
        if listed.stdout.strip():
            return int(listed.stdout.split()[0])
    return pytest.fail("it started nothing")


# -- a real endpoint ----------------------------------------------------------------------------------------------


def test_a_real_endpoint_is_asked_through_the_same_client(tmp_path: Path) -> None:
    """``--llm``: the questions arrive there, over HTTP, as often as the demo counted; its first model is taken."""
    with scripted_provider() as endpoint:
        report = reported(
            demo("--llm", endpoint.endpoint, "--seed", "3", "--keep", str(tmp_path / "kept"), "--json")
        )
        asked = [one.question for one in endpoint.asked if "kelp" in one.question or "Sum" in one.question]
    assert report["model"] == "scripted"
    assert len(asked) == report["requests"]
    check_against_evidence(report, kills=1)


def test_an_endpoint_that_is_not_there() -> None:
    """A dead port: exit 1, the address, and what to type; nothing is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = demo("--llm", f"http://127.0.0.1:{port}", "--model", "tiny")
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"error: cannot reach http://127.0.0.1:{port}/v1" in done.stderr
    assert "hint: start the server first" in done.stderr


def test_a_model_that_is_not_there() -> None:
    """An endpoint that refuses the model: exit 1, its own words, and the models it has."""

    def refuse(payload: dict[str, Any]) -> dict[str, Any]:
        raise Unanswered(f"model {payload['model']} not found")

    with Provider(refuse, model="the-one-it-has") as endpoint:
        done = demo("--llm", endpoint.endpoint, "--model", "tiny")
    assert done.returncode == 1
    assert "error: model 'tiny': " in done.stderr
    assert "model tiny not found" in done.stderr
    assert "hint: the server has: the-one-it-has" in done.stderr


def test_a_model_without_an_endpoint_is_misuse() -> None:
    """``--model`` alone means nothing: exit 2."""
    assert demo("--model", "tiny").returncode == 2


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("localhost:11434", "http://localhost:11434/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/chat/completions", "http://localhost:8000/v1"),
        ("https://host/openai/v1/", "https://host/openai/v1"),
    ],
)
def test_an_address_as_people_paste_it(typed: str, meant: str) -> None:
    """A host, a base with or without /v1, a whole URL: all lead to the same place."""
    assert base_url(typed) == meant


@pytest.mark.parametrize("typed", ["", "ftp://host", "http://", "http://[bad", "http://host:99999"])
def test_an_address_that_is_none(typed: str) -> None:
    """What is not the address of an HTTP server is refused, with a hint."""
    with pytest.raises(Unanswered) as refused:
        base_url(typed)
    assert refused.value.hint
