"""Every option that CrewAI documents for crews, agents and tasks: it works under a kill, or it is refused by name.

Each case is a crew that is killed at one place, run again and then replayed. ``NOT_TRIED`` says why an option has no case.
"""

from collections import Counter
from pathlib import Path
from signal import SIGKILL
from types import SimpleNamespace

import pytest
from crewai import Agent, Crew, Task
from tests.adapters.crewai.optional import CASES, NOT_TRIED, REFUSED
from tests.support.known_secrets import NAME, VALUE, known_secrets

import holdfast
from holdfast.adapters.crewai.kickoff_session import place_of
from holdfast.adapters.crewai.llm_requests import task_label
from holdfast.testing.crash_matrix import Case, CrashMatrix

PRELOAD = ["tests.adapters.crewai.optional"]
PROGRAM = Path(__file__).parent / "programs" / "option.py"


def lines_of(case: Case) -> "Counter[str]":
    path = case.directory / "ledger"
    return Counter(path.read_text().splitlines() if path.exists() else ())


@pytest.mark.parametrize("name", CASES)
def test_killed_and_run_again(matrix: CrashMatrix, name: str) -> None:
    """Killed at the place of the case, the crew ends as the undisturbed one: no effect twice, one call more at most."""
    calm = matrix.case(PROGRAM, name, start="fork", preload=PRELOAD)
    assert calm.run().code == 0, calm.exits[-1].output
    expected = calm.store.view("agent").result
    calm.close()
    case = matrix.case(PROGRAM, name, start="fork", preload=PRELOAD)
    (case.directory / "die").write_text(CASES[name].place)
    assert case.run().code == -SIGKILL, case.exits[-1].output
    assert case.run().code == 0, case.exits[-1].output
    assert case.store.view("agent").result == expected
    case.close()
    ledger, undisturbed = lines_of(case), lines_of(calm)
    again = ledger - undisturbed
    assert {line: count for line, count in again.items() if line.startswith(("sent", "stored"))} == {}
    assert sum(count for line, count in again.items() if line.startswith("ask")) <= 1
    assert ledger["sent Ada"] == undisturbed["sent Ada"] > 0
    assert case.run().code == 0, case.exits[-1].output
    replayed = lines_of(case) - ledger
    assert {line for line in replayed if line.startswith(("ask", "sent", "pay", "embed"))} == set()


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(matrix: CrashMatrix, name: str) -> None:
    """What cannot be durable is said before a model is asked, with the option's name."""
    case = matrix.case(PROGRAM, name, start="fork", preload=PRELOAD)
    ended = case.run()
    assert ended.code == 1
    assert "Misuse" in ended.output
    assert name in ended.output
    assert not lines_of(case)


def test_no_option_is_forgotten() -> None:
    """Each field of CrewAI's classes has a case, is refused, or is named with the reason why it has none."""
    fields = {f"{kind.__name__}.{field}" for kind in (Crew, Agent, Task) for field in kind.model_fields}
    tried = {covered for case in CASES.values() for covered in case.covers}
    known = {*tried, *NOT_TRIED, *REFUSED.values()}
    assert fields - known == set()
    assert known - fields == set()


def test_a_label_has_no_half_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A task is called by the beginning of its description, wherever that ends. Seen to fail: half a key was left."""
    monkeypatch.setenv(NAME, VALUE)
    with known_secrets():
        holdfast.store(tmp_path / "s.db").close()
        for before in range(40, 62):
            text = "x" * before + VALUE
            assert VALUE[:4] not in task_label(SimpleNamespace(name="", description=text))
            assert VALUE[:4] not in place_of(text)
