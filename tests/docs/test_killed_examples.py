"""The examples that say what to kill are killed there, with a real SIGKILL, and do what they say one sees."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import holdfast

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMAND = str(Path(sys.executable).parent / "holdfast")
DEADLINE_S = 60.0
LINES_MAX = 80


def environment(**more: str) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return mine | {"PYTHONUNBUFFERED": "1", "PACE_S": "0.3"} | more


def lines_of(place: Path, *words: str, **more: str) -> list[str]:
    """What a program or command prints; it must end well."""
    done = subprocess.run(
        words,
        cwd=place,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


def example(name: str) -> tuple[str, str]:
    return sys.executable, str(EXAMPLES / name)


def killed(place: Path, name: str, word: str, count: int) -> list[str]:
    """Start the example, and kill it when it has printed that many lines with this word; what it had printed."""
    with started(place, *example(name)) as (process, output):
        until(lambda: word_count(output, word) >= count, process, output)
        process.kill()
    assert process.returncode == -9
    return output.read_text().splitlines()


@contextmanager
def started(place: Path, *words: str, **more: str) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    output = place / f"output-{len(list(place.glob('output-*')))}"
    file: IO[bytes]
    with output.open("wb") as file:
        process = subprocess.Popen(
            words, cwd=place, env=environment(**more), stdout=file, stderr=subprocess.DEVNULL
        )
        try:
            yield process, output
        finally:
            process.kill()
            process.wait()


def word_count(output: Path, word: str) -> int:
    return sum(word in line for line in output.read_text().splitlines())


def until(is_so: object, process: "subprocess.Popen[bytes]", output: Path) -> None:
    assert callable(is_so)
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.01)


def test_examples_are_short_and_say_what_to_kill() -> None:
    """At most 80 lines; the first words say how to start it; what the list says of each is its first sentence."""
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= LINES_MAX, path.name
        assert text.startswith('"""'), path.name
        assert f"({path.relative_to(EXAMPLES).as_posix()})" in page, path.name
    assert "(notebook.ipynb)" in page


@pytest.mark.parametrize(
    ("name", "word", "count"),
    [
        ("research_agent.py", "thinking", 3),
        ("coding_agent.py", "writing", 2),
        ("swarm.py", "engineer thinks", 1),
    ],
)
def test_nothing_that_was_finished_is_done_again(name: str, word: str, count: int, tmp_path: Path) -> None:
    """Only the call that was cut off is repeated; the last lines are those of an undisturbed run.

    Planted: with a step that is called without the run, every line of the first attempt comes again.
    """
    before = killed(tmp_path, name, word, count)
    after = lines_of(tmp_path, *example(name))
    work = Counter(
        line
        for line in [*before, *after]
        if re.search(r"^(reading|thinking|testing|writing|.* thinks)", line)
    )
    again = [line for line, times in work.items() if times > 1]
    assert again in ([], before[-1:])
    if name == "swarm.py":
        letters = (tmp_path / "letters.txt").read_text().splitlines()
        assert sorted(line.split()[0] for line in letters) == ["ada", "bob", "cleo"]


def test_files_rewind_with_the_conversation(tmp_path: Path) -> None:
    """Back to the first version, by the command of the example; started again, the agent repairs it once more."""
    lines_of(tmp_path, *example("coding_agent.py"))
    file = tmp_path / "work" / "area.py"
    assert "a * b" in file.read_text()
    lines_of(tmp_path, COMMAND, "rewind", "coder@first", "--files")
    assert "a + b" in file.read_text()
    assert lines_of(tmp_path, *example("coding_agent.py")) == [
        "testing version 1",
        "writing version 2",
        "testing version 2",
        "done after 1 repair(s)",
    ]
    assert "a * b" in file.read_text()


@pytest.mark.parametrize("booked", [0, 1])
def test_a_payment_that_was_cut_off_is_looked_up(booked: int, tmp_path: Path) -> None:
    """Killed before the bank has it, or after: five lines in the end, and no person was asked."""
    with started(tmp_path, *example("payments.py")) as (process, output):
        bank = tmp_path / "bank.txt"
        until(lambda: word_count(output, "paying") == 2, process, output)
        if booked:
            until(lambda: len(bank.read_text().splitlines()) == 2, process, output)
        process.kill()
        process.wait()
        is_found = "bob " in bank.read_text()
    after = lines_of(tmp_path, *example("payments.py"))
    assert is_found or not booked
    assert after[0] == "did bob get it?"
    assert ("paying bob" in after) is not is_found
    assert [line.split()[0] for line in bank.read_text().splitlines()] == ["ada", "bob", "cleo", "dan", "eve"]
    assert after[-1] == "5 receipts, in 2 attempt(s)"


def test_an_approval_outlives_its_processes(tmp_path: Path) -> None:
    """The desk gets the question, and is killed; another desk takes the yes; the agent pays once."""
    secret = {"DESK_SECRET": "a long random text"}
    with started(tmp_path, *example("approval.py"), "desk", **secret) as (process, output):
        until(lambda: "http" in output.read_text(), process, output)
        address = output.read_text().split()[0]
        told = lines_of(tmp_path, *example("approval.py"), DESK=address, **secret)
        assert told == ["the run is parked: it waits for a person"]
        until(lambda: "Pay 50000 cents to ada?" in output.read_text(), process, output)
    with started(tmp_path, *example("approval.py"), "desk", **secret) as (process, output):
        until(lambda: "http" in output.read_text(), process, output)
        address = output.read_text().split()[0]
        yes = urllib.request.Request(f"{address}yes/q1", data=b"", method="POST")
        urllib.request.urlopen(yes, timeout=DEADLINE_S).close()
        with pytest.raises(urllib.error.HTTPError, match="AlreadyAnswered"):
            urllib.request.urlopen(yes, timeout=DEADLINE_S)
    assert lines_of(tmp_path, *example("approval.py")) == ["the run is finished: paid ada"]
    assert lines_of(tmp_path, *example("approval.py")) == ["the run is finished: paid ada"]
    assert (tmp_path / "money.txt").read_text() == "ada 50000\n"


def test_another_worker_takes_over(tmp_path: Path, postgres_url: str) -> None:
    """On PostgreSQL: the worker that inspects is killed, the other one finishes; nothing finished is done again."""
    url = {"HOLDFAST_URL": postgres_url, "PYTHONPATH": str(EXAMPLES)}
    lines_of(tmp_path, *example("failover.py"), **url)
    with started(tmp_path, COMMAND, "worker", "failover", **url) as (first, output):
        until(lambda: word_count(output, "inspecting") == 2, first, output)
        first.kill()
        first.wait()
        with started(tmp_path, COMMAND, "worker", "failover", **url) as (second, other):
            store = holdfast.store(postgres_url)
            until(lambda: store.get("house-7").status == "finished", second, other)
            store.close()
        seen = [
            line for text in (output, other) for line in text.read_text().splitlines() if "inspecting" in line
        ]
    assert Counter(seen) <= Counter(
        ["inspecting doors", *["inspecting windows"] * 2, "inspecting roof", "inspecting garden"]
    )
    assert set(seen) == {f"inspecting {part}" for part in ("doors", "windows", "roof", "garden")}


def test_the_cells_of_the_notebook_run_again(tmp_path: Path) -> None:
    """In order, the second one twice as people do; then again in a fresh kernel: nothing is looked at or published twice."""
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    program = tmp_path / "cells.py"
    program.write_text("\n".join([cells[0], cells[1], *cells[1:]]), encoding="utf-8")
    first = lines_of(tmp_path, sys.executable, str(program))
    assert [line for line in first if "looking" in line] == [
        f"looking at {one}" for one in ("DE", "FR", "JP")
    ]
    again = lines_of(tmp_path, sys.executable, str(program))
    assert not [line for line in again if "looking" in line]
    assert (tmp_path / "published.txt").read_text() == "DE: rising; FR: rising; JP: rising\n"
