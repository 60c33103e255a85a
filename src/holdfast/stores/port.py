"""The port that every store implements and all I/O crosses.

It is small, blocking, thread-safe, bounded and without optional capabilities; ``holdfast.testing`` ships the
suite that a store must pass. A store keeps opaque bytes: it checks fences, heads and revisions, and nothing
else.

Errors: a store maps its driver's errors to ``StoreError``. ``StoreUnavailable`` from a write means that the
outcome is unknown, not that nothing was written.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from holdfast import limits
from holdfast.errors import StoreError
from holdfast.model.events import Event
from holdfast.model.search import Document, Match, Query, Within
from holdfast.model.store_rows import (
    Append,
    AppendOutcome,
    Blob,
    BlobInfo,
    CallNote,
    Cursors,
    Finding,
    Grant,
    Lease,
    Liveness,
    Record,
    Removal,
    RunRow,
    RunSize,
)


class StorePort(Protocol):
    """Everything that the engine needs from a store."""

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
        """The other user who could have written the data here, in words: the owner of these files.

        Empty if the store is this user's own; None if it is shared by design, as on a server.
        """
        ...

    @property
    def is_sealed(self) -> bool:
        """Whether what it is given is encrypted before it is stored."""
        ...

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow, *, origin_revision: int = 0, synced: bool = True) -> bool:
        """Add a run; False if the id is taken.

        ``head``, ``revision`` and ``lease`` of the row are ignored. ``synced`` or else flushed: as durable as
        what the caller appends next.

        A fork is added only if its origin exists and still has this revision, which then grows: of a fork and
        a removal that were decided on the same state of the origin, only the first happens. A run under the
        name of a deleted one starts at a higher fence: a late writer to the old one, or a removal that was
        decided on it, does not fit the new one.
        """
        ...

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        """The run's row, or None. Corrupt, which names the run, if it is not what was written.

        With ``damaged``, the store returns such a row, marked: for a caller that removes it.
        """
        ...

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        """Runs whose id starts with ``prefix``, newest first (then by id, descending), after ``before``.

        Includes damaged rows, marked by ``damage``, so that people see them.
        """
        ...

    def list_forks(self, run: str, *, after: str = "", limit: int) -> list[RunRow]:
        """The forks of this run, in order of id.

        The cost depends on their number, not on that of all runs.
        """
        ...

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        """Replace status and body if the revision is still this one. Synced."""
        ...

    def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
        """Remove each run with its events, its inbox and the named records, or keep it; in order. Synced.

        A run is kept if its fence or revision has changed, if it has a fork, or if ``acquire`` would raise
        AcknowledgedLost for it. No lease is needed, because taking it changes the fence. A run that is kept
        does not keep the others. Each is one transaction, or several are; killed, some of them may be gone.
        A store whose transactions are small may delete records that do not fit right behind the run. At most
        ``limits.REMOVALS_MAX`` runs with ``limits.REMOVED_RECORDS_MAX`` records. Blobs and other records
        stay.
        """
        ...

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """Append each item or refuse it, in order, in one transaction; synced if any item asks for that.

        Only hasty items may be answered before it is known whether they are accepted, and then as accepted.

        Blobs of an item are put or, without data, touched (marked as referenced at the first event's time).
        """
        ...

    def read_events(
        self,
        run: str,
        *,
        after_seq: int = 0,
        upto_seq: int | None = None,
        limit: int,
        kinds: Collection[str] = (),
        skip: int = 0,
    ) -> list[Event]:
        """The run's own events in order of seq, as stored.

        A page that is shorter than ``limit`` is the last. With ``kinds``, only events of these kinds, without
        the first ``skip`` of them: the others are not brought.
        """
        ...

    def count_kinds(self, run: str, *, after_seq: int = 0, upto_seq: int = limits.SEQ_MAX) -> dict[str, int]:
        """How many own events of each kind the run has there, as stored. No event is brought."""
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
        """Replace the run's own events in (after_seq, upto_seq] by these; the last one is at upto_seq.

        Only if fence and revision are unchanged, and every blob without data exists; the revision grows by
        one and the head stays. Blobs are put or touched at ``at``, or at the last event's time if that is
        later. At most as many events and bytes as in one append. One transaction, synced.
        """
        ...

    def adopt_events(self, run: str, *, of: str, fence: int, revision: int) -> bool:
        """Take another run's events and origin in place of the run's own.

        The other one is deleted, with its inbox.

        Only if fence and revision are unchanged, the other exists, and it has no fork. Both end at the same
        seq. All else about the run stays; its revision grows by one. One transaction, synced.
        """
        ...

    def measure(self, run: str) -> RunSize:
        """How many events of its own the run has, and the bytes of their bodies; zero for an unknown run."""
        ...

    def note_call(self, run: str, content: bytes, *, fence: int, after_seq: int) -> None:
        """Note, in place of an earlier note, which call the run's holder makes behind this event.

        For a call whose intent is not written yet, so that a crash report can name it. It may cost no request
        and no sync: a store that has no such place keeps nothing, and so does one that could not write. Run
        and content have at most ``limits.CALL_NOTE_BYTES_MAX`` bytes together.
        """
        ...

    def find_call_note(self, run: str) -> CallNote | None:
        """The note that was written behind the present head of this run, by a writer that is not older.

        None if there is none, and for what is torn or of another run of this name.
        """
        ...

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        """Store each content under its address, or touch it if it exists. Synced."""
        ...

    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """The existing contents; missing addresses are absent from the answer."""
        ...

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        """Delete those not put or touched at or after that time; returns the number deleted.

        By their addresses, or by their names as ``scan_blobs`` lists them.
        """
        ...

    def scan_blobs(self, *, after: str = "", limit: int) -> list[BlobInfo]:
        """The stored blobs, in order of name, without their contents; each with its name as its address."""
        ...

    def blob_name(self, address: str) -> str:
        """What ``scan_blobs`` lists a content as: its address, unless the store hides addresses."""
        ...

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        """Take the lease under a new fence if it is free, or if ``over`` is still the current lease.

        It is the same lease if fence and beat are equal. The new fence is higher than the run's last one and
        than ``above``: events from other stores have fences too. If refused, the answer is the current lease.
        For a run that does not exist: refused with an empty lease. The lease survives what its holder can
        survive: a server syncs it. A store whose every request costs should
        return the row with the grant: a holder reads it next.
        """
        ...

    def accept_loss(self, run: str) -> int:
        """Continue a run whose ``acquire`` raises AcknowledgedLost; returns how many events are missing.

        0 if none are, and for a store that keeps no acknowledged heads outside of its journals.
        """
        ...

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        """Heartbeat for these runs; returns those that are no longer held under that fence. Flushed."""
        ...

    def release(self, run: str, *, fence: int) -> bool:
        """Release the lease if it is still held under this fence; the fence number stays. Flushed."""
        ...

    def probe(self, owner: str) -> Liveness:
        """Whether the process of an owner lives: only what can be proven."""
        ...

    # -- the queue for workers -------------------------------------------------------------------------------

    def claim(self, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
        """Take the leases of due and unheld runs of these agents, the longest due first.

        A damaged row is skipped and made not due. The returned rows have the new leases, each under a new
        fence. No other claimer gets the same run; concurrent claimers neither wait nor are refused: they get
        other runs. Synced.
        """
        ...

    def list_held(self, agents: Sequence[str], *, after: str = "", limit: int) -> list[RunRow]:
        """Held runs of these agents, in order of id."""
        ...

    def set_due(self, run: str, *, fence: int, due_at: float | None) -> bool:
        """Set when the run is due after its release, if it is still held under this fence. Synced."""
        ...

    def call_up(self, run: str, *, at: float) -> bool:
        """Make an agent's run due at this time, unless it is due earlier, held or not; False if unknown.

        Synced.
        """
        ...

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        """The record, or None. Raises Corrupt with its key if it fails its checksum."""
        ...

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        """Write if the stored revision is this one; 0 means that there is none yet, or a damaged one."""
        ...

    def scan_records(
        self, space: str, *, after: str = "", prefix: str = "", limit: int, damaged: bool = False
    ) -> list[Record]:
        """Records of a space in order of key. A damaged one is skipped, and named in the log.

        With ``damaged``, damaged ones are included and marked: for callers that count or delete them.
        """
        ...

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        """Delete if the stored revision is this one. Synced."""
        ...

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        """Block until some run has changed since its cursor; returns those runs, or none at the timeout."""
        ...

    def sync(self) -> None:
        """Make flushed records survive power loss now. Cheap if there is nothing to do."""
        ...

    def reclaim(self, *, thoroughly: bool = False) -> int:
        """Return unused space to the file system; returns by how many bytes the store shrank.

        ``thoroughly`` also rewrites what is used, so that nothing deleted is left in the store's files: that
        takes time and memory in proportion to the store, and writers wait for it. Concurrent readers keep
        their snapshot, and a reader that does not end keeps the old bytes alive: then StoreBusy, and calling
        it again continues.
        """
        ...

    def examine(self) -> list[Finding]:
        """The findings of a self-check, for people."""
        ...

    def find_index(self, *, makes: bool = True) -> "IndexPort | None":
        """The search index; a missing or damaged one is created, unless ``makes`` is off.

        None if the store has no index, or it cannot be opened: then searches read everything. With ``makes``
        off, a damaged one raises.
        """
        ...

    def drop_index(self, *, because: StoreError | None = None) -> bool:
        """Delete the search index.

        The next caller of ``find_index`` creates a new one, also in other processes.

        With ``because``, an error of one of its methods, only if it reports damage, and only the index that
        raised it. Returns whether it is gone.
        """
        ...

    def close(self) -> None:
        """Release everything; idempotent. Later calls raise ``HandleClosed``."""
        ...


class IndexPort(Protocol):
    """The search index of a store's facts and events: the second port. An index can be deleted at any time.

    All of it is derived from the store. It may be behind or ahead of the store, but never blocks it: the
    caller checks each match against the store. ``space`` is one of ``model.search.SPACES``.
    """

    def put(
        self,
        space: str,
        documents: Sequence[Document],
        *,
        notes: Mapping[str, str] | None = None,
        synced: bool = False,
    ) -> None:
        """Store each document beside others of its key, replacing one of its version; and the notes.

        One transaction.
        """
        ...

    def drop(self, space: str, key: str, *, but: str = "") -> None:
        """Remove the documents of a key, except that of this version."""
        ...

    def drop_under(self, space: str, *prefixes: str, notes: Sequence[str] = ()) -> None:
        """Remove all documents with these key prefixes, and these notes: one transaction, synced.

        Their bytes are gone from the files when the store has been reclaimed thoroughly.
        """
        ...

    def touch(self, space: str, key: str, *, at: float, uses: int) -> None:
        """Record a use of a document."""
        ...

    def find_words(self, space: str, query: Query, within: Within, *, limit: int) -> list[Match]:
        """The documents with any of the terms and all of the phrases, ranked by BM25; best first."""
        ...

    def find_near(
        self, space: str, vector: bytes, model: str, within: Within, *, limit: int, also: Sequence[str] = ()
    ) -> list[Match]:
        """The nearest to a vector by cosine, best first.

        The newest of its model, and the keys in ``also``.
        """
        ...

    def count(self, space: str, model: str | None = None) -> int:
        """How many documents there are; with a model, how many have a vector of it."""
        ...

    def get_notes(self, prefix: str = "") -> dict[str, str]:
        """The notes with this name prefix."""
        ...

    def clear(self, space: str) -> None:
        """Remove everything in a space, and the notes that start with its name. Synced."""
        ...

    def is_in_place(self) -> bool:
        """Whether it is still the store's index: another process may have replaced it."""
        ...

    def check(self) -> None:
        """Check its complete structure. Raises Corrupt."""
        ...
