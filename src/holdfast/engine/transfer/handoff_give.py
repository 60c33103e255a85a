"""Hands a run's work over: makes the document from the journal. The giver continues, or is sealed.

The giver's children are sealed by the same seal: ``check_may_act`` refuses a run whose parent was handed
over. Their leases are held while the document is made, so no attempt of theirs is under way.

Crash windows: one append writes the document and the seal to the giver's journal. Killed before it, the runs
are unchanged. Killed after it, they cannot act, and the same request returns the same document. Taking a run
back is one append, too; killed after it, the same request makes the children due again.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from orjson import dumps, loads

from holdfast.codec.values import canonical
from holdfast.core.journal.fold import View
from holdfast.core.journal.names import check_name
from holdfast.core.lineage.later_effects import child_of
from holdfast.core.lineage.later_effects_fold import LATER_EFFECTS
from holdfast.engine.journal import inbox
from holdfast.engine.journal.blob_content import BoundedReader, content_at, content_in, read_blob
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.journal.journal import Journal, read_all
from holdfast.engine.journal.lease import with_lease_of
from holdfast.engine.journal.lineage_names import descendants
from holdfast.engine.journal.load_view import load
from holdfast.engine.lineage.descendants import children_at
from holdfast.engine.lineage.later_effects import (
    entries_behind,
    entries_listed,
    entries_told,
    is_born,
    is_claimed,
)
from holdfast.engine.llm.conversation import entries_at
from holdfast.engine.run import observers
from holdfast.engine.run.close import release
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.maintenance_hold import Hold, holding
from holdfast.engine.run.sealed import check_is_whole, check_may_act, find_handoff, handed_over, last_event
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.run.unseen_ends import catching_up
from holdfast.engine.state.state_store import read_state
from holdfast.engine.steps.marks import ask, given, placed
from holdfast.engine.sync_async import BLOCKING, Runtime, drive
from holdfast.errors import HoldfastError, Misuse, RunFinished, UnknownRun
from holdfast.limits import HANDOFF_BYTES_MAX, HANDOFF_VALUE_BYTES_MAX, STEP_NAME_CHARS_MAX
from holdfast.model.calls import Outcome
from holdfast.model.event_fields import contents_of
from holdfast.model.events import HANDOFF, Kind
from holdfast.model.markers import KNOWN
from holdfast.model.store_rows import OVER, RunRow, Status
from holdfast.stores.port import StorePort

_QUEUED: Final = frozenset({Status.QUEUED, Status.RUNNING, Status.INTERRUPTED, Status.PARKED})
"""Statuses with which a worker goes on by itself. A failed child begins again only if it is submitted."""


def document(
    store: StorePort, run: str, to: str, *, at: float, is_held: bool, sealed: bool = False
) -> dict[str, Any]:
    """The document that hands this run over as it is now. Writes nothing."""
    from holdfast.core.transfer.handoff import HandoffContents, document_of
    from holdfast.engine.context.child_stories import child_stories

    view = load(store, run)
    state, state_bytes = _state(store, view)
    messages, messages_bytes = _messages(store, run, view)
    contents = HandoffContents(
        state,
        state_bytes,
        messages,
        messages_bytes,
        whole=lambda address: read_blob(store, address),
        is_gone=lambda owner: bool(owner) and store.probe(owner) == "dead",
        unread=len(inbox.waiting(store, run)),
        behind=_behind(store, view),
        children=_of_children(store, run),
        born=frozenset(row.run[len(run) + 1 :] for row in descendants(store, run) if row.head),
        relatives=child_stories(store, run),
    )
    read = BoundedReader(store, each_bytes=HANDOFF_VALUE_BYTES_MAX, all_bytes=HANDOFF_BYTES_MAX)
    made = document_of(
        run,
        store.url,
        checked_name(to),
        read_all(store, run),
        read,
        at=at,
        is_held=is_held,
        sealed=sealed,
        contents=contents,
    )
    return _without_secrets(made) if KNOWN else made


def _without_secrets(made: dict[str, Any]) -> dict[str, Any]:
    """The document without what was recorded in clear, before it was known as a secret."""
    from holdfast.codec.recorded_secrets import hidden_document
    from holdfast.core.transfer.handoff.carried_effects import arguments_digest
    from holdfast.core.transfer.handoff.validate import digest_of

    hidden = hidden_document(made)
    if hidden == made:
        return made
    for before, step in zip(_steps(made), _steps(hidden), strict=True):
        if step.get("arguments") != before.get("arguments") and "arguments_sha256" in step:
            step["arguments_sha256"] = arguments_digest(step["arguments"])
    return {**hidden, "digest": digest_of({name: part for name, part in hidden.items() if name != "digest"})}


def _steps(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("effects", "pending", "in_doubt"):
        yield from document[name]
    if document["last_step"]:
        yield document["last_step"]


def _behind(store: StorePort, view: View) -> list[tuple[dict[str, Any], bytes | None]]:
    """The origin's effects after the fork point that this run has not claimed, each with its intent."""
    entries = entries_told(store, LATER_EFFECTS.of(view).events).values()
    return [(entry, _intent(store, entry)) for entry in entries if not is_claimed(store, view, entry["key"])]


def _of_children(store: StorePort, run: str) -> list[tuple[str, dict[str, Any], bytes | None]]:
    """The effects of the run's children, with the child's name and the intent of each.

    Of children that a fork may still borrow, too; and those that a fork or a rewind lists for a later child.
    """
    row = store.find_run(run)
    assert row is not None, f"run {run} is handed over and is not there"
    found: list[tuple[str, dict[str, Any], bytes | None]] = []
    for child in children_at(store, row, row.head).begun:
        intents = {e.key: e.body for e in read_all(store, child.run) if e.kind == Kind.STEP_STARTED}
        for entry in entries_behind(store, child.run, 0):
            inner = child_of(entry)
            name = f"{child.name}/{inner}" if inner else child.name
            is_own = entry["run"] == child.run
            found.append((name, entry, intents.get(entry["key"]) if is_own else _intent(store, entry)))
    listed = entries_listed(store, LATER_EFFECTS.of(load(store, run)).events)
    unborn = (one for one in listed if child_of(one) and not is_born(store, run, child_of(one)))
    return [*found, *((child_of(entry), entry, _intent(store, entry)) for entry in unborn)]


def _intent(store: StorePort, entry: dict[str, Any]) -> bytes | None:
    """The intent of an effect, from its own journal; None where that is gone or cannot be read."""
    try:
        events = read_all(store, entry["run"])
    except HoldfastError:
        return None
    found = (e for e in reversed(events) if e.kind == Kind.STEP_STARTED and e.key == entry["key"])
    return next((event.body for event in found if event.seq <= entry["event"]), None)


def checked_name(to: str) -> str:
    """The checked name of the taker; empty where any agent may take over. May raise BadName."""
    return to and check_name("agent", to, STEP_NAME_CHARS_MAX)


def _state(store: StorePort, view: View) -> tuple[Any, int]:
    body = {} if view.checkpoint is None else contents_of(view.checkpoint.body)
    size: int = body.get("state_bytes", 0)
    if "state" not in body or size > HANDOFF_VALUE_BYTES_MAX:
        return None, size
    return read_state(store, body["state"]), size


def _messages(store: StorePort, run: str, view: View) -> tuple[list[Any], int]:
    entries = entries_at(store, run, view, view.head)
    size = sum(len(entry.data) for entry in entries)
    return ([] if size > HANDOFF_VALUE_BYTES_MAX else [loads(entry.data) for entry in entries]), size


# -- by the program itself -----------------------------------------------------------------------------------


async def hand_over(held: HeldRun, runtime: Runtime, to: str, *, seal: bool) -> dict[str, Any]:
    """Make the document and record it; a replay returns the recorded one. Synced on return.

    With ``seal``, the same append seals the run and this attempt ends. Misuse while one of its steps runs;
    RunHeld while a process holds one of its children.
    """
    checked_name(to)
    identity = {"to": to, **({"sealed": True} if seal else {})}
    data = canonical(identity, what=f"handoff of run {held.run}")

    asked = ask(held, HANDOFF, data)
    children = ExitStack()
    try:
        recorded = given(held, asked)
        if recorded is not None:  # if this was a sealed handoff, the run was taken back since
            found: dict[str, Any] = await runtime.store(_recorded_document, held, recorded)
            return found
        journal = held.require_journal(HANDOFF)
        if seal:
            _check_idle(held)
            await runtime.store(_hold_children, children, held.session, held.run)
        made = await runtime.store(
            document, held.store, held.run, to, at=held.clock.wall(), is_held=True, sealed=seal
        )
        drafts = [_kept(made, asked.key, placed(asked, {})), *(_end(held, made) if seal else ())]
        status = Status.SEALED if seal else None
        await journal.append(runtime, drafts, held.clock.wall(), status=status)
        asked.here.task_calls.last = asked.key
        if seal:
            await _stop(held, runtime, to)
        return made
    finally:
        await runtime.store(children.close)
        held.land(asked.site)


def _kept(made: dict[str, Any], key: str, fields: dict[str, Any]) -> Draft:
    """The mark that records the document. Plain ``dumps``: its typed values are tagged already."""
    return draft(Kind.MARK, HANDOFF, key, fields, dumps(made))


def _end(held: HeldRun, made: dict[str, Any]) -> tuple[Draft, Draft]:
    took_s = round(held.took_s, 6)
    fields = {"how": "handed over", "status": Status.SEALED, "took_s": took_s}
    return draft(Kind.ATTEMPT_ENDED, "", "", fields), _sealed(made, Status.INTERRUPTED)


async def _stop(held: HeldRun, runtime: Runtime, to: str) -> None:
    """End this attempt while the program is still inside the ``with`` block."""
    held.status = Status.SEALED
    for ended in held.hooks.ended:
        await ended(runtime, None)
    # The run stays the current one: a tool called later in the block is refused instead of run unrecorded.
    held.sealed = handed_over(held.run, to)
    release(held)
    observers.gone(held.observer, held.status, None)


def _check_idle(held: HeldRun) -> None:
    """Refuse to seal while steps run: after the seal, their outcomes could not be recorded."""
    names = ", ".join(sorted({work.asked.name for work in held.in_flight()}))
    if names:
        raise Misuse(
            problem=f"run {held.run} cannot be sealed while {names} runs",
            advice="hand over outside of steps, when those that were started are over; or without seal=True",
        )


def _sealed(made: dict[str, Any], status: str, by: str = "") -> Draft:
    fields = {"to": made["to"], "status": status, "handoff": made["digest"], **_named(by)}
    return draft(Kind.RUN_SEALED, "", "", fields)


def _named(by: str) -> dict[str, Any]:
    return {"by": by} if by else {}


# -- from outside --------------------------------------------------------------------------------------------


def hand_over_run(
    session: StoreSession, run: str, to: str, *, seal: bool, is_held: bool, by: str = ""
) -> dict[str, Any]:
    """The document of a run that this process does not hold. ``seal`` records it and seals the run.

    A repeated request for the same taker returns the same document. May raise UnknownRun; RunHeld while a
    live process holds the run or one of its children; RunSealed where another taker has it.
    """
    store = session.store
    before = store.find_run(run)
    if before is None:
        raise UnknownRun(run=run, store=store.url)
    check_is_whole(before)
    written = _written(store, before, checked_name(to))
    if written is not None:
        return written
    if not seal:
        return document(store, run, to, at=session.clock.wall(), is_held=is_held)
    check_may_act(store, before)
    if before.status in OVER:
        raise _is_over(run)
    with holding(session, run) as hold, ExitStack() as children:
        row = with_lease_of(hold.row(), before)
        _hold_children(children, session, run)
        # Looked up again under the lease: another process may have sealed the run in between.
        return _written(store, row, to) or _seal(session, hold, row, to, by)


def _hold_children(holds: ExitStack, session: StoreSession, run: str) -> None:
    """Hold the descendants of a run. RunHeld if a live process has one of them.

    The next holder of a crashed one would record that; here the taker needs to know it.
    """
    store = session.store
    for before in descendants(store, run):
        hold = holds.enter_context(holding(session, before.run))
        row = with_lease_of(hold.row(), before)
        if not row.head or row.status in OVER:
            continue
        view = load(store, row.run)
        late = catching_up(store, row, view)
        if late:
            journal = Journal(store, session.committer, row.run, hold.fence, view.head)
            drive(journal.append(BLOCKING, late, session.clock.wall(), status=Status.INTERRUPTED))


def _written(store: StorePort, row: RunRow, to: str) -> dict[str, Any] | None:
    """The document that the run was sealed with. RunSealed where ``to`` is not its taker."""
    seal = find_handoff(store, row) if row.status == Status.SEALED else None
    if seal is None:
        return None
    body = contents_of(seal.body)
    if body["to"] != to:
        raise handed_over(row.run, body["to"])
    for event in reversed(read_all(store, row.run)):
        if event.kind == Kind.MARK and event.name == HANDOFF:
            found: dict[str, Any] = loads(content_in(store, event))
            return found
    raise AssertionError(f"run {row.run} was handed over without a document")


def _recorded_document(held: HeldRun, recorded: Outcome) -> Any:
    return loads(content_at(held.store, held.body_of(recorded)))


def _is_over(run: str) -> RunFinished:
    return RunFinished(run=run, what="nothing of it is left to hand over: what it might do next")


def _seal(session: StoreSession, hold: Hold, before: RunRow, to: str, by: str) -> dict[str, Any]:
    store, run = session.store, hold.run
    check_may_act(store, before)
    if before.status in OVER:
        raise _is_over(run)
    view = load(store, run)
    journal = Journal(store, session.committer, run, hold.fence, view.head)
    late = catching_up(store, before, view)
    if late:  # first, so that the document includes the crash
        drive(journal.append(BLOCKING, late, session.clock.wall(), status=Status.INTERRUPTED))
    at = session.clock.wall()
    made = document(store, run, to, at=at, is_held=False, sealed=True)
    status = before.status if before.status != Status.RUNNING else Status.INTERRUPTED
    drafts = [_kept(made, "", {}), _sealed(made, status, by)]
    drive(journal.append(BLOCKING, drafts, at, status=Status.SEALED))
    if before.agent:  # a worker must not claim a sealed run
        store.set_due(run, fence=hold.fence, due_at=None)
    return made


def take_back(session: StoreSession, run: str, *, by: str = "") -> None:
    """Unseal a run that was handed over. Durable on return.

    Misuse where the run is not sealed by a handoff.
    """
    store = session.store
    if store.find_run(run) is None:
        raise UnknownRun(run=run, store=store.url)
    with holding(session, run) as hold:
        row = hold.row()
        seal = find_handoff(store, row) if row.status == Status.SEALED else None
        if seal is None:
            check_may_act(store, row)
            last = last_event(store, row)
            if last is not None and last.kind == Kind.RUN_UNSEALED:
                _call_up_children(session, run)  # the request that unsealed it may have been killed before
            raise Misuse(problem=f"run {run} is not sealed", advice=f"`holdfast resume {run}` continues it")
        body = contents_of(seal.body)
        journal = Journal(store, session.committer, run, hold.fence, row.head)
        fields = {"from": body["to"], "handoff": body["handoff"], **_named(by)}
        unsealed = draft(Kind.RUN_UNSEALED, "", "", fields)
        drive(journal.append(BLOCKING, [unsealed], session.clock.wall(), status=body["status"]))
        _call_up_children(session, run)


def _call_up_children(session: StoreSession, run: str) -> None:
    """Make the children due that a worker may have refused meanwhile, and so taken out of the queue."""
    for row in descendants(session.store, run):
        if row.agent and row.status in _QUEUED:
            session.store.call_up(row.run, at=session.clock.wall())
