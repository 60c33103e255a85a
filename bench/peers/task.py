"""What every driver's agent does at a step, and what is noted about it: the same code in every process that is measured.

A durable step lasts from the moment at which the work of one step is done to the moment at which the work of the next one begins:
whatever a peer does to keep the first lies between them. The process kills itself where step n would begin, so n steps are durable
by then. Standard library only: what this module imports would count as everybody's cold start.
"""

import json
import os
import resource
import signal
import time
from pathlib import Path

STEPS = int(os.environ.get("PEERS_STEPS", "10"))
RESUMES = "PEERS_RESUMES" in os.environ
_LIMIT_S = float(os.environ.get("PEERS_LIMIT_S", "60"))


class _Notes:
    """What was noted in this process."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.walls_us: list[float] = []
        self.cpus_us: list[float] = []
        self.began = time.perf_counter()
        self.first_s = 0.0
        self.again = 0
        self._left = (0.0, 0.0)

    def enter(self, number: int) -> None:
        """Note that the step before is durable; end the process if that is all."""
        if RESUMES:
            if number >= STEPS:
                self.end()
            self.again += 1
            return
        entered, cpu = time.perf_counter(), time.process_time()
        if number:
            self.walls_us.append((entered - self._left[0]) * 1e6)
            self.cpus_us.append((cpu - self._left[1]) * 1e6)
        if number == 1:
            self.first_s = _since_start_s()
        if number >= STEPS or entered - self.began > _LIMIT_S:
            self.end()

    def leave(self) -> None:
        self._left = (time.perf_counter(), time.process_time())

    def end(self) -> None:
        """Write down what was noted, and die as if the power had gone."""
        done = {
            "steps": len(self.walls_us),
            "walls_us": self.walls_us,
            "cpus_us": self.cpus_us,
            "first_s": self.first_s,
            "at_s": _since_start_s(),
            "again": self.again,
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        Path(os.environ["PEERS_REPORT"]).write_text(json.dumps(done), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)


_notes = _Notes()


def work(number: int) -> str:
    """The work of a step. It reads nothing of its module, which some frameworks would record with the call."""
    return noted(number)


def noted(number: int) -> str:
    _notes.enter(number)
    text = text_of(number)
    _notes.leave()
    return text


def text_of(number: int) -> str:
    """4 KB of plausible English, other words for each step."""
    if not _notes.texts:
        _notes.texts.extend(json.loads(Path(os.environ["PEERS_TEXTS"]).read_text(encoding="utf-8")))
    return f"{number:08} {_notes.texts[number % len(_notes.texts)]}"


def _since_start_s() -> float:
    return time.monotonic() - float(os.environ["PEERS_BEGAN"])
