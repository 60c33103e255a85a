"""Forks and rewinds runs: another history from a point of this one, without copying an event.

A fork is one row, and an event if the origin has effects after the point. A rewind is one row that keeps the
old branch as a fork, and then one event under the run's lease.

Invariant: of a fork and a prune that were decided on the same state of the origin, the store lets only the
first happen. Crash windows: a fork killed between row and event gets its event when it is first entered,
forked, rewound or exported, or when its origin is erased: ``complete``. A rewind killed between row and event
leaves an extra fork of the head, and the run unchanged. Children begun after the point are
rewound to their beginning first, under their own leases: docs/adr/032-children.md.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from orjson import dumps, loads

from holdfast.codec.values import encode
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.names import check_run_id
from holdfast.core.journal.run_row_facts import facts_of, with_facts
from holdfast.core.lineage.children import ChildrenAt, Descendant
from holdfast.core.lineage.handoff_fold import beginning_upto
from holdfast.core.lineage.later_effects import blobs_of, child_of, effects_behind, in_child, told
from holdfast.core.lineage.later_effects_fold import LATER_EFFECTS
from holdfast.core.lineage.points import last_point
from holdfast.core.lineage.reachable_points import is_kept, nearest_place
from holdfast.engine.journal.blob_content import content_in
from holdfast.engine.journal.journal import Draft, Journal, chain_of, draft, read_all
from holdfast.engine.journal.lease import give_back, held_row, take
from holdfast.engine.journal.load_view import bodies_in, is_flagged, load
from holdfast.engine.lineage.descendants import children_at, cuts_of
from holdfast.engine.lineage.letters import move, take_back, unread_messages
from holdfast.engine.lineage.outcomes_elsewhere import settled_behind
from holdfast.engine.run.maintenance_hold import Hold, holding, restless
from holdfast.engine.run.sealed import check_is_whole, check_may_act
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import (
    Misuse,
    PointPruned,
    RunExists,
    StoreUnavailable,
    TooLarge,
    UnknownPoint,
    UnknownStep,
)
from holdfast.limits import APPEND_EVENTS_MAX, BRANCHES_MAX
from holdfast.model.events import COVERING, Event, Kind, covers_from
from holdfast.model.run_info import EffectBehind, MovedLetters, Rewound
from holdfast.model.store_rows import OVER, Blob, RunRow, Status
from holdfast.stores.port import StorePort

TRIES = 50
"""How often a fork is tried: each try that fails lost to another change of its origin."""


class Forked(NamedTuple):
    """A new fork, and the effects that its origin has after the point."""

    row: RunRow
    behind: tuple[EffectBehind, ...]
    later_children: tuple[str, ...]
    """Descendants of the origin that were begun behind the point."""


def fork(
    session: StoreSession,
    row: RunRow,
    at_seq: int,
    name: str,
    overrides: Mapping[str, Any],
    notes: Sequence[Draft] = (),
    repeats: str = "answer",
    cwd: str = "",
) -> Forked:
    """A new run of that name whose history is this one's up to the event. Durable when it returns.

    ``repeats`` says what happens if the fork repeats effects that the origin has after that point. ``cwd`` is
    the directory in which its program starts, if not in the origin's.
    """
    check_run_id(name)
    check_is_whole(row)
    row = complete(session, row)
    drafts = [*_overrides(session, row, at_seq, overrides), *notes]
    behind, children = all_entries_behind(session.store, row, at_seq)
    # In the row, too: killed before the event is written, the first process that enters the fork writes it.
    is_told = bool(behind) or repeats != "answer"
    # The children that it borrows are in the row: an ended child gets its own part of them, and no event.
    facts = {"effects": repeats if is_told else None, "children": cuts_of(children.begun)}
    body = dumps({fact: value for fact, value in facts.items() if value is not None})
    for _ in range(TRIES):
        origin = origin_at(session.store, row.run, at_seq)  # in each round: it may have been pruned since
        _check_knows_giver(session.store, row.run, at_seq)
        status = Status.IDLE if row.status == Status.IDLE else Status.QUEUED
        made = branch(session, name, status, origin, at_seq, body=body)
        if made is not None:
            break
        taken = session.store.find_run(name)
        if taken is not None:
            raise RunExists(run=name, status=taken.status)
    else:
        raise restless(session.store, row.run)
    made = made._replace(head=at_seq)
    later = tuple(one.run for one in children.later)
    if not drafts and not is_told and not cwd:
        return Forked(made, (), later)
    _append(session, made, [forked_of(made, behind, repeats if is_told else "", cwd), *drafts])
    return Forked(made._replace(head=at_seq + 1 + len(drafts)), told(behind), later)


def entries_behind(store: StorePort, run: str, at_seq: int) -> list[dict[str, Any]]:
    """The effects that a run has after an event, as a fork records them. At the head, nothing is read."""
    row = store.find_run(run)
    if row is None or at_seq >= row.head:
        return []
    return _behind(store, run, load(store, run), at_seq)


def entries_of(store: StorePort, children: Sequence[Descendant]) -> list[dict[str, Any]]:
    """All effects of these children, as a fork of their parent records them."""
    return [entry for one in children for entry in in_child(entries_behind(store, one.run, 0), one.name)]


def all_entries_behind(store: StorePort, row: RunRow, at_seq: int) -> tuple[list[dict[str, Any]], ChildrenAt]:
    """The effects behind an event, those of children begun later included; and the children."""
    children = children_at(store, row, at_seq)
    return [*entries_behind(store, row.run, at_seq), *entries_of(store, children.later)], children


def _behind(store: StorePort, run: str, view: View, at_seq: int, kept: str = "") -> list[dict[str, Any]]:
    """The effects after an event. ``kept`` is the run that has them from now on, if it is another one."""
    listed = entries_listed(store, [event for event in LATER_EFFECTS.of(view).events if event.seq > at_seq])
    # A child that exists lists its own effects, and those that its parent listed for it.
    inherited = [entry for entry in listed if not is_born(store, run, child_of(entry))]
    return effects_behind(kept or run, view, at_seq, bodies_in(store, run), inherited)


def is_born(store: StorePort, run: str, child: str) -> bool:
    """Whether a child, or one that it is a descendant of, has a journal."""
    while child:
        row = store.find_run(f"{run}/{child}")
        if row is not None and row.head:
            return True
        child = child.rpartition("/")[0]
    return False


def entries_listed(store: StorePort, events: Sequence[Event]) -> list[dict[str, Any]]:
    """The effects that fork and rewind events list, of the run and its children; a later entry wins."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        found.update(
            {(child_of(entry), entry["key"]): entry for entry in loads(content_in(store, event)) or ()}
        )
    return list(found.values())


def entries_told(store: StorePort, events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """Those of the run itself, by the keys of their calls."""
    return {entry["key"]: entry for entry in entries_listed(store, events) if not child_of(entry)}


def check_free(store: StorePort, name: str) -> None:
    """BadName or RunExists if a new run cannot have this name."""
    taken = store.find_run(check_run_id(name))
    if taken is not None:
        raise RunExists(run=name, status=taken.status)


def check_kept(store: StorePort, run: str, seq: int) -> None:
    """PointPruned or UnknownPoint if no history can continue from this event."""
    chain = chain_of(store, run)
    if any(is_flagged(row) for row in chain):  # only a compacted journal has lost points: else read nothing
        _check_kept(read_all(store, run), run, seq, chain[0].head)


def origin_at(store: StorePort, run: str, at_seq: int) -> RunRow:
    """The row of the run in this lineage that has the event as its own. PointPruned, UnknownPoint."""
    chain = chain_of(store, run)
    origin = next((row for row in chain if at_seq > row.origin_seq), chain[-1])
    is_there = store.read_events(origin.run, after_seq=at_seq - 1, upto_seq=at_seq, limit=1)
    if not is_there or any(is_flagged(row) for row in chain):  # only then may the history be gone
        _check_kept(read_all(store, run), run, at_seq, chain[0].head)
    return origin


def _check_kept(events: Sequence[Event], run: str, seq: int, head: int) -> None:
    """PointPruned or UnknownPoint if no history can continue from this event."""
    if is_kept(events, seq):
        return
    what = f"event #{seq}"
    if any(covers_from(event) <= seq <= event.seq for event in events if event.kind in COVERING) or any(
        event.seq == seq for event in events
    ):
        raise PointPruned(run=run, what=what, nearest=nearest_place(run, events, seq=seq))
    raise UnknownPoint(run=run, what=what, last_point=last_point(events), head=head)


def _check_knows_giver(store: StorePort, run: str, seq: int) -> None:
    """Refuse a point inside the handoff that a run began with: it would make the giver's effects again."""
    if seq > APPEND_EVENTS_MAX:
        return
    root = chain_of(store, run)[-1]
    upto = beginning_upto(store.read_events(root.run, upto_seq=APPEND_EVENTS_MAX, limit=APPEND_EVENTS_MAX))
    if seq < upto:
        raise Misuse(
            problem=f"run {run} began with a handoff, which is recorded up to #{upto}; "
            f"at #{seq} it does not know what its giver has done",
            advice=f"name #{upto} or a later event",
        )


def branch(
    session: StoreSession, name: str, status: str, origin: RunRow, at_seq: int, *, body: bytes = b"{}"
) -> RunRow | None:
    """A new run forked from this one; None if the name is taken, or the origin was changed meanwhile."""
    made = RunRow(
        name,
        os.urandom(16).hex(),
        session.clock.wall(),
        status,
        body,
        origin.run,
        at_seq,
        agent=origin.agent,
    )
    return made if session.store.create_run(made, origin_revision=origin.revision) else None


def create(store: StorePort, row: RunRow) -> RunRow:
    """The row of a new fork, or the existing row of that name.

    StoreUnavailable if the origin keeps changing.
    """
    for _ in range(TRIES):
        origin = store.find_run(row.origin) if row.origin is not None else None
        if store.create_run(row, origin_revision=origin.revision if origin else 0):
            return row._replace(head=row.origin_seq)
        found = store.find_run(row.run)
        if found is not None:
            return found
    raise restless(store, row.origin or row.run)


def rewind(
    session: StoreSession,
    row: RunRow,
    to_seq: int,
    bring_back: Callable[[], Sequence[Draft]] | None = None,
    repeats: str = "answer",
    *,
    takes_back: bool = False,
) -> Rewound:
    """Move the head back to the event; the old branch stays as a fork. Durable when it returns.

    ``repeats`` says what happens if the run repeats the effects after it. ``bring_back`` restores files,
    under the run's lease and before its head moves, and returns the premises to record. ``takes_back``:
    messages that the run sent after it are deleted where their receivers have not read them.
    """
    store = session.store
    check_may_act(store, row)
    row = complete(session, row)
    with ExitStack() as held:
        hold = held.enter_context(holding(session, row.run))
        before, row = row, hold.row()
        if row.birth != before.birth:  # the event that was named is another run's
            raise StoreUnavailable(
                store=store.url, problem=f"run {row.run} was erased and created again while it was rewound"
            )
        check_may_act(store, row)
        raw = read_all(store, row.run)
        _check_kept(raw, row.run, to_seq, row.head)
        _check_knows_giver(store, row.run, to_seq)
        events = effective(raw)
        view = fold(events)
        children = children_at(store, row, to_seq, view)
        later = [one for one in children.later if one.run.startswith(f"{row.run}/")]
        holds = [held.enter_context(holding(session, one.run)) for one in later]
        notes = () if bring_back is None else bring_back()
        everything = children_at(store, row, row.head).begun
        moved = {one.name for one in later}
        # The old branch first: killed before the head moves, it is one fork too many, and nothing is lost. It
        # borrows all children, those too that move to it next: killed in between, it knows their effects.
        kept = _keep(session, row, cuts_of(everything))
        # Children first: killed in between, the empty ones know their effects when they are asked for again.
        behind: list[dict[str, Any]] = []
        for one, each in zip(later, holds, strict=True):
            entries = _keep_child(session, each, f"{kept}/{one.name}", repeats)
            behind += in_child(entries, one.name)
            hold.beat()
        own = _behind(store, row.run, view, to_seq, kept)
        unborn = entries_of(store, [one for one in children.later if one.name not in moved])
        sent = unread_messages(store, events, own) if takes_back else {}
        own = [entry for entry in own if entry["key"] not in sent]
        left = Left(events, [event for event in raw if event.seq > to_seq], to_seq, kept)
        letters = _move_back(session, hold, left, [*own, *unborn], repeats, notes)
        # After the head: a message that is read in between stays delivered, and is not delivered twice.
        taken_back = take_back(store, sent.values())
        _forget_cuts(hold, session, [one.name for one in children.later if one.name not in moved])
    names = tuple(one.run for one in children.later)
    return Rewound(row.run, to_seq, kept, told([*own, *unborn, *behind]), names, letters, tuple(taken_back))


class Left(NamedTuple):
    """What a rewind leaves: the history so far, all recorded events after the point, and who keeps them."""

    events: Sequence[Event]
    later: Sequence[Event]
    to_seq: int
    kept: str


def _move_back(
    session: StoreSession,
    hold: Hold,
    left: Left,
    behind: Sequence[dict[str, Any]],
    repeats: str,
    notes: Sequence[Draft] = (),
) -> MovedLetters:
    """Append the rewind, under the run's lease, and move the letters in its inbox."""
    row, view = hold.row(), fold(left.events)
    at_point = fold([event for event in left.events if event.seq <= left.to_seq])
    letters = move(
        session.store, row.run, left.kept, at_point, [e for e in left.events if e.seq > left.to_seq]
    )
    body = {
        "to_seq": left.to_seq,
        "kept": left.kept,
        "attempts": view.next_attempt - 1,
        "spent": [*BUDGET.of(view).spent],
        "worked_s": view.worked_upto_last_s,
    }
    status = Status.INTERRUPTED if left.to_seq else Status.QUEUED
    if row.status == Status.IDLE:
        status = Status.IDLE
    journal = Journal(session.store, session.committer, row.run, hold.fence, view.head)
    rewound = _with_effects(Kind.RUN_REWOUND, body, behind, repeats if behind or repeats != "answer" else "")
    settled = settled_behind(at_point, left.later, left.to_seq, left.kept)
    drafts = [rewound, *settled, *notes]
    _append_all(journal, drafts, session.clock.wall(), status, consumed=letters.kept)
    return letters


def _keep_child(session: StoreSession, hold: Hold, kept: str, repeats: str) -> list[dict[str, Any]]:
    """Keep a child's history under another name, and empty the child; the effects that it had."""
    store, row = session.store, hold.row()
    check_may_act(store, row)
    events = effective(read_all(store, row.run))
    view = fold(events)
    status = row.status if row.status in {*OVER, Status.IDLE} else Status.INTERRUPTED
    for _ in range(TRIES):
        if branch(session, kept, status, hold.row(), view.head):
            break
        check_free(store, kept)
    else:
        raise restless(store, row.run)
    behind = _behind(store, row.run, view, 0, kept)
    _move_back(session, hold, Left(events, (), 0, kept), behind, repeats)
    if row.agent:
        store.set_due(row.run, fence=hold.fence, due_at=None)
    return behind


def _forget_cuts(hold: Hold, session: StoreSession, names: Sequence[str]) -> None:
    """Remove cuts of children that were begun after the point to which a fork was rewound."""
    for _ in range(TRIES if names else 0):
        row = hold.row()
        cuts = {name: cut for name, cut in facts_of(row).get("children", {}).items() if name not in names}
        body = with_facts(row, children=cuts or None)
        if session.store.swap_run(row.run, revision=row.revision, status=row.status, body=body):
            return


def _append_all(
    journal: Journal,
    drafts: Sequence[Draft],
    at: float,
    status: str | None = None,
    consumed: tuple[str, ...] = (),
) -> None:
    for first in range(0, len(drafts), APPEND_EVENTS_MAX):
        batch = drafts[first : first + APPEND_EVENTS_MAX]
        drive(journal.append(BLOCKING, batch, at, status=status, consumed=() if first else consumed))


def _keep(session: StoreSession, row: RunRow, cuts: dict[str, Any] | None) -> str:
    """A fork of the head, under a free name: the old branch, with the children that it borrows."""
    run = row.run
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


def entering(store: StorePort, row: RunRow, view: View) -> Draft | None:
    """The first own event of a fork; None if the run is no fork or has events of its own.

    A borrowed child that has ended gets none: the event would open it again, and its result would be gone.
    """
    if row.origin is None or view.head != row.origin_seq or row.status in OVER:
        return None
    repeats = facts_of(row).get("effects", "")
    origin = store.find_run(row.origin) if repeats else None
    behind = all_entries_behind(store, origin, row.origin_seq)[0] if origin is not None else []
    return forked_of(row, behind, repeats)


def complete(session: StoreSession, row: RunRow) -> RunRow:
    """The row, after a fork that was killed before its first event has got it.

    What is made of such a fork, or outlives its origin, must have the effects that the event lists.
    """
    is_cut_off = row.origin is not None and row.head == row.origin_seq and "effects" in facts_of(row)
    first = entering(session.store, row, load(session.store, row.run)) if is_cut_off else None
    if first is None:
        return row
    _append(session, row, [first])
    return session.store.find_run(row.run) or row


def forked_of(row: RunRow, behind: Sequence[dict[str, Any]] = (), repeats: str = "", cwd: str = "") -> Draft:
    """The first own event of a fork, with the effects that its origin has after the point."""
    fields = {"from": row.origin, "at_seq": row.origin_seq, **({"cwd": cwd} if cwd else {})}
    return _with_effects(Kind.RUN_FORKED, fields, behind, repeats)


def _with_effects(kind: str, fields: dict[str, Any], behind: Sequence[dict[str, Any]], repeats: str) -> Draft:
    """A fork or rewind event with the effects after its point. One event, so that a crash cannot split it."""
    if not repeats:
        return draft(kind, "", "", fields)
    listed = [] if repeats == "again" else behind
    named = sorted({*blobs_of(listed)})
    more = {"effects": repeats, **({"blobs": named} if named else {})}
    made = draft(kind, "", "", {**fields, **more}, dumps(listed))
    return made._replace(blobs=(*made.blobs, *(Blob(address) for address in named)))


def _overrides(session: StoreSession, row: RunRow, at_seq: int, overrides: Mapping[str, Any]) -> list[Draft]:
    if not overrides:
        return []
    view = fold(effective(read_all(session.store, row.run, upto_seq=at_seq)))
    drafts = []
    for step, value in overrides.items():
        found = [c for c in view.calls.values() if c.seq and step in {c.key, c.name}]
        if len(found) != 1:
            names = ", ".join(f"{c.name} ({c.key})" for c in found) or "none of that name up to this point"
            state = "several steps" if found else "no recorded step"
            raise UnknownStep(run=row.run, step=step, state=state, candidates=names)
        data = encode(value, what=f"override of {step!r}")
        drafts.append(draft(Kind.STEP_OVERRIDDEN, found[0].name, found[0].key, {}, data))
    return drafts


def _append(session: StoreSession, row: RunRow, drafts: list[Draft]) -> None:
    lease = drive(take(BLOCKING, session.store, session.clock, row.run, session.lease_s))
    try:
        now = held_row(session.store, row.run)
        if (now.birth, now.head) != (row.birth, row.head):
            if len(drafts) == 1:  # only its first event, which another process that entered it has written
                return
            problem = f"run {row.run} was entered, or erased, before what it is to begin with was written"
            raise StoreUnavailable(store=session.store.url, problem=problem)
        journal = Journal(session.store, session.committer, row.run, lease.fence, row.head)
        _append_all(journal, drafts, session.clock.wall())
    finally:
        give_back(session.store, row.run, lease.fence)
