"""Files written by every format so far still open, verify, replay and go on."""

import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from tests.migrations import program

import holdfast

GOLDEN = sorted((Path(__file__).parent / "golden").glob("format-*.db"))


@pytest.fixture(params=GOLDEN, ids=lambda p: p.stem)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a golden file; the original is never touched."""
    program.ran.clear()
    return Path(shutil.copy(request.param, tmp_path / "holdfast.db"))


def test_there_is_a_golden_file_for_the_current_format() -> None:
    """A format without a golden file could not be kept readable."""
    from holdfast.stores.sqlite.connection import FORMAT_VERSION

    assert GOLDEN[-1].stem == f"format-{FORMAT_VERSION}"


def test_a_finished_run_answers_as_it_did(store: Path) -> None:
    """Values, failures, marks, blobs and drawn numbers: nothing runs, and the result is the recorded one."""
    with holdfast.run("golden", goal="stay readable", inputs={"n": 1}, store=store) as run:
        assert program.body(run) == run.result
    assert program.ran == []


def test_an_unfinished_run_goes_on(store: Path) -> None:
    """Recorded steps are answered, new ones run, and the state is there."""
    with holdfast.run("open", store=store) as run:
        assert program.body(run)["text"] == 50_000
        assert run.state["facts"][0] == program.Fact("DE", Decimal("1.50"))
        assert run.step("new", str.upper, "x") == "X"
    assert program.ran == []


def test_an_effect_in_doubt_is_still_in_doubt(store: Path) -> None:
    """It can be resolved by today's commands."""
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("doubtful", store=store) as run:
        run.once("cut", program.fail, "net")
    holdfast.store(store).resolve("doubtful", "cut", "done", value="arrived")
    with holdfast.run("doubtful", store=store) as run:
        answer: object = run.once("cut", program.fail, "net")
        assert answer == "arrived"
    assert program.ran == []


def test_every_row_is_intact(store: Path) -> None:
    """The examination finds nothing wrong."""
    assert [f for f in holdfast.store(store).examine() if f.verdict == "failure"] == []
