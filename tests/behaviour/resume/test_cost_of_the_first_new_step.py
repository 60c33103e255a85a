"""What the first new step of a resumed attempt does, counted: it does not grow with the journal."""

import sys
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import holdfast

SHORT, LONG = 1_000, 4_000
"""Both have more steps than loop detection looks back at."""
_new_numbers = count(-1, -1)


class Again(Exception):
    """Ends an attempt without finishing the run."""


def work(number: int) -> dict[str, Any]:
    return {"number": number, "text": "a short result"}


def recorded(store: holdfast.Store, steps: int) -> None:
    with suppress(Again), holdfast.run(f"r{steps}", store=store) as run:
        for number in range(steps):
            run.step("work", work, number)
        raise Again


def calls_of_the_next_step(store: holdfast.Store, steps: int) -> Counter[str]:
    """The functions, built-in ones too, that the first step after all recorded ones calls."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            counts[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            counts[arg.__qualname__] += 1

    with suppress(Again), holdfast.run(f"r{steps}", store=store) as run:
        for number in range(steps):
            run.step("work", work, number)
        sys.setprofile(note)
        try:
            run.step("work", work, next(_new_numbers))
        finally:
            sys.setprofile(None)
        raise Again
    return counts


def test_the_first_new_step_after_a_resume_does_not_pay_for_the_journal(tmp_path: Path) -> None:
    """It looked at every recorded call three times: 57 ms behind 30,000 steps."""
    store = holdfast.store(tmp_path / "s.db")
    for steps in (SHORT, LONG):
        recorded(store, steps)
    calls_of_the_next_step(store, SHORT)  # what is done for a first time in a process is done
    short, long = (calls_of_the_next_step(store, steps).total() for steps in (SHORT, LONG))
    assert long <= short + 50, f"{short} calls behind {SHORT} steps, and {long} behind {LONG}"


class Visited(dict[str, Any]):
    """The calls of a view, which counts how often somebody walks over all of them."""

    walks = 0

    def values(self) -> Any:
        self.walks += 1
        return super().values()

    def items(self) -> Any:
        self.walks += 1
        return super().items()


def test_the_first_new_step_walks_over_no_recorded_calls(tmp_path: Path) -> None:
    """A comprehension over all calls calls nothing, so that counting calls alone would not show it."""
    store = holdfast.store(tmp_path / "s.db")
    recorded(store, SHORT)
    with suppress(Again), holdfast.run(f"r{SHORT}", store=store) as run:
        for number in range(SHORT):
            run.step("work", work, number)
        view = run._held.view
        view.calls = Visited(view.calls)
        run.step("work", work, -1)
        assert view.calls.walks == 0
        raise Again
