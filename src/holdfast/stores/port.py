"""The port that every store implements and all I/O crosses.

It is small, blocking, thread-safe, bounded and without optional capabilities; ``holdfast.testing`` ships the
suite that a store must pass. A store keeps opaque bytes: it checks fences, heads and revisions, and nothing else.

Errors: a store maps its driver's errors to ``StoreError``s. ``StoreUnavailable`` from a write means that the
outcome is unknown, not that nothing was written.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.model.events import Event
from holdfast.model.rows import (
    Append,
    AppendOutcome,
    Blob,
    Cursors,
    Finding,
    Grant,
    Lease,
    Liveness,
    Record,
    RunRow,
)


class StorePort(Protocol):
    """All that the engine asks of a place where bytes live."""

    @property
    def url(self) -> str:
        """The store's URL, for people and for opening it again."""
        ...

    @property
    def owner(self) -> str:
        """This process as a lease holder of this store; others can ``probe`` it."""
        ...

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow) -> bool:
        """Add a run; False when the id is taken. ``head``, ``revision`` and ``lease`` of the row are ignored. Synced."""
        ...

    def find_run(self, run: str) -> RunRow | None:
        """The run's row, or None."""
        ...

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        """Runs whose id starts with ``prefix``, newest first (then by id, descending), after ``before``."""
        ...

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        """Replace status and body if the revision is still this one. Synced."""
        ...

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """Append each item or refuse it, in order, in one transaction; synced if any item asks for that.

        Blobs of an item are put or, without data, touched (marked as referenced at the first event's time).
        """
        ...

    def read_events(
        self, run: str, *, after_seq: int = 0, upto_seq: int | None = None, limit: int
    ) -> list[Event]:
        """The run's own events in order of seq, as stored; a page that is shorter than ``limit`` is the last."""
        ...

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        """Keep each content under its address, or touch it where it is kept already. Synced."""
        ...

    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """The contents that are there; an absent address is absent from the answer."""
        ...

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        """Delete those not put or touched at or after that time; the number deleted."""
        ...

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(self, run: str, *, at: float, lease_s: float, over: Lease | None = None) -> Grant:
        """Take the lease under a new fence if nobody holds it, or if ``over`` is still the very lease (fence, beat).

        Refused, the answer is the lease that stands. A run that does not exist: refused with an empty lease.
        """
        ...

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        """Beat for these runs; the answer is those that are not held under that fence any more. Flushed."""
        ...

    def release(self, run: str, *, fence: int) -> bool:
        """Let the lease go if it is still held under this fence; the fence number stays. Flushed."""
        ...

    def probe(self, owner: str) -> Liveness:
        """Whether the process behind an owner lives: only what can be proven."""
        ...

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        """The record, or None."""
        ...

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        """Write if the stored revision is this one; 0 means that there must be none yet."""
        ...

    def scan_records(self, space: str, *, after: str = "", prefix: str = "", limit: int) -> list[Record]:
        """Records of a space in order of key."""
        ...

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        """Delete if the stored revision is this one. Synced."""
        ...

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        """Block until some run stands elsewhere than its cursor says; the runs that do, or none at the timeout."""
        ...

    def sync(self) -> None:
        """Make what was flushed survive power loss now. Cheap when there is nothing to do."""
        ...

    def examine(self) -> list[Finding]:
        """What is sound and what is not, for people."""
        ...

    def close(self) -> None:
        """Let go of everything; idempotent. Later calls raise ``HandleClosed``."""
        ...
