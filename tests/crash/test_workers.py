"""A run in the queue, its child and their worker, killed before and after every port call from submit to the end.

The program serves with one place, so that the claiming thread and the run's take turns: the k-th call is the same one in
every case, but for a look for work more or less while the program turns to its worker. The matrix goes on until three
kills in a row find nothing left to strike.

Planted once in a copy, and caught here: an ended child whose worker died before it could tell its parent, and whose next
holder does not do so either.
"""

import json
from collections import Counter
from pathlib import Path

from tests.support.sampling import EVERY

from holdfast.testing.crash_matrix import Case, CrashMatrix

QUEUED = Path(__file__).parent / "programs" / "queued.py"
RUNS = ("agent", "agent/part")


def check(case: Case) -> None:
    """All finished; each payment made once, each wait waited once; nothing held, nothing due, no letter left."""
    ledger = [json.loads(line)["whom"] for line in (case.directory / "ledger").read_text().splitlines()]
    assert sorted(ledger) == ["ada", "bob"]
    port = case.store._port
    for run in RUNS:
        row = port.find_run(run)
        assert row is not None
        assert (row.status, row.due_at, row.lease.owner) == ("finished", None, ""), row
        assert port.scan_records(f"inbox/{run}", limit=10) == []
        kinds = Counter((event.kind, event.key) for event in case.store.events(run))
        once = {
            "run.started",
            "run.finished",
            "step.finished",
            "wait.started",
            "wait.ended",
            "question.answered",
        }
        assert {pair: n for pair, n in kinds.items() if pair[0] in once and n > 1} == {}
        ended = sum(n for (kind, _), n in kinds.items() if kind in {"attempt.ended", "attempt.crashed"})
        started = sum(n for (kind, _), n in kinds.items() if kind == "attempt.started")
        assert started - ended <= 1


def test_killed_anywhere_between_submit_and_the_end(crash_matrix: CrashMatrix) -> None:
    """Whoever comes next finds the run in the queue, or held by the dead, and it ends as if nothing had happened."""
    report = crash_matrix.walk(
        QUEUED,
        check=check,
        start="fork",
        every=EVERY,
        again_every=2999 if EVERY == 1 else 1499,
        preload=["holdfast.api.worker"],
    )
    assert report.calls >= 100
    assert report.pairs >= (10 if EVERY == 1 else 4)
