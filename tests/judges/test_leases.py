"""Leases and fences under contention: every history must have an order; and defects that were planted must leave none."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.judges.leases import in_processes, in_threads
from tests.support.stores import over_shared_stores

from holdfast.model.store_rows import Append, AppendOutcome, Grant, Lease
from holdfast.stores.in_memory import MemoryStore


@over_shared_stores
def test_processes_that_contend_stop_and_die(shared_url: str, tmp_path: Path) -> None:
    """Over each store that processes share, with stops and kills."""
    counts = in_processes(shared_url, tmp_path, 1, calls=25, troubles=2)
    assert counts["granted"]
    assert counts["appended"]


@pytest.mark.parametrize("seed", range(5))
def test_threads_that_contend(seed: int) -> None:
    """Over memory."""
    counts = in_threads(MemoryStore(uuid4().hex), seed)
    assert counts["granted"]
    assert counts["refused"]


class GrantsTwice(MemoryStore):
    """A takeover that does not compare the beat."""

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        row = self.find_run(run)
        if row is not None and over is not None and over.fence == row.lease.fence:
            over = row.lease
        return super().acquire(run, at=at, lease_s=lease_s, over=over, above=above)


class AcceptsStaleFences(MemoryStore):
    """An append that looks at the head alone."""

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        rows = {item.run: self.find_run(item.run) for item in items}
        return super().append(
            [item._replace(fence=row.lease.fence) if (row := rows[item.run]) else item for item in items]
        )


class RevivesLostLeases(MemoryStore):
    """A beat that takes whatever lease is there for its own."""

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        rows = {run: self.find_run(run) for run in fences}
        return super().renew({run: row.lease.fence for run, row in rows.items() if row}, at=at)


class ForgetsReleases(MemoryStore):
    """A release that answers before it has happened, and never does."""

    def release(self, run: str, *, fence: int) -> bool:
        row = self.find_run(run)
        return row is not None and row.lease.fence == fence and bool(row.lease.owner)


@pytest.mark.parametrize("kind", [GrantsTwice, AcceptsStaleFences, RevivesLostLeases, ForgetsReleases])
def test_a_planted_defect_leaves_no_order(kind: Any) -> None:
    """Found in one of the first histories of 160 calls: how threads take turns is not up to the seed."""
    with pytest.raises(AssertionError, match="no order explains"):
        for seed in range(50):
            in_threads(kind(uuid4().hex), seed)
