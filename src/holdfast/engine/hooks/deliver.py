"""Finds the notices that journals make, and delivers them: the one entry point for every process that looks.

The holder of a run calls it for its own run, when it asks a person and when it ends. A worker, ``holdfast
watch``, ``holdfast hooks deliver`` and the inspector call it for the whole store, and deliver what a holder
could not: it was killed, or the receiver was down.

A pass has two halves. ``look`` records what has to be sent; ``send_due`` sends what is due, each under a
claim, so that two processes do not send it at the same time. Both can be cut off anywhere:
``delivery_records`` says why nothing is lost.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from holdfast.core.hooks.notices import CRASHED, KINDS, crash_mark, first_seq, marks_in, wants
from holdfast.core.hooks.retries import next_try_at
from holdfast.core.journal.fold import View
from holdfast.core.journal.run_row_facts import row_damage
from holdfast.core.journal.run_status import row_status
from holdfast.engine.damage.damaged_runs import as_damage
from holdfast.engine.hooks import delivery_records as records
from holdfast.engine.hooks import store_hooks
from holdfast.engine.hooks.delivery_records import Noticed, Open
from holdfast.engine.hooks.notice_content import content_of
from holdfast.engine.hooks.senders import inability, send
from holdfast.engine.journal.lease import holder_of
from holdfast.engine.journal.lineage_names import all_runs
from holdfast.engine.journal.load_view import load
from holdfast.engine.log import log
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import Corrupt, HoldfastError
from holdfast.limits import EVENT_PAGE_MAX, HOOK_LOG_S
from holdfast.model.events import Event
from holdfast.model.hooks import DeliveryCounts, Hook, Mark, Sent
from holdfast.model.store_rows import RunRow, Status
from holdfast.stores.port import StorePort

_AT_ONCE: Final = 8
"""How many hooks are sent to side by side: a slow receiver must not hold up the others."""
_UNRECORDED_MAX: Final = 500
"""How many events of a running run are looked at again, before it is recorded that they were."""


def deliver(session: StoreSession) -> DeliveryCounts:
    """One pass over the whole store, for its own hooks. Raises StoreError if the store cannot be read."""
    hooks = store_hooks.usable(session.store)
    if not hooks:
        return DeliveryCounts()
    found = look_at_all(session, hooks)
    counts = send_due(session, hooks)
    records.forget_old(session.store, session.clock.wall() - HOOK_LOG_S)
    return counts._replace(found=found)


def deliver_run(session: StoreSession, run: str, hooks: Sequence[Hook]) -> DeliveryCounts:
    """The same for one run, and for hooks of the program, too."""
    every = (*hooks, *store_hooks.usable(session.store))
    row = session.store.find_run(run)
    if row is None or not every:
        return DeliveryCounts()
    found = look(session, row, every)
    return send_due(session, every, run=run)._replace(found=found)


# -- finding notices -----------------------------------------------------------------------------------------


def look_at_all(session: StoreSession, hooks: Sequence[Hook]) -> int:
    """Record what all runs have to report to these hooks. Returns the number of new deliveries."""
    store, found = session.store, 0
    known = records.all_noticed(store)
    for row in all_runs(store):
        try:
            if row.head and not row_damage(row):
                at = {hook.id: records.noticed_in(known.get(f"{row.run}@{hook.id}"), row) for hook in hooks}
                found += _look(session, row, hooks, at)
        except Corrupt as damage:
            log().warning("the notices of run %s cannot be found: %s", row.run, damage)
    return found


def look(session: StoreSession, row: RunRow, hooks: Sequence[Hook]) -> int:
    """Record what this run has to report to these hooks. Returns the number of new deliveries."""
    return _look(
        session, row, hooks, {hook.id: records.noticed(session.store, row, hook.id) for hook in hooks}
    )


def _look(session: StoreSession, row: RunRow, hooks: Sequence[Hook], known: dict[str, Noticed | None]) -> int:
    store = session.store
    is_crashed = _is_crashed(session, row)
    behind = [
        hook
        for hook in hooks
        if (at := known[hook.id]) is None or at.seq < row.head or (is_crashed and at.dead_head != row.head)
    ]
    if not behind:
        return 0
    starts = {hook.id: _start(store, row, hook, known[hook.id]) for hook in behind}
    events = _events(store, row, min(starts.values()))
    marks: list[tuple[int, Mark]] = []
    if events or is_crashed:
        with as_damage(store, row.run):
            view = load(store, row.run)
            marks = _marks(row, view, events, is_crashed=is_crashed)
    found = 0
    for hook in behind:
        crashed_before = (known[hook.id] or Noticed(0)).crashed
        new = [
            mark
            for seq, mark in marks
            if (seq > starts[hook.id] or mark.what == CRASHED) and not _is_known(mark, crashed_before)
        ]
        crash = row.head if is_crashed else 0
        found += _record(session, row, hook, new, starts[hook.id], crash)
    return found


def _is_known(mark: Mark, crashed: int) -> bool:
    """Whether the crash was noticed before its record: by a process that saw a dead holder."""
    return mark.what == CRASHED and mark.seq <= crashed


def _is_crashed(session: StoreSession, row: RunRow) -> bool:
    if row.status not in {Status.RUNNING, Status.IDLE}:
        return False
    holder = holder_of(session.store, row)
    return row_status(row, holder, session.clock.wall()) == "crashed"


def _start(store: StorePort, row: RunRow, hook: Hook, known: Noticed | None) -> int:
    """The event behind which this hook has to look."""
    if known is not None:
        return known.seq
    if not hook.since:  # a hook of the program knows a run from when it is entered, and could not note that
        return row.head
    # Most runs of a store are older than its hook: one event tells that, and their journals are not read.
    last = store.read_events(row.run, after_seq=row.head - 1, limit=1)
    return row.head if last and last[-1].at < hook.since else first_seq(row)


def _events(store: StorePort, row: RunRow, after_seq: int) -> list[Event]:
    found: list[Event] = []
    while after_seq < row.head:
        page = store.read_events(row.run, after_seq=after_seq, upto_seq=row.head, limit=EVENT_PAGE_MAX)
        found += [event for event in page if event.kind in KINDS]
        if len(page) < EVENT_PAGE_MAX:
            break
        after_seq = page[-1].seq
    return found


def _marks(row: RunRow, view: View, events: Iterable[Event], *, is_crashed: bool) -> list[tuple[int, Mark]]:
    """The notices with the events that make them. A crash that no event records comes last."""
    found = [(event.seq, mark) for event in events for mark in marks_in(row, view, [event])]
    attempt = view.crashed_attempt
    if is_crashed and attempt is not None and attempt.event.seq > first_seq(row):
        at = max(row.lease.beat_at, attempt.event.at)
        found.append((row.head, crash_mark(row, view, attempt.event, attempt.number, at)))
    return found


def _record(
    session: StoreSession, row: RunRow, hook: Hook, marks: Sequence[Mark], start: int, dead_head: int
) -> int:
    """Record deliveries first, then how far the hook knows the run."""
    is_child = "/" in row.run and session.store.find_run(row.run.rpartition("/")[0]) is not None
    now = session.clock.wall()
    wanted = [mark for mark in marks if wants(hook, mark, is_child=is_child)]
    found = sum(records.put_open(session.store, row, hook, mark, now) for mark in wanted)
    crashed = max((mark.seq for mark in marks if mark.what == CRASHED), default=0)
    # A running run moves on all the time: it is not recorded for every event that makes no notice.
    is_worth_it = marks or row.status != Status.RUNNING or row.head - start > _UNRECORDED_MAX
    if is_worth_it or dead_head:
        records.move_on(session.store, row, hook.id, Noticed(row.head, crashed, dead_head))
    return found


# -- sending -------------------------------------------------------------------------------------------------


def send_due(session: StoreSession, hooks: Sequence[Hook], run: str = "") -> DeliveryCounts:
    """Send what is due to these hooks, of one run or of all. Returns when all of them were tried once."""
    store, now = session.store, session.clock.wall()
    by_id = {hook.id: hook for hook in hooks}
    groups: dict[str, list[Open]] = {}
    waiting = 0
    for one in records.opened(store, run):
        if one.hook not in by_id:
            continue
        if one.next_at > now or one.is_claimed(store, now):
            waiting += 1
        else:
            groups.setdefault(one.hook, []).append(one)
    if not groups:
        return DeliveryCounts(waiting=waiting)
    if len(groups) == 1:
        ((id_, group),) = groups.items()
        ends = _send_group(session, by_id[id_], group)
    else:
        with ThreadPoolExecutor(min(_AT_ONCE, len(groups)), "holdfast-hooks") as pool:
            tried = [pool.submit(_send_group, session, by_id[id_], group) for id_, group in groups.items()]
            ends = [end for each in tried for end in each.result()]
    return DeliveryCounts(
        delivered=ends.count(records.DONE),
        failed=ends.count(records.WAITING),
        given_up=ends.count(records.GIVEN_UP),
        waiting=waiting + ends.count(records.SENDING),
    )


def _send_group(session: StoreSession, hook: Hook, group: Sequence[Open]) -> list[str]:
    """Send the notices of one hook, in their order. After a failure the others wait: the receiver is down."""
    ends: list[str] = []
    for one in sorted(group, key=lambda one: (one.mark.at, one.mark.seq)):
        try:
            end = _send_one(session, hook, one)
        except HoldfastError as error:
            log().warning("notice %s of run %s cannot be delivered now: %s", one.mark.id, one.run, error)
            end = records.WAITING
        ends.append(end)
        if end == records.WAITING and hook.kind == "webhook":
            ends += [records.SENDING] * (len(group) - len(ends))
            break
    return ends


def _send_one(session: StoreSession, hook: Hook, one: Open) -> str:
    """Claim and send one notice. Returns its state after that."""
    store, now = session.store, session.clock.wall()
    why = (store_hooks.refusal(store, hook) if hook.since else "") or inability(hook)
    if why:
        if why != one.error:  # said once, however often this process looks
            log().warning("hook %s cannot be used here: %s", hook.id, why)
            records.hold_back(store, one, why)
        return records.SENDING
    claimed = records.claim(store, one, hook, now)
    if claimed is None:
        return records.SENDING
    notice = content_of(session, claimed)
    if notice is None:
        records.end(store, claimed, records.OVERTAKEN, Sent(good=True), session.clock.wall())
        return records.OVERTAKEN
    return _ended(session, claimed, send(hook, notice, now))


def _ended(session: StoreSession, claimed: Open, sent: Sent) -> str:
    store, now = session.store, session.clock.wall()
    if sent.good:
        records.end(store, claimed, records.DONE, sent, now)
        return records.DONE
    next_at = next_try_at(claimed.tries, now, sent)
    if next_at is None:
        log().warning(
            "notice %s of run %s is given up after %d tries: %s",
            claimed.mark.id, claimed.run, claimed.tries, sent.error,
        )  # fmt: skip
        records.end(store, claimed, records.GIVEN_UP, sent, now)
        return records.GIVEN_UP
    records.put_off(store, claimed, sent, next_at)
    return records.WAITING
