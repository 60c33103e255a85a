"""Enters a run: starts it or resumes it, by the same line of the program.

Invariant: only what is read under the lease counts. Everything that ``enter`` read before may be out of date,
so it reads the row again and checks it again.

Crash windows: a row without events is a run that the next process starts. A process that dies after it took
the lease leaves it to expire. An attempt that did not record its end is recorded as crashed by the next
holder, in the same append that starts the new attempt.
"""

import os
from typing import Any

from holdfast.codec.values import canonical
from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.names import check_run_id
from holdfast.core.journal.run_row_facts import facts_of, owner_of
from holdfast.core.steps.identity import site_of
from holdfast.engine import replay_mode
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import Draft, draft, placed_after
from holdfast.engine.journal.journal import Journal, read_all
from holdfast.engine.journal.lease import give_back, granted, held_row, take
from holdfast.engine.journal.load_view import check_known, load
from holdfast.engine.journal.spare_descriptor import keep_spare
from holdfast.engine.log import info, log
from holdfast.engine.run import cancel, observers
from holdfast.engine.run.call_site import CallSite, here_now
from holdfast.engine.run.entry import Entry, attempt_of, started_of
from holdfast.engine.run.features import check_options, child_birth, waking
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.inputs import changed_inputs, check_inputs, roots_of, usable_id
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.run.store_session import StoreSession, know_secrets
from holdfast.engine.run.unseen_ends import catching_up
from holdfast.engine.steps.marks import mark
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Corrupt, LeaseLost, RunExists, RunHeld, TooLarge, UnknownRun
from holdfast.limits import SERIES_RUNS_MAX
from holdfast.model.event_fields import rewritten
from holdfast.model.events import Kind, link_behind
from holdfast.model.markers import KNOWN
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import OVER, Lease, RunRow, Status, owner_name
from holdfast.stores.port import StorePort

_PAUSE_S = 0.02


async def enter(runtime: Runtime, session: StoreSession, entry: Entry) -> HeldRun:
    """Take the lease, fold the journal, and record this attempt. Durable when it returns."""
    store = session.store
    keep_spare()
    know_secrets()
    check_options(entry)
    run = await _choose_run(runtime, session, entry)
    if replay_mode.is_on():
        return await _replay_only(runtime, session, entry, run)
    try:
        row = await _found_or_created(runtime, session, entry, run)
    except BaseException:
        if entry.lease is not None:  # a worker has claimed it, and expects that it is given back
            await runtime.store(give_back, store, run, entry.lease.fence)
        raise
    if row.status == Status.FINISHED and entry.if_finished == "replay":
        return await _replay(runtime, session, entry, row)
    if row.status == Status.CANCELLED and entry.if_finished != "reopen":
        raise await runtime.store(cancel.refusal, store, row)
    try:
        lease, given = await _taken(runtime, session, entry, run)
    except UnknownRun:  # erased since we read its row
        if entry.mode == "resume":
            raise
        return await enter(runtime, session, entry)
    try:
        seen = await runtime.store(_look, store, entry, run, row, given, lease)
        if seen is None:
            await runtime.store(give_back, store, run, lease.fence)
            return await enter(runtime, session, entry._replace(lease=None))
        held = await _begin(runtime, session, entry, seen, lease)
    except BaseException:
        await runtime.store(give_back, store, run, lease.fence)
        raise
    _log_entry(held)
    await _let_features_look(runtime, held, entry)
    return held


async def _taken(
    runtime: Runtime, session: StoreSession, entry: Entry, run: str
) -> tuple[Lease, RunRow | None]:
    """The run's lease, and its row if the store gave it with the lease."""
    if entry.lease is not None:
        return entry.lease, None
    grant = await granted(runtime, session.store, session.clock, run, session.lease_s)
    return grant.lease, grant.row


class _Seen(NamedTuple):
    """What a holder reads of its run before it records its attempt."""

    row: RunRow
    view: View
    letters: inbox.Letters
    cancel: dict[str, Any] | None
    unseen: list[Draft]


def _look(
    store: StorePort, entry: Entry, run: str, before: RunRow, given: RunRow | None, lease: Lease
) -> _Seen | None:
    """All of that in one go: a task waits for a thread with each call. None if the run is over.

    Until we had the lease, another process may have moved, finished, or erased and recreated the run.
    """
    row = held_row(store, run, before, given)
    _check_row(store, row, entry)
    if row.status in OVER and entry.if_finished != "reopen":
        return None
    view = load(store, run, row)
    _check(store, view, entry, run)
    _check_fence(store, row, view, lease)
    return _Seen(row, view, *inbox.waiting_and_cancel(store, run), catching_up(store, row, view))


def _check_row(store: StorePort, row: RunRow, entry: Entry) -> None:
    """RunSealed for a run that must not act; RunExists for one that has to be new."""
    if entry.mode == "new" and row.head > 0:
        raise RunExists(run=row.run, status=row.status)
    check_may_act(store, row)


def _log_entry(held: HeldRun) -> None:
    how, store = "resuming" if held.resumed else "starting", held.store
    info("%s run %s, attempt %d, in %s", how, held.run, held.number, store.url)
    whose = held.session.whose()
    if whose:
        log().warning("%s belongs to %s, who can read and change all that is in it", store.url, whose)


async def _let_features_look(runtime: Runtime, held: HeldRun, entry: Entry) -> None:
    """Wake features before the program runs. If one of them raises, that is the end of this attempt."""
    try:
        for name in await runtime.store(waking, held):
            held.feature(name)
        for entered in held.hooks.entered:
            await entered(runtime)
    except BaseException as error:
        from holdfast.engine.run.close import leave  # late: it imports this module

        await leave(held, runtime, entry, error, finishes=False)
        raise


async def queue(runtime: Runtime, session: StoreSession, entry: Entry) -> bool:
    """Record the run for a worker; one that has stopped becomes due again. Durable when it returns.

    False if it changes nothing: the run is queued, held or over. InputsChanged for other inputs or another
    agent.
    """
    clock = session.clock
    until = clock.monotonic() + session.lease_s
    while True:
        try:
            return await _queue(runtime, session, entry)
        except RunHeld:
            # The run has no events yet, so its holder is about to record it: that takes a moment.
            if clock.monotonic() >= until:
                raise
            await runtime.sleep(clock, _PAUSE_S)


async def _queue(runtime: Runtime, session: StoreSession, entry: Entry) -> bool:
    know_secrets()
    store, run = session.store, usable_id(entry.run)
    row = await _found_or_created(runtime, session, entry, run)
    if row.agent != (entry.agent or ""):
        raise changed_inputs(run, "agent", {"agent": row.agent}, {"agent": entry.agent})
    at = session.clock.wall()
    view = await runtime.store(load, store, run) if row.head else View()
    if view.started is not None:
        await runtime.store(_check, store, view, entry, run)
        if row.status in OVER:
            return False
        await runtime.store(store.call_up, run, at=at)
        # A fork, an import and a taker are queued for no worker until they are due.
        is_queued = row.status == Status.QUEUED and row.due_at is not None
        return not is_queued and not row.lease.owner
    lease = await take(runtime, store, session.clock, run, session.lease_s)
    try:
        row = await runtime.store(held_row, store, run)
        view = await runtime.store(load, store, run, row)
        if view.started is not None:  # another process recorded it since we read the row
            return False
        # A run that was rewound to its beginning has events, and no inputs any more.
        before = link_behind(view.head_chain, row.birth)
        journal = Journal(store, session.committer, run, lease.fence, view.head, before=before)
        await journal.append(runtime, [started_of(entry)], at, status=Status.QUEUED)
        # After the inputs: a worker must not claim a run that it cannot run. Killed in between, this process
        # still holds the lease, and a worker takes the run over from a dead holder.
        await runtime.store(store.set_due, run, fence=lease.fence, due_at=at)
    finally:
        await runtime.store(give_back, store, run, lease.fence)
    return True


async def _choose_run(runtime: Runtime, session: StoreSession, entry: Entry) -> str:
    run = usable_id(entry.run)
    parent = here_now()
    if parent is not None and parent.held.is_ours and parent.held.store is session.store:
        if not run.startswith(f"{parent.held.run}/"):
            run = check_run_id(f"{parent.held.run}/{run}")
        await mark(parent.held, runtime, "child", {"run": await _recorded_name(runtime, parent, run)})
        parent.held.tree.entered.add(run)
        return run
    if parent is not None and parent.held.is_ours and run not in parent.held.apart:
        parent.held.apart.add(run)
        log().warning(
            "run %s is entered inside run %s and names another store, %s: it is a run of its own "
            "and no child, so forks, rewinds, exports and budgets of %s do not reach it",
            run, parent.held.run, session.store.url, parent.held.run,
        )  # fmt: skip
    wanted = os.environ.get("HOLDFAST_RUN")
    if wanted:
        from holdfast.engine.journal.lineage_names import lineage_names

        lineage = await runtime.store(lineage_names, session.store, wanted)
        if run in lineage:
            return wanted
        if not lineage:  # not an error: the program may use a second store. But it may be a typing error
            log().warning("HOLDFAST_RUN=%s names no run in %s; opening %s", wanted, session.store.url, run)
    if entry.if_finished == "new":
        run = await runtime.store(_next_in_series, session.store, run)
    return run


async def _recorded_name(runtime: Runtime, parent: CallSite, run: str) -> str:
    """The name that a mark of the parent's history gives this child: in a fork, that of the origin's child.

    The name is part of the identity of the mark, and an ended run can only be given what it has.
    """
    held = parent.held
    if held.row.origin is None and "was" not in facts_of(held.row):
        return run
    name = run.removeprefix(f"{held.run}/")
    from holdfast.engine.journal.lineage_names import lineage_names

    for known in await runtime.store(lineage_names, held.store, held.run):
        data = canonical({"run": f"{known}/{name}"}, what="child")
        site = site_of(parent.scope, "mark:child", data)
        if f"{site}.1" in held.view.calls or site in held.view.sites:
            return f"{known}/{name}"
    return run


def _next_in_series(store: StorePort, run: str) -> str:
    """``daily``, or the first of ``daily.2``, ``daily.3`` … that is neither finished nor cancelled."""
    for number in range(1, SERIES_RUNS_MAX + 1):
        candidate = run if number == 1 else f"{run}.{number}"
        row = store.find_run(candidate)
        if row is None or row.status not in OVER:
            return candidate
    raise TooLarge(
        what=f"the series of {run}", size=SERIES_RUNS_MAX + 1, size_max=SERIES_RUNS_MAX, unit="runs"
    )


async def _found_or_created(runtime: Runtime, session: StoreSession, entry: Entry, run: str) -> RunRow:
    """The run's row; a child of a fork may be borrowed from its origin. UnknownRun for mode resume.

    RunSealed, RunExists.
    """
    parent = _parent_of(session, run)
    if parent is None:
        return await runtime.store(lambda: _checked(session, entry, run, session.store.find_run(run)))
    row = await runtime.store(session.store.find_run, run)
    if row is None or not row.head:
        row = await child_birth(runtime, parent, entry._replace(run=run), row) or row
    return await runtime.store(_checked, session, entry, run, row)


def _checked(session: StoreSession, entry: Entry, run: str, found: RunRow | None) -> RunRow:
    if found is None and entry.mode == "resume":
        raise UnknownRun(run=run, store=session.store.url)
    row = found or _created(session, entry, run)
    _check_row(session.store, row, entry)
    return row


def _parent_of(session: StoreSession, run: str) -> HeldRun | None:
    here = here_now()
    is_child = here is not None and here.held.store is session.store and run.startswith(f"{here.held.run}/")
    return here.held if here is not None and is_child else None


def _created(session: StoreSession, entry: Entry, run: str) -> RunRow:
    """The row of a new run, or of one that another process has just created.

    RunExists if it has to be new.
    """
    store, found, is_ours = session.store, None, False
    while found is None:  # again, if another process erased it at once
        at = session.clock.wall()
        row = RunRow(run, os.urandom(16).hex(), at, Status.QUEUED, b"{}", agent=entry.agent or "")
        # Flushed: the append that starts the attempt is synced behind it, before the program does anything.
        is_ours = store.create_run(row, synced=False)
        # If another process was faster, its row counts, with its birth id.
        found = row if is_ours else store.find_run(run)
    if entry.mode == "new" and not is_ours:
        raise RunExists(run=run, status=found.status)
    return found


async def _replay(runtime: Runtime, session: StoreSession, entry: Entry, row: RunRow) -> HeldRun:
    """Enter a finished run to replay it: no lease, no attempt, and nothing is written."""
    view = await runtime.store(load, session.store, row.run)
    await runtime.store(_check, session.store, view, entry, row.run)
    return HeldRun(session, row, view, None, entry)


async def _replay_only(runtime: Runtime, session: StoreSession, entry: Entry, run: str) -> HeldRun:
    """Enter a run of any status to compare it with today's program. UnknownRun if it is not recorded."""
    row = await runtime.store(session.store.find_run, run)
    if row is None or not row.head:
        raise UnknownRun(run=run, store=session.store.url)
    held = await _replay(runtime, session, entry, row)
    held.resumed = True
    held.feature("replay")
    held.feature("drift")
    return held


async def _begin(runtime: Runtime, session: StoreSession, entry: Entry, seen: _Seen, lease: Lease) -> HeldRun:
    store, (row, view, letters, letter, unseen) = session.store, seen
    before = link_behind(view.head_chain, row.birth)
    journal = Journal(store, session.committer, row.run, lease.fence, view.head, before=before)
    if await cancel.take_in(runtime, session, row, view, journal, letter):
        raise await runtime.store(cancel.refusal, store, row)
    drafts: list[Draft] = []
    if view.started is None:
        drafts.append(started_of(entry))
    was_tried = bool(view.attempts)
    is_fork = row.origin is not None and view.head == row.origin_seq
    drafts += unseen
    if view.status in OVER and not is_fork:
        drafts.append(draft(Kind.RUN_REOPENED, "", "", {}))
    observer = journal.observer = observers.attend(row, view)
    said = entry._replace(roots=()) if entry.roots == _given_roots(entry, view) else entry
    started = attempt_of(store, view.next_attempt, lease, said, observer, owner_of(row), view.attempts[-1:])
    if KNOWN:
        from holdfast.codec.secrets import digests
        from holdfast.engine.journal.lineage_names import lineage_named

        lineage = await runtime.store(lineage_named, store, row)
        started = started._replace(body=rewritten(started.body, secrets=digests(lineage)))
    drafts.append(started)
    head, last_at = view.head, view.last.at if view.last is not None else 0.0
    at = session.clock.wall()
    try:
        # One append: a crash leaves all of it or nothing.
        seq = await journal.append(runtime, drafts, at, status=Status.RUNNING)
        if seq == head + len(drafts):  # where they were placed: so these are the events
            fold(placed_after(head, before, drafts, row.run, lease.fence, at)[0], view)
        else:
            fold(await runtime.store(read_all, store, row.run, after_seq=head), view)
    except BaseException as error:
        observers.gone(observer, "lost", error)
        raise
    held = HeldRun(session, row, view, journal, entry)
    held.observer, held.tree.parent = observer, _parent_of(session, row.run)
    held.resumed = was_tried
    held.entered_seq, held.last_at = head, last_at
    held.drift_stops = entry.on_drift == "stop"
    session.heartbeat.add(journal, session.lease_s)  # before the inbox, which may take longer than the lease
    try:
        await inbox.drain_on_entering(held, runtime, letters)
    except BaseException as error:
        session.heartbeat.remove(journal)
        observers.gone(observer, "lost", error)
        raise
    return held


def _given_roots(entry: Entry, view: View) -> tuple[str, ...]:
    return roots_of(view) if view.started is not None else entry.roots


def _check_fence(store: StorePort, row: RunRow, view: View, lease: Lease) -> None:
    """Corrupt if the run's fence went down; LeaseLost if another process has taken the lease since.

    The row's checksum does not cover the lease, so nothing else shows it.
    """
    last = view.last
    if last is not None and last.chain and last.seq > row.origin_seq and last.fence > lease.fence:
        now = store.find_run(row.run, damaged=True)
        if (
            now is not None and now.lease.fence >= last.fence
        ):  # we were stopped between the lease and the events
            fences_now = {"fence_now": now.lease.fence, "fence": lease.fence}
            raise LeaseLost(run=row.run, owner=owner_name(now.lease.owner), head=last.seq, **fences_now)
        fences = f"is at fence {lease.fence}, and event #{last.seq} of it was written under {last.fence}"
        raise Corrupt(store=store.url, problem=f"run {row.run} {fences}")


def _check(store: StorePort, view: View, entry: Entry, run: str) -> None:
    check_known(store, run, view.newer)
    check_inputs(store, view, run, goal=entry.goal, inputs=entry.inputs, defaults=entry.defaults)
