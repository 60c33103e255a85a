"""Rewinds runs: moves the head of a run back to a point, and keeps the old branch as a fork.

A rewind is one row for the old branch, and then one event under the run's lease. Children begun after the
point are rewound to their beginning first, under their own leases: docs/adr/032-children.md.

Crash windows: killed between row and event, a rewind leaves an extra fork of the head, and the run unchanged.
Killed between the children and their parent, the empty children know their effects when they are asked for
again. A message is taken back after the head has moved: one that is read in between stays delivered, and is
not delivered twice.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from orjson import dumps

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.run_row_facts import facts_of, with_facts
from holdfast.core.lineage.children import Descendant
from holdfast.core.lineage.later_effects import in_child, told
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.journal.journal import Journal, read_all
from holdfast.engine.journal.load_view import check_known
from holdfast.engine.lineage.descendants import children_at, cuts_of
from holdfast.engine.lineage.fork import (
    TRIES,
    append_all,
    branch,
    check_free,
    check_is_kept,
    check_knows_giver,
    complete,
)
from holdfast.engine.lineage.later_effects import entries_left, entries_of, with_effects
from holdfast.engine.lineage.letters import move, take_back, unread_messages
from holdfast.engine.lineage.outcomes_elsewhere import settled_behind
from holdfast.engine.run.maintenance_hold import Hold, holding, restless
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import StoreUnavailable, TooLarge
from holdfast.limits import BRANCHES_MAX
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import MovedLetters, Rewound
from holdfast.model.store_rows import OVER, RunRow, Status
from holdfast.stores.port import StorePort


def rewind(
    session: StoreSession,
    row: RunRow,
    to_seq: int,
    bring_back: Callable[[], Sequence[Draft]] | None = None,
    repeats: str = "answer",
    *,
    takes_back: bool = False,
    by: str = "",
) -> Rewound:
    """Move the head back to the event; the old branch stays as a fork. Durable when it returns.

    ``repeats`` says what happens if the run repeats the effects after it. ``bring_back`` restores files,
    under the run's lease and before its head moves, and returns the premises to record. ``takes_back``:
    messages that the run sent after it are deleted where their receivers have not read them. ``by`` is the
    person who asked for it.
    """
    store = session.store
    check_may_act(store, row)
    row = complete(session, row)
    with ExitStack() as leases:
        hold = leases.enter_context(holding(session, row.run))
        row = _same_run(store, hold, row)
        left = _read(store, row, to_seq)
        check_is_kept(left.recorded, row.run, to_seq, row.head)
        check_knows_giver(store, row.run, to_seq)
        children = children_at(store, row, to_seq, left.view)
        # A fork may have later children that it borrows and has not asked for: they have no row of its own.
        unborn = [one for one in children.later if not one.run.startswith(f"{row.run}/")]
        born = [one for one in children.later if one not in unborn]
        holds = [leases.enter_context(holding(session, one.run)) for one in born]
        notes = () if bring_back is None else bring_back()
        # The old branch first: killed before the head moves, it is one fork too many, and nothing is lost. It
        # borrows all children, those too that move to it next: killed in between, it knows their effects.
        kept = _keep(session, row, children_at(store, row, row.head, left.view).begun)
        of_children = _keep_children(session, hold, kept, zip(born, holds, strict=True), repeats)
        own = entries_left(store, row.run, left.view, to_seq, kept)
        sent = unread_messages(store, left.events, own) if takes_back else {}
        behind = [entry for entry in own if entry["key"] not in sent]
        behind += entries_of(store, unborn)
        letters = _move_back(session, hold, left, kept, behind, repeats, notes, by)
        taken_back = take_back(store, sent.values())
        _forget_cuts(hold, session, unborn)
    names = tuple(one.run for one in children.later)
    return Rewound(row.run, to_seq, kept, told([*behind, *of_children]), names, letters, tuple(taken_back))


class _Left(NamedTuple):
    """The history that a rewind leaves: all recorded events, those that count, and their view."""

    recorded: Sequence[Event]
    events: Sequence[Event]
    view: View
    to_seq: int


def _read(store: StorePort, row: RunRow, to_seq: int) -> _Left:
    recorded = read_all(store, row.run)
    events = effective(recorded)
    view = fold(events)
    check_known(store, row.run, view.newer)
    return _Left(recorded, events, view, to_seq)


def _same_run(store: StorePort, hold: Hold, named: RunRow) -> RunRow:
    """The row under our lease. StoreUnavailable if the event that was named is another run's."""
    row = hold.row()
    if row.birth != named.birth:
        raise StoreUnavailable(
            store=store.url, problem=f"run {row.run} was erased and created again while it was rewound"
        )
    check_may_act(store, row)
    return row


def _keep(session: StoreSession, row: RunRow, borrowed: Sequence[Descendant]) -> str:
    """A fork of the head, under a free name: the old branch, with the children that it borrows."""
    run = row.run
    cuts = cuts_of(borrowed)
    status = Status.IDLE if row.status == Status.IDLE else Status.INTERRUPTED
    body = dumps({"children": cuts}) if cuts else b"{}"
    for number in range(1, BRANCHES_MAX + 1):
        name = f"{run}~{number}"
        for _ in range(TRIES):
            origin = session.store.find_run(run)
            assert origin is not None, f"run {run} vanished under its holder"
            if branch(session, name, status, origin, row.head, body=body) is not None:
                return name
            if session.store.find_run(name) is not None:
                break
        else:
            raise restless(session.store, run)
    raise TooLarge(
        what=f"the lineage of {run}", size=BRANCHES_MAX + 1, size_max=BRANCHES_MAX, unit="kept branches"
    )


def _keep_children(
    session: StoreSession,
    parent: Hold,
    kept: str,
    children: Iterable[tuple[Descendant, Hold]],
    repeats: str,
) -> list[dict[str, Any]]:
    """Keep the histories of children below the kept branch, and empty the children; their effects."""
    behind: list[dict[str, Any]] = []
    for one, hold in children:
        behind += in_child(_keep_child(session, hold, f"{kept}/{one.name}", repeats), one.name)
        parent.beat()
    return behind


def _keep_child(session: StoreSession, hold: Hold, kept: str, repeats: str) -> list[dict[str, Any]]:
    """Keep a child's history under another name, and empty the child; the effects that it had."""
    store, row = session.store, hold.row()
    check_may_act(store, row)
    left = _read(store, row, 0)
    status = row.status if row.status in {*OVER, Status.IDLE} else Status.INTERRUPTED
    for _ in range(TRIES):
        if branch(session, kept, status, hold.row(), left.view.head):
            break
        check_free(store, kept)
    else:
        raise restless(store, row.run)
    behind = entries_left(store, row.run, left.view, 0, kept)
    _move_back(session, hold, left, kept, behind, repeats)
    if row.agent:
        store.set_due(row.run, fence=hold.fence, due_at=None)
    return behind


def _move_back(
    session: StoreSession,
    hold: Hold,
    left: _Left,
    kept: str,
    behind: Sequence[dict[str, Any]],
    repeats: str,
    notes: Sequence[Draft] = (),
    by: str = "",
) -> MovedLetters:
    """Append the rewind, under the run's lease, and move the letters in its inbox."""
    row, view, to_seq = hold.row(), left.view, left.to_seq
    at_point = fold([event for event in left.events if event.seq <= to_seq])
    letters = move(session.store, row.run, kept, at_point, [e for e in left.events if e.seq > to_seq])
    body = {
        "to_seq": to_seq,
        "kept": kept,
        "attempts": view.next_attempt - 1,
        "spent": [*BUDGET.of(view).spent],
        "worked_s": view.worked_upto_last_s,
        **({"by": by} if by else {}),
    }
    rewound = with_effects(Kind.RUN_REWOUND, body, behind, repeats if behind or repeats != "answer" else "")
    settled = settled_behind(at_point, [e for e in left.recorded if e.seq > to_seq], to_seq, kept)
    status = Status.INTERRUPTED if to_seq else Status.QUEUED
    if row.status == Status.IDLE:
        status = Status.IDLE
    journal = Journal(session.store, session.committer, row.run, hold.fence, view.head)
    drafts = [rewound, *settled, *notes]
    append_all(journal, drafts, session.clock.wall(), status, consumed=letters.kept)
    return letters


def _forget_cuts(hold: Hold, session: StoreSession, unborn: Sequence[Descendant]) -> None:
    """Remove cuts of children that were begun after the point to which a fork was rewound."""
    names = {one.name for one in unborn}
    for _ in range(TRIES if names else 0):
        row = hold.row()
        cuts = {name: cut for name, cut in facts_of(row).get("children", {}).items() if name not in names}
        body = with_facts(row, children=cuts or None)
        if session.store.swap_run(row.run, revision=row.revision, status=row.status, body=body):
            return
