"""Exports a run and its descendants: their events, those shared with their origins, and the blobs they need.

A plain export only reads, and works while the run is live. A move also seals the run and its descendants: the
last event of each journal, here and in the file, says where the run went.

Invariant: a run never acts in this store while its export file has its final name. Crash windows of a move:
killed before the seals are in the journals, which is one transaction, the runs are unchanged and the file has
only its temporary name. Killed after that, they cannot act, and a repeated move writes the same file again.
"""

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from hashlib import sha256
from typing import Protocol

from holdfast.codec.json_lines import event_line, letter_line
from holdfast.core.journal.lineage import own_links
from holdfast.core.journal.run_row_facts import facts_of, in_queue, travelling
from holdfast.core.transfer.export_manifest import (
    INBOX,
    MANIFEST,
    RECORDS,
    VERSION,
    blob_file,
    child_place,
    run_file,
    sealed,
    write,
)
from holdfast.core.transfer.moves import move_of
from holdfast.engine.journal import inbox as letters
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.drafts import draft, placed_after
from holdfast.engine.journal.journal import chain_of, read_own
from holdfast.engine.journal.lease import with_lease_of
from holdfast.engine.journal.lineage_names import descendants
from holdfast.engine.journal.load_view import load
from holdfast.engine.lineage.fork import complete
from holdfast.engine.people.promises_apart import promises_apart
from holdfast.engine.run.maintenance_hold import Hold, holding
from holdfast.engine.run.sealed import check_is_whole, check_may_act, find_seal
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.run.unseen_ends import catching_up
from holdfast.engine.state.blob_references import references
from holdfast.engine.transfer import run_records
from holdfast.engine.transfer.run_records import FactsByRun
from holdfast.engine.transfer.verify_export import ExportReader, examined
from holdfast.errors import Corrupt, UnknownPoint
from holdfast.model.event_fields import blobs_named, fields_of
from holdfast.model.events import Event, Kind, link_behind
from holdfast.model.exports import Exported, ExportedChild, ExportedInbox, ExportedRun, Manifest, SingleUse
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Append, RunRow, Status
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


def export(
    session: StoreSession,
    run: str,
    writer: ExportWriter,
    *,
    alone: bool = False,
    made: FactsByRun | None = None,
) -> Exported:
    """Write the run and its descendants as they are now; ``alone`` leaves the descendants out.

    The export is durable and has its final name on return; the runs are unchanged. ``made`` are the facts of
    runs, if the caller exports many.
    """
    if (row := session.store.find_run(run)) is not None:
        complete(session, row)
    packed, size = _written(session.store, run, writer, made, _TRIES, alone=alone)
    writer.publish()
    return _exported(packed, writer, size)


def _written(
    store: StorePort, run: str, writer: ExportWriter, made: FactsByRun | None, tries: int, *, alone: bool
) -> "tuple[list[_Packed], int]":
    chain = _chain(store, run)
    rows = [] if alone else _with_events(descendants(store, run))
    pack = partial(_packed, store, made or FactsByRun(store, [chain[0], *rows]))
    try:
        packed = [pack(chain, chain[0].status)]
        if not alone:
            packed += [pack(chain_of(store, row.run), row.status) for row in rows]
            packed += _borrowable(store, [chain[0], *rows], pack)
        return packed, _write(store, packed, writer)
    except Corrupt:
        # A prune between two reads looks like damage, but it also raises the revision of a row.
        if tries == 1 or _revisions(store, run) == [row.revision for row in chain]:
            raise
    writer.clear()  # it was pruned while it was read: what is left of it can be read again
    return _written(store, run, writer, made, tries - 1, alone=alone)


def move(
    session: StoreSession,
    run: str,
    writer: ExportWriter,
    *,
    alone: bool = False,
    made: FactsByRun | None = None,
    by: str = "",
) -> Exported:
    """Write the run and its descendants, and seal them here, in the name of the person who asked for it.

    May raise RunHeld for each of them; RunSealed where this store may not move one. ``alone`` leaves the
    descendants out.
    """
    before = {run: _chain(session.store, run)[0]}
    if not alone:
        before |= {row.run: row for row in _with_events(descendants(session.store, run))}
    with ExitStack() as held:
        holds = [held.enter_context(holding(session, one)) for one in before]
        lost = [] if alone else promises_lost(session.store, before)
        packed, size = _sealed_all(session, holds, before, writer, made, alone=alone, by=by)
        writer.publish()
    return _exported(packed, writer, size, lost)


def preview(session: StoreSession, run: str, writer: ExportWriter, *, moves: bool) -> Exported:
    """What an export or a move would write, and what could not go along. The writer keeps nothing."""
    packed, size = _written(session.store, run, writer, None, _TRIES, alone=False)
    going = [run, *(row.run for row in _with_events(descendants(session.store, run)))]
    lost = promises_lost(session.store, going) if moves else []
    return _exported(packed, writer, size, lost)._replace(moved=moves)


def promises_lost(store: StorePort, going: Collection[str]) -> list[str]:
    """The open promises of runs that move, to or from runs that stay."""
    return [loss for run in going for loss in promises_apart(store, run, lambda other: other in going)]


def _sealed_all(
    session: StoreSession,
    holds: list[Hold],
    before: dict[str, RunRow],
    writer: ExportWriter,
    made: FactsByRun | None,
    *,
    alone: bool,
    by: str,
) -> "tuple[list[_Packed], int]":
    """Write, sync and verify the file first, then append its last events to the journals, at once.

    In the other order, a kill between the two would leave sealed runs without an export.
    """
    store = session.store
    packed: list[_Packed] = []
    seals: list[Append] = []
    rows = [hold.row() for hold in holds]
    pack = partial(_packed, store, made or FactsByRun(store, rows))
    for hold, row in zip(holds, rows, strict=True):
        if row.status == Status.SEALED and find_seal(store, row) is not None:
            packed.append(
                _packed_sealed(store, row.run, pack)
            )  # an earlier move was cut off, or its file got lost
            continue
        check_may_act(store, row)
        events = _last_events(session, hold, row, with_lease_of(row, before[row.run]), writer.place, by)
        packed.append(pack(chain_of(store, row.run), row.status, events, moved=True))
        seals.append(Append(row.run, hold.fence, row.head, events, status=Status.SEALED))
    borrowed = [] if alone else _borrowable(store, rows, pack)
    size = _write(store, [*packed, *borrowed], writer)
    if not seals:
        return [*packed, *borrowed], size
    with writer.opened() as reader:
        examined(reader)
    for hold in holds:
        hold.beat()
    outcomes = store.append(seals)
    by_run = {hold.run: hold for hold in holds}
    for item, outcome in zip(seals, outcomes, strict=True):
        by_run[item.run].check(outcome)
    letters_in = [one.manifest.inbox.letters if one.manifest.inbox else 0 for one in packed]
    if [len(letters.waiting(store, row.run)) for row in rows] != letters_in:
        writer.clear()  # one came while we were writing; from now on they are refused
        packed = [_packed_sealed(store, row.run, pack) for row in rows]
        size = _write(store, [*packed, *borrowed], writer)
    return [*packed, *borrowed], size


def _last_events(
    session: StoreSession, hold: Hold, row: RunRow, before: RunRow, place: str, by: str
) -> tuple[Event, ...]:
    """The seal, after the end of a crashed attempt: only this store can probe whether its process is dead."""
    view = load(session.store, row.run)
    drafts = catching_up(session.store, before, view)
    named = {"by": by} if by else {}
    drafts.append(draft(Kind.RUN_SEALED, "", "", {"to": place, "status": row.status, **named}))
    behind = link_behind(view.head_chain, row.birth)
    events, _ = placed_after(row.head, behind, drafts, row.run, hold.fence, session.clock.wall())
    return events


def _packed_sealed(store: StorePort, run: str, pack: "_Pack") -> "_Packed":
    chain = chain_of(store, run)
    seal = find_seal(store, chain[0])
    assert seal is not None, f"run {run} is sealed without a seal"
    return pack(chain, fields_of(seal.body)["status"], moved=True)


def _with_events(rows: list[RunRow]) -> list[RunRow]:
    """Those that have anything to export, parents first."""
    return sorted((row for row in rows if row.head), key=lambda row: (row.run.count("/"), row.run))


def _borrowable(store: StorePort, rows: Iterable[RunRow], pack: "_Pack") -> "list[_Packed]":
    """The histories of children that these runs, as forks, borrow when their programs ask for them."""
    cuts: dict[str, int] = {}
    have = {row.run for row in rows}
    for row in rows:
        for run, at_seq in facts_of(row).get("children", {}).values():
            if run not in have:
                cuts[run] = max(at_seq, cuts.get(run, 0))
    return [pack(chain_of(store, run), Status.SEALED, upto=at) for run, at in sorted(cuts.items())]


# -- the parts -----------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    name: str
    data: bytes


class _Packed(NamedTuple):
    """A run as it stands in an export, but for its blobs."""

    manifest: Manifest
    parts: list[_Part]
    losses: tuple[str, ...]


class _Pack(Protocol):
    """``_packed``, with a store and the facts of its runs."""

    def __call__(
        self,
        chain: list[RunRow],
        status: str,
        more: tuple[Event, ...] = (),
        *,
        moved: bool = False,
        upto: int = 0,
    ) -> _Packed: ...


def _packed(
    store: StorePort,
    made: FactsByRun,
    chain: list[RunRow],
    status: str,
    more: tuple[Event, ...] = (),
    *,
    moved: bool = False,
    upto: int = 0,
) -> _Packed:
    """The manifest and parts of a run, without blobs; ``upto`` is the last event to export, 0 for all."""
    runs: list[ExportedRun] = []
    parts: list[_Part] = []
    needed: set[str] = set()
    upto = upto or chain[0].head
    single_use: SingleUse | None = None
    for number, row in enumerate(chain):
        events = _own(store, row, max(upto, row.origin_seq)) + list(more if number == 0 else ())
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
    beside = run_records.packed(store, chain, runs, made)
    if beside.records is not None:
        parts.append(_Part(RECORDS, beside.data))
    manifest = Manifest(
        chain[0].run,
        moved,
        tuple(runs),
        inbox[0] if inbox else None,
        tuple(sorted(needed)),
        single_use,
        records=beside.records,
        version=VERSION if beside.records else 2,
    )
    return _Packed(sealed(manifest), parts, beside.losses)


def _write(store: StorePort, packed: list[_Packed], writer: ExportWriter) -> int:
    """Write all parts, the run first, then each descendant. Returns the size; the export is synced then."""
    first, children = packed[0], packed[1:]
    if children:
        names = tuple(ExportedChild(one.manifest.run, one.manifest.sha256) for one in children)
        first = first._replace(manifest=sealed(first.manifest._replace(children=names, version=VERSION)))
        packed[0] = first
    for number, (manifest, parts, _) in enumerate(packed):
        place = child_place(number - 1) if number else ""
        writer.put(place + MANIFEST, write(manifest))
        for part in parts:
            writer.put(place + part.name, part.data)
        for address in manifest.blobs:
            if writer.lacks(place + blob_file(address)):
                writer.put(place + blob_file(address), read_blob(store, address))
    return writer.complete()


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


def _exported(packed: list[_Packed], writer: ExportWriter, size: int, lost: Iterable[str] = ()) -> Exported:
    manifests = [one.manifest for one in packed]
    manifest = manifests[0]
    facts, pins = run_records.count_in(manifests)
    return Exported(
        manifest.run,
        writer.place,
        manifest.moved,
        manifest.head,
        len(manifest.runs),
        sum(run.events for one in manifests for run in one.runs),
        sum(len(one.blobs) for one in manifests),
        size,
        manifest.sha256,
        len(manifests) - 1,
        facts,
        pins,
        tuple(dict.fromkeys([*(loss for one in packed for loss in one.losses), *lost])),
    )
