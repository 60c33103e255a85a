"""Makes a failing script short: lines are removed for as long as it still fails in the same way."""

from collections.abc import Callable
from typing import Final

from tests.simulator.script import Script

PLAYS_MAX: Final = 300


def shrink(script: Script, fails: Callable[[Script], bool], plays_max: int = PLAYS_MAX) -> Script:
    """The script with fewer lines; ``fails`` says whether one still fails. Bounded by a number of plays."""
    plays, size = 0, max(1, len(script.lines) // 2)
    while plays < plays_max:
        at, removed = 0, False
        while at < len(script.lines) and plays < plays_max:
            shorter = script.without(at, at + size)
            plays += 1
            if fails(shorter):
                script, removed = shorter, True
            else:
                at += size
        if size == 1 and not removed:
            break
        size = max(1, size // 2)
    return script


def kind_of(broken: str) -> str:
    """What broke, without the numbers and the names: a shorter script must fail in the same way."""
    return " ".join(word for word in broken.split() if not any(letter.isdigit() for letter in word))
