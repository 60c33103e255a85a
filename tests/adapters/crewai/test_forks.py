"""A fork of a crew's run with other inputs: what is the same is answered, what differs is done."""

from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from tests.adapters.crewai import scripted
from tests.adapters.crewai.scripted import EFFECTS, INPUTS, crew_of

import holdfast
from holdfast.adapters.crewai import durable
from holdfast.testing.crash_matrix import CrashMatrix

CREW = Path(__file__).parent / "programs" / "crew.py"
ROCK = {"topic": "rock"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of its own, with the ledger and the store in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path / 's.db'}")
    yield tmp_path
    holdfast.store().close()


def ledger() -> list[str]:
    return scripted.LEDGER.read_text().splitlines() if scripted.LEDGER.exists() else []


def kick(run: str, inputs: Any = None, script: Any = scripted.native) -> Any:
    return durable(crew_of(script), run=run, effects=EFFECTS).kickoff(inputs=inputs or INPUTS).raw


def other(role: str, seen: int, text: str) -> Any:
    """About a rock, the result and the letter are others."""
    answer = scripted.native(role, seen, text)
    if "rock" not in text or not isinstance(answer, str):
        return (
            scripted.called("send", {"to": "Bob"})
            if role == "Writer" and seen == 0 and "rock" in text
            else answer
        )
    return f"{answer}, rock"


def test_what_is_the_same_is_answered() -> None:
    """The changed task asks its model; payments with the same arguments and the task after it are answered.

    The writer's request holds the result of the first task, which is the same: so it is the recorded one.
    """
    kick("agent")
    done = ledger()
    holdfast.store().fork("agent", as_="try-b")
    assert kick("try-b", ROCK) == "the letter is sent"
    new = ledger()[len(done) :]
    assert new == [f"ask Researcher {seen} Find out about rock" for seen in (0, 3)]
    assert kick("try-b", ROCK) == "the letter is sent"
    assert ledger() == [*done, *new]


def test_what_differs_is_done() -> None:
    """Another result goes into the next request, and the letter to another person is sent, once."""
    kick("agent", script=other)
    done = ledger()
    holdfast.store().fork("agent", as_="try-b")
    assert kick("try-b", ROCK, other) == "the letter is sent, rock"
    new = ledger()[len(done) :]
    assert new.count("sent Bob") == 1
    assert [line for line in new if line.startswith("pay")] == []
    assert holdfast.store().get("agent").status == holdfast.store().get("try-b").status == "finished"


def test_a_fork_has_one_set_of_inputs() -> None:
    """Those of its first kickoff, or the origin's; a third set is refused, and so are other inputs in the origin."""
    kick("agent")
    holdfast.store().fork("agent", as_="try-b")
    kick("try-b", ROCK)
    done = ledger()
    for run, inputs in (("try-b", {"topic": "sand"}), ("agent", ROCK)):
        with pytest.raises(holdfast.InputsChanged, match="topic"):
            kick(run, inputs)
    assert ledger() == done


def test_a_fork_with_other_inputs_survives_a_kill(matrix: CrashMatrix) -> None:
    """Killed in the changed task, the fork asks again only what it was asking."""
    case = matrix.case(CREW, "forked", start="fork", preload=["tests.adapters.crewai.remembered"])
    assert case.run().code == 0, case.exits[-1].output
    case.store.fork("agent", as_="try-b")
    (case.directory / "fork").touch()
    (case.directory / "die").write_text("Researcher:3:before")
    assert case.run().code == -SIGKILL, case.exits[-1].output
    assert case.run().code == 0, case.exits[-1].output
    lines = (case.directory / "ledger").read_text().splitlines()
    assert [line for line in lines if "rock" in line] == [
        f"ask Researcher {seen} Find out about rock" for seen in (0, 3)
    ]
    assert sorted(line for line in lines if line.startswith("pay")) == ["pay 0", "pay 1", "pay 2"]
    assert lines.count("sent Ada") == 1
