"""A run that is erased, and made anew under its name, just before somebody takes its lease: what was read before is another run's.

Each test lets that happen between the look at the run and the lease, at the store's port.
"""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast import errors
from holdfast.engine.journal.lease import take
from holdfast.engine.run.store_session import session_of
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.store_rows import RunRow, Status
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay
from holdfast.testing.store_rules.builders import delete_run

DEADLINE_S = 60


class Meddling(Relay):
    """Does something once, right before the next lease is taken, or right after the next run is created."""

    before: Callable[[], object] | None = None
    after_create: Callable[[], object] | None = None

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if verb.__name__ == "acquire" and self.before is not None:
            meddle, self.before = self.before, None
            meddle()
        done = super().pass_on(verb, *args, **kwargs)
        if verb.__name__ == "create_run" and self.after_create is not None:
            meddle, self.after_create = self.after_create, None
            meddle()
        return done

    def erase(self, run: str) -> None:
        """As another process does."""
        grant = self.port.acquire(run, at=1.0, lease_s=5.0)
        row = self.port.find_run(run)
        assert grant.granted
        assert row is not None
        assert delete_run(self.port, run, fence=grant.lease.fence, revision=row.revision)

    def make_anew(self, run: str, **fields: Any) -> str:
        """Another run of that name; its birth."""
        self.erase(run)
        birth = os.urandom(16).hex()
        assert self.port.create_run(RunRow(run, birth, 1.0, Status.QUEUED, b"{}", **fields))
        return birth

    def birth_of(self, run: str) -> str:
        row = self.port.find_run(run)
        assert row is not None
        return row.birth


@pytest.fixture
def port(url: str) -> Iterator[Meddling]:
    made = Meddling(open_store(url))
    session_of(made)
    signal.alarm(DEADLINE_S)  # a lease that is asked for again and again would hold the test for ever
    yield made
    signal.alarm(0)


@pytest.fixture
def store(port: Meddling) -> holdfast.Store:
    return holdfast.Store(port)


def test_a_run_made_anew_is_entered_as_itself(port: Meddling, store: holdfast.Store) -> None:
    """Keys and chains are made from the birth of the run that is entered. They were made from the erased one's."""
    port.create_run(RunRow("r", os.urandom(16).hex(), 1.0, Status.QUEUED, b"{}"))
    births: list[str] = []
    port.before = lambda: births.append(port.make_anew("r"))
    with holdfast.run("r", store=store) as run:
        assert run._held.birth == births[0] == port.birth_of("r")
        run.step("one", str, 1)
    with holdfast.run("r", store=store) as run:  # its journal can be read: each event follows the one before
        assert run.step("one", str, 1) == "1"


def test_a_run_that_was_erased_is_started(port: Meddling, store: holdfast.Store) -> None:
    """Not held by anybody, and not there: it is made again. Entering asked for its lease for ever."""
    port.create_run(RunRow("r", os.urandom(16).hex(), 1.0, Status.QUEUED, b"{}"))
    port.before = lambda: port.erase("r")
    with holdfast.run("r", store=store) as run:
        assert run.step("one", str, 1) == "1"


def test_a_run_that_is_erased_as_soon_as_it_is_created_is_created_again(
    port: Meddling, store: holdfast.Store
) -> None:
    """Another process erases the new row before this one has read it back."""
    port.after_create = lambda: port.erase("r")
    with holdfast.run("r", store=store) as run:
        assert run.attempt == 1
    assert store.get("r").status == "finished"


def test_a_run_that_was_erased_is_not_resumed(port: Meddling, store: holdfast.Store) -> None:
    """mode="resume" never makes one."""
    port.create_run(RunRow("r", os.urandom(16).hex(), 1.0, Status.QUEUED, b"{}"))
    port.before = lambda: port.erase("r")
    with pytest.raises(errors.UnknownRun), holdfast.run("r", store=store, mode="resume"):
        pass


def test_a_lease_of_no_run_is_refused(port: Meddling) -> None:
    """UnknownRun, at once."""
    session = session_of(port)
    with pytest.raises(errors.UnknownRun):
        drive(take(BLOCKING, port, session.clock, "nobody", session.lease_s))


def test_new_means_new_under_the_lease_too(port: Meddling, store: holdfast.Store) -> None:
    """A run that another process began and left since we looked is no new one."""
    port.create_run(RunRow("r", os.urandom(16).hex(), 1.0, Status.QUEUED, b"{}"))

    def begin() -> None:
        with holdfast.run("r", store=store) as run:
            run.step("theirs", str, 1)
            run.close()

    port.before = begin
    with pytest.raises(errors.RunExists), holdfast.run("r", store=store, mode="new"):
        pass


def test_a_run_made_anew_is_queued_as_itself(port: Meddling, store: holdfast.Store) -> None:
    """What a submission writes is chained to the run that is there."""
    port.create_run(RunRow("r", os.urandom(16).hex(), 1.0, Status.QUEUED, b"{}", agent="echo"))
    port.before = lambda: port.make_anew("r", agent="echo")
    store.submit("echo", "r", {"word": "hi"})
    assert [event.kind for event in store.events("r")] == ["run.started"]


def test_a_rewind_is_of_the_run_that_was_named(port: Meddling, store: holdfast.Store) -> None:
    """The event that was named is the erased run's: nothing of the new one is moved back."""
    with holdfast.run("r", store=store) as run:
        run.step("one", str, 1)
        run.checkpoint({"a": 1})
    with holdfast.run("other", store=store):
        pass
    port.before = lambda: port.make_anew("r")
    with pytest.raises(errors.StoreUnavailable, match="created again"):
        store.rewind("r@1")


def test_a_run_made_anew_is_not_cancelled(port: Meddling, store: holdfast.Store) -> None:
    """The letter was the erased run's, and went with it."""
    with holdfast.run("r", store=store) as run:
        run.step("one", str, 1)
        run.close()
    port.before = lambda: port.make_anew("r")
    store.cancel("r", by="ada")
    assert store.events("r") == []


def test_a_fork_is_not_overwritten_by_one_made_anew(port: Meddling, store: holdfast.Store) -> None:
    """What the fork was to begin with is not written into another run of its name."""
    with holdfast.run("r", store=store) as run:
        run.step("one", str, 1)
    port.before = lambda: port.make_anew("f")
    with pytest.raises(errors.StoreUnavailable, match="before what it is to begin with"):
        store.fork("r", as_="f", override={"one": "2"})
    assert store.events("f") == []
