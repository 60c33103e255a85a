"""Agents of the SDK, killed with SIGKILL: at every port call, and inside each of three tools that run side by side."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.sampling import OFTEN

from holdfast.model.events import Kind
from holdfast.testing.crash_matrix import Case, CrashMatrix

PROGRAM = Path(__file__).parent / "program.py"
PRELOAD = ("tests.adapters.openai_agents.team",)
EFFECTS = {("note", "bee"), ("pay", "cow")}
MODEL_CALLS = 6
DEEP = 1 if OFTEN == 1 else 4 * OFTEN
ALONE = 1 if OFTEN == 1 else OFTEN // 2
"""The whole team in each mode is walked through at every place by ``make crash``; an agent alone is the shortest walk."""


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashMatrix]:
    """One for all: the process that children fork from has imported the SDK, which takes seconds."""
    with CrashMatrix(tmp_path_factory.mktemp("matrix")) as made:
        yield made


def lines(case: Case, file: str) -> list[tuple[object, ...]]:
    path = case.directory / file
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def check(case: Case) -> None:
    """Each effect happened once; no answer or outcome that was recorded was asked for again.

    That output, agent, usage, items and session are those of the undisturbed run, the matrix compares itself: they are
    the run's result.
    """
    done = lines(case, "done")
    assert sorted(done) == sorted(EFFECTS), f"an effect was lost or doubled: {done}"
    assert len(lines(case, "looked")) <= 2 + len(case.kills)
    asked = lines(case, "asked")
    assert len(asked) <= MODEL_CALLS + len(case.kills), f"a paid answer was asked for again: {asked}"
    ended: set[str] = set()
    for event in case.store.events("team"):
        if event.kind == Kind.STEP_FINISHED:
            assert event.key not in ended
            ended.add(event.key)
        assert not (event.kind == Kind.STEP_STARTED and event.key in ended), "begun again after its outcome"


@pytest.mark.parametrize(
    ("mode", "every"), [("alone", ALONE), ("async", DEEP), ("streamed", DEEP), ("sync", DEEP)]
)
def test_killed_at_every_port_call(matrix: CrashMatrix, mode: str, every: int) -> None:
    """Handoff, agent as a tool, three tools at once, session: wherever it dies, it comes to the same end.

    Planted: the session's changes made without ``by``: killed between a change and its record, items were doubled.
    """
    report = matrix.walk(PROGRAM, mode, check=check, start="fork", preload=PRELOAD, every=every)
    assert report.kills >= 48 // every


@pytest.mark.parametrize("mode", ["async", "streamed", "sync"])
def test_killed_inside_a_tool(matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Killed inside each of three tools at once: the paid answer, the call and what the others did are kept."""
    calm = matrix.case(PROGRAM, mode, start="fork", preload=PRELOAD)
    assert calm.run().code == 0
    expected = calm.store.view("team").result
    calm.close()
    for tool in ("look", "note", "pay"):
        case = matrix.case(PROGRAM, mode, start="fork", preload=PRELOAD)
        monkeypatch.setenv("DIE_IN", tool)
        assert case.run().code == -9
        monkeypatch.delenv("DIE_IN")
        assert lines(case, "asked") == [("desk", 1)]
        assert case.run().code == 0
        assert sorted(lines(case, "done")) == sorted(EFFECTS)
        assert lines(case, "asked") == lines(calm, "asked")
        assert case.store.view("team").result == expected
        case.close()
