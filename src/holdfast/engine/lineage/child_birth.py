"""The birth of a child in a history that knows it already: from the origin of a fork.

The program of a fork asks for a child that has no event yet. If the fork borrows it, the child becomes a fork
of the cut: one row. If the parent only knows effects of it, the child's first append has its inputs and the
list of those. Crash window: a row without events is completed by the next process that asks.
"""

import os
from collections.abc import Mapping
from typing import Any

from orjson import dumps

from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.lineage.children import below
from holdfast.core.lineage.later_effects import of_child
from holdfast.core.lineage.later_effects_fold import LATER_EFFECTS
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.journal.journal import Journal, read_all
from holdfast.engine.journal.lease import give_back, held_row, take
from holdfast.engine.lineage.fork import TRIES, branch, forked_of, origin_at
from holdfast.engine.lineage.later_effects import entries_behind, entries_listed
from holdfast.engine.log import log
from holdfast.engine.run.entry import Entry, started_of
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.inputs import check_inputs
from holdfast.engine.run.maintenance_hold import restless
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import BLOCKING, Runtime, drive
from holdfast.errors import InputsChanged, UnknownRun
from holdfast.model.events import first_link
from holdfast.model.store_rows import OVER, RunRow, Status
from holdfast.stores.port import StorePort


async def birth(runtime: Runtime, parent: HeldRun, entry: Entry, row: RunRow | None) -> RunRow | None:
    """The row of the child, with what it begins with; None where the parent's history knows nothing of it."""
    return await runtime.store(_born, parent, entry, row)


def _born(parent: HeldRun, entry: Entry, row: RunRow | None) -> RunRow | None:
    session, store = parent.session, parent.store
    name = entry.run.removeprefix(f"{parent.run}/")
    cuts = facts_of(parent.row).get("children", {})
    entries: list[dict[str, Any]] = []
    if name in cuts:
        run, at_seq = cuts[name]
        if row is None and (borrowed := _borrow(session, entry, run, at_seq, below(cuts, name))) is not None:
            return borrowed
        entries = entries_behind(store, run, 0)
    repeats = LATER_EFFECTS.of(parent.view).repeats
    entries += of_child(entries_listed(store, LATER_EFFECTS.of(parent.view).events), name)
    if not entries:
        return None
    made = row or created(session, entry)
    told = forked_of(made._replace(origin=entries[0]["run"]), entries, repeats)
    return begun(session, made, [started_of(entry), told])


def _borrow(
    session: StoreSession, entry: Entry, run: str, at_seq: int, cuts: dict[str, Any]
) -> RunRow | None:
    """A fork of the cut; None where the child is asked for with other inputs. UnknownRun, PointPruned."""
    store = session.store
    found = store.find_run(run)
    if found is None:
        raise UnknownRun(run=run, store=store.url)
    view = fold(effective(read_all(store, run, upto_seq=at_seq)))
    if not _is_same(store, entry, found, view):
        log().warning(
            "run %s has other inputs than %s, which it would continue: it starts again", entry.run, run
        )
        return None
    return borrow(session, entry.run, run, at_seq, cuts)


def borrow(session: StoreSession, name: str, run: str, at_seq: int, cuts: Mapping[str, Any]) -> RunRow:
    """A run of this name that is a fork of the cut, in the state that the child had there. PointPruned.

    ``cuts`` are those of its own children. If the name is taken, the row that has it.
    """
    store = session.store
    view = fold(effective(read_all(store, run, upto_seq=at_seq)))
    status = view.status if view.status in {*OVER, Status.IDLE} else Status.QUEUED
    body = dumps({"children": cuts}) if cuts else b"{}"
    for _ in range(TRIES):
        made = branch(session, name, status, origin_at(store, run, at_seq), at_seq, body=body)
        if made is not None:
            return made._replace(head=at_seq)
        if (row := store.find_run(name)) is not None:
            return row
    raise restless(store, run)


def _is_same(store: StorePort, entry: Entry, found: RunRow, view: View) -> bool:
    if found.agent != (entry.agent or ""):
        return False
    try:
        check_inputs(store, view, entry.run, goal=entry.goal, inputs=entry.inputs, defaults=entry.defaults)
    except InputsChanged:
        return False
    return True


def created(session: StoreSession, entry: Entry) -> RunRow:
    """The row of a new run; if another process was faster, its row."""
    at = session.clock.wall()
    row = RunRow(entry.run, os.urandom(16).hex(), at, Status.QUEUED, b"{}", agent=entry.agent or "")
    session.store.create_run(row)
    found = session.store.find_run(entry.run)
    assert found is not None, f"run {entry.run} was created and is not there"
    return found


def begun(session: StoreSession, row: RunRow, drafts: list[Draft]) -> RunRow:
    """The row when its first events are there: ours, or those of a process that was faster."""
    store = session.store
    lease = drive(take(BLOCKING, store, session.clock, row.run, session.lease_s))
    try:
        now = held_row(store, row.run)
        if not now.head:
            journal = Journal(store, session.committer, row.run, lease.fence, 0, before=first_link(now.birth))
            drive(journal.append(BLOCKING, drafts, session.clock.wall(), status=Status.QUEUED))
    finally:
        give_back(store, row.run, lease.fence)
    return held_row(store, row.run)
