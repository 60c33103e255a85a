"""Copies what is intact of a damaged store into a new one.

Each run is copied up to the last event that follows from the one before it. A run that has lost events
continues from there after a person has accepted the loss. Blobs are compared with their addresses. The result
names everything that could not be copied, by run and event.

Crash window: the new store must be empty, so after a kill the salvage starts again with another one.
"""

from collections.abc import Callable, Iterable
from typing import Final

from holdfast.codec.blobs import unpack
from holdfast.core.journal.run_row_facts import with_facts
from holdfast.engine.run.maintenance_hold import batches, holding
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.state.blob_references import references
from holdfast.errors import Corrupt, Misuse
from holdfast.limits import BLOB_SIZE_BYTES_MAX
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.salvage import Remains, RunRemains, RunSalvaged, Salvaged
from holdfast.model.store_rows import OVER, Blob, Status
from holdfast.stores.port import StorePort

_BLOBS_AT_ONCE: Final = 64
_EFFECTS: Final = frozenset({Kind.STEP_FINISHED, Kind.STEP_SETTLED})
_REPEATED: Final = frozenset({"read", "model"})
Progress = Callable[[str], None]


def salvage(remains: Remains, session: StoreSession, *, progress: Progress = lambda _: None) -> Salvaged:
    """Copy what is intact into an empty store. Misuse where it has runs already."""
    store = session.store
    if store.list_runs(limit=1):
        raise Misuse(problem=f"{store.url} holds runs already", advice="name a store that is not there yet")
    progress("contents")
    blobs, lost = _bring_blobs(store, remains, session.clock.wall())
    runs = []
    for one in remains.runs():
        progress(one.row.run)
        runs.append(_bring_run(session, one))
    records = 0
    for record in remains.records():
        records += store.put_record(record.space, record.key, record.body, revision=0)
    return Salvaged(tuple(runs), records, blobs, (*lost, *remains.lost), remains.loss_known)


def _bring_blobs(store: StorePort, remains: Remains, at: float) -> tuple[int, list[str]]:
    count, size, lost = 0, 0, []
    batch: list[Blob] = []
    for blob in remains.blobs():
        try:
            assert blob.data is not None
            unpack(blob.data, address=blob.address)
        except Corrupt as damage:
            lost.append(damage.problem)
            continue
        batch.append(blob)
        count, size = count + 1, size + len(blob.data)
        if len(batch) == _BLOBS_AT_ONCE or size > BLOB_SIZE_BYTES_MAX // 4:
            store.put_blobs(batch, at=at)
            batch, size = [], 0
    if batch:
        store.put_blobs(batch, at=at)
    return count, lost


def _bring_run(session: StoreSession, one: RunRemains) -> RunSalvaged:
    store, row = session.store, one.row
    head = one.events[-1].seq if one.events else row.origin_seq
    missing = one.acknowledged - head
    origin = store.find_run(row.origin) if row.origin is not None else None
    # A run that was over and has lost its last events is not over any more.
    status = Status.INTERRUPTED if missing and row.status in OVER else row.status
    made = row._replace(status=status)
    if missing:  # no program may enter it, and no worker claim it, until a person accepts the loss
        made = made._replace(due_at=None, body=with_facts(row, lost=one.acknowledged))
    store.create_run(made, origin_revision=origin.revision if origin else 0)
    above = max([row.lease.fence, *(event.fence for event in one.events)])
    with holding(session, row.run, above=above) as hold:
        after = row.origin_seq
        for batch in batches(one.events):
            hold.append(after, batch, status=status)
            after = batch[-1].seq
        if row.due_at is not None and not missing:
            store.set_due(row.run, fence=hold.fence, due_at=row.due_at)
    return RunSalvaged(row.run, len(one.events), missing, tuple(_notes(store, one, head, missing)))


def _notes(store: StorePort, one: RunRemains, head: int, missing: int) -> Iterable[str]:
    if missing:
        yield (
            f"ends at #{head}; what was recorded after it, up to #{one.acknowledged}, is lost, "
            f"and its effects may be done again: "
            f"it goes on after `holdfast doctor --accept-loss {one.row.run} --store {store.url}`"
        )
    effects = {
        event.key: fields_of(event.body).get("effect")
        for event in (*one.events, *one.beyond)
        if event.kind == Kind.STEP_STARTED
    }
    for event in one.beyond:
        # Without its intent the kind of an effect is not known: it is reported, to be safe.
        if event.kind in _EFFECTS and effects.get(event.key) not in _REPEATED:
            done = f"says that {event.name!r} was done: it may be done again"
            yield f"#{event.seq}, behind what is lost, {done}"
    absent = _absent(store, one.events)
    if absent:
        yield f"refers to {len(absent):,} contents that are lost: {', '.join(sorted(absent)[:3])}"


def _absent(store: StorePort, events: tuple[Event, ...]) -> set[str]:
    """The blobs that a run's events need and that could not be copied."""
    try:
        wanted = references(store, *events)
    except Corrupt as damage:
        return {damage.problem}
    return {address for address in wanted if not store.get_blobs([address])}
