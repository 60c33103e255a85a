"""Killed while the store itself is being made: nobody ever finds a half-made one."""

from pathlib import Path
from signal import SIGKILL

import holdfast
from holdfast.testing.crash_matrix import CrashMatrix

CREATING = Path(__file__).parent / "programs" / "creating.py"


def test_killed_while_the_store_is_made(crash_matrix: CrashMatrix) -> None:
    """Killed before any file operation on the way to a new store, the next start makes it, whole, and works in it."""
    for number in range(100):
        case = crash_matrix.case(CREATING, start="fork")
        (case.directory / "at").write_text(str(number))
        code = case.run().code
        assert code in {0, -SIGKILL}, case.exits[-1].output
        assert case.run().code == 0, f"killed before operation {number}: {case.exits[-1].output}"
        directory = case.directory / "deep" / "er"
        assert sorted(path.name for path in directory.iterdir() if "-new" in path.name) == []
        store = holdfast.store(directory / "store.db")
        assert store.get("run").status == "finished"
        assert {finding.verdict for finding in store.examine()} <= {"ok", "warning"}
        store.close()
        if code == 0:
            break
    assert number >= 8
