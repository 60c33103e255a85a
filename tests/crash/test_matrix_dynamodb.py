"""The agents of the matrix, killed over DynamoDB: a port call is several requests there, and what remains is on a server.

A start costs fifty times what it costs over a file, so a walk strikes at every n-th place. What a call of several requests
leaves when it is killed between two of them is in ``test_dynamodb_steps.py``.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.sampling import OFTEN
from tests.support.stores import over_dynamodb

from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill
from holdfast.testing.killing_store import WHENS

Check = Callable[..., None]
Settle = Callable[[Case], bool]

WARM = ("tests.support.aws.preload",)


pytestmark = over_dynamodb


@pytest.mark.parametrize(("agent_name", "every", "kills_min"), [("replay", 9, 10), ("many", 11, 6)])
def test_killed_at_calls_all_along(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, every: int, kills_min: int, check_case: Check
) -> None:
    """Killed before or after a port call, an agent run again ends as if nothing had happened; at once, since a process
    that died on this machine is known to be dead."""
    sparser = min(OFTEN, 2)
    report = crash_matrix.walk(
        agent, agent_name, check=check_case, start="fork", preload=WARM, every=sparser * every
    )
    assert report.kills >= kills_min // sparser


def test_without_verify_a_person_is_asked(
    crash_matrix: CrashMatrix, agent: Path, check_case: Check, ask_person: Settle
) -> None:
    """A once effect that nobody can verify stops the run as in doubt, and goes on as a person said."""
    stops = 0

    def settle(case: Case) -> bool:
        nonlocal stops
        stops += 1
        return ask_person(case)

    crash_matrix.walk(
        agent, "unverified", check=check_case, settle=settle, start="fork", preload=WARM, every=3
    )
    assert stops >= 1


@pytest.mark.parametrize("agent_name", ["restore", "gather"])
def test_crash_after_crash_after_crash(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, check_case: Check
) -> None:
    """Dozens of attempts in a row, each killed a call further than the last: the run still ends, and right."""
    calm = crash_matrix.case(agent, agent_name, start="fork", preload=WARM)
    assert calm.run().code == 0, calm.exits[-1].output
    case = crash_matrix.case(agent, agent_name, start="fork", preload=WARM)
    for at in range(500):
        case.run(Kill(at, WHENS[at % 2]))
        if case.struck is None:
            break
    assert case.exits[-1].code == 0, case.exits[-1].output
    assert len(case.exits) >= 9
    check_case(case, calm.directory)
