"""Strands agents, killed with SIGKILL at places drawn from seeds, in each way to call them; and run again."""

import os
from collections import Counter
from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest
from tests.adapters.strands.scripted import MODES

from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill

PRELOAD = ["tests.adapters.strands.scripted"]
PROGRAM = Path(__file__).parent / "programs" / "agent.py"
SEEDS = 12 if os.environ.get("HOLDFAST_CRASH_EVERY") != "1" else 60


def ledger_of(case: Case) -> "Counter[str]":
    path = case.directory / "ledger"
    return Counter(path.read_text().splitlines() if path.exists() else ())


def under_way(case: Case) -> int:
    """How many calls had begun and not ended when the process was killed."""
    begun: Counter[str] = Counter()
    if "agent" in {info.run for info in case.store.runs()}:
        for event in case.store.events("agent"):
            if event.kind in {"step.started", "step.finished", "step.failed"}:
                begun[event.name] += 1 if event.kind == "step.started" else -1
    case.close()
    return sum((+begun).values())


@pytest.mark.parametrize("mode", MODES)
def test_seeded_kills(matrix: CrashMatrix, mode: str) -> None:
    """Wherever it dies, the agent ends as the undisturbed one: no finished call is made again, no effect is doubled.

    Half of the kills strike where something is asked or done, half where the journal is written.
    """
    undisturbed = matrix.case(PROGRAM, mode, start="fork", preload=PRELOAD)
    assert undisturbed.run().code == 0, undisturbed.exits[-1].output
    calm, calls = ledger_of(undisturbed), undisturbed.calls
    expected = undisturbed.store.view("agent").result
    undisturbed.close()
    again = repeated = doubled = 0
    for seed in range(SEEDS):
        draw, case = Random(seed), matrix.case(PROGRAM, mode, start="fork", preload=PRELOAD)
        if seed % 2:
            killed = case.run(Kill(draw.randrange(2, calls * 3 // 4))).code
        else:
            (case.directory / "die").write_text(f"line {draw.randint(1, sum(calm.values()))}")
            killed = case.run().code
        assert killed == -SIGKILL, f"seed {seed}: {case.exits[-1].output}"
        cut_off = under_way(case)
        assert case.run().code == 0, f"seed {seed}: {case.exits[-1].output}"
        assert case.store.view("agent").result == expected, f"seed {seed}"
        case.close()
        ledger = ledger_of(case)
        assert not calm - ledger, f"seed {seed}"
        more = ledger - calm
        made = sum(count for line, count in more.items() if not line.startswith("sent"))
        again, repeated = again + made, repeated + max(0, made - cut_off)
        doubled += more["sent Ada"]
    print(
        f"{mode}: {SEEDS} kills, {again} cut-off calls made again, {repeated} finished, {doubled} effects doubled"
    )
    assert (repeated, doubled) == (0, 0)


def test_killed_in_the_middle_of_an_answer(matrix: CrashMatrix) -> None:
    """The pieces that had arrived are in the journal; the answer is asked for again, whole."""
    case = matrix.case(PROGRAM, "stream", start="fork", preload=PRELOAD)
    (case.directory / "die").write_text("ask 6:after")
    assert case.run().code == -SIGKILL, case.exits[-1].output
    assert case.run().code == 0, case.exits[-1].output
    assert ledger_of(case)["ask 6"] == 2
    assert ledger_of(case)["sent Ada"] == 1
