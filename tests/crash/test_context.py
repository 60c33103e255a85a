"""Contexts in a process that is killed: what a model was told is told again, letter by letter, wherever it died."""

from pathlib import Path

from tests.support.context_check import verify
from tests.support.sampling import OFTEN

from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.testing.crash_matrix import Case, CrashMatrix

PROGRAM = Path(__file__).parent / "programs" / "telling.py"


def test_killed_at_every_call_the_model_is_told_the_same(crash_matrix: CrashMatrix) -> None:
    """Each turn is answered once, nothing drifts, and what it was told is true of the journal.

    Planted: the context made anew on replay (Diverged at the first kill behind an answer).
    """

    def check(case: Case) -> None:
        events = case.store.events("agent")
        told = [e for e in events if e.kind == Kind.MARK and e.name == "context"]
        answers = [e for e in events if e.kind == Kind.STEP_FINISHED and e.name == "think"]
        assert len(told) == len(answers) == 3
        assert not [e for e in events if e.kind == Kind.DRIFTED]
        assert len({contents_of(e.body)["value"] for e in told}) == 3
        for style in ("summary", "full", "facts"):
            assert verify(case.store.context("agent", style=style), events, lambda _: b"{}") == []

    report = crash_matrix.walk(PROGRAM, check=check, start="fork", every=OFTEN, again_every=151)
    assert report.kills >= 15 // OFTEN
