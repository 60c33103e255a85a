"""Takes and releases the lease of a run.

A free lease, or that of a dead process, is taken at once; a process that was just killed is waited for. For a
live holder, RunHeld says who it is, where, and since when. A holder whose last beat is older than its
``lease_s`` is watched for that long, by this process's monotonic clock; if no beat comes, the lease is taken
by compare-and-set on (fence, beat). That proves silence, not death: only the file lock proves death.

Invariant: every lease has a higher fence than the one before, and the store refuses appends under a lower
fence. So a holder that was only slow can do no harm to the journal when it continues.

A crash while the lease is held leaves it to expire. A lease that the store refused to release, as on a full
disk, is an orphan of this process: nothing in this process writes under its fence any more, so this process
may take the run again at once. Other processes wait until the holder is silent or dead.
"""

from collections.abc import Callable
from functools import partial

from holdfast.clock import Clock
from holdfast.core.text.times import ago, moment
from holdfast.engine.log import log
from holdfast.engine.sync_async import Runtime
from holdfast.errors import HoldfastError, RunHeld, UnknownRun
from holdfast.limits import CLOCK_BACK_S, HOLDER_ENDS_S
from holdfast.model.store_rows import Grant, Lease, Liveness, RunRow, owner_name
from holdfast.stores.port import StorePort

_LOOKS_PER_LEASE = 10
_ENDING_POLL_S = 0.01
_orphans: set[tuple[str, str, str, int]] = set()
"""Leases that this process has but does not use: store, owner, run and fence."""


async def take(
    runtime: Runtime, store: StorePort, clock: Clock, run: str, lease_s: float, *, above: int = 0
) -> Lease:
    """The lease of this run, under a new fence. RunHeld if a live process has it; UnknownRun.

    A row that the caller read before may be out of date: the run may have been erased and created again
    since. ``held_row`` reads it under the lease.
    """
    return (await granted(runtime, store, clock, run, lease_s, above=above)).lease


async def granted(
    runtime: Runtime, store: StorePort, clock: Clock, run: str, lease_s: float, *, above: int = 0
) -> Grant:
    """As ``take``, with the row if the store gave it with the lease."""
    over: Lease | None = None
    while True:
        grant = await _acquire(
            runtime, store, run, partial(store.acquire, run, lease_s=lease_s, over=over, above=above), clock
        )
        if grant.granted:
            if over is not None:
                _orphans.discard((store.url, store.owner, run, over.fence))
            return grant
        held = grant.lease
        if is_orphan(store, run, held):
            pass  # taken over below, without a probe: this process is alive and would refuse itself
        elif not held.owner:
            # Refused without an owner: the run does not exist, or was created or released in the meantime.
            if await runtime.store(store.find_run, run) is None:
                raise UnknownRun(run=run, store=store.url)
            continue
        elif held.owner == store.owner or not await _is_gone(runtime, store, clock, run, held):
            raise _refusal(store, clock, run, held)
        over = held


def give_back(store: StorePort, run: str, fence: int) -> None:
    """Release a lease under which nothing writes any more.

    If the store refuses, it becomes an orphan; no error.
    """
    try:
        store.release(run, fence=fence)
    except HoldfastError as error:
        _orphans.add((store.url, store.owner, run, fence))
        log().warning("the lease of run %s could not be released: %s", run, error)


def is_orphan(store: StorePort, run: str, held: Lease) -> bool:
    """Whether this process holds the lease but could not release it."""
    return held.owner == store.owner and (store.url, store.owner, run, held.fence) in _orphans


async def _acquire(
    runtime: Runtime, store: StorePort, run: str, acquire: Callable[..., Grant], clock: Clock
) -> Grant:
    """Ask for the lease. If the task is cancelled while the store grants it, release it: no caller would."""
    answers: list[Grant] = []
    try:
        return await runtime.store(lambda: _kept(answers, acquire(at=clock.wall())))
    except BaseException:
        if answers and answers[0].granted:
            await runtime.store(give_back, store, run, answers[0].lease.fence)
        raise


def _kept(answers: list[Grant], grant: Grant) -> Grant:
    answers.append(grant)
    return grant


def held_row(store: StorePort, run: str, before: RunRow | None = None, given: RunRow | None = None) -> RunRow:
    """The run's row, read under our lease. UnknownRun if the run is gone: then the lease was lost, too.

    ``before`` is the row from before the lease was taken: it says who held the run last. ``given`` is the row
    that came with the lease.
    """
    row = given or store.find_run(run)
    if row is None:
        raise UnknownRun(run=run, store=store.url)
    return row if before is None else with_lease_of(row, before)


def with_lease_of(row: RunRow, before: RunRow) -> RunRow:
    """The row with the lease that it had before ours; none if ``before`` is another run of this name."""
    return row._replace(lease=before.lease if row.birth == before.birth else Lease())


def check_is_free(store: StorePort, clock: Clock, row: RunRow) -> None:
    """RunHeld if a live process holds the run; the lease is not taken.

    A dead or silent holder does not count.
    """
    held = row.lease
    if not held.owner or is_orphan(store, row.run, held):
        return
    if clock.wall() - held.beat_at < held.lease_s and store.probe(held.owner) != "dead":
        raise _refusal(store, clock, row.run, held)


def holder_of(store: StorePort, row: RunRow) -> Liveness | None:
    """Whether the holder lives, for people: one that was just killed is dead. None without one."""
    found = store.probe(row.lease.owner) if row.lease.owner else None
    return "dead" if found == "ending" else found


def _refusal(store: StorePort, clock: Clock, run: str, held: Lease) -> RunHeld:
    return RunHeld(
        run=run,
        owner=owner_name(held.owner) + (" (this process)" if held.owner == store.owner else ""),
        since=moment(held.since),
        fence=held.fence,
        beat_age=ago(clock.wall() - held.beat_at),
    )


async def _is_dead(runtime: Runtime, store: StorePort, clock: Clock, owner: str) -> bool:
    """Whether the holder is dead; one that was killed a moment ago is waited for."""
    began = clock.monotonic()
    while (found := await runtime.store(store.probe, owner)) == "ending":
        if clock.monotonic() - began > HOLDER_ENDS_S:
            break
        await runtime.sleep(clock, _ENDING_POLL_S)
    return found == "dead"


async def _is_gone(runtime: Runtime, store: StorePort, clock: Clock, run: str, held: Lease) -> bool:
    """Whether the lease may be taken over: its holder is dead, or was silent for its whole ``lease_s``."""
    if await _is_dead(runtime, store, clock, held.owner):
        return True
    # A beat from the future only says that the clocks differ: then watch the lease by our own clock.
    if -CLOCK_BACK_S < clock.wall() - held.beat_at < held.lease_s:
        return False
    log().warning(
        "run %s is held by %s, silent for %s; watching it for %.0f s",
        run, owner_name(held.owner), ago(clock.wall() - held.beat_at), held.lease_s,
    )  # fmt: skip
    began = clock.monotonic()
    while clock.monotonic() - began < held.lease_s:
        await runtime.sleep(clock, held.lease_s / _LOOKS_PER_LEASE)
        row = await runtime.store(store.find_run, run, damaged=True)
        if row is None or row.lease != held:
            # Released: the lease is free, and the caller takes it. A beat or a new holder: it is in use.
            return row is not None and not row.lease.owner
        if await runtime.store(store.probe, held.owner) == "dead":
            return True
    return True
