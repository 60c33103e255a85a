"""An agent that talks to a model, killed before and after every port call: no answer that was recorded is asked for again."""

import json
from pathlib import Path

from tests.support.sampling import OFTEN

from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.testing.crash_matrix import Case, CrashMatrix

PROGRAM = Path(__file__).parent / "programs" / "talking.py"


def lines(case: Case, file: str) -> list[list[object]]:
    path = case.directory / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check(case: Case) -> None:
    """Each call has one outcome; a request was asked once more only where it was cut off; pieces were not lost.

    That the whole conversation is the undisturbed one, the matrix compares itself: it is the run's result.
    """
    events = case.store.events("agent")
    outcomes = [event.key for event in events if event.kind == Kind.STEP_FINISHED]
    assert len(outcomes) == len(set(outcomes)) == 6
    ended: set[str] = set()
    for event in events:
        if event.kind == Kind.STEP_FINISHED:
            ended.add(event.key)
        assert not (event.kind == Kind.STEP_STARTED and event.key in ended), (
            "asked again after its answer was recorded"
        )
    asked = [tuple(line) for line in lines(case, "asked")]
    assert len(asked) <= 6 + len(case.kills), f"asked too often: {asked}"
    for _, text in lines(case, "continued"):
        written = [contents_of(e.body).get("text", "") for e in events if e.kind == Kind.STREAM_CHUNK]
        assert isinstance(text, str)
        assert text.split()[0] in "".join(written)


def test_killed_at_every_call_the_conversation_is_the_same(crash_matrix: CrashMatrix) -> None:
    """Wherever it dies, the next attempt goes on with the same words; and so it does if that one dies too.

    Planted: every try of a stream numbered as the first (its text came out wrong); the request not written before it was
    sent (nothing to answer).
    """
    report = crash_matrix.walk(PROGRAM, check=check, start="fork", every=OFTEN, again_every=61)
    assert report.kills >= 50 // OFTEN
    assert report.pairs >= 10 // OFTEN
