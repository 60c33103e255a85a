"""Counts from inside of the process: ``python -m bench.counts.hooks KIND STEPS PATH`` prints them, for each step, as JSON.

Statements and write transactions by hooks of every connection, calls of Python functions and of built-in ones by a profile
function. The calling thread alone is profiled: what others do comes by the clock.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import apsw

import holdfast
from bench.counts.programs import WARM, do, warm


class Count:
    """What has happened since it was reset."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        apsw.connection_hooks.append(self._watch)

    def _watch(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._statement, id="bench")
        connection.set_commit_hook(self._commit, id="bench")

    def _statement(self, event: dict[str, Any]) -> None:
        if not event["trigger"]:
            self.seen["statements"] += 1
            self.statements[" ".join(event["sql"].split())[:60]] += 1

    def _commit(self) -> bool:
        self.seen["transactions"] += 1
        return False

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """For ``sys.setprofile``."""
        if event == "call":
            self.seen["calls"] += 1
            # The constructor of a NamedTuple is compiled from a text.
            self.seen["named_tuples"] += frame.f_code.co_filename == "<string>"
        elif event == "c_call":
            self.seen["builtin_calls"] += 1


def main(kind: str, steps: int, path: Path) -> None:
    """Print the counts of the kind's work, done so many times."""
    count = Count()
    with holdfast.run("bench", store=path) as run:
        if kind != "entering":
            warm(run, kind)
            count.seen.clear()
            count.statements.clear()
            sys.setprofile(count.profile)
            for number in range(WARM, WARM + steps):
                do(run, kind, number)
            sys.setprofile(None)
        found: dict[str, Any] = {name: number / steps for name, number in count.seen.items()}
        found["texts"] = {
            text: number / steps for text, number in count.statements.most_common() if number >= steps / 2
        }
        json.dump(found, sys.stdout)
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
