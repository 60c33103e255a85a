"""The verbs of a schedule that work through the front door: ``holdfast.run``, steps, once tools, and what writes files.

The program is the same in every process: step 0, step 1, … of run ``program``; every third is a ``once`` tool. What a step
does to the world is a line in a ledger outside of the store: nothing that was acknowledged may be done again.
"""

import os
from pathlib import Path
from typing import Any

from tests.faults.shim import Shim

import holdfast
from holdfast import Done, NotDone
from holdfast.errors import RunHeld, StoreError

PROGRAM = 100
"""The number of the run ``program`` in marks; their seq is the number of steps that have returned."""

_TRIES = 3


class RunActs:
    """One process's hold on the run ``program``."""

    def __init__(self, shim: Shim) -> None:
        self._shim: Any = shim
        self._program: Any = None
        self._done = 0
        self._path = Path()
        self._ledger = Path()

    def steps(self, count: int, size: int) -> int:
        """So many steps more; a process that is new to the run first goes through those that were recorded."""
        run = self._entered()
        for _ in range(count):
            self._finish_step(run, size)
        return self._done

    def settle_steps(self, count: int) -> int:
        """Nothing is wrong any more: steps must work, with an unknown outcome or two before them at most."""
        for _ in range(_TRIES - 1):
            try:
                return self.steps(count, 300)
            except StoreError:
                continue
        return self.steps(count, 300)

    def replay(self) -> list[str]:
        """Go through the program once more, in a fresh process; the ledger as it is then."""
        self._entered().close()
        return entries()

    def save_state(self, size: int) -> None:
        """``run.checkpoint``"""
        self._entered().checkpoint({"done": self._done, "text": "x" * size})

    def write_file(self) -> None:
        """``run.open``"""
        with self._entered().open(self._ledger.parent / "report.txt", "w") as file:
            file.write("so far so good")

    def remember(self) -> None:
        """``run.remember``"""
        self._entered().remember(f"after {self._done} steps all was well", key="progress")

    def depend(self) -> None:
        """``run.depends_on`` the very directory that holds the store."""
        self._entered().depends_on(self._path.parent)

    def keep_directory(self) -> None:
        """``run.artifact`` of that directory."""
        self._entered().artifact(self._path.parent)

    def intrude(self) -> bool:
        """Try to enter the run that another process is in; whether that worked."""
        try:
            self._opening().open().close()
        except RunHeld:
            return False
        return True

    def end_attempt(self) -> None:
        """End the attempt; the next verb begins another."""
        run, self._program = self._program, None
        if run is not None:
            run.close()

    def _entered(self) -> Any:
        if self._program is None:
            self._program = self._opening().open()
            self._done = 0
            begun = len(set(entries()))
            while self._done < begun:
                self._finish_step(self._program, 10)
        return self._program

    def _opening(self) -> Any:
        return holdfast.run(
            "program",
            store=f"sqlite:///{self._path}",
            workspace=self._ledger.parent,
            loops=False,
            retention=None,
        )

    def _finish_step(self, run: Any, size: int) -> None:
        self._step(run, self._done, size)
        self._done += 1
        self._shim.mark(PROGRAM, self._done, is_synced=True)

    def _step(self, run: Any, number: int, size: int) -> None:
        if number % 3 == 2:
            holdfast.tool(effect="once", name=f"s{number}", verify=look, settle_s=0.0)(pay)(number)
        else:
            run.options(key=f"s{number}").step(f"s{number}", survey, number, size)

    def _open_ledger(self, path: Path) -> None:
        self._ledger = path
        _ledger["fd"] = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def _mute(self) -> None:
        """An examiner's own writing is promised to nobody."""
        self._shim = _Silence()


class _Silence:
    def mark(self, run: int, seq: int, *, is_synced: bool) -> None:
        pass


_ledger: dict[str, int] = {}
"""The outside world: no power cut takes back what is in it, and no lack of descriptors prevents it."""


def survey(number: int, size: int) -> str:
    os.write(_ledger["fd"], b"s%d\n" % number)
    return "x" * size


def pay(number: int) -> int:
    os.write(_ledger["fd"], b"s%d\n" % number)
    return number


def look(number: int, **_: Any) -> Any:
    return Done(number) if f"s{number}" in entries() else NotDone()


def entries() -> list[str]:
    return os.pread(_ledger["fd"], 1 << 20, 0).decode().split()
