"""The crash matrix over an encrypted store: the agents and the families of the plain one, killed before and after port calls.

What a run has sealed before a kill, the next attempt opens; what was under way, it seals anew behind it. The end is that
of an undisturbed run, every stored chain fits, and no file shows a content. ``make test`` strikes at a few places, and
``make crash`` at each.

Planted once, and caught here: what an attempt seals first is not chained to what the one before it has sealed.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.conftest import Checker
from tests.crash.test_children import FAMILY, check, check_erased, check_forked, check_moved
from tests.crash.test_matrix import CALLS_MIN, until_it_survives
from tests.support.sampling import EVERY

from holdfast.testing.crash_matrix import Case, CrashMatrix

AGAIN = {"replay": 131, "restore": 97, "threads": 61, "many": 197}
"""How many places of a recovery lie between two at which it is killed as well; all of them would be hours."""
CONTENT = b'"paid"'
"""What stands in a receipt of the agents."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the judge; the programs set it themselves."""
    monkeypatch.setenv("HOLDFAST_KEY", "00" * 32)


def check_sealed(case: Case) -> None:
    """What is stored is sound below the seals and above them, and shows nothing."""
    found = [finding for finding in case.store.examine() if finding.verdict == "failure"]
    assert not found
    case.close()
    files = [path for path in case.directory.iterdir() if path.name.startswith(("holdfast.db", "other.db"))]
    assert files
    assert not [path.name for path in files if CONTENT in path.read_bytes()]


@pytest.mark.parametrize("agent_name", AGAIN)
def test_agents_killed_at_every_call(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, check_case: Checker
) -> None:
    """They end as if nothing had happened, each effect made once, and nothing acknowledged is lost."""

    def judge(case: Case) -> None:
        check_case(case)
        check_sealed(case)

    report = crash_matrix.walk(
        agent,
        agent_name,
        "sealed",
        check=judge,
        start="fork",
        every=EVERY,
        again_every=AGAIN[agent_name] if EVERY == 1 else None,
    )
    assert report.calls >= CALLS_MIN[agent_name]


@pytest.mark.parametrize("agent_name", ["autosave", "gather", "many"] if EVERY == 1 else ["many"])
def test_crash_after_crash(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, check_case: Checker
) -> None:
    """Dozens of attempts, each killed a call further; each enters by the sealed snapshot that a killed one left."""
    calm = crash_matrix.case(agent, agent_name, "sealed", start="fork")
    assert calm.run().code == 0
    case = crash_matrix.case(agent, agent_name, "snapshots", "sealed", start="fork")
    check_case(until_it_survives(case, CALLS_MIN[agent_name]), calm.directory)
    check_sealed(case)


@pytest.mark.timeout(1200)  # at every place, it takes its time
@pytest.mark.parametrize(
    ("what", "judge"),
    [
        ("fork", check_forked),
        ("rewind", check),
        ("move", check_moved),
        ("erase", check_erased),
        ("handoff", check),
    ],
    ids=["fork", "rewind", "move", "erase", "handoff"],
)
def test_killed_around_a_family(crash_matrix: CrashMatrix, what: str, judge: Callable[[Case], None]) -> None:
    """Forks, rewinds, moves, erasures and handoffs of a run with children: each effect once, and nothing half moved."""

    def both(case: Case) -> None:
        judge(case)
        check_sealed(case)

    every = EVERY if EVERY == 1 else 4 * EVERY
    report = crash_matrix.walk(FAMILY, what, "sealed", check=both, start="fork", every=every)
    assert report.calls >= 50
