"""The port's methods over one DynamoDB table; each calls the module of its subject.

The invariant: a method decides in one transaction, and what the service acknowledged is durable.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from holdfast import limits
from holdfast.errors import StoreError
from holdfast.model.events import Event
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
from holdfast.stores import bounds, row_checksums, server_owners
from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.doctor import examined
from holdfast.stores.dynamodb.table import run_item
from holdfast.stores.dynamodb.table.table import Table
from holdfast.stores.dynamodb.verbs import blobs as blobs_
from holdfast.stores.dynamodb.verbs import (
    events as logs,
)
from holdfast.stores.dynamodb.verbs import (
    leases,
    queue,
    records,
    remove,
)
from holdfast.stores.dynamodb.verbs import (
    list_runs as listing,
)
from holdfast.stores.dynamodb.verbs.append import Appender
from holdfast.stores.dynamodb.verbs.runs import create_run, swap_run
from holdfast.stores.dynamodb.verbs.sweep import sweep_all, sweep_voids
from holdfast.stores.dynamodb.verbs.wait import Waiter


class DynamoStore:
    """A store in one table, which must exist (``create_table`` makes it). Implements ``StorePort``."""

    is_sealed: bool = False

    def __init__(self, target: Target) -> None:
        self._table: Final = Table(target)
        self._appender: Final = Appender(self._table)
        self._waiter: Final = Waiter(self._table)
        self._owner: Final = server_owners.owner_here()

    @property
    def url(self) -> str:
        return self._table.target.url

    @property
    def owner(self) -> str:
        return self._owner

    @property
    def owned_by(self) -> str | None:
        return None

    @property
    def is_open(self) -> bool:
        """Whether this handle can still be used in this process."""
        return self._table.is_open

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow, *, origin_revision: int = 0, synced: bool = True) -> bool:
        del synced
        bounds.check_run_body(row.run, row.body)
        return create_run(self._table, row, origin_revision)

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        found = run_item.find_row(self._table, run)
        return found if found is None or damaged else row_checksums.sound(found, self.url)

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        bounds.check_page("runs", limit, limits.RUN_PAGE_MAX)
        return listing.list_runs(self._table, limit=limit, before=before, prefix=prefix)

    def list_forks(self, run: str, *, after: str = "", limit: int) -> list[RunRow]:
        bounds.check_page("forks", limit, limits.RUN_PAGE_MAX)
        return listing.list_forks(self._table, run, after=after, limit=limit)

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        bounds.check_run_body(run, body)
        return swap_run(self._table, run, revision, status, body)

    def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
        bounds.check_removals(removals)
        self._table.check()
        return [remove.delete_run(self._table, removal) for removal in removals]

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        bounds.check_items(items)
        self._table.check()
        return self._appender.append(items)

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
        bounds.check_page("events", limit, limits.EVENT_PAGE_MAX)
        bounds.check_skip(kinds, skip)
        return logs.read_page(self._table, run, after_seq, upto_seq, limit, kinds, skip)

    def count_kinds(self, run: str, *, after_seq: int = 0, upto_seq: int = limits.SEQ_MAX) -> dict[str, int]:
        return logs.count_kinds(self._table, run, after_seq, upto_seq)

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
        stretch = remove.Stretch(run, fence, revision, after_seq, upto_seq)
        return remove.replace_events(self._table, stretch, events, blobs, max(at, events[-1].at))

    def adopt_events(self, run: str, *, of: str, fence: int, revision: int) -> bool:
        return remove.adopt_events(self._table, run, of, fence, revision)

    def measure(self, run: str) -> RunSize:
        return logs.measured(self._table, run)

    def note_call(self, run: str, content: bytes, *, fence: int, after_seq: int) -> None:
        """Nothing: each place on the server would cost a request."""

    def find_call_note(self, run: str) -> CallNote | None:  # noqa: ARG002 - there are none
        self._table.check()
        return None

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        bounds.check_blobs(blobs)
        self._table.check()
        for blob in blobs:
            assert blob.data is not None, f"blob {blob.address} is put without content"
        blobs_.keep_blobs(self._table, blobs_.wanted(blobs), at)

    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        self._table.check()
        return blobs_.get_blobs(self._table, addresses)

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        self._table.check()
        return blobs_.delete_blobs(self._table, addresses, untouched_since)

    def scan_blobs(self, *, after: str = "", limit: int) -> list[BlobInfo]:
        bounds.check_page("blobs", limit, limits.BLOB_PAGE_MAX)
        return list(islice(blobs_.scan_blobs(self._table, after, limit), limit))

    def blob_name(self, address: str) -> str:
        return address

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        return leases.acquire(self._table, run, at=at, lease_s=lease_s, over=over, above=above)

    def accept_loss(self, run: str) -> int:  # noqa: ARG002 - the service answers for what it acknowledged
        self._table.check()
        return 0

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        self._table.check()
        return leases.renew(self._table, fences, at)

    def release(self, run: str, *, fence: int) -> bool:
        return leases.release(self._table, run, fence)

    def probe(self, owner: str) -> Liveness:
        self._table.check()
        return server_owners.probe(owner)

    # -- the queue -------------------------------------------------------------------------------------------

    def claim(self, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
        bounds.check_claim(agents, limit)
        return queue.claim(self._table, agents, at=at, lease_s=lease_s, limit=limit)

    def list_held(self, agents: Sequence[str], *, after: str = "", limit: int) -> list[RunRow]:
        bounds.check_claim(agents, limit)
        return queue.list_held(self._table, agents, after=after, limit=limit)

    def set_due(self, run: str, *, fence: int, due_at: float | None) -> bool:
        return queue.set_due(self._table, run, fence=fence, due_at=due_at)

    def call_up(self, run: str, *, at: float) -> bool:
        return queue.call_up(self._table, run, at=at)

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        return records.get_record(self._table, space, key)

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        del synced  # what the service acknowledges is durable
        bounds.check_record(space, key, body)
        return records.put_record(self._table, space, key, body, revision)

    def scan_records(
        self, space: str, *, after: str = "", prefix: str = "", limit: int, damaged: bool = False
    ) -> list[Record]:
        bounds.check_page("records", limit, limits.RECORD_PAGE_MAX)

        def page(behind: str, count: int) -> list[Record]:
            return list(islice(records.scan_records(self._table, space, behind, prefix, count), count))

        return row_checksums.scanned(page, after, limit, self.url, damaged=damaged)

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        return records.delete_record(self._table, space, key, revision)

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        self._table.check()
        return self._waiter.wait(cursors, timeout_s=timeout_s)

    def sync(self) -> None:
        self._table.check()

    def reclaim(self, *, thoroughly: bool = False) -> int:
        """Sweep what deletions have left.

        With ``thoroughly`` also what replacements left, which reads every run.
        """
        if thoroughly:
            sweep_voids(self._table)
        return sweep_all(self._table)

    def find_index(self, *, makes: bool = True) -> None:  # noqa: ARG002
        return None

    def drop_index(self, *, because: StoreError | None = None) -> bool:  # noqa: ARG002
        return False  # DynamoDB stores have no index

    def examine(self) -> list[Finding]:
        return examined(self._table)

    def close(self) -> None:
        self._table.close()
