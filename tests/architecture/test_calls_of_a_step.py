"""How many Python functions one step calls: a layer more in the common path is seen here.

Not a matter of time: ``make bench-counts`` counts the rest. Not in ``tests/behaviour``, whose checks are called, too.
"""

import sys
from pathlib import Path
from types import FrameType

import pytest

import holdfast


class Stop(Exception):
    """Ends an attempt without finishing the run."""


def _calls(run: holdfast.Run, name: str, number: int) -> int:
    seen = 0

    def count(_frame: FrameType, event: str, _: object) -> None:
        nonlocal seen
        seen += event == "call"

    call = run.once if name == "once" else run.step
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call(name, result, number)
    finally:
        sys.setprofile(before)
    return seen


def result(number: int) -> str:
    return f"{number:08}" * 512


def test_a_step_takes_few_calls_of_python_functions(tmp_path: Path) -> None:
    """What no noise moves, beside ``make bench-counts``: before ADR 41 it was 74, 100 and 22."""
    for name, bar in (("read", 55), ("once", 82)):
        with pytest.raises(Stop), holdfast.run(name, store=tmp_path / "holdfast.db") as run:
            for number in range(20):  # what is done for the first time is done
                (run.once if name == "once" else run.step)(name, result, number)
            assert _calls(run, name, 20) <= bar
            raise Stop
    with pytest.raises(Stop), holdfast.run("read", store=tmp_path / "holdfast.db") as run:
        for number in range(20):
            run.step("read", result, number)
        assert _calls(run, "read", 20) <= 15
        raise Stop
