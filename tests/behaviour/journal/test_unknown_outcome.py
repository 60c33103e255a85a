"""A failed append is of unknown outcome: the journal is read again before anything else is said."""

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import apsw
import pytest
from tests.behaviour.conftest import SetClock

import holdfast
from holdfast import errors
from holdfast.engine.journal.group_commit import Committer
from holdfast.engine.journal.journal import Journal
from holdfast.engine.run.store_session import session_of
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.events import Kind
from holdfast.model.store_rows import Append, AppendOutcome
from holdfast.stores.port import StorePort
from holdfast.stores.url import open_store
from holdfast.testing.store_rules.builders import delete_run

calls: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


class Unsure:
    """A port whose next appends fail, after or before they were written."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.script: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        plan = self.script.pop(0) if self.script else "fine"
        if plan == "never":  # from now on
            self.script = ["never"]
            raise errors.StoreUnavailable(store="x", problem="cut before it was written")
        if plan == "before":
            raise errors.StoreUnavailable(store="x", problem="cut before it was written")
        outcomes: list[AppendOutcome] = self._port.append(items)
        if plan == "after":
            raise errors.StoreUnavailable(store="x", problem="cut after it was written")
        return outcomes


@pytest.fixture
def port() -> Unsure:
    made = Unsure(open_store(f"memory://{uuid4().hex}"))
    session_of(made, clock=SetClock())
    return made


def note(value: object) -> object:
    calls.append(value)
    return value


def test_written_after_all_counts_as_written(port: Unsure) -> None:
    """The connection broke after the commit: the engine finds the event and goes on, nothing twice."""
    with holdfast.run("a", store=holdfast.Store(port)) as run:
        port.script = ["after", "after"]
        assert run.step("s", note, 1) == 1
        port.script = ["fine", "after"]
        assert run.once("t", note, 2) == 2
    kinds = [event.kind for event in holdfast.Store(port).events("a")]
    assert kinds.count(Kind.STEP_STARTED) == kinds.count(Kind.STEP_FINISHED) == 2


def test_not_written_is_an_error_and_the_call_is_in_doubt(port: Unsure) -> None:
    """The outcome of a once call could not be written: the error says so, and the next attempt asks."""
    store = holdfast.Store(port)
    with (
        pytest.raises(errors.StoreUnavailable, match="before it was written"),
        holdfast.run("a", store=store) as run,
    ):
        port.script = ["fine", "never"]
        run.once("pay", note, 1)
    port.script = []
    with pytest.raises(errors.StepInDoubt), holdfast.run("a", store=store) as run:
        run.once("pay", note, 1)
    assert calls == [1]


def test_a_failed_intent_means_that_nothing_ran(port: Unsure) -> None:
    """Intent first: if it cannot be written, the function is not called. (Planted: call before intent; it failed.)"""
    store = holdfast.Store(port)
    with pytest.raises(errors.StoreUnavailable), holdfast.run("a", store=store) as run:
        port.script = ["before"]
        run.once("pay", note, 1)
    assert calls == []


def test_the_run_goes_on_after_a_failed_write(port: Unsure) -> None:
    """A program may handle the error: the head was read again, and the next step fits the journal."""
    store = holdfast.Store(port)
    with holdfast.run("a", store=store) as run:
        port.script = ["never"]  # the intent goes with the outcome
        with pytest.raises(errors.StoreUnavailable, match="it will be made again"):
            run.step("s", note, 1)
        port.script = []
        assert run.step("s", note, 1) == 1
        assert run.step("t", note, 2) == 2
    seqs = [event.seq for event in store.events("a")]
    assert seqs == list(range(1, len(seqs) + 1))


def test_the_end_of_an_attempt_that_cannot_be_written_does_not_hide_the_error(port: Unsure) -> None:
    """The program's own exception comes out, with a note about the journal."""
    store = holdfast.Store(port)
    with pytest.raises(ValueError, match="mine") as raised, holdfast.run("a", store=store):
        port.script = ["before"]
        raise ValueError("mine")
    assert "could not record the end of this attempt" in raised.value.__notes__[0]
    with holdfast.run("a", store=store) as run:
        assert run.attempt == 2


def test_a_taken_lease_stops_the_old_holder(port: Unsure) -> None:
    """Once another process has the lease, the next write is refused and nothing of it is in the journal."""
    store = holdfast.Store(port)
    with (
        pytest.raises(errors.LeaseLost, match="this process held fence 1") as lost,
        holdfast.run("a", store=store) as run,
    ):
        row = port.find_run("a")
        port.acquire("a", at=row.lease.since, lease_s=30, over=row.lease)
        run.step("s", note, 1)
    assert lost.value.fence_now == 2
    assert run.status == "lost"
    assert Kind.STEP_STARTED not in [event.kind for event in store.events("a")]


def test_an_erased_run_stops_the_old_holder_also_after_a_failed_write(port: Unsure) -> None:
    """Its last write failed, and there is no run to look for it in: the lease is lost, and nothing else is wrong."""
    store = holdfast.Store(port)

    def erase() -> None:
        row = port.find_run("a")
        fence = port.acquire("a", at=row.lease.since, lease_s=30, over=row.lease).lease.fence
        assert delete_run(port, "a", fence=fence, revision=port.find_run("a").revision)
        port.script = ["before"]

    with pytest.raises(errors.LeaseLost), holdfast.run("a", store=store) as run:
        run.options(key="s").step("s", erase)
    assert store.runs() == []


def test_the_outcome_of_a_once_call_reaches_the_successor(port: Unsure) -> None:
    """Taken over inside a once call: its outcome goes to the inbox, and the successor settles it from there."""
    store = holdfast.Store(port)

    def pay() -> str:
        row = port.find_run("a")
        port.acquire("a", at=row.lease.since, lease_s=30, over=row.lease)
        calls.append("paid")
        return "receipt"

    with pytest.raises(errors.LeaseLost), holdfast.run("a", store=store) as run:
        run.options(key="pay").once("pay", pay)
    lease = port.find_run("a").lease
    port.release("a", fence=lease.fence)
    with holdfast.run("a", store=store) as run:
        assert run.options(key="pay").once("pay", pay) == "receipt"
    assert calls == ["paid"]
    assert port.scan_records("inbox/a", limit=10) == []


def test_what_a_crashed_server_took_back_is_put_back(tmp_path: Path) -> None:
    """Only flushed, an intent of a read step may be gone when its outcome comes: both stand in the journal then.

    Seen with a server that was restarted under many runs: one run's synced commit behind the restart counted as one for what
    another had flushed before it. Its outcome stood without an intent, and nobody could enter the run any more.
    """
    url = f"sqlite:///{tmp_path / 'a.db'}"

    def forget(value: int) -> int:
        with closing(apsw.Connection(str(tmp_path / "a.db"))) as connection:
            connection.execute("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")
        return value

    with pytest.raises(KeyboardInterrupt), holdfast.run("a", store=url) as run:
        assert run.step("s", note, 1) == 1
        # With a deadline, so that its intent is written by itself.
        assert run.options(deadline=time.time() + 600).step("t", forget, 2) == 2
        raise KeyboardInterrupt
    events = holdfast.store(url).events("a")
    assert [event.kind for event in events if event.kind.startswith("step")] == [
        "step.started",
        "step.finished",
    ] * 2
    with holdfast.run("a", store=url) as run:
        assert [run.step("s", note, 1), run.step("t", forget, 2)] == [1, 2]
    assert calls == [1]


@pytest.mark.parametrize("plan", ["before", "after"])
def test_a_status_of_unknown_outcome_is_read_back_from_the_row(port: Unsure, plan: str) -> None:
    """An append of a status alone has no events to look for: the run's row says whether it was written."""
    with holdfast.run("a", store=holdfast.Store(port)) as run:
        run.step("s", note, 1)
    fence = port.acquire("a", at=0.0, lease_s=60.0).lease.fence
    head = port.find_run("a").head
    store = cast(StorePort, port)
    journal = Journal(store, Committer(store), "a", fence, head)
    port.script = [plan]
    if plan == "before":
        with pytest.raises(errors.StoreUnavailable):
            drive(journal.append(BLOCKING, [], 0.0, status="idle"))
    else:
        assert drive(journal.append(BLOCKING, [], 0.0, status="idle")) == head
    assert port.find_run("a").status == ("idle" if plan == "after" else "finished")
    assert drive(journal.append(BLOCKING, [], 0.0, status="idle")) == head
