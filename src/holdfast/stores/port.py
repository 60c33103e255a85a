"""The port that every store implements and all I/O crosses.

It is small, blocking, thread-safe, bounded and without optional capabilities; ``holdfast.testing`` ships the
suite that a store must pass. A store keeps opaque bytes: it checks fences, heads and revisions, and nothing else.

Errors: a store maps its driver's errors to ``StoreError``s. ``StoreUnavailable`` from a write means that the
outcome is unknown, not that nothing was written.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.errors import StoreError
from holdfast.model.events import Event
from holdfast.model.search import Document, Match, Query, Within
from holdfast.model.store_rows import (
    Append,
    AppendOutcome,
    Blob,
    BlobInfo,
    Cursors,
    Finding,
    Grant,
    Lease,
    Liveness,
    Record,
    RunRow,
    RunSize,
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

    @property
    def owned_by(self) -> str | None:
        """Who else could have put here whatever is read: the other user whose files these are, in words.

        Empty where the store is this user's own; None where it is shared by design, as a server's is.
        """
        ...

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow, *, origin_revision: int = 0) -> bool:
        """Add a run; False when the id is taken. ``head``, ``revision`` and ``lease`` of the row are ignored. Synced.

        A fork is added only if its origin is there and its revision is still this one, and that revision grows with it:
        of a fork and a removal that were decided on the same state of the origin, only the first happens. A run under
        the name of a deleted one begins at no lower fence, so that a late writer to the old one stays fenced off.
        """
        ...

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        """The run's row, or None. Corrupt, which names the run, if it is not what was written.

        With ``damaged``, such a row is given, marked: for whoever takes it away.
        """
        ...

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        """Runs whose id starts with ``prefix``, newest first (then by id, descending), after ``before``.

        A row that is not what was written is among them, marked by its ``damage``, so that people see it.
        """
        ...

    def list_forks(self, run: str, *, after: str = "", limit: int) -> list[RunRow]:
        """The runs that were forked from this one, in order of id. Costs what they are, however many runs there are."""
        ...

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        """Replace status and body if the revision is still this one. Synced."""
        ...

    def delete_run(self, run: str, *, fence: int, revision: int) -> bool:
        """Remove the run with its events and inbox if fence and revision are still these and no run is a fork of it.

        One transaction, synced. Blobs and other records stay.
        """
        ...

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """Append each item or refuse it, in order, in one transaction; synced if any item asks for that.

        Only hasty items may be answered before it is known whether they are taken, and then as taken.

        Blobs of an item are put or, without data, touched (marked as referenced at the first event's time).
        """
        ...

    def read_events(
        self, run: str, *, after_seq: int = 0, upto_seq: int | None = None, limit: int
    ) -> list[Event]:
        """The run's own events in order of seq, as stored; a page that is shorter than ``limit`` is the last."""
        ...

    def replace_events(
        self,
        run: str,
        *,
        fence: int,
        revision: int,
        after_seq: int,
        upto_seq: int,
        events: Sequence[Event],
        blobs: Sequence[Blob] = (),
        at: float = 0.0,
    ) -> bool:
        """Put these in the place of the run's own events in (after_seq, upto_seq]; the last one stands at upto_seq.

        Only if fence and revision are still these, and every blob without data is there; the revision grows by one and
        the head stays. Blobs are put or touched at ``at``, or at the last event's time where that is later. At most as
        many events and bytes as in one append. One transaction, synced.
        """
        ...

    def adopt_events(self, run: str, *, of: str, fence: int, revision: int) -> bool:
        """Take another run's events and origin in place of the run's own; the other one is gone, with its inbox.

        Only if fence and revision are still these, the other is there, and no run is a fork of it. Both end at the
        same seq. All else about the run stays; its revision grows by one. One transaction, synced.
        """
        ...

    def measure(self, run: str) -> RunSize:
        """How many events of its own the run has, and the bytes of their bodies; of an unknown run, none."""
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

    def scan_blobs(self, *, after: str = "", limit: int) -> list[BlobInfo]:
        """What is kept, in order of address, without the contents."""
        ...

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        """Take the lease under a new fence if nobody holds it, or if ``over`` is still the very lease (fence, beat).

        The fence is higher than the run's before, and than ``above``: events that were written elsewhere have fences, too.
        Refused, the answer is the lease that stands. A run that does not exist: refused with an empty lease.
        """
        ...

    def accept_loss(self, run: str) -> int:
        """Go on with what is left of a run whose acquiring raises AcknowledgedLost; how many events are missed.

        0 where none are, and on a store that keeps nothing outside of its journals to miss them by.
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

    # -- the queue: what workers are to do ----------------------------------------------------------------------

    def claim(self, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
        """Take the leases of runs of these agents that are due and that nobody holds, the longest due first.

        A row that is not what was written is left alone, and is not due any more.
        The rows show the leases, each under a new fence. Nobody else gets the same run, and whoever claims at the same
        time is neither waited for nor refused: it gets others. Synced.
        """
        ...

    def list_held(self, agents: Sequence[str], *, after: str = "", limit: int) -> list[RunRow]:
        """Runs of these agents that somebody holds, in order of id."""
        ...

    def set_due(self, run: str, *, fence: int, due_at: float | None) -> bool:
        """Say when the run is due once it is let go, if it is still held under this fence. Synced."""
        ...

    def call_up(self, run: str, *, at: float) -> bool:
        """Make an agent's run due at this time, unless it is due earlier, held or not; False where there is none. Synced."""
        ...

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        """The record, or None. Corrupt, which names it, if it is not what was written."""
        ...

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        """Write if the stored revision is this one; 0 means that there must be none yet, or one that is damaged."""
        ...

    def scan_records(
        self, space: str, *, after: str = "", prefix: str = "", limit: int, damaged: bool = False
    ) -> list[Record]:
        """Records of a space in order of key. One that is not what was written is left out, and named in the log.

        With ``damaged``, such ones are among them, marked: for whoever counts, or takes them away.
        """
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

    def reclaim(self, *, thoroughly: bool = False) -> int:
        """Give space that is not used any more back to the file system; by how many bytes the store shrank.

        ``thoroughly`` also rewrites what is used, so that nothing deleted is left in the store's files: that takes time
        and memory in proportion to the store, and writers wait for it. Whoever reads meanwhile keeps what they see, and
        a reader that does not end keeps the old bytes alive: then StoreBusy, and calling it again goes on.
        """
        ...

    def examine(self) -> list[Finding]:
        """What is sound and what is not, for people."""
        ...

    def find_index(self, *, makes: bool = True) -> "IndexPort | None":
        """What things in this store are found by; where there is none, or a damaged one, it is made, unless ``makes`` is off.

        None where it has no such part, or it cannot be had: then things are looked through. With ``makes`` off, a damaged one raises.
        """
        ...

    def drop_index(self, *, because: StoreError | None = None) -> bool:
        """Throw away what things are found by: whoever next asks for it makes it anew, also those who have it open.

        With ``because``, what one of its verbs raised, only if that tells of damage, and only the one that raised it. Whether it is gone.
        """
        ...

    def close(self) -> None:
        """Let go of everything; idempotent. Later calls raise ``HandleClosed``."""
        ...


class IndexPort(Protocol):
    """What a store's facts and events are found by: the second port, and one that can be dropped.

    All of it is derived from what the store keeps. It may be behind or ahead of that, never in the way of it: whoever is
    given a match looks up whether it is still so. ``space`` is one of ``model.search.SPACES``.
    """

    def put(
        self,
        space: str,
        documents: Sequence[Document],
        *,
        notes: Mapping[str, str] | None = None,
        synced: bool = False,
    ) -> None:
        """Keep each document beside others of its key, in place of one of its version; and note this. One transaction."""
        ...

    def drop(self, space: str, key: str, *, but: str = "") -> None:
        """Let the documents of a key go, but not that of this version."""
        ...

    def drop_under(self, space: str, prefix: str, *, note: str = "") -> None:
        """Let go of all whose key begins like this, and of this note: one transaction, synced.

        What is left of them in the files is gone when the store has reclaimed its space thoroughly.
        """
        ...

    def touch(self, space: str, key: str, *, at: float, uses: int) -> None:
        """Say that something was of use."""
        ...

    def find_words(self, space: str, query: Query, within: Within, *, limit: int) -> list[Match]:
        """The documents with any of the terms, and all of the phrases, that fit best by BM25; best first."""
        ...

    def find_near(
        self, space: str, vector: bytes, model: str, within: Within, *, limit: int, also: Sequence[str] = ()
    ) -> list[Match]:
        """Those nearest to a vector among the newest of its model, best first, and those of the keys ``also``, by cosine."""
        ...

    def count(self, space: str, model: str | None = None) -> int:
        """How many documents there are; with a model, how many have a vector of it."""
        ...

    def get_notes(self, prefix: str = "") -> dict[str, str]:
        """The notes whose names begin like this."""
        ...

    def clear(self, space: str) -> None:
        """Let go of everything in a space, and of the notes that begin with its name. Synced."""
        ...

    def is_in_place(self) -> bool:
        """Whether it is still the store's: somebody may have thrown it away, and another one may have been made."""
        ...

    def check(self) -> None:
        """Look at all of its structure. Corrupt, where that is damaged."""
        ...
