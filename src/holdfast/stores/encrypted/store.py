"""The store around another one: it seals what goes in and opens what comes out.

It implements ``StorePort``. Above it nothing knows of encryption, and below it no store does. It knows which
verb carries what; how each row is sealed is in the modules beside it. What cannot be opened is treated as
damage, as the port says for each verb.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from holdfast import limits
from holdfast.errors import Corrupt, StoreError
from holdfast.limits import APPEND_SIZE_BYTES_MAX
from holdfast.model.events import Event
from holdfast.model.store_rows import (
    Append,
    Appended,
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
    Refusal,
    Removal,
    RunRow,
    RunSize,
    inbox_space,
)
from holdfast.stores import bounds, row_checksums
from holdfast.stores.encrypted.examine import examine
from holdfast.stores.encrypted.keys import NOTE_CODE_BYTES, StoreKeys, is_blob_name
from holdfast.stores.encrypted.marker import read_keys, rotate
from holdfast.stores.encrypted.owners import Owners
from holdfast.stores.encrypted.seal import NotGenuineError
from holdfast.stores.encrypted.sealed_events import opened, seal_events
from holdfast.stores.encrypted.sealed_records import RecordSeals
from holdfast.stores.encrypted.sealed_rows import open_row, seal_row
from holdfast.stores.encrypted.stored_chains import adopted_batches, replaced, stored_chain

if TYPE_CHECKING:
    from holdfast.stores.encrypted.master_key import MasterKey
    from holdfast.stores.port import StorePort

_new = tuple.__new__


class EncryptedStore:
    """Any store, with all contents sealed by keys that it does not have."""

    is_sealed: bool = True

    def __init__(self, inner: "StorePort", keys: StoreKeys, master: "MasterKey | None" = None) -> None:
        self.inner: Final = inner
        self._master: Final = master
        self._keys: Final = keys
        self._owners: Final = Owners(inner, keys)
        self._records: Final = RecordSeals(keys, self._owners.find)

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def owner(self) -> str:
        return self.inner.owner

    @property
    def owned_by(self) -> str | None:
        return self.inner.owned_by

    @property
    def is_open(self) -> bool:
        """Whether the store can still be used in this process."""
        return bool(getattr(self.inner, "is_open", True))

    def rotate_key(self, new: "MasterKey", *, keeps_old: bool) -> int:
        """Wrap the store's keys by another master key. Returns how many there are. Synced. KeyRefused."""
        assert self._master is not None, "a store without a master key is one of a test"
        count = rotate(self.inner, self._master, new, keeps_old=keeps_old)
        self._keys.learn(read_keys(self.inner, new))
        return count

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow, *, origin_revision: int = 0, synced: bool = True) -> bool:
        bounds.check_run_body(row.run, row.body)
        key = self._keys.new_lineage()
        if row.origin is not None:
            origin = self._owners.read(row.origin)
            if origin is None:
                return self._refuse_fork(row)
            key = origin.key
        body = seal_row(self._keys, key, row, 1)
        sealed = row._replace(body=body)
        return self.inner.create_run(sealed, origin_revision=origin_revision, synced=synced)

    def _refuse_fork(self, row: RunRow) -> bool:
        """False for an origin that does not exist; Corrupt for one that cannot be opened."""
        self.find_run(row.origin or "")
        return False

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        row = self.inner.find_run(run, damaged=damaged)
        if row is None:
            self._owners.forget(run)
            return None
        found = self._open(row)
        return found if damaged else row_checksums.sound(found, self.url)

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        return [self._open(row) for row in self.inner.list_runs(limit=limit, before=before, prefix=prefix)]

    def list_forks(self, run: str, *, after: str = "", limit: int) -> list[RunRow]:
        return [self._open(row) for row in self.inner.list_forks(run, after=after, limit=limit)]

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        bounds.check_run_body(run, body)
        # Read again: under a remembered birth id, the row of a new run of this name could be swapped.
        row = self.inner.find_run(run, damaged=True)
        if row is None or row.revision != revision:
            return False
        owner = open_row(self._keys, row)[1]
        if owner is None:
            row_checksums.sound(self._open(row), self.url)
            return False
        sealed = seal_row(self._keys, owner.key, row._replace(body=body), revision + 1)
        return self.inner.swap_run(run, revision=revision, status=status, body=sealed)

    def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
        bounds.check_removals(removals)
        for removal in removals:
            self._owners.forget(removal.run)
        return self.inner.delete_runs([self._with_stored_keys(removal) for removal in removals])

    def _with_stored_keys(self, removal: Removal) -> Removal:
        stored = self._records.stored_key
        return removal._replace(records=tuple((space, stored(space, key)) for space, key in removal.records))

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        try:
            # A step has one item: no loop is begun for it.
            sealed = (self._seal_item(items[0]),) if len(items) == 1 else [*map(self._seal_item, items)]
            outcomes = self.inner.append(sealed)
        except BaseException:
            for item in items:
                self._owners.forget(item.run)
            raise
        if len(items) == 1 and type(outcomes[0]) is Appended:
            return outcomes
        pairs = zip(items, outcomes, strict=True)
        return [one if isinstance(one, Appended) else self._refused(item, one) for item, one in pairs]

    def _seal_item(self, item: Append) -> Append:
        """The item as the store below gets it. Raises TooLarge; Corrupt for a run whose row is damaged."""
        # Every step comes here. Its chain is remembered before it is written: what is next in the same batch
        # needs it, and it counts only behind a head that is its own.
        run, fence, after_seq, events, blobs, consumed, status, synced, hasty = item
        size = 0
        for event in events:
            size += len(event[6])
        # What sealing adds is allowed below, so the size is checked here; all else is checked there.
        if blobs or size > APPEND_SIZE_BYTES_MAX:
            bounds.check_item(item)
        owner = self._owners.at_fence(run, fence)
        if owner is None or owner.fence != fence:
            self.find_run(run)
            # Refused by the store, in its words; no run has this fence.
            return item._replace(fence=-1, events=(), blobs=(), consumed=(), hasty=False)
        if events:
            end = owner.end
            if end is None or end[0] != after_seq:
                end = after_seq, stored_chain(self.inner, run, after_seq)
            events = seal_events(owner, events, end[1])
            owner.end = events[-1][0], events[-1][8]
        if blobs:
            blobs = tuple(map(self._seal_blob, blobs))
        if consumed:
            space = inbox_space(run)
            consumed = tuple(self._records.stored_key(space, letter) for letter in consumed)
        return _new(Append, (run, fence, after_seq, events, blobs, consumed, status, synced, hasty))

    def _refused(self, item: Append, refusal: Refusal) -> Refusal:
        """The refusal in terms of the plain item. What was remembered of the run may be of another one."""
        self._owners.forget(item.run)
        if not refusal.missing:
            return refusal
        named = {self._keys.blob_name(blob.address): blob.address for blob in item.blobs}
        return refusal._replace(missing=tuple(named.get(name, name) for name in refusal.missing))

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
        stored = self.inner.read_events(
            run, after_seq=after_seq, upto_seq=upto_seq, limit=limit, kinds=kinds, skip=skip
        )
        if not stored:
            return stored
        events, is_sound = opened(self._owners.find(run), stored)
        if not is_sound:  # perhaps there is a new run of that name since
            events, _ = opened(self._owners.read(run), stored)
        return events

    def count_kinds(self, run: str, *, after_seq: int = 0, upto_seq: int = limits.SEQ_MAX) -> dict[str, int]:
        return self.inner.count_kinds(run, after_seq=after_seq, upto_seq=upto_seq)

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
        bounds.check_replacement(run, after_seq, upto_seq, events, blobs)
        owner = self._owners.read(run)
        if owner is None:
            self.find_run(run)
            return False
        owner.end = None
        return self.inner.replace_events(
            run,
            fence=fence,
            revision=revision,
            after_seq=after_seq,
            upto_seq=upto_seq,
            events=replaced(self.inner, owner, after_seq, upto_seq, events),
            blobs=[self._seal_blob(blob) for blob in blobs],
            at=at,
        )

    def adopt_events(self, run: str, *, of: str, fence: int, revision: int) -> bool:
        """See ``StorePort``. The other's events are first sealed for this run, where they are."""
        row, copy = self.find_run(run), self.inner.find_run(of)
        if row is None or (row.lease.fence, row.revision) != (fence, revision):
            return False
        if copy is None or self.inner.list_forks(of, limit=1):
            return False
        assert copy.head == row.head, f"{run} ends at {row.head} and {of} at {copy.head}"
        owner, other = self._owners.read(run), self._owners.read(of)
        assert owner is not None, f"{run} was found"
        copied = copy.revision
        for after_seq, events in adopted_batches(self.inner, row, copy, other, owner):
            if not self.inner.replace_events(
                of,
                fence=copy.lease.fence,
                revision=copied,
                after_seq=after_seq,
                upto_seq=events[-1].seq,
                events=events,
            ):
                return False
            copied += 1
        self._owners.forget(run)
        self._owners.forget(of)
        return self.inner.adopt_events(run, of=of, fence=fence, revision=revision)

    def measure(self, run: str) -> RunSize:
        return self.inner.measure(run)

    def note_call(self, run: str, content: bytes, *, fence: int, after_seq: int) -> None:
        # In clear, as the names of events are, and with a code, so that no forged one counts.
        owner = self._owners.find(run)
        if owner is not None:
            code = owner.key.code_of_note(owner.birth, fence, after_seq, content)
            self.inner.note_call(run, code + content, fence=fence, after_seq=after_seq)

    def find_call_note(self, run: str) -> CallNote | None:
        note, owner = self.inner.find_call_note(run), self._owners.read(run)
        if note is None or owner is None:
            return None
        code, content = note.content[:NOTE_CODE_BYTES], note.content[NOTE_CODE_BYTES:]
        if code != owner.key.code_of_note(owner.birth, note.fence, note.after_seq, content):
            return None
        return note._replace(content=content)

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        bounds.check_blobs(blobs)
        self.inner.put_blobs([self._seal_blob(blob) for blob in blobs], at=at)

    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        names = {self._keys.blob_name(one): one for one in addresses if not is_blob_name(one)}
        found = self.inner.get_blobs(list(names))
        return {names[name]: self._open_blob(names[name], data) for name, data in found.items()}

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        names = [self._keys.blob_name(address) for address in addresses]
        return self.inner.delete_blobs(names, untouched_since=untouched_since)

    def scan_blobs(self, *, after: str = "", limit: int) -> list[BlobInfo]:
        return self.inner.scan_blobs(after=after, limit=limit)

    def blob_name(self, address: str) -> str:
        return self._keys.blob_name(address)

    def _seal_blob(self, blob: Blob) -> Blob:
        name = self._keys.blob_name(blob.address)
        return Blob(name, None if blob.data is None else self._keys.seal_blob(blob.address, blob.data, name))

    def _open_blob(self, address: str, data: bytes) -> bytes:
        try:
            return self._keys.open_blob(address, data)
        except NotGenuineError as error:
            problem = f"blob {address} was not sealed by this store"
            raise Corrupt(store=self.url, problem=problem) from error

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        grant = self.inner.acquire(run, at=at, lease_s=lease_s, over=over, above=above)
        if grant.row is None:
            return grant
        (row,) = self._open_held([grant.row])
        return grant._replace(row=None if row.damage else row)

    def accept_loss(self, run: str) -> int:
        self._owners.forget(run)
        return self.inner.accept_loss(run)

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        return self.inner.renew(fences, at=at)

    def release(self, run: str, *, fence: int) -> bool:
        return self.inner.release(run, fence=fence)

    def probe(self, owner: str) -> Liveness:
        return self.inner.probe(owner)

    # -- the queue for workers -------------------------------------------------------------------------------

    def claim(self, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
        rows = self._open_held(self.inner.claim(agents, at=at, lease_s=lease_s, limit=limit))
        for row in rows:
            if row.damage:
                self.inner.set_due(row.run, fence=row.lease.fence, due_at=None)
                self.inner.release(row.run, fence=row.lease.fence)
        return row_checksums.undamaged(rows, self.url)

    def list_held(self, agents: Sequence[str], *, after: str = "", limit: int) -> list[RunRow]:
        return [self._open(row) for row in self.inner.list_held(agents, after=after, limit=limit)]

    def set_due(self, run: str, *, fence: int, due_at: float | None) -> bool:
        return self.inner.set_due(run, fence=fence, due_at=due_at)

    def call_up(self, run: str, *, at: float) -> bool:
        return self.inner.call_up(run, at=at)

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        record = self.inner.get_record(space, self._records.stored_key(space, key))
        if record is None:
            return None
        found = self._records.open(record)
        if found.damage:
            raise Corrupt(store=self.url, problem=found.damage)
        return found

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        bounds.check_record(space, key, body)
        stored = self._records.stored_key(space, key)

        def put(over: int) -> bool:
            sealed = self._records.seal(space, key, body, over + 1)
            return self.inner.put_record(space, stored, sealed, revision=over, synced=synced)

        if put(revision):
            return True
        if revision:
            return False
        # There is one already; if it cannot be opened, it counts as damaged: as if there were none.
        found = self.inner.get_record(space, stored)
        return found is not None and bool(self._records.open(found).damage) and put(found.revision)

    def scan_records(
        self, space: str, *, after: str = "", prefix: str = "", limit: int, damaged: bool = False
    ) -> list[Record]:
        last = {"": ""}

        def page(behind: str, count: int) -> list[Record]:
            stored = last.get(behind) or self._records.stored_key(space, behind)
            found = self.inner.scan_records(space, after=stored, prefix=prefix, limit=count, damaged=True)
            records = [self._records.open(record) for record in found]
            if found:
                last[records[-1].key] = found[-1].key
            return records

        return row_checksums.scanned(page, after, limit, self.url, damaged=damaged)

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        return self.inner.delete_record(space, self._records.stored_key(space, key), revision=revision)

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        return self.inner.wait(cursors, timeout_s=timeout_s)

    def sync(self) -> None:
        self.inner.sync()

    def reclaim(self, *, thoroughly: bool = False) -> int:
        return self.inner.reclaim(thoroughly=thoroughly)

    def examine(self) -> list[Finding]:
        return examine(self, self.inner)

    def find_index(self, *, makes: bool = True) -> None:  # noqa: ARG002
        return None  # its words would be in clear: searches read everything

    def drop_index(self, *, because: StoreError | None = None) -> bool:  # noqa: ARG002
        return False

    def close(self) -> None:
        self.inner.close()

    # -- helpers ---------------------------------------------------------------------------------------------

    def _open_held(self, rows: list[RunRow]) -> list[RunRow]:
        """Rows that this process has just taken; given back if they need a key that it does not have.

        A rotation may have dropped its master key. It would hold what it cannot do for as long as it lives.
        """
        try:
            return [self._open(row) for row in rows]
        except BaseException:
            for row in rows:
                self.inner.release(row.run, fence=row.lease.fence)
            raise

    def _open(self, row: RunRow) -> RunRow:
        found, owner = open_row(self._keys, row)
        if owner is not None:
            self._owners.note(owner)
        return found
