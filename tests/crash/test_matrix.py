"""Agents killed before and after every port call, and again while they recover.

The invariants are in ``conftest.py``: acknowledged ⊆ durable, intent before call, nothing finished repeated, each once
effect exactly once in the end, the end of every attempt recorded; and the matrix itself compares each run's result
with the undisturbed one. The outside is judged by files and by bare SQL, not by Holdfast.

Planted once, and caught here: see each docstring.
"""

from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, SIGTERM

import pytest

from holdfast.testing.crash import Case, CrashMatrix, Kill

Check = Callable[..., None]
Settle = Callable[[Case], bool]

CALLS_MIN = {"replay": 40, "restore": 28, "gather": 36, "threads": 15, "many": 15}
"""Fewer port calls than this, and the program did not do what it is there for."""


@pytest.mark.parametrize(
    ("agent_name", "every"), [("replay", 79), ("restore", 59), ("gather", 79), ("threads", 37), ("many", 97)]
)
def test_killed_at_every_call_and_again_while_recovering(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, every: int, check_case: Check
) -> None:
    """Killed before or after any port call, an agent run again ends as if nothing had happened.

    And so it does if the recovery is killed too. All pairs would be thousands: each first kill gets every n-th of the
    kills in its recovery, beginning one further than the kill before it, so that every place comes to be hit.
    """
    report = crash_matrix.walk(agent, agent_name, check=check_case, start="fork", again_every=every)
    assert report.kills >= 2 * CALLS_MIN[agent_name]
    assert report.pairs >= report.kills // 2


def test_without_verify_a_person_is_asked(
    crash_matrix: CrashMatrix, agent: Path, check_case: Check, ask_person: Settle
) -> None:
    """A once effect that nobody can verify stops the run as in doubt, and goes on as a person said; killed twice too."""
    stops = 0

    def settle(case: Case) -> bool:
        nonlocal stops
        stops += 1
        return ask_person(case)

    crash_matrix.walk(agent, "unverified", check=check_case, settle=settle, start="fork", again_every=31)
    # Two once calls, each with a window from behind the intent to before the outcome.
    assert stops >= 4


def test_crash_after_crash_after_crash(crash_matrix: CrashMatrix, agent: Path, check_case: Check) -> None:
    """Forty attempts in a row, each killed one call further than the last: the run still ends, and right."""
    calm = crash_matrix.case(agent, "replay", start="fork")
    calm.run()
    case = crash_matrix.case(agent, "replay", start="fork")
    for at in range(200):
        case.run(Kill(at, "after" if at % 2 else "before"))
        if case.struck is None:
            break
    assert case.exits[-1].code == 0, case.exits[-1].output
    assert len(case.exits) > 20
    check_case(case, calm.directory)


@pytest.mark.parametrize(
    ("agent_name", "signum"),
    [("replay", SIGTERM), ("gather", SIGTERM), ("gather", SIGINT), ("restore", SIGINT)],
)
def test_interrupted_at_every_call(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, signum: int, check_case: Check
) -> None:
    """SIGTERM or Ctrl-C in the middle of any port call: the run can be resumed at once, and nothing is lost."""
    report = crash_matrix.walk(agent, agent_name, check=check_case, start="fork", signum=signum)
    assert report.kills >= 2 * CALLS_MIN[agent_name]
