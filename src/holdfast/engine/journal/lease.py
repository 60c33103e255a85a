"""Taking the lease of a run: at once from nobody or from a dead process, by observation from a silent one.

A live holder is refused with who, where and since when. A holder whose beat is old is watched for its own
``lease_s`` of this process's monotonic clock; if the beat does not move, the lease changes hands by
compare-and-set on (fence, beat). That proves silence, not death: only the file lock proves death.

A lease that could not be given back, as on a full disk, is an orphan of this process: it knows that nothing of its own
writes under that fence any more, and takes the run again at once. Others wait until it is silent or dead.
"""

from collections.abc import Callable
from functools import partial

from holdfast.clock import Clock
from holdfast.core.text.times import ago, moment
from holdfast.engine.log import log
from holdfast.engine.sync_async import Runtime
from holdfast.errors import HoldfastError, RunHeld, UnknownRun
from holdfast.limits import CLOCK_BACK_S
from holdfast.model.store_rows import Grant, Lease, RunRow, owner_name
from holdfast.stores.port import StorePort

_LOOKS_PER_LEASE = 10
_orphans: set[tuple[str, str, str, int]] = set()
"""Leases of this process that nobody has: store, owner, run and fence."""


async def take(
    runtime: Runtime, store: StorePort, clock: Clock, run: str, lease_s: float, *, above: int = 0
) -> Lease:
    """The lease of this run, under a new fence. RunHeld when a live process has it; UnknownRun when it is not there.

    A row that was read before is not the run any more: it may have been erased, and made anew. ``held_row`` reads it again.
    """
    over: Lease | None = None
    while True:
        grant = await _acquire(
            runtime, store, run, partial(store.acquire, run, lease_s=lease_s, over=over, above=above), clock
        )
        if grant.granted:
            if over is not None:
                _orphans.discard((store.url, store.owner, run, over.fence))
            return grant.lease
        held = grant.lease
        if is_orphan(store, run, held):
            pass
        elif not held.owner:
            # No owner, and the lease is not ours: there is no run, or one was made just now.
            if await runtime.store(store.find_run, run) is None:
                raise UnknownRun(run=run, store=store.url)
            continue
        elif held.owner == store.owner or not await _is_gone(runtime, store, clock, run, held):
            raise _refusal(store, clock, run, held)
        over = held


def give_back(store: StorePort, run: str, fence: int) -> None:
    """Let the lease go; nothing writes under it any more. Where the store does not take that, it is an orphan, and no error."""
    try:
        store.release(run, fence=fence)
    except HoldfastError as error:
        _orphans.add((store.url, store.owner, run, fence))
        log().warning("the lease of run %s could not be given back: %s", run, error)


def is_orphan(store: StorePort, run: str, held: Lease) -> bool:
    """Whether this process holds the lease and has no use for it."""
    return held.owner == store.owner and (store.url, store.owner, run, held.fence) in _orphans


async def _acquire(
    runtime: Runtime, store: StorePort, run: str, acquire: Callable[..., Grant], clock: Clock
) -> Grant:
    """Ask for the lease. Cancelled while the store answers, a lease that it has granted is given back: nobody would."""
    granted: list[Grant] = []
    try:
        return await runtime.store(lambda: _kept(granted, acquire(at=clock.wall())))
    except BaseException:
        if granted and granted[0].granted:
            await runtime.store(store.release, run, fence=granted[0].lease.fence)
        raise


def _kept(granted: list[Grant], grant: Grant) -> Grant:
    granted.append(grant)
    return grant


def held_row(store: StorePort, run: str, before: RunRow | None = None) -> RunRow:
    """The run as it is under our lease. UnknownRun where it is gone: then the lease was lost, too.

    ``before`` is its row as it was read before: of the same run it still says whose the lease was.
    """
    row = store.find_run(run)
    if row is None:
        raise UnknownRun(run=run, store=store.url)
    return row if before is None else with_lease_of(row, before)


def with_lease_of(row: RunRow, before: RunRow) -> RunRow:
    """The row with the lease that it had before ours; none if another run of this name had that one."""
    return row._replace(lease=before.lease if row.birth == before.birth else Lease())


def check_is_free(store: StorePort, clock: Clock, row: RunRow) -> None:
    """Refuse a run that somebody alive holds, without taking it: RunHeld. A holder that is dead or silent is none."""
    held = row.lease
    if not held.owner or is_orphan(store, row.run, held):
        return
    if clock.wall() - held.beat_at < held.lease_s and store.probe(held.owner) != "dead":
        raise _refusal(store, clock, row.run, held)


def _refusal(store: StorePort, clock: Clock, run: str, held: Lease) -> RunHeld:
    return RunHeld(
        run=run,
        owner=owner_name(held.owner) + (" (this process)" if held.owner == store.owner else ""),
        since=moment(held.since),
        fence=held.fence,
        beat_age=ago(clock.wall() - held.beat_at),
    )


async def _is_gone(runtime: Runtime, store: StorePort, clock: Clock, run: str, held: Lease) -> bool:
    """Whether the lease may be taken over: its holder is dead, or silent for as long as it promised not to be."""
    if await runtime.store(store.probe, held.owner) == "dead":
        return True
    # A beat from the future says that the clocks differ, and nothing else: then only watching tells.
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
            return row is not None and not row.lease.owner
        if await runtime.store(store.probe, held.owner) == "dead":
            return True
    return True
