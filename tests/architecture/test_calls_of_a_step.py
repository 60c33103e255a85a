"""How many Python functions one step calls: a layer more in the common path is seen here.

Not a matter of time; ``make bench-counts`` counts the rest.
"""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
import holdfast

def result(number):
    return f"{number:08}" * 512

def count(frame, event, argument):
    global seen
    seen += event == "call"

for run_id, name in (("read", "step"), ("once", "once"), ("read", "step")):
    try:
        with holdfast.run(run_id, store=sys.argv[1]) as run:
            call = getattr(run, name)
            for number in range(20):  # what is done for the first time is done
                call(name, result, number)
            counts = []
            for number in range(20, 26):  # the thread that looks at late intents is woken by some of them
                seen = 0
                sys.setprofile(count)
                call(name, result, number)
                sys.setprofile(None)
                counts.append(seen)
            print(min(counts), flush=True)
            raise InterruptedError
    except InterruptedError:
        pass
"""


def test_a_step_takes_few_calls_of_python_functions(tmp_path: Path) -> None:
    """A ``read`` step, a ``once`` step and a replayed one: before ADR 49 it was 55, 82 and 15.

    Three calls of the ``read`` step note in the store what is about to be called (ADR 51).
    In a process of its own: what a test run loads and checks is called, too.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "holdfast.db")]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    read, once, replayed = map(int, done.stdout.split())
    assert read <= 54  # 51, and 3 if the thread that looks at waiting intents has let go of the journal
    assert once <= 74
    assert replayed <= 10
