"""Exports a run: its own events, those it shares with its origins, and every blob that these events need.

A plain export only reads, and works while the run is live. A move also seals the run: the last event of its
journal, here and in the file, says where the run went.

Invariant: a run never acts in this store while its export file has its final name. Crash windows of a move:
killed before the seal is in the journal, the run is unchanged and the file has only its temporary name.
Killed after the seal, the run cannot act, and a repeated move writes the same file again.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import NamedTuple, Protocol

from holdfast.codec.json_lines import event_line, letter_line
from holdfast.core.journal.run_row_facts import in_queue, travelling
from holdfast.core.transfer.export_manifest import (
    INBOX,
    MANIFEST,
    blob_file,
    run_file,
    sealed,
    write,
)
from holdfast.core.transfer.moves import move_of
from holdfast.engine.journal import inbox as letters
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.journal import chain_of, draft, own_links, placed_after, read_own
from holdfast.engine.journal.lease import with_lease_of
from holdfast.engine.journal.load_view import load
from holdfast.engine.run.maintenance_hold import Hold, holding
from holdfast.engine.run.sealed import check_is_whole, check_may_act, find_seal
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.run.unseen_ends import catching_up
from holdfast.engine.state.blob_references import references
from holdfast.engine.transfer.verify_export import ExportReader, verified
from holdfast.errors import Corrupt, UnknownPoint
from holdfast.model.event_fields import blobs_named, fields_of
from holdfast.model.events import Event, Kind, link_behind
from holdfast.model.exports import Exported, ExportedInbox, ExportedRun, Manifest, SingleUse
from holdfast.model.store_rows import RunRow, Status
from holdfast.stores.port import StorePort

_TRIES = 3


class ExportWriter(Protocol):
    """Receives the parts of an export. It is not visible under its final name until ``publish``."""

    @property
    def place(self) -> str: ...

    def clear(self) -> None: ...

    def lacks(self, name: str) -> bool: ...

    def put(self, name: str, data: bytes) -> None: ...

    def complete(self) -> int: ...

    def opened(self) -> AbstractContextManager[ExportReader]: ...

    def publish(self) -> None: ...


def export(session: StoreSession, run: str, writer: ExportWriter) -> Exported:
    """Write the run as it is now.

    The export is durable and has its final name on return; the run is unchanged.
    """
    manifest, size = _written(session.store, run, writer, _TRIES)
    writer.publish()
    return _exported(manifest, writer, size)


def _written(store: StorePort, run: str, writer: ExportWriter, tries: int) -> tuple[Manifest, int]:
    chain = _chain(store, run)
    try:
        return _write(store, chain, (), chain[0].status, writer, moved=False)
    except Corrupt:
        # A prune between two reads looks like damage, but it also raises the revision of a row.
        if tries == 1 or _revisions(store, run) == [row.revision for row in chain]:
            raise
    writer.clear()
    return _written(store, run, writer, tries - 1)


def move(session: StoreSession, run: str, writer: ExportWriter) -> Exported:
    """Write the run and seal it here. May raise RunHeld; RunSealed where this store may not move it."""
    before = _chain(session.store, run)[0]
    with holding(session, run) as hold:
        row = hold.row()
        seal = find_seal(session.store, row) if row.status == Status.SEALED else None
        if seal is not None:  # an earlier move was killed before it published, or its file was lost
            manifest, size = _write_sealed(session.store, run, writer)
        else:
            check_may_act(session.store, row)
            manifest, size = _seal(session, hold, row, with_lease_of(row, before), writer)
        writer.publish()
    return _exported(manifest, writer, size)


def _seal(
    session: StoreSession, hold: Hold, row: RunRow, before: RunRow, writer: ExportWriter
) -> tuple[Manifest, int]:
    """Write, sync and verify the file first, then append the events that it ends with to the journal.

    In the other order, a kill between the two would leave a sealed run without an export.
    """
    store = session.store
    events = _last_events(session, hold, row, before, writer.place)
    manifest, size = _write(store, chain_of(store, row.run), events, row.status, writer, moved=True)
    with writer.opened() as reader:
        verified(reader)
    hold.append(row.head, events, status=Status.SEALED)
    if len(letters.waiting(store, row.run)) != (manifest.inbox.letters if manifest.inbox else 0):
        # A letter came after the inbox was read. The seal refuses further ones, so one rewrite is enough.
        writer.clear()
        return _write_sealed(store, row.run, writer)
    return manifest, size


def _last_events(
    session: StoreSession, hold: Hold, row: RunRow, before: RunRow, place: str
) -> tuple[Event, ...]:
    """The seal, after the end of a crashed attempt: only this store can probe whether its process is dead."""
    view = load(session.store, row.run)
    drafts = catching_up(session.store, before, view)
    drafts.append(draft(Kind.RUN_SEALED, "", "", {"to": place, "status": row.status}))
    behind = link_behind(view.head_chain, row.birth)
    events, _ = placed_after(row.head, behind, drafts, row.run, hold.fence, session.clock.wall())
    return events


def _write_sealed(store: StorePort, run: str, writer: ExportWriter) -> tuple[Manifest, int]:
    chain = chain_of(store, run)
    seal = find_seal(store, chain[0])
    assert seal is not None, f"run {run} is sealed without a seal"
    return _write(store, chain, (), fields_of(seal.body)["status"], writer, moved=True)


# -- the parts -----------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    name: str
    data: bytes


def _write(
    store: StorePort,
    chain: list[RunRow],
    more: tuple[Event, ...],
    status: str,
    writer: ExportWriter,
    *,
    moved: bool,
) -> tuple[Manifest, int]:
    """Write all parts. Returns the manifest and the size of the export, which is synced then."""
    runs: list[ExportedRun] = []
    parts: list[_Part] = []
    needed: set[str] = set()
    upto = chain[0].head
    single_use: SingleUse | None = None
    for number, row in enumerate(chain):
        events = _own(store, row, upto) + list(more if number == 0 else ())
        part = _Part(run_file(number, row.run), _text(map(event_line, events)))
        needed |= references(store, *events)
        # The status of an origin is not part of this run's history. With a fixed one, an unchanged history
        # always exports to the same bytes.
        runs.append(_described(row, events, part, Status.SEALED if number else status))
        if moved and number == 0:  # its last event is the seal
            single_use = SingleUse(move_of(row.birth, events[-1]), store.url)
        parts.append(part)
        upto = row.origin_seq
    inbox = _inbox(store, chain[0].run, needed) if moved else None
    if inbox is not None:
        parts.append(inbox[1])
    manifest = sealed(
        Manifest(
            chain[0].run,
            moved,
            tuple(runs),
            inbox[0] if inbox else None,
            tuple(sorted(needed)),
            single_use,
        )
    )
    writer.put(MANIFEST, write(manifest))
    for part in parts:
        writer.put(*part)
    for address in manifest.blobs:
        if writer.lacks(blob_file(address)):
            writer.put(blob_file(address), read_blob(store, address))
    return manifest, writer.complete()


def _own(store: StorePort, row: RunRow, upto: int) -> list[Event]:
    links = own_links(row)
    events = read_own(store, row.run, row.origin_seq, upto, links) if upto > row.origin_seq else []
    if (events[-1].seq if events else row.origin_seq) != upto:
        raise Corrupt(store=store.url, problem=f"event #{upto} of run {row.run} is missing")
    return events


def _described(row: RunRow, events: list[Event], part: _Part, status: str) -> ExportedRun:
    return ExportedRun(
        row.run,
        row.birth,
        row.created_at,
        status,
        row.origin,
        row.origin_seq,
        events[-1].seq if events else row.origin_seq,
        {**travelling(row), **in_queue(row)},
        len(events),
        part.name,
        sha256(part.data).hexdigest(),
    )


def _inbox(store: StorePort, run: str, needed: set[str]) -> tuple[ExportedInbox, _Part] | None:
    """The inbox of a run that moves. Adds the blobs that its letters name to ``needed``."""
    found = letters.waiting(store, run)
    if not found:
        return None
    for _, letter in found:
        needed |= blobs_named(letter.get("body", {}))
    part = _Part(INBOX, _text(letter_line(record.key, record.body) for record, _ in found))
    return ExportedInbox(len(found), INBOX, sha256(part.data).hexdigest()), part


def _text(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _chain(store: StorePort, run: str) -> list[RunRow]:
    chain = chain_of(store, run)
    check_is_whole(chain[0])
    if not chain[0].head:
        raise UnknownPoint(run=run, what="event yet", last_point=0, head=0)
    return chain


def _revisions(store: StorePort, run: str) -> list[int]:
    return [row.revision for row in chain_of(store, run)]


def _exported(manifest: Manifest, writer: ExportWriter, size: int) -> Exported:
    events = sum(run.events for run in manifest.runs)
    return Exported(
        manifest.run,
        writer.place,
        manifest.moved,
        manifest.head,
        len(manifest.runs),
        events,
        len(manifest.blobs),
        size,
        manifest.sha256,
    )
