"""The first append of a process looks up what it is chained to; other threads may append meanwhile."""

from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Event, Thread
from typing import Any, cast
from uuid import uuid4

import holdfast
from holdfast.engine.journal.drafts import draft
from holdfast.engine.journal.group_commit import Committer
from holdfast.engine.journal.journal import Journal
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.events import Kind
from holdfast.model.store_rows import Append, AppendOutcome, RunRow
from holdfast.stores.port import StorePort
from holdfast.stores.url import open_store

WAIT_S = 60.0


class HeldBack:
    """A port that calls ``meanwhile`` inside the first lookup, and holds appends back until that lookup is done."""

    def __init__(self, port: StorePort) -> None:
        self._port = port
        self.meanwhile: Callable[[], None] | None = None
        self.is_submitted, self.is_looked_up = Event(), Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def find_run(self, run: str) -> RunRow | None:
        hook, self.meanwhile = self.meanwhile, None
        if hook is not None:
            hook()
        return self._port.find_run(run)

    def read_events(self, run: str, **bounds: Any) -> Any:
        found = self._port.read_events(run, **bounds)
        if self.is_submitted.is_set():
            self.is_looked_up.set()
        return found

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        self.is_submitted.set()
        assert self.is_looked_up.wait(WAIT_S)
        return self._port.append(items)


def test_an_event_that_is_not_stored_yet_is_not_missing() -> None:
    """A thread looks up the link while another's event is submitted, not stored: both are written, in order."""
    with closing(open_store(f"memory://{uuid4().hex}")) as port:
        with holdfast.run("r", store=holdfast.Store(port)) as run:
            run.step("s", str, 1)
        grant = port.acquire("r", at=0.0, lease_s=60.0)
        row = port.find_run("r")
        assert row is not None
        held_back = HeldBack(port)
        store = cast(StorePort, held_back)
        journal = Journal(store, Committer(store), "r", grant.lease.fence, row.head)
        written: list[int] = []

        def append(name: str) -> None:
            mark = draft(Kind.MARK, name, "", {})
            written.append(drive(journal.append(BLOCKING, [mark], 0.0)))

        other = Thread(target=append, args=("other",))

        def meanwhile() -> None:
            other.start()
            assert held_back.is_submitted.wait(WAIT_S)

        held_back.meanwhile = meanwhile
        append("first")
        other.join(WAIT_S)
        assert sorted(written) == [row.head + 1, row.head + 2]
        names = [event.name for event in port.read_events("r", after_seq=row.head, limit=10)]
        assert names == ["other", "first"]
