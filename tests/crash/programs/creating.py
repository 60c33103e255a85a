"""Makes a store in a directory that is not there yet, and dies before the n-th file operation of its own on the way.

``sys.addaudithook`` tells of every file that Python opens, renames, removes or makes. The file ``at`` holds n and is
used up; without it nothing happens to the process.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import holdfast

OPERATIONS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "os.chmod"})
PLACE = Path("deep", "er").absolute()


def die_at(number: int) -> None:
    left = number

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in OPERATIONS and str(arguments[0]).startswith(str(PLACE.parent)):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(watch)


if __name__ == "__main__":
    order = Path("at")
    if order.exists():
        number = int(order.read_text())
        order.unlink()
        die_at(number)
    with holdfast.run("run", store=PLACE / "store.db") as run:
        run.finish(run.step("one", lambda: 1))
