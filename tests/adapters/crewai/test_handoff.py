"""A handoff between two processes, two stores and two frameworks: from a CrewAI agent that was killed to a plain loop."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

import holdfast

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]


def started(directory: Path, *words: str, url: Path) -> "subprocess.CompletedProcess[str]":
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {
        **os.environ,
        "HOLDFAST_URL": str(url),
        "PYTHONPATH": paths,
        "LEDGER": str(directory.parent / "ledger"),
    }
    return subprocess.run(
        [*words], cwd=directory, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def told(done: "subprocess.CompletedProcess[str]") -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_plain_loop_finishes_what_a_killed_crew_began(tmp_path: Path) -> None:
    """Every payment and every letter once: done ones are answered, the one in doubt is found under the giver's key.

    The taker knows the promise, the doubt and what was lost; killed in its turn, it goes on where it was.
    Planted: without the claim in ``stepping.step`` both payments are made again; with a key of its own, ada gets two letters.
    """
    giving, taking = tmp_path / "giving", tmp_path / "taking"
    giving.mkdir()
    taking.mkdir()
    theirs, ours = tmp_path / "theirs.db", tmp_path / "ours.db"
    died = started(giving, sys.executable, str(PROGRAMS / "giver.py"), url=theirs)
    assert died.returncode == -SIGKILL, died.stderr

    file = str(tmp_path / "work.json")
    handed = told(
        started(
            giving,
            *HOLDFAST,
            "handoff",
            "settling",
            "--to",
            "loop",
            "--seal",
            "--out",
            file,
            "--json",
            url=theirs,
        )
    )
    assert (handed["sealed"], handed["effects"], handed["in_doubt"], handed["promises"]) == (True, 2, 1, 1)
    giver = holdfast.store(theirs)
    with pytest.raises(holdfast.RunSealed, match="handed over to loop"):
        holdfast.run("settling", store=giver).open()
    giver.close()

    accepted = told(started(taking, *HOLDFAST, "accept", file, "--as", "finishing", "--json", url=ours))
    assert [loss["what"] for loss in accepted["losses"]] == ["artifact", "promise"]
    (taking / "killed.py").write_text(
        "import os, runpy, signal, holdfast\n"
        "holdfast.Run.keep = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"runpy.run_path({str(PROGRAMS / 'taker.py')!r}, run_name='__main__')\n"
    )
    assert started(taking, sys.executable, "killed.py", url=ours).returncode == -SIGKILL
    taker = told(started(taking, sys.executable, str(PROGRAMS / "taker.py"), url=ours))

    ledger = [line.split()[:2] for line in (tmp_path / "ledger").read_text().splitlines()]
    assert Counter(map(tuple, ledger)) == {
        ("pay", "ada"): 1,
        ("pay", "bob"): 1,
        ("mail", "ada"): 1,
        ("mail", "bob"): 1,
    }
    assert taker["done"] == ["paid 5 to ada", "paid 7 to bob", "found the letter to ada", "wrote to bob"]
    assert taker["frameworks"] == []
    assert taker["promises"] == ["send the figures: open"]
    assert taker["in_doubt"] == ["mail"]
    assert taker["losses"][0] == "artifact figures.csv"
    for said in ("pay before writing", "## Not carried over", "## In doubt", "send the figures"):
        assert said in taker["context"]
    store = holdfast.store(ours)
    assert (store.get("finishing").status, store.promises("finishing").made[0].state) == ("finished", "kept")
    store.close()
