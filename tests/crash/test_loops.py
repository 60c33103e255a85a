"""Agents that go in circles, in real processes that are killed: counts are derived from the journal, so none is lost."""

from pathlib import Path
from signal import SIGKILL

from tests.support.sampling import OFTEN

from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.testing.crash_matrix import Case, CrashMatrix

PROGRAM = Path(__file__).parent / "programs" / "circling.py"


def signs(case: Case) -> list[str]:
    events = case.store.events("agent")
    return [
        contents_of(event.body).get("level", "left") for event in events if event.kind.startswith("loop.")
    ]


def test_counts_survive_a_kill(crash_matrix: CrashMatrix) -> None:
    """Two searches, SIGKILL, and the third one is nudged."""
    case = crash_matrix.case(PROGRAM, "nudged", start="fork")
    (case.directory / "die").write_text("2")
    assert case.run().code == -SIGKILL, case.exits[-1].output
    assert signs(case) == ["warn"]
    (case.directory / "die").unlink()
    assert case.run().code == 0, case.exits[-1].output
    assert signs(case) == ["warn", "nudge", "left"]
    assert len((case.directory / "searches").read_text().splitlines()) == 4
    case.close()


def test_killed_again_and_again_it_is_parked_all_the_same(crash_matrix: CrashMatrix) -> None:
    """A search an attempt; the fifth parks the run, and the next start goes on from there with new counts."""
    case = crash_matrix.case(PROGRAM, "stubborn", start="fork")
    for searches in range(1, 5):
        (case.directory / "die").write_text(str(searches))
        assert case.run().code == -SIGKILL, case.exits[-1].output
    (case.directory / "die").unlink()
    assert case.run().code == 3, case.exits[-1].output
    assert case.store.get("agent").status == "parked"
    assert signs(case) == ["warn", "nudge", "pause"]
    assert case.run().code == 3, case.exits[-1].output
    assert signs(case) == ["warn", "nudge", "pause"] * 2
    assert len((case.directory / "searches").read_text().splitlines()) == 10
    case.close()


def test_killed_at_every_call_the_nudge_is_the_same(crash_matrix: CrashMatrix) -> None:
    """Wherever it dies: each sign is in the journal once, behind its outcome, and the model was told the same.

    Planted: the sign in an append of its own (lost between the two); the nudge not told on replay (the model asked
    something else).
    """

    def check(case: Case) -> None:
        assert signs(case) == ["warn", "nudge", "left"]
        asked = [
            e.body for e in case.store.events("agent") if e.kind == Kind.STEP_FINISHED and e.name == "model"
        ]
        assert len(asked) == 2

    report = crash_matrix.walk(PROGRAM, "nudged", check=check, start="fork", every=OFTEN, again_every=151)
    assert report.kills >= 30 // OFTEN
