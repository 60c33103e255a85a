"""A store that passes every call on to another one: tests count, kill or fail there.

All I/O of Holdfast crosses the port, so the product needs no hook. It knows the port's methods and not their
meaning; a subclass overrides ``pass_on`` to act around a call.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

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
from holdfast.stores.port import IndexPort, StorePort

T = TypeVar("T")


class Relay:
    """Implements ``StorePort`` over another one. By itself it changes nothing."""

    def __init__(self, port: StorePort) -> None:
        """Wrap an open store."""
        self.port = port

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Every call comes through here; ``verb.__name__`` is the method's name. Override this."""
        return verb(*args, **kwargs)

    @property
    def url(self) -> str:
        return self.port.url

    @property
    def owner(self) -> str:
        return self.port.owner

    @property
    def is_sealed(self) -> bool:
        return self.port.is_sealed

    @property
    def owned_by(self) -> str | None:
        return self.port.owned_by

    @property
    def is_open(self) -> bool:
        """Whether the wrapped store can still be used in this process."""
        return bool(getattr(self.port, "is_open", True))

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow, *, origin_revision: int = 0, synced: bool = True) -> bool:
        return self.pass_on(self.port.create_run, row, origin_revision=origin_revision, synced=synced)

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        return self.pass_on(self.port.find_run, run, damaged=damaged)

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        return self.pass_on(self.port.list_runs, limit=limit, before=before, prefix=prefix)

    def list_forks(self, run: str, *, after: str = "", limit: int) -> list[RunRow]:
        return self.pass_on(self.port.list_forks, run, after=after, limit=limit)

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        return self.pass_on(self.port.swap_run, run, revision=revision, status=status, body=body)

    def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
        return self.pass_on(self.port.delete_runs, removals)

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        return self.pass_on(self.port.append, items)

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
        chosen: dict[str, Any] = {"kinds": kinds, "skip": skip} if kinds else {}
        return self.pass_on(
            self.port.read_events, run, after_seq=after_seq, upto_seq=upto_seq, limit=limit, **chosen
        )

    def count_kinds(self, run: str, *, after_seq: int = 0, upto_seq: int = limits.SEQ_MAX) -> dict[str, int]:
        return self.pass_on(self.port.count_kinds, run, after_seq=after_seq, upto_seq=upto_seq)

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
        return self.pass_on(
            self.port.replace_events,
            run,
            fence=fence,
            revision=revision,
            after_seq=after_seq,
            upto_seq=upto_seq,
            events=events,
            blobs=blobs,
            at=at,
        )

    def adopt_events(self, run: str, *, of: str, fence: int, revision: int) -> bool:
        return self.pass_on(self.port.adopt_events, run, of=of, fence=fence, revision=revision)

    def measure(self, run: str) -> RunSize:
        return self.pass_on(self.port.measure, run)

    def note_call(self, run: str, content: bytes, *, fence: int, after_seq: int) -> None:
        self.pass_on(self.port.note_call, run, content, fence=fence, after_seq=after_seq)

    def find_call_note(self, run: str) -> CallNote | None:
        return self.pass_on(self.port.find_call_note, run)

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        self.pass_on(self.port.put_blobs, blobs, at=at)

    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        return self.pass_on(self.port.get_blobs, addresses)

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        return self.pass_on(self.port.delete_blobs, addresses, untouched_since=untouched_since)

    def scan_blobs(self, *, after: str = "", limit: int) -> list[BlobInfo]:
        return self.pass_on(self.port.scan_blobs, after=after, limit=limit)

    def blob_name(self, address: str) -> str:
        return self.port.blob_name(address)

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        return self.pass_on(self.port.acquire, run, at=at, lease_s=lease_s, over=over, above=above)

    def accept_loss(self, run: str) -> int:
        return self.pass_on(self.port.accept_loss, run)

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        return self.pass_on(self.port.renew, fences, at=at)

    def release(self, run: str, *, fence: int) -> bool:
        return self.pass_on(self.port.release, run, fence=fence)

    def probe(self, owner: str) -> Liveness:
        return self.pass_on(self.port.probe, owner)

    # -- the queue -------------------------------------------------------------------------------------------

    def claim(self, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
        return self.pass_on(self.port.claim, agents, at=at, lease_s=lease_s, limit=limit)

    def list_held(self, agents: Sequence[str], *, after: str = "", limit: int) -> list[RunRow]:
        return self.pass_on(self.port.list_held, agents, after=after, limit=limit)

    def set_due(self, run: str, *, fence: int, due_at: float | None) -> bool:
        return self.pass_on(self.port.set_due, run, fence=fence, due_at=due_at)

    def call_up(self, run: str, *, at: float) -> bool:
        return self.pass_on(self.port.call_up, run, at=at)

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        return self.pass_on(self.port.get_record, space, key)

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        return self.pass_on(self.port.put_record, space, key, body, revision=revision, synced=synced)

    def scan_records(
        self, space: str, *, after: str = "", prefix: str = "", limit: int, damaged: bool = False
    ) -> list[Record]:
        asked: dict[str, Any] = {"after": after, "prefix": prefix, "limit": limit, "damaged": damaged}
        return self.pass_on(self.port.scan_records, space, **asked)

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        return self.pass_on(self.port.delete_record, space, key, revision=revision)

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        return self.pass_on(self.port.wait, cursors, timeout_s=timeout_s)

    def sync(self) -> None:
        self.pass_on(self.port.sync)

    def reclaim(self, *, thoroughly: bool = False) -> int:
        return self.pass_on(self.port.reclaim, thoroughly=thoroughly)

    def examine(self) -> list[Finding]:
        return self.pass_on(self.port.examine)

    def find_index(self, *, makes: bool = True) -> "IndexPort | None":
        index = self.pass_on(self.port.find_index, makes=makes)
        return None if index is None else IndexRelay(index, self.pass_on)

    def drop_index(self, *, because: StoreError | None = None) -> bool:
        return self.pass_on(self.port.drop_index, because=because)

    def close(self) -> None:
        self.pass_on(self.port.close)


class IndexRelay:
    """Implements ``IndexPort`` over another one; its calls come through ``pass_on`` too."""

    def __init__(self, port: IndexPort, pass_on: Callable[..., Any]) -> None:
        """Wrap an open index."""
        self.port = port
        self.pass_on = pass_on

    def put(
        self,
        space: str,
        documents: Sequence[Document],
        *,
        notes: Mapping[str, str] | None = None,
        synced: bool = False,
    ) -> None:
        self.pass_on(self.port.put, space, documents, notes=notes, synced=synced)

    def drop(self, space: str, key: str, *, but: str = "") -> None:
        self.pass_on(self.port.drop, space, key, but=but)

    def drop_under(self, space: str, *prefixes: str, notes: Sequence[str] = ()) -> None:
        self.pass_on(self.port.drop_under, space, *prefixes, notes=notes)

    def touch(self, space: str, key: str, *, at: float, uses: int) -> None:
        self.pass_on(self.port.touch, space, key, at=at, uses=uses)

    def find_words(self, space: str, query: Query, within: Within, *, limit: int) -> list[Match]:
        found: list[Match] = self.pass_on(self.port.find_words, space, query, within, limit=limit)
        return found

    def find_near(
        self, space: str, vector: bytes, model: str, within: Within, *, limit: int, also: Sequence[str] = ()
    ) -> list[Match]:
        found: list[Match] = self.pass_on(
            self.port.find_near, space, vector, model, within, limit=limit, also=also
        )
        return found

    def count(self, space: str, model: str | None = None) -> int:
        return int(self.pass_on(self.port.count, space, model))

    def get_notes(self, prefix: str = "") -> dict[str, str]:
        found: dict[str, str] = self.pass_on(self.port.get_notes, prefix)
        return found

    def clear(self, space: str) -> None:
        self.pass_on(self.port.clear, space)

    def is_in_place(self) -> bool:
        return bool(self.pass_on(self.port.is_in_place))

    def check(self) -> None:
        self.pass_on(self.port.check)
