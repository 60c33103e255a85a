"""The programs that are counted, each in a process of its own: ``python -m bench.counts.programs KIND STEPS PATH``.

Each does its work so many times and ends at once. What it does once (start, import, enter) is the same for N and for 2 N,
so that the difference of two processes is the work of N.
"""

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

import holdfast
from bench.recording import work as result_of_4_kb
from bench.replaying import Again, work
from holdfast import limits

WARM = 100
"""Steps before those that are counted: what is done for a first time is done."""
_SLOWER = 50
"""How much slower a process runs under callgrind, about."""


def record(path: Path, steps: int) -> None:
    """A journal of so many short steps, for ``replay`` and ``entering``."""
    with suppress(Again), holdfast.run("bench", store=path) as run:
        for number in range(steps):
            run.step("work", work, number)
        raise Again


def warm(run: holdfast.Run, kind: str) -> None:
    """Do the kind's work a few times. A replay is warm after as many recorded steps."""
    for number in range(WARM):
        do(run, kind, -1 - number if kind in {"read", "once"} else number)


def do(run: holdfast.Run, kind: str, number: int) -> None:
    """The work, once."""
    if kind == "read":
        run.step("read", result_of_4_kb, number)
    elif kind == "once":
        run.once("once", result_of_4_kb, number)
    elif kind == "replay":
        run.step("work", work, number)
    else:
        assert kind == "entering", kind  # it is done by then


def steady() -> None:
    """Let nothing be counted that comes by the clock, or by what the process did before.

    The thread that looks at waiting intents would look, under callgrind, at every step, and write every other intent by
    itself. A collection of everything that was imported would be counted to the step in which it happens to fall; what
    the steps themselves leave is collected, and counted.
    """
    setattr(limits, "INTENT_WAITS_S", limits.INTENT_WAITS_S * _SLOWER)  # noqa: B010 - it is Final for everybody else
    gc.collect()
    gc.freeze()


def main(kind: str, steps: int, path: Path) -> None:
    """Count this: ``entering`` has the steps in its journal, the others do them."""
    with holdfast.run("bench", store=path) as run:
        if kind != "entering":
            warm(run, kind)
            steady()
            for number in range(WARM, WARM + steps):
                do(run, kind, number)
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
