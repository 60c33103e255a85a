"""An agent with premises, killed at every write: what it noted is there or not, and nobody is stopped by what it did itself."""

from pathlib import Path

from tests.support.sampling import OFTEN

import holdfast
from holdfast.testing.crash_matrix import Case, CrashMatrix

RELYING = Path(__file__).parent / "programs" / "relying.py"


def check(case: Case) -> None:
    """Nothing was found not to hold, and everything that was declared is known, once."""
    store = holdfast.store(case.directory / "holdfast.db")
    try:
        events = store.events("agent")
    finally:
        store.close()
    kinds = [event.kind for event in events]
    assert "premise.broken" not in kinds
    assert [event.name for event in events if event.kind == "premise.noted"] == [
        "file:rates.csv",
        "artifact:report.md",
    ]


def test_killed_at_every_call(crash_matrix: CrashMatrix) -> None:
    """And again while it recovers."""
    report = crash_matrix.walk(RELYING, check=check, start="fork", every=OFTEN, again_every=29)
    assert report.kills >= 20 // OFTEN
