"""``make bench-counts``: what a step costs, in things that can be counted. Exits 1 if a bar is missed.

Instructions, allocations and calls of the system are those of a process with 2 N steps less those of one with N: what is
done once cancels out. The counts hold on any machine with the same CPython and libraries; instructions differ a little
between builds.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench.__main__ import printed
from bench.counts import tools
from bench.counts.cold_start import import_times
from bench.counts.programs import WARM, record
from bench.importing import FIRST_STEP, FLOOR
from bench.measuring import Figure, compiled_once
from bench.places import in_memory
from bench.replaying import this_python

KINDS: Final = {"read": 100, "once": 100, "replay": 1_000, "entering": 2_000}
"""How many of each are counted, twice as many beside them."""
BARS: Final[dict[tuple[str, str], float]] = {
    ("read", "instructions"): 160_000,
    ("replay", "instructions"): 35_000,
    ("read", "syncs"): 1.05,  # SQLite moves the WAL into the file now and then, which syncs both
    ("once", "syncs"): 2.05,
    ("read", "transactions"): 1,
    ("once", "transactions"): 2,
}
WHAT: Final = {
    "read": "a read step, 4 KB",
    "once": "a once step, 4 KB",
    "replay": "a replayed step",
    "entering": "entering, each step",
}
Counted = Callable[[list[str], Mapping[str, str]], Counter[str]]


def main(kinds: list[str]) -> int:
    lack = tools.missing()
    if lack:
        print(f"counting needs more: {lack}", file=sys.stderr)
        return 1
    with in_memory() as memory, compiled_once() as cache, tempfile.TemporaryDirectory() as other:
        # Hashes of texts differ from process to process, and with them the collisions in dicts.
        environment = {**cache, "PYTHONHASHSEED": "0"}
        place = memory or Path(other)
        figures = [one for kind in kinds or KINDS for one in _figures(kind, place, environment)]
        if not kinds:
            figures += _cold_start(place, environment)
    return printed(figures)


def _figures(kind: str, place: Path, environment: dict[str, str]) -> Iterator[Figure]:
    print(f"counting {kind} …", file=sys.stderr, flush=True)
    counter = _Counter(kind, place, environment)
    counter.compile()
    found = counter.each(tools.instructions)
    seen = counter.hooks()
    texts: dict[str, float] = seen.pop("texts", {})
    if kind != "entering":
        found |= counter.each(tools.system_calls)
    for what in ("instructions", "allocations", "syncs", "preads", "pwrites"):
        if what in found:
            facts = this_python() if what == "instructions" else ""
            yield Figure(f"{WHAT[kind]}: {what}", found[what], BARS.get((kind, what)), "", facts)
    for what in ("transactions", "statements", "calls", "builtin_calls", "named_tuples"):
        if kind != "entering":
            facts = "; ".join(f"{number:g} × {text}" for text, number in texts.items())
            value = seen.get(what, 0.0)
            named = what.replace("_", " ").replace("builtin", "built-in")
            yield Figure(
                f"{WHAT[kind]}: {named}",
                value,
                BARS.get((kind, what)),
                "",
                facts if what == "statements" else "",
            )


class _Counter:
    """Counts one kind of work, in processes that begin with the same files."""

    def __init__(self, kind: str, place: Path, environment: dict[str, str]) -> None:
        self._kind, self._place, self._environment = kind, place, environment
        self._files = 0

    def compile(self) -> None:
        """Run the programs once: the first process compiles what it imports, and keeps it."""
        for program in ("programs", "hooks"):
            command = [sys.executable, *self._command(KINDS[self._kind], program)]
            subprocess.run(command, check=True, env=self._environment, stdout=subprocess.DEVNULL)

    def each(self, counted: Counted) -> dict[str, float]:
        """What N more of them take, divided by N."""
        steps = KINDS[self._kind]
        few, many = (counted(self._command(number), self._environment) for number in (steps, 2 * steps))
        return {name: (many[name] - few[name]) / steps for name in many}

    def hooks(self) -> dict[str, Any]:
        """What is counted from inside."""
        command = [sys.executable, *self._command(KINDS[self._kind], "hooks")]
        done = subprocess.run(command, check=True, env=self._environment, stdout=subprocess.PIPE)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def _command(self, steps: int, program: str = "programs") -> list[str]:
        return ["-m", f"bench.counts.{program}", self._kind, str(steps), str(self._journal(steps))]

    def _journal(self, steps: int) -> Path:
        """A store for one process: empty, or with the steps that are replayed or entered."""
        self._files += 1
        path = self._place / f"{self._kind}-{self._files}.db"
        if self._kind == "entering":
            record(path, steps)
        elif self._kind == "replay":  # the same length for both: entering it must cancel out
            record(path, WARM + 2 * KINDS["replay"])
        return path


def _cold_start(place: Path, environment: dict[str, str]) -> Iterator[Figure]:
    print("counting cold start …", file=sys.stderr, flush=True)
    codes = {
        name: code.format(path=place / f"{name}.db")
        for name, code in (("floor", FLOOR), ("first", FIRST_STEP))
    }
    for name, code in codes.items():  # the first process compiles
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        for path in place.glob(f"{name}.db*"):
            path.unlink()
    taken = {
        name: tools.instructions(["-c", code], environment)["instructions"] for name, code in codes.items()
    }
    command = [sys.executable, "-m", "bench.counts.cold_start", str(place / "cold.db")]
    loaded = json.loads(subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE).stdout)
    for path in place.glob("first.db*"):
        path.unlink()
    times = import_times(codes["first"], environment)
    ours = {name: ms for name, ms in times.items() if name.partition(".")[0] == "holdfast"}
    facts = f"floor {taken['floor'] / 1e6:,.0f} million, first step {taken['first'] / 1e6:,.0f} million"
    yield Figure(
        "cold start to the first durable step / floor, instructions",
        taken["first"] / taken["floor"],
        2.5,
        "×",
        facts,
    )
    yield Figure("cold start: our modules", loaded["ours"], None, "", f"of {loaded['all']} in all")
    yield Figure(
        "cold start: classes that we build",
        loaded["classes"],
        None,
        "",
        f"{loaded['named_tuples']} NamedTuples",
    )
    slowest = sorted(ours.items(), key=lambda pair: -pair[1])[:6]
    told = ", ".join(f"{name} {ms:.1f}" for name, ms in slowest)
    yield Figure(
        "cold start: importing our modules alone (-X importtime)", sum(ours.values()), None, "ms", told
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
