"""A process that is stopped between taking the lease and reading the journal, while another one takes the run over."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

import pytest

import holdfast
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.relay_store import Relay

T = TypeVar("T")


class _Stopped(Relay):
    """Another process takes the lease over before the first page of events is read."""

    is_stopped = True

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        if verb.__name__ == "read_events" and self.is_stopped:
            self.is_stopped = False
            held = self.port.find_run("r")
            assert held is not None
            other = MemoryStore(self.port.url.partition("://")[2])
            other._owner = "another"  # type: ignore[misc]
            other.acquire("r", at=0.0, lease_s=60.0, over=held.lease)
            other.release("r", fence=held.lease.fence + 1)
            with holdfast.run("r", store=holdfast.Store(other)) as run:
                run.step("look", len, "abc")
        return verb(*args, **kwargs)


def test_it_is_told_that_the_lease_is_lost_and_not_that_the_store_is_damaged() -> None:
    """Found by the simulator: it was ``Corrupt``, and a doctor would have found nothing."""
    name = uuid4().hex
    with pytest.raises(RuntimeError), holdfast.run("r", store=f"memory://{name}") as run:
        run.step("see", len, "ab")
        raise RuntimeError("the attempt ends")
    with (
        pytest.raises(holdfast.LeaseLost),
        holdfast.run("r", store=holdfast.Store(_Stopped(MemoryStore(name)))),
    ):
        pass
