"""A task that a person reviews: the question is one of the run, answered from any process, and recorded."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from click.testing import CliRunner
from crewai.core.providers.human_input import SyncHumanInputProvider, reset_provider, set_provider
from tests.adapters.crewai import scripted
from tests.adapters.crewai.scripted import EFFECTS, INPUTS, reviewed_crew

import holdfast
from holdfast.adapters.crewai import durable
from holdfast.cli.app import app
from holdfast.testing.crash_matrix import CrashMatrix

CREW = Path(__file__).parent / "programs" / "crew.py"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of its own, with the ledger and the store in it; the terminal gives no answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path / 's.db'}")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the terminal"))
    yield tmp_path
    holdfast.store().close()


def ledger() -> list[str]:
    return scripted.LEDGER.read_text().splitlines() if scripted.LEDGER.exists() else []


def kick(*, is_async: bool = False) -> Any:
    kicked: Any = durable(reviewed_crew(), run="agent", effects=EFFECTS)
    if is_async:
        return asyncio.run(kicked.akickoff(inputs=INPUTS)).raw
    return kicked.kickoff(inputs=INPUTS).raw


@pytest.mark.parametrize("is_async", [False, True])
def test_a_review_is_a_question_of_the_run(is_async: bool) -> None:
    """The run parks; an answer asks for more, the next one, empty, accepts; then nothing is asked or done again."""
    for answer in ("more kelp", ""):
        with pytest.raises(holdfast.AwaitingAnswer, match="research"):
            kick(is_async=is_async)
        (question,) = holdfast.store().questions("agent")
        assert "Researcher" in str(question.about)
        holdfast.store().answer("agent", answer)
    assert kick(is_async=is_async) == "the letter is sent"
    done = ledger()
    assert sum(line.startswith("ask Researcher") for line in done) == 3
    assert sum(line.startswith("pay") for line in done) == 3
    assert kick(is_async=is_async) == "the letter is sent"
    assert ledger() == done


def test_a_provider_of_the_user_is_left_alone() -> None:
    """A program that asks people in its own way goes on doing so."""
    asked = []

    class Own(SyncHumanInputProvider):
        def _prompt_input(self, crew: Any) -> str:
            asked.append(crew)
            return ""

    token = set_provider(Own())
    try:
        assert kick() == "the letter is sent"
    finally:
        reset_provider(token)
    assert len(asked) == 1


def test_the_question_survives_a_kill(matrix: CrashMatrix) -> None:
    """Parked, answered by the command, killed right after the answer was used: it is not asked twice."""
    case = matrix.case(CREW, "reviewed", start="fork", preload=["tests.adapters.crewai.remembered"])

    def answer(number: str, text: str) -> None:
        case.close()
        told = CliRunner().invoke(app, ["answer", "agent", number, text, "--store", case.url])
        assert told.exit_code == 0, told.output

    assert case.run().code != 0
    answer("q1", "more kelp")
    (case.directory / "die").write_text("Researcher:3:after")
    assert case.run().code == -SIGKILL
    assert case.run().code != 0
    answer("q2", "")
    assert case.run().code == 0, case.exits[-1].output
    lines = (case.directory / "ledger").read_text().splitlines()
    # Once before the review, and once after it, which was cut off, and so once more.
    assert sum(line.startswith("ask Researcher 3") for line in lines) == 3
    assert [event.kind for event in case.store.events("agent")].count("question.asked") == 2
    case.close()
