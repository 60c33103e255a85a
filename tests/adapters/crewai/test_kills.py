"""Killed with SIGKILL at every place where a crew asks its model, calls a tool or writes to the journal; and run again."""

import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest

from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill

PRELOAD = ["tests.adapters.crewai.remembered"]
CREW = Path(__file__).parent / "programs" / "crew.py"
EVERY = int(os.environ.get("HOLDFAST_CRASH_EVERY", "12"))
"""``make test`` strikes at every twelfth write of one crew; with ``HOLDFAST_CRASH_EVERY=1``, at each, and of all of them."""

AROUND = {"memory.recall", "memory.save"}
SEEDS = 12 if EVERY > 1 else 60

RESEARCHER = ["Researcher:0:before", "Researcher:0:after", "Researcher:3:before", "Researcher:3:after"]
WRITER = [
    "Writer:0:before",
    "Writer:0:after",
    "send:before",
    "send:after",
    "Writer:1:before",
    "Writer:1:after",
]
BATCH = [f"pay:{n}:{when}" for n in range(3) for when in ("before", "after")]
MANAGER = [f"Crew Manager:{n}:{when}" for n in range(2) for when in ("before", "after")]
MEMORY = [
    f"{call}:{when}"
    for call in ("embed", "ExtractedMemories", "MemoryAnalysis", "store")
    for when in ("before", "after")
]
PLACES = {
    "sync": [*RESEARCHER, *BATCH, *WRITER],
    "async": ["Researcher:0:after", *BATCH[::2], "send:after", "Writer:1:before"],
    "threaded": ["Researcher:0:before", "pay:1:after", "Writer:1:after"],
    "react": ["Researcher:0:after", "look:kelp", "pay:0:after", "Researcher:2:before", "send:after"],
    "stream": ["Researcher:0:after", "pay:1:before", "Researcher:3:after", "send:after", "Writer:1:before"],
    "managed": [*MANAGER, "Researcher:0:after", "pay:1:after", "Researcher:3:before"],
    "side_by_side": ["Researcher:0:before", "pay:2:after", "Writer:0:after", "send:after", "Reader:0:before"],
    "flow": ["Researcher:0:after", "pay:1:after", "Researcher:3:after", "Writer:0:before", "send:after"],
    "memory": [*MEMORY, "Researcher:0:after", "send:after", "Writer:1:after"],
    "default_memory": ["Researcher:3:after", "Writer:0:before"],
    "async_memory": MEMORY[1::4],
}


def ledger_of(case: Case) -> "Counter[str]":
    path = case.directory / "ledger"
    return Counter(path.read_text().splitlines() if path.exists() else ())


def check(case: Case, calm: "Counter[str]", kills: int) -> None:
    """Every effect is there once; every question was asked, and one more time at most per kill."""
    ledger = ledger_of(case)
    paid = {f"pay {path.name.removeprefix('paid-')}" for path in case.directory.glob("paid-*")}
    assert paid == {line for line in calm if line.startswith("pay")}
    assert all(ledger[line] <= 1 + kills for line in paid)
    assert ledger["sent Ada"] == calm["sent Ada"]
    if (case.directory / "memories.jsonl").exists():
        assert remembered(case) == {line: 1 for line in calm if line.startswith("stored")}
    asked = {line: count for line, count in ledger.items() if line.startswith("ask")}
    assert asked.keys() == {line for line in calm if line.startswith("ask")}
    # Side by side, the kill of one cuts off the others.
    assert sum(asked.values()) <= sum(calm[line] for line in asked) + 2 * kills


def remembered(case: Case) -> "Counter[str]":
    """What is in the crew's memory."""
    lines = (case.directory / "memories.jsonl").read_text().splitlines()
    return Counter(f"stored {json.loads(line)['content']}" for line in lines)


def result_of(case: Case) -> bytes | None:
    result = case.store.view("agent").result
    case.close()
    return result


@pytest.mark.parametrize("mode", PLACES)
def test_killed_inside_models_and_tools(matrix: CrashMatrix, mode: str) -> None:
    """Killed on either side of every answer and of every effect, the crew ends as if nothing had happened.

    The result that is compared holds the token usage: what was answered from the journal counts as it did.
    Planted: replayed usage not counted (``conclude`` without its loop); the results differ at every place after the first
    answer. Planted: tools left unwrapped (``DurableFunction`` without ``run``); payments are asked for again.
    """
    undisturbed = matrix.case(CREW, mode, start="fork", preload=PRELOAD)
    assert undisturbed.run().code == 0, undisturbed.exits[-1].output
    calm, expected = ledger_of(undisturbed), result_of(undisturbed)
    assert expected is not None
    for place in PLACES[mode]:
        case = matrix.case(CREW, mode, start="fork", preload=PRELOAD)
        (case.directory / "die").write_text(place)
        assert case.run().code == -SIGKILL, f"{place}: {case.exits[-1].output}"
        before = ledger_of(case)
        assert case.run().code == 0, f"{place}: {case.exits[-1].output}"
        assert result_of(case) == expected, place
        check(case, calm, 1)
        asked_again = [
            line for line in before if ledger_of(case)[line] > before[line] and line.startswith("ask")
        ]
        assert len(asked_again) <= (3 if mode == "side_by_side" else 1), place


@pytest.mark.parametrize("mode", ["sync"] if EVERY > 1 else list(PLACES))
def test_killed_at_every_write(matrix: CrashMatrix, mode: str) -> None:
    """Killed before and after the calls it makes to its store, the crew ends as the undisturbed one, paid once."""
    calm: list[Counter[str]] = []

    def judge(case: Case) -> None:
        if not case.kills:
            calm.append(ledger_of(case))
        check(case, calm[0], len(case.kills))

    report = matrix.walk(CREW, mode, check=judge, every=EVERY, start="fork", preload=PRELOAD)
    assert report.kills >= 60 // EVERY


def open_calls(case: Case) -> "Counter[str]":
    """The calls that were under way when the process was killed, by name; not the steps around them."""
    begun: Counter[str] = Counter()
    for event in case.store.events("agent"):
        if event.kind in {"step.started", "step.finished", "step.failed"}:
            begun[event.name] += 1 if event.kind == "step.started" else -1
    case.close()
    return Counter({name: n for name, n in begun.items() if n > 0 and name not in AROUND})


def test_seeded_kills_of_a_crew_that_remembers(matrix: CrashMatrix) -> None:
    """A crew with memory, effects and two tasks, killed at places drawn from seeds: nothing finished is done again.

    Half of the kills strike where something is asked or done, half where the journal is written.
    """
    undisturbed = matrix.case(CREW, "memory", start="fork", preload=PRELOAD)
    assert undisturbed.run().code == 0, undisturbed.exits[-1].output
    calm, expected, calls = ledger_of(undisturbed), result_of(undisturbed), undisturbed.calls
    kills = repeated = doubled = made_again = 0
    for seed in range(SEEDS):
        draw = Random(seed)
        case = matrix.case(CREW, "memory", start="fork", preload=PRELOAD)
        if seed % 2:
            killed = case.run(Kill(draw.randrange(2, calls * 3 // 4))).code
        else:
            (case.directory / "die").write_text(f"line {draw.randint(1, sum(calm.values()))}")
            killed = case.run().code
        assert killed == -SIGKILL, f"seed {seed}: {case.exits[-1].output}"
        kills += 1
        under_way = sum(open_calls(case).values()) if "agent" in runs_of(case) else 0
        assert case.run().code == 0, f"seed {seed}: {case.exits[-1].output}"
        assert result_of(case) == expected, f"seed {seed}"
        again = ledger_of(case) - calm
        asked = sum(count for line, count in again.items() if line.startswith(("ask", "embed", "pay")))
        made_again += asked
        repeated += max(0, asked - under_way)
        doubled += sum(count for line, count in again.items() if line.startswith("sent"))
        doubled += sum(count - 1 for count in remembered(case).values())
        check(case, calm, 1)
    print(
        f"{kills} kills: {made_again} calls under way made again, {repeated} finished, {doubled} effects doubled"
    )
    assert (repeated, doubled) == (0, 0)


def runs_of(case: Case) -> set[str]:
    found = {info.run for info in case.store.runs()}
    case.close()
    return found
