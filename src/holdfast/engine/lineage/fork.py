"""Forks runs: another history from a point of this one, without copying an event.

A fork is one row, and an event if the origin has effects after the point.

Invariant: of a fork and a prune that were decided on the same state of the origin, the store lets only the
first happen. Crash windows: a fork killed between row and event gets its event when it is first entered,
forked, rewound or exported, or when its origin is erased: ``complete``. A fork with overrides, edits or a
directory of its own, or that makes effects again, is incomplete until they are written: no process enters it,
and the next fork of that name replaces it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from orjson import dumps

from holdfast.codec.blobs import address_of, pack
from holdfast.codec.values import recorded_bytes
from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.names import check_run_id
from holdfast.core.journal.run_row_facts import facts_of
from holdfast.core.lineage.handoff_fold import beginning_upto
from holdfast.core.lineage.later_effects import told
from holdfast.core.lineage.later_effects_fold import AGAIN
from holdfast.core.lineage.points import last_point
from holdfast.core.lineage.reachable_points import is_kept, nearest_place
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.journal.journal import Journal, chain_of, read_all
from holdfast.engine.journal.lease import give_back, held_row, take
from holdfast.engine.journal.load_view import is_flagged, load
from holdfast.engine.lineage.descendants import cuts_of
from holdfast.engine.lineage.later_effects import all_entries_behind, with_effects
from holdfast.engine.run.inputs import usable_id
from holdfast.engine.run.maintenance_hold import holding, restless
from holdfast.engine.run.sealed import check_is_whole
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import Misuse, PointPruned, RunExists, StoreUnavailable, UnknownPoint, UnknownStep
from holdfast.limits import APPEND_EVENTS_MAX, VALUE_INLINE_BYTES_MAX
from holdfast.model.event_fields import filled, rewritten
from holdfast.model.events import COVERING, Event, Kind, covers_from
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import EffectBehind
from holdfast.model.store_rows import OVER, Blob, Removal, RunRow, Status
from holdfast.stores.port import StorePort

TRIES = 50
"""How often a fork is tried: each try that fails lost to another change of its origin."""


class Beginning(NamedTuple):
    """What a fork begins with, besides its origin's history. No process enters it until this is written."""

    overrides: Mapping[str, Any] = MappingProxyType({})
    """Other outcomes of steps, by name or key."""
    notes: Sequence[Draft] = ()
    cwd: str = ""
    """The directory in which its program starts, if not in the origin's."""
    inputs: bytes | None = None
    """Other inputs, encoded."""
    late: Callable[[], Sequence[Draft]] | None = None
    """Makes more events when the fork has its row: from then on no prune takes what they build on."""

    @property
    def is_there(self) -> bool:
        """Whether there is anything."""
        return (
            bool(self.overrides or self.notes or self.cwd) or self.inputs is not None or self.late is not None
        )


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
    begins: Beginning = Beginning(),  # noqa: B008 - immutable
    repeats: str = "answer",
    by: str = "",
) -> Forked:
    """A new run of that name whose history is this one's up to the event. Durable when it returns.

    ``repeats`` says what happens if the fork repeats effects that the origin has after that point. ``by`` is
    the person who asked for it.
    """
    usable_id(name)
    check_is_whole(row)
    row = complete(session, row)
    drafts = [*_overrides(session, row, at_seq, begins.overrides), *begins.notes]
    behind, children = all_entries_behind(session.store, row, at_seq)
    # In the row, too: killed before the event is written, the first process that enters the fork writes it.
    is_told = bool(behind) or repeats != "answer"
    # The children that it borrows are in the row: an ended child gets its own part of them, and no event.
    # Completed later, ``again`` would also make effects again that the origin has claimed since then.
    is_made_in_two = begins.is_there or (repeats == AGAIN and is_told)
    facts = {
        "effects": repeats if is_told else None,
        "children": cuts_of(children.begun),
        "forks": is_made_in_two or None,
        "by": by or None,
    }
    body = dumps({fact: value for fact, value in facts.items() if value is not None})
    status = Status.IDLE if row.status == Status.IDLE else Status.QUEUED
    for _ in range(TRIES):
        origin = origin_at(session.store, row.run, at_seq)  # in each round: it may have been pruned since
        check_knows_giver(session.store, row.run, at_seq)
        first = Status.IMPORTING if is_made_in_two else status
        made = branch(session, name, first, origin, at_seq, body=body)
        if made is not None:
            break
        taken = session.store.find_run(name)
        if taken is not None and not _delete_cut_off(session, taken):
            raise RunExists(run=name, status=taken.status, advice="choose another name for the fork")
    else:
        raise restless(session.store, row.run)
    made = made._replace(head=at_seq)
    later = tuple(one.run for one in children.later)
    if not is_made_in_two and not is_told:
        return Forked(made, (), later)
    drafts += begins.late() if begins.late is not None else ()
    first_own = forked_of(made, behind, repeats if is_told else "", begins.cwd, by)
    if begins.inputs is not None:
        first_own = _with_inputs(first_own, begins.inputs)
    _append(session, made, [first_own, *drafts], status)
    return Forked(made._replace(head=at_seq + 1 + len(drafts), status=status), told(behind), later)


def _with_inputs(made: Draft, inputs: bytes) -> Draft:
    """The first event of a fork, with its own inputs: small ones in its body, large ones in a blob."""
    if len(inputs) <= VALUE_INLINE_BYTES_MAX:
        return made._replace(body=filled(made.body, "inputs", inputs))
    address = address_of(inputs)
    body = rewritten(made.body, inputs_blob=address, inputs_bytes=len(inputs))
    return made._replace(body=body, blobs=(*made.blobs, Blob(address, pack(inputs))))


def _is_cut_off(row: RunRow) -> bool:
    """Whether this is a fork without what it was to begin with; another process may still be at it."""
    return row.status == Status.IMPORTING and "forks" in facts_of(row)


def _delete_cut_off(session: StoreSession, row: RunRow) -> bool:
    """Delete a fork that was cut off while it was made; False if it was not. RunHeld if it is being made."""
    if not _is_cut_off(row):
        return False
    with holding(session, row.run) as hold:
        now = hold.row()
        removals = [Removal(row.run, hold.fence, now.revision)]
        return _is_cut_off(now) and session.store.delete_runs(removals) == [True]


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
        data = recorded_bytes(value, what=f"override of {step!r}")
        drafts.append(draft(Kind.STEP_OVERRIDDEN, found[0].name, found[0].key, {}, data))
    return drafts


def _append(session: StoreSession, row: RunRow, drafts: list[Draft], status: str) -> None:
    lease = drive(take(BLOCKING, session.store, session.clock, row.run, session.lease_s))
    try:
        now = held_row(session.store, row.run)
        if (now.birth, now.head) != (row.birth, row.head):
            if row.status == status:  # only its first event, which a process that entered it has written
                return
            problem = f"run {row.run} was erased before what it is to begin with was written"
            raise StoreUnavailable(store=session.store.url, problem=problem)
        journal = Journal(session.store, session.committer, row.run, lease.fence, row.head)
        append_all(journal, drafts, session.clock.wall(), status, meanwhile=row.status)
    finally:
        give_back(session.store, row.run, lease.fence)


def entering(store: StorePort, row: RunRow, view: View) -> Draft | None:
    """The first own event of a fork; None if the run is no fork or has events of its own.

    A borrowed child that has ended gets none: the event would open it again, and its result would be gone.
    """
    if row.origin is None or view.head != row.origin_seq or row.status in OVER:
        return None
    repeats = facts_of(row).get("effects", "")
    origin = store.find_run(row.origin) if repeats else None
    behind = all_entries_behind(store, origin, row.origin_seq)[0] if origin is not None else []
    return forked_of(row, behind, repeats, by=facts_of(row).get("by", ""))


def complete(session: StoreSession, row: RunRow) -> RunRow:
    """The row, after a fork that was killed before its first event has got it.

    What is made of such a fork, or outlives its origin, must have the effects that the event lists.
    """
    is_cut_off = row.origin is not None and row.head == row.origin_seq and "effects" in facts_of(row)
    if not is_cut_off or _is_cut_off(row):  # the latter has nothing, and is made again
        return row
    first = entering(session.store, row, load(session.store, row.run))
    if first is None:
        return row
    _append(session, row, [first], row.status)
    return session.store.find_run(row.run) or row


def forked_of(
    row: RunRow, behind: Sequence[dict[str, Any]] = (), repeats: str = "", cwd: str = "", by: str = ""
) -> Draft:
    """The first own event of a fork, with the effects that its origin has after the point."""
    more = {name: text for name, text in (("cwd", cwd), ("by", by)) if text}
    fields = {"from": row.origin, "at_seq": row.origin_seq, **more}
    return with_effects(Kind.RUN_FORKED, fields, behind, repeats)


def check_free(store: StorePort, name: str) -> None:
    """BadName or RunExists if a new run cannot have this name."""
    taken = store.find_run(check_run_id(name))
    if taken is not None and not _is_cut_off(taken):
        raise RunExists(run=name, status=taken.status, advice="choose another name for the fork")


def check_kept(store: StorePort, run: str, seq: int) -> None:
    """PointPruned or UnknownPoint if no history can continue from this event."""
    chain = chain_of(store, run)
    if any(is_flagged(row) for row in chain):  # only a compacted journal has lost points: else read nothing
        check_is_kept(read_all(store, run), run, seq, chain[0].head)


def origin_at(store: StorePort, run: str, at_seq: int) -> RunRow:
    """The row of the run in this lineage that has the event as its own. PointPruned, UnknownPoint."""
    chain = chain_of(store, run)
    origin = next((row for row in chain if at_seq > row.origin_seq), chain[-1])
    is_there = store.read_events(origin.run, after_seq=at_seq - 1, upto_seq=at_seq, limit=1)
    if not is_there or any(is_flagged(row) for row in chain):  # only then may the history be gone
        check_is_kept(read_all(store, run), run, at_seq, chain[0].head)
    return origin


def check_is_kept(events: Sequence[Event], run: str, seq: int, head: int) -> None:
    """PointPruned or UnknownPoint if no history can continue from this event."""
    if is_kept(events, seq):
        return
    what = f"event #{seq}"
    if any(covers_from(event) <= seq <= event.seq for event in events if event.kind in COVERING) or any(
        event.seq == seq for event in events
    ):
        raise PointPruned(run=run, what=what, nearest=nearest_place(run, events, seq=seq))
    raise UnknownPoint(run=run, what=what, last_point=last_point(events), head=head)


def check_knows_giver(store: StorePort, run: str, seq: int) -> None:
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


def append_all(
    journal: Journal,
    drafts: Sequence[Draft],
    at: float,
    status: str,
    consumed: tuple[str, ...] = (),
    *,
    meanwhile: str | None = None,
) -> None:
    """Append these events, in batches; ``meanwhile`` is the run's status until the last one, if another."""
    for first in range(0, len(drafts), APPEND_EVENTS_MAX):
        batch = drafts[first : first + APPEND_EVENTS_MAX]
        is_last = first + APPEND_EVENTS_MAX >= len(drafts)
        now = status if is_last else meanwhile or status
        drive(journal.append(BLOCKING, batch, at, status=now, consumed=() if first else consumed))
