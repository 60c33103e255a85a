"""Forks, a fork of a fork and a handoff in a process that is killed by a real SIGKILL, and started again.

``tests/crossings/test_kills.py`` kills every operation by an exception of the store. Here the same is seen without that
simulation, for a handful of operations.
"""

from pathlib import Path

from tests.support.sampling import EVERY

from holdfast.testing.crash_matrix import Case, CrashMatrix

FORKER = Path(__file__).parent / "programs" / "forker.py"
KILLS_MIN = 4


def paid_once(case: Case) -> None:
    """One payment, whatever was forked and handed over."""
    assert len((case.directory / "ledger.txt").read_text().split()) == 1


def test_operations_killed_by_the_system(crash_matrix: CrashMatrix) -> None:
    """Killed before or after a port call and started again, the program pays once, in all branches together."""
    report = crash_matrix.walk(FORKER, check=paid_once, start="fork", every=EVERY)
    assert report.kills >= KILLS_MIN
