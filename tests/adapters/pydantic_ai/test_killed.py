"""A Pydantic AI agent killed with SIGKILL: around every port call, inside each tool of its batch, in mid-stream.

Planted, and caught here: the tool's outcome kept in memory only (its effect is found twice); the response of a model not
recorded before its tools are called (asked twice where it had answered); a stream journaled only at its end.
"""

from collections import Counter
from pathlib import Path

import pytest
from tests.support.sampling import OFTEN

from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.testing.crash_matrix import Case, CrashMatrix

AGENT = Path(__file__).parent / "agent.py"
PRELOAD = ["holdfast.adapters.pydantic_ai", "pydantic_ai.models.function"]
DONE = {"value": ["paid and noted it", 2, 3]}


def check(case: Case) -> None:
    """One payment and one note; whatever was called has its record, and nothing is called that has its outcome."""
    ledger = (case.directory / "ledger").read_text().splitlines()
    assert Counter(line.split()[0] for line in ledger) == {"pay": 1, "note": 1}
    asked = Counter(line.split()[0] for line in (case.directory / "asked").read_text().splitlines())
    events = [event for event in case.store.events("agent") if event.kind.startswith("step.")]
    for name, outcomes in (("pay", 1), ("note", 1), ("look", 1), ("model", 2)):
        told = [event for event in events if event.name == name]
        ends = [event for event in told if event.kind == "step.finished" or is_settled(event)]
        begun = sum(event.kind == "step.started" for event in told)
        assert len(ends) == outcomes
        assert told[-1] is ends[-1]
        assert begun <= outcomes + len(case.kills)
        # The intent of a read goes with its outcome: one that was killed may have left no record.
        assert asked[name] <= (outcomes + len(case.kills) if name == "look" else begun)


def is_settled(event: Event) -> bool:
    """Whether a payment that was cut off was found to have happened."""
    return bool(event.kind == "step.settled" and contents_of(event.body)["how"] == "done")


@pytest.mark.parametrize(("way", "sparser"), [("awaiting", 1), ("streaming", 3), ("blocking", 3)])
def test_killed_around_every_port_call(crash_matrix: CrashMatrix, way: str, sparser: int) -> None:
    """It ends as the undisturbed run: the same result, the same usage, each effect once."""
    every = 1 if OFTEN == 1 else OFTEN * sparser
    report = crash_matrix.walk(
        AGENT, way, check=check, start="fork", preload=PRELOAD, every=every, again_every=149
    )
    assert report.calls >= 15


@pytest.mark.parametrize("way", ["awaiting", "streaming", "blocking"])
def test_killed_inside_a_tool_of_the_batch(
    crash_matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """After its effect and before anybody knows: verified, made again under the same key, or simply made again."""
    for place in ("pay", "note", "look"):
        monkeypatch.setenv("KILL", place)
        case = crash_matrix.case(AGENT, way, start="fork", preload=PRELOAD)
        assert case.run().code == -9
        ended = case.run()
        assert ended.code == 0, ended.output
        ledger = (case.directory / "ledger").read_text().splitlines()
        assert len(ledger) == len(set(ledger)) == 2, (place, ledger)
        asked = Counter((case.directory / "asked").read_text().splitlines())
        looked = asked.pop("look 3")  # in a thread of its own: it may have begun when another one was struck
        assert asked == {"model 0": 1, "model 1": 1}, place
        assert looked == 2 if place == "look" else looked <= 2, place
        assert contents_of(case.store.view("agent").result or b"") == DONE
        case.close()


def test_killed_in_the_middle_of_a_stream(crash_matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had arrived is in the journal; the answer is begun again, and nothing before it."""
    monkeypatch.setenv("KILL", "stream")
    case = crash_matrix.case(AGENT, "streaming", start="fork", preload=PRELOAD)
    assert case.run().code == -9
    pieces = [event.body for event in case.store.events("agent") if event.kind == "stream.chunk"]
    assert any(b"paid and" in body for body in pieces)
    ended = case.run()
    assert ended.code == 0, ended.output
    asked = Counter((case.directory / "asked").read_text().splitlines())
    assert asked == {"model 0": 1, "model 1": 2, "look 3": 1}
    case.close()
