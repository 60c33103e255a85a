"""Taking the lease of a run: at once from nobody or from a dead process, by observation from a silent one.

A live holder is refused with who, where and since when. A holder whose beat is old is watched for its own
``lease_s`` of this process's monotonic clock; if the beat does not move, the lease changes hands by
compare-and-set on (fence, beat). That proves silence, not death: only the file lock proves death.
"""

from collections.abc import Callable
from functools import partial

from holdfast.clock import Clock
from holdfast.core.reports.times import ago, moment
from holdfast.engine.run.log import log
from holdfast.engine.run.sync_async import Hands
from holdfast.errors import RunHeld, UnknownRun
from holdfast.limits import CLOCK_BACK_S
from holdfast.model.store_rows import Grant, Lease, RunRow, owner_name
from holdfast.stores.port import StorePort

_LOOKS_PER_LEASE = 10


async def take(
    hands: Hands, store: StorePort, clock: Clock, run: str, lease_s: float, *, above: int = 0
) -> Lease:
    """The lease of this run, under a new fence. RunHeld when a live process has it; UnknownRun when it is not there.

    A row that was read before is not the run any more: it may have been erased, and made anew. ``held_row`` reads it again.
    """
    over: Lease | None = None
    while True:
        grant = await _acquire(
            hands, store, run, partial(store.acquire, run, lease_s=lease_s, over=over, above=above), clock
        )
        if grant.granted:
            return grant.lease
        held = grant.lease
        if (
            not held.owner
        ):  # nobody has it, and it is not ours: there is no run, or one was made this very moment
            if await hands.store(store.find_run, run) is None:
                raise UnknownRun(run=run, store=store.url)
            continue
        if held.owner == store.owner or not await _is_gone(hands, store, clock, run, held):
            raise _refusal(store, clock, run, held)
        over = held


async def _acquire(
    hands: Hands, store: StorePort, run: str, acquire: Callable[..., Grant], clock: Clock
) -> Grant:
    """Ask for the lease. Cancelled while the store answers, a lease that it has granted is given back: nobody would."""
    granted: list[Grant] = []
    try:
        return await hands.store(lambda: _kept(granted, acquire(at=clock.wall())))
    except BaseException:
        if granted and granted[0].granted:
            await hands.store(store.release, run, fence=granted[0].lease.fence)
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
    if held.owner and clock.wall() - held.beat_at < held.lease_s and store.probe(held.owner) != "dead":
        raise _refusal(store, clock, row.run, held)


def _refusal(store: StorePort, clock: Clock, run: str, held: Lease) -> RunHeld:
    return RunHeld(
        run=run,
        owner=owner_name(held.owner) + (" (this process)" if held.owner == store.owner else ""),
        since=moment(held.since),
        fence=held.fence,
        beat_age=ago(clock.wall() - held.beat_at),
    )


async def _is_gone(hands: Hands, store: StorePort, clock: Clock, run: str, held: Lease) -> bool:
    """Whether the lease may be taken over: its holder is dead, or silent for as long as it promised not to be."""
    if await hands.store(store.probe, held.owner) == "dead":
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
        await hands.sleep(clock, held.lease_s / _LOOKS_PER_LEASE)
        row = await hands.store(store.find_run, run)
        if row is None or row.lease != held:
            return row is not None and not row.lease.owner
        if await hands.store(store.probe, held.owner) == "dead":
            return True
    return True
