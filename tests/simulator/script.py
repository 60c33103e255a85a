"""A script: what the simulated processes do and what happens to them, one line each, all of it drawn from a seed.

Lines have numbers only and are read modulo what there is, so that a script from which lines were removed still means something:
that is how a failing one is made short.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

TASKS: Final = ("enter", "fork", "rewind", "prune", "people", "move", "handoff", "receive")
PROCESSES: Final = ("a", "b", "c")
"""The third is on another host: nobody can prove that it is dead, and a power cut leaves it alive."""


class Line(NamedTuple):
    """One line: a task for a process, or something that happens."""

    verb: str
    process: str = ""
    place: int = 0
    a: int = 0
    b: int = 0
    calls: int = 0
    """How many port calls the process may make before another one gets its turn."""

    def __str__(self) -> str:
        told = [
            self.verb,
            self.process,
            f"place={self.place}",
            f"a={self.a}",
            f"b={self.b}",
            f"calls={self.calls}",
        ]
        return " ".join(part for part in told if part and not part.endswith("=0"))


class Script(NamedTuple):
    """The lines, and the seed that the programs are made from."""

    seed: int
    lines: tuple[Line, ...]

    def without(self, start: int, stop: int) -> "Script":
        return self._replace(lines=self.lines[:start] + self.lines[stop:])

    def __str__(self) -> str:
        return "\n".join(f"{number:3} {line}" for number, line in enumerate(self.lines))


class Theme(NamedTuple):
    """How often each verb is drawn."""

    weights: dict[str, int]
    with_messages: bool


def theme_of(seed: int) -> Theme:
    """Seeds differ in what happens in them, not only in its order."""
    weights = {
        "enter": 34, "go": 22, "people": 9, "fork": 4, "rewind": 3, "prune": 2, "edit": 3, "kill": 7, "stop": 3, "wake": 3,
        "fault": 5, "power": 2, "time": 5, "receive": 2, "move": 0, "handoff": 1, "takeover": 4,
    }  # fmt: skip
    kind = seed % 5
    if kind == 1:
        weights |= {"stop": 5, "wake": 5, "takeover": 14, "kill": 3}
    elif kind == 2:
        weights |= {"fault": 14, "power": 5}
    elif kind == 3:
        weights |= {"fork": 8, "rewind": 7, "prune": 5, "edit": 5, "handoff": 3}
    elif kind == 4:
        weights |= {"move": 4, "receive": 0}
    return Theme(weights, kind != 4)


def script_of(seed: int) -> Script:
    """The script of a seed."""
    random = Random(seed)
    theme = theme_of(seed)
    verbs: Sequence[str] = [*theme.weights]
    weights = [*theme.weights.values()]
    lines = []
    for verb in random.choices(verbs, weights, k=random.randint(70, 150)):
        calls = random.choice([0, 1, 2, 3, 5, 8, 13, 21, 34, 1_000, 1_000])
        process = random.choice(PROCESSES)
        lines.append(
            Line(
                verb,
                process,
                random.randrange(1_000),
                random.randrange(1_000),
                random.randrange(1_000),
                calls,
            )
        )
    return Script(seed, tuple(lines))
