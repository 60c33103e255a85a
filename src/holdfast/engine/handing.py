"""Handing a run's work over: the document is drawn from the journal, and another run begins with it.

Crash windows: the taker's run is there, with its goal and the document, after one append; killed before it, there is a row
without events, which whoever takes over again begins. Taken over twice under one id, it is one run.
"""

from typing import Any

from orjson import OPT_SORT_KEYS, dumps, loads

from holdfast.codec.values import canonical, encode
from holdfast.core.identity import keyed
from holdfast.core.names import check_name, check_run_id
from holdfast.engine.hands import BLOCKING, Hands, drive
from holdfast.engine.journal import Journal, draft, read_all
from holdfast.engine.leases import take
from holdfast.engine.marks import draw
from holdfast.engine.opening import Entry, created, started_of
from holdfast.engine.recounting import Reader
from holdfast.engine.sealing import check_may_act
from holdfast.engine.tenure import Tenure
from holdfast.engine.workshop import Workshop
from holdfast.errors import RunExists
from holdfast.limits import STEP_NAME_CHARS_MAX
from holdfast.model.events import HANDED_OVER, Event, Kind
from holdfast.model.rows import Status
from holdfast.stores.port import StorePort


def document(store: StorePort, run: str, to: str, *, at: float, is_held: bool) -> dict[str, Any]:
    """The document that hands this run over as it stands. Nothing is written."""
    from holdfast.core.handoff import document_of

    name = to and check_name("agent", to, STEP_NAME_CHARS_MAX)
    return document_of(run, store.url, name, read_all(store, run), Reader(store), at=at, is_held=is_held)


async def hand_over(tenure: Tenure, hands: Hands, to: str) -> dict[str, Any]:
    """The document, drawn once and kept in the journal: the same in every replay. Synced when it returns."""
    from holdfast.core.handoff import HANDOFF

    def make() -> dict[str, Any]:
        return document(tenure.store, tenure.run, to, at=tenure.clock.wall(), is_held=True)

    data = canonical({"to": to}, what=f"handoff of run {tenure.run}")
    written: dict[str, Any] = await draw(tenure, hands, HANDOFF, make, data)
    return written


def take_over(workshop: Workshop, given: object, run: str) -> str:
    """Begin a run with this document; its id. Nobody holds it yet. Durable when it returns. BadHandoff; RunExists."""
    from holdfast.core.handoff import check_document

    found = check_document(given)
    store = workshop.store
    entry = Entry(check_run_id(run), goal=found["goal"] or None)
    row = store.find_run(run) or drive(created(BLOCKING, workshop, entry, run))
    check_may_act(store, row)
    lease = drive(take(BLOCKING, store, workshop.clock, run, workshop.lease_s))
    try:
        events = read_all(store, run)
        if events:
            if _accepted(events) != found["digest"]:
                raise RunExists(run=run, status=row.status)
            return run
        recorded = dumps(found["inputs"], option=OPT_SORT_KEYS)  # typed values are tagged in them
        drafts = [
            started_of(entry, recorded, handed_over=_source(found)),
            draft(
                Kind.MARK,
                HANDED_OVER,
                keyed(f"{HANDED_OVER} {found['digest']}"),
                {},
                encode(found, what="handoff"),
            ),
        ]
        journal = Journal(store, workshop.committer, run, lease.fence, 0)
        drive(journal.append(BLOCKING, drafts, workshop.clock.wall(), status=Status.QUEUED))
    finally:
        store.release(run, fence=lease.fence)
    return run


def _source(found: dict[str, Any]) -> dict[str, Any]:
    """Where the work comes from: the lineage that stands in the run's first event."""
    return {name: found[name] for name in ("run", "store", "event", "to", "digest")}


def _accepted(events: list[Event]) -> str | None:
    """The digest of the document that a run began with; None where it began otherwise."""
    source = loads(events[0].body).get("handed_over") if events[0].kind == Kind.RUN_STARTED else None
    return source["digest"] if source else None
