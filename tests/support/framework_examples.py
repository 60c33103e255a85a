"""Kills an example of examples/frameworks with SIGKILL, starts it again, and judges what it printed and published.

What is finished is in the journal: a call of the model whose answer led to a tool, and a page whose reading led to another
call. So of all lines only the last one before the kill may come again.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "frameworks"
DEADLINE_S: Final = 120.0
READS: Final = ["reading debt", "reading rates", "reading trade", "reading war"]
ASKS: Final = [f"the model is asked, turn {turn}" for turn in range(1, 7)]


def check_that_it_goes_on(name: str, place: Path) -> None:
    """The example is killed while it reads its third page, and two more starts publish one report between them."""
    before = _killed(name, place, READS[2])
    after = _lines(name, place)
    work = Counter(one for one in before + after if one in [*READS, *ASKS, "publishing"])
    assert set(work) == {*READS, *ASKS, "publishing"}, (before, after)
    assert [one for one, times in work.items() if times > 1] in ([], [READS[2]]), (before, after)
    assert after[-1].startswith("The report is out."), after
    assert len((place / "published.txt").read_text().splitlines()) == 1
    assert _lines(name, place) == after[-1:]  # all of it from the journal


def _environment() -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return mine | {"PYTHONUNBUFFERED": "1", "PACE_S": "0.3"}


def _killed(name: str, place: Path, line: str) -> list[str]:
    output = place / "output"
    with (
        output.open("wb") as file,
        subprocess.Popen(
            [sys.executable, str(EXAMPLES / name)],
            cwd=place,
            env=_environment(),
            stdout=file,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        deadline = time.monotonic() + DEADLINE_S
        while line not in output.read_text().splitlines():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -9
    return output.read_text().splitlines()


def _lines(name: str, place: Path) -> list[str]:
    words = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(
        words,
        cwd=place,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()
