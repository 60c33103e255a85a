"""Agents killed before and after every port call, and again while they recover.

The invariants are in ``conftest.py``: acknowledged ⊆ durable, intent before call, nothing finished repeated, each once
effect exactly once in the end, the end of every attempt recorded; and the matrix itself compares each run's result
with the undisturbed one. The outside is judged by files and by bare SQL, not by Holdfast.

Planted once in a copy, and caught here: a last batch that is acknowledged and held back until the next one (lost
acknowledgements); the intent recorded after the call (ran without an intent; paid twice); blobs left out of the append
that refers to them; a recorded outcome not given to the program (started again after its end); over a server, the intent of an effect
that is kept back until its outcome is sent (ran without an intent).
"""

from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, SIGTERM

import pytest
from tests.crash.tables import bare_tables
from tests.support.sampling import EVERY, OFTEN
from tests.support.stores import over_postgresql

from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill
from holdfast.testing.killing_store import WHENS

Check = Callable[..., None]
Settle = Callable[[Case], bool]

PRELOAD = ("holdfast.stores.postgres", "psycopg")
CALLS_MIN = {"replay": 40, "restore": 28, "autosave": 28, "gather": 24, "threads": 15, "many": 15}
"""Fewer port calls than this, and the program did not do what it is there for. How many commits tasks share varies a little."""
CLOSELY = {"replay"}
"""Struck at every fourth place; the others at every eighth one, unless ``make crash`` asks for each."""


@pytest.mark.parametrize(
    ("agent_name", "every"),
    [("replay", 131), ("restore", 97), ("autosave", 97), ("gather", 131), ("threads", 61), ("many", 197)],
)
def test_killed_at_every_call_and_again_while_recovering(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, every: int, check_case: Check
) -> None:
    """Killed before or after any port call, an agent run again ends as if nothing had happened.

    And so it does if the recovery is killed too. All pairs would be thousands: each first kill gets every n-th of the
    kills in its recovery, beginning one further than the kill before it, so that every place comes to be hit.
    """
    stride = min(OFTEN, 4) if agent_name in CLOSELY else OFTEN
    report = crash_matrix.walk(
        agent, agent_name, check=check_case, start="fork", every=stride, again_every=every
    )
    assert report.kills >= 2 * CALLS_MIN[agent_name] // stride
    assert report.pairs >= 20 // stride


@over_postgresql
@pytest.mark.parametrize(("agent_name", "every"), [("replay", 997), ("threads", 211)])
def test_killed_at_every_call_over_a_server(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, every: int, check_case: Check
) -> None:
    """The same, where what was sent and not answered is in the hands of a server that lives on. Fewer pairs: a case costs more."""
    report = crash_matrix.walk(
        agent, agent_name, check=check_case, start="fork", preload=PRELOAD, every=EVERY, again_every=every
    )
    assert report.kills >= 2 * (CALLS_MIN[agent_name] // EVERY)
    assert report.pairs >= 24 // EVERY


@over_postgresql
@pytest.mark.parametrize("agent_name", ["restore", "gather", "many"])
def test_crash_after_crash_over_a_server(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, check_case: Check
) -> None:
    """Each attempt killed a call further than the last, with checkpoints, tasks side by side, and many runs in one loop."""
    calm = crash_matrix.case(agent, agent_name, start="fork", preload=PRELOAD)
    assert calm.run().code == 0
    case = crash_matrix.case(agent, agent_name, start="fork", preload=PRELOAD)
    check_case(until_it_survives(case, CALLS_MIN[agent_name]), calm.directory)


def test_without_verify_a_person_is_asked(
    crash_matrix: CrashMatrix, agent: Path, check_case: Check, ask_person: Settle
) -> None:
    """A once effect that nobody can verify stops the run as in doubt, and goes on as a person said; killed twice too."""
    stops = 0

    def settle(case: Case) -> bool:
        nonlocal stops
        stops += 1
        return ask_person(case)

    crash_matrix.walk(
        agent,
        "unverified",
        check=check_case,
        settle=settle,
        start="fork",
        again_every=31,
    )
    # Two once calls, each with a window from behind the intent to before the outcome. One place in two could miss both.
    assert stops >= 4


@pytest.mark.parametrize("options", [(), ("snapshots",)], ids=["plain", "snapshots"])
@pytest.mark.parametrize("agent_name", ["replay", "restore", "autosave", "gather", "threads", "many"])
def test_crash_after_crash_after_crash(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, options: tuple[str, ...], check_case: Check
) -> None:
    """Dozens of attempts in a row, each killed a call further than the last: the run still ends, and right.

    With snapshots (after every few events, in many chunks) each attempt enters by the cache that a killed one left.
    """
    calm = crash_matrix.case(agent, agent_name, start="fork")
    assert calm.run().code == 0
    case = crash_matrix.case(agent, agent_name, *options, start="fork")
    check_case(until_it_survives(case, CALLS_MIN[agent_name]), calm.directory)
    with bare_tables(case.url) as tables:
        assert len(tables.record_keys("snapshots")) >= bool(options)


def until_it_survives(case: Case, calls_min: int) -> Case:
    """Started again and again, each time to be killed a call further."""
    for at in range(500):
        case.run(Kill(at, WHENS[at % 2]))
        if case.struck is None:
            break
    assert case.exits[-1].code == 0, case.exits[-1].output
    assert len(case.exits) >= calls_min // 3
    return case


@pytest.mark.parametrize(
    ("agent_name", "signum"),
    [("replay", SIGTERM), ("many", SIGTERM), ("gather", SIGINT)],
)
def test_interrupted_at_every_call(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, signum: int, check_case: Check
) -> None:
    """SIGTERM or Ctrl-C in the middle of any port call: the run can be resumed at once, and nothing is lost."""
    report = crash_matrix.walk(agent, agent_name, check=check_case, start="fork", every=OFTEN, signum=signum)
    assert report.kills >= 2 * CALLS_MIN[agent_name] // OFTEN
