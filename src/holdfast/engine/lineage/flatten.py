"""Flattens a fork: gives it its own copy of the history that it shares, so that its origin can be deleted.

The copy is made as a second run that is marked as not complete. Then one transaction of the store replaces
the fork's events by the copy's. Crash windows: before that transaction, the fork is unchanged, and the next
flattening first deletes the unfinished copy; after it, nothing is left to do.
"""

import os
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

from holdfast.core.journal.lineage import own_links
from holdfast.core.journal.run_row_facts import (
    facts_of,
    lineage_of,
    names_of,
    travelling,
    with_facts,
)
from holdfast.engine.journal.journal import chain_at, chain_of, read_own
from holdfast.engine.lineage import fork, kin
from holdfast.engine.lineage.pins import change, kept_of, merged, renamed
from holdfast.engine.run.maintenance_hold import Hold, batches, holding, restless
from holdfast.engine.run.sealed import check_is_whole
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import TooLarge
from holdfast.limits import BRANCHES_MAX
from holdfast.model.events import Event, Links, anchor, relinked
from holdfast.model.store_rows import Removal, RunRow, Status
from holdfast.stores.port import StorePort


def flatten(session: StoreSession, run: str, origin: RunRow) -> None:
    """Make a fork independent of this origin; its history reads as before. RunHeld if a process holds it."""
    if (before := session.store.find_run(run)) is not None:
        fork.complete(session, before)
    # The fence must also be above those of the shared events: they become the fork's own.
    with holding(session, run, above=origin.lease.fence) as hold:
        row = hold.row()
        check_is_whole(row)
        if row.origin != origin.run:
            return
        name = _clear_place(session, run)
        _create(session, name, run, origin)
        with holding(session, name) as copy:
            after_seq = origin.origin_seq
            for batch in batches(_events(session.store, row, origin)):
                copy.append(after_seq, batch, status=Status.IMPORTING)
                after_seq = batch[-1].seq
                hold.beat()
            _take_pins(session.store, row, origin)
            _take_place(session, hold, origin, name)


def _take_pins(store: StorePort, row: RunRow, origin: RunRow) -> None:
    """Keep what people keep of the shared events, under the fork's name.

    Before the events are the fork's own: a kill in between leaves records that nothing reads.
    """
    for seq, kept in kept_of(store, origin.run).items():
        if seq <= row.origin_seq:
            change(store, row.run, seq, partial(merged, brought=renamed(kept, row.run)))


def _events(store: StorePort, row: RunRow, origin: RunRow) -> Iterator[Event]:
    """The shared events and the run's own, all as the run's own events.

    The last shared event becomes an anchor: it keeps the link that it had in the origin's journal. So the
    run's own events, which are chained to it, stay as they are.
    """
    borrowed = read_own(store, origin.run, origin.origin_seq, row.origin_seq, own_links(origin))
    links = Links(borrowed[-1].chain if borrowed else None, row.birth)
    own = read_own(store, row.run, row.origin_seq, None, links)
    before = chain_at(store, origin, origin.origin_seq)
    made = list(relinked(row.run, row.birth, borrowed, before))
    if made:
        made[-1] = made[-1]._replace(chain=anchor(borrowed[-1].chain))
    return chain(made, own)


def _clear_place(session: StoreSession, run: str) -> str:
    """A free name for the copy; an unfinished copy of an earlier try is deleted."""
    store = session.store
    for number in range(1, BRANCHES_MAX + 1):
        name = f"{run}~flat.{number}"
        row = store.find_run(name)
        if row is None:
            return name
        if row.status == Status.IMPORTING and facts_of(row).get("flattens") == run:
            with holding(session, name) as left:
                if store.delete_runs([Removal(name, left.fence, left.row().revision)]) == [True]:
                    return name
    raise TooLarge(
        what=f"the lineage of {run}", size=BRANCHES_MAX + 1, size_max=BRANCHES_MAX, unit="branches"
    )


def _create(session: StoreSession, name: str, run: str, origin: RunRow) -> None:
    row = RunRow(
        name,
        os.urandom(16).hex(),
        session.clock.wall(),
        Status.IMPORTING,
        b"{}",
        origin.origin,
        origin.origin_seq,
    )
    row = row._replace(body=with_facts(row, flattens=run))
    if fork.create(session.store, row).birth != row.birth:
        raise restless(session.store, run)


def _take_place(session: StoreSession, hold: Hold, origin: RunRow, copy: str) -> None:
    """Write what the row must know, then swap the events; the store refuses both after a concurrent fork."""
    store = session.store
    if origin.origin is None:  # this splits the tree: note both parts before it happens
        kin.note(store, lineage_of(chain_of(store, hold.run)), (hold.run, origin.run))
    for _ in range(fork.TRIES):
        row = hold.row()
        body = with_facts(row, **_inherited(store, row, origin))
        if store.swap_run(
            hold.run, revision=row.revision, status=row.status, body=body
        ) and store.adopt_events(hold.run, of=copy, fence=hold.fence, revision=row.revision + 1):
            return
    raise restless(store, hold.run)


def _inherited(store: StorePort, row: RunRow, origin: RunRow) -> dict[str, Any]:
    """The facts of the origin's row that the fork's row needs from now on."""
    theirs, ours = facts_of(origin), facts_of(row)
    elsewhere = min(theirs.get("elsewhere", 0), row.origin_seq)
    was = [*facts_of(row).get("was", ()), *names_of(origin)]
    return {
        **travelling(origin),
        **travelling(row),
        "was": list(dict.fromkeys(was)),
        "lineage": lineage_of(chain_of(store, row.run)) if origin.origin is None else None,
        "elsewhere": max(ours.get("elsewhere", 0), elsewhere) or None,
        "came": ours.get("came") or (theirs.get("came") if elsewhere else None),
    }
