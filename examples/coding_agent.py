"""A coding agent whose files rewind together with what it said: it writes, tests, and repairs a program.

    python examples/coding_agent.py          # kill it with -9 at any time, and start it again
    holdfast artifacts coder work/area.py    # the versions that it wrote
    holdfast rewind coder@first --files      # conversation and files, back to the first version
    python examples/coding_agent.py          # it goes on from there

What to see: after a kill no version is written twice, and a file is there whole or not at all. After the
rewind work/area.py is the first version again, and the agent repairs it once more.
"""

import os
import runpy
import time
from pathlib import Path

import holdfast

PACE_S = float(os.environ.get("PACE_S", "1"))  # how long each piece of work takes: time for you to kill it

WORK = Path("work")
VERSIONS = ["def area(a, b):\n    return a + b\n", "def area(a, b):\n    return a * b\n"]


def write_code(said: list[str]) -> str:
    """The model: its first answer is wrong, its second one is right."""
    print(f"writing version {len(said) + 1}", flush=True)
    time.sleep(PACE_S)
    return VERSIONS[min(len(said), 1)]


def test_code(path: str, said: list[str]) -> str:
    """Run what is in the file; what is wrong with it, or nothing."""
    print(f"testing version {len(said) + 1}", flush=True)
    time.sleep(PACE_S)
    found = runpy.run_path(path)["area"](3, 4)
    return "" if found == 12 else f"area(3, 4) is {found}, and should be 12"


with holdfast.run("coder", goal="Write area(a, b)", workspace=WORK) as run:
    WORK.mkdir(exist_ok=True)
    said: list[str] = []
    while True:
        code = run.step("write", write_code, said)
        with run.open("area.py", "w") as file:  # whole or not at all; every version is kept
            file.write(code)
        run.checkpoint({"said": said}, label="first" if not said else None)
        problem = run.step("test", test_code, str(WORK / "area.py"), said)
        if not problem:
            break
        said = [*said, problem]
    run.finish(f"done after {len(said)} repair(s)")

print(run.result)
