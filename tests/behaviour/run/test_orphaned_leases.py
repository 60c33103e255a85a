"""A lease that could not be given back, as on a full disk: the process that left it behind takes its own run again."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

import pytest

import holdfast
from holdfast.clock import SystemClock
from holdfast.engine.journal.lease import take
from holdfast.engine.sync_async import AWAITING
from holdfast.errors import DiskFull, RunHeld
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.relay_store import Relay

T = TypeVar("T")
_WRITES = frozenset({"append", "release", "renew", "put_record", "set_due", "swap_run"})


class Full(Relay):
    """A store whose disk is full for as long as a test says so."""

    is_full = False
    when_granted: Callable[[], object] | None = None
    """Called when the next lease is granted; the disk is full from then on."""

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        if self.is_full and verb.__name__ in _WRITES:
            raise DiskFull(store=self.url, problem="the disk is full")
        found = super().pass_on(verb, *args, **kwargs)
        if self.when_granted is not None and verb.__name__ == "acquire":
            self.is_full = True
            self.when_granted()
            self.when_granted = None
        return found


@pytest.fixture
def port() -> Full:
    return Full(MemoryStore(uuid4().hex))


def test_a_process_takes_back_what_it_could_not_let_go(port: Full) -> None:
    """With space again, the same line goes on: nothing of this process writes under the old lease any more."""
    store = holdfast.Store(port)
    run = holdfast.run("a", store=store, drain_s=0).open()
    assert run.step("one", str, 1) == "1"
    port.is_full = True
    with pytest.raises(DiskFull):
        run.close()
    port.is_full = False
    with holdfast.run("a", store=store) as again:
        assert again.attempt == 2
        assert again.step("one", str, 2) == "2"
    assert store.get("a").status == "finished"


def test_a_lease_that_is_in_use_is_nobody_elses(port: Full) -> None:
    """A lease of an earlier attempt was orphaned: that says nothing of the one that is held now."""
    store = holdfast.Store(port)
    run = holdfast.run("a", store=store).open()
    port.is_full = True
    with pytest.raises(DiskFull):
        run.close()
    port.is_full = False
    with holdfast.run("a", store=store), pytest.raises(RunHeld, match="this process"):
        store.erase("a")


def test_work_on_a_run_is_done_though_its_lease_stays(port: Full) -> None:
    """What it wrote is durable: a lease that cannot be given back is no failure of it, and is taken back by the next."""
    store = holdfast.Store(port)
    with holdfast.run("a", store=store) as run:
        run.checkpoint(1, label="first")
        run.checkpoint(2)
    releases = port.port.release
    port.port.release = _refuses  # type: ignore[method-assign]
    assert store.rewind("a@first").run == "a"
    port.port.release = releases  # type: ignore[method-assign]
    with holdfast.run("a", store=store, if_finished="reopen") as run:
        assert run.restore(0) == 1


def test_a_cancelled_task_leaves_no_lease_that_its_process_cannot_take(port: Full) -> None:
    """Cancelled while it is granted a lease that cannot be given back: cancelled, and the run can be entered."""
    store = holdfast.Store(port)
    with holdfast.run("a", store=store):
        pass

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(take(AWAITING, port, SystemClock(), "a", 30.0))
        port.when_granted = lambda: loop.call_soon_threadsafe(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert port.is_full
    port.is_full = False
    with holdfast.run("a", store=store, if_finished="reopen") as again:
        assert again.attempt == 2


def _refuses(run: str, *, fence: int) -> bool:
    raise DiskFull(store="memory", problem=f"the disk is full: {run} stays at {fence}")
