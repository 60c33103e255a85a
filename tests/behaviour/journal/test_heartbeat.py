"""The threads behind a store outlive whatever a store raises: each failure is logged, and the next round tries again."""

import errno
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast import errors
from holdfast.engine.journal.inbox_wakeup import InboxWakeup
from holdfast.engine.llm import stream_flusher
from holdfast.engine.run.store_session import session_of
from holdfast.model.store_rows import Cursor
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

DEADLINE_S = 30.0


def until(is_so: Callable[[], object]) -> None:
    """Poll until it is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


class Failing(Relay):
    """Raises the next errors in turn, when these verbs are called; counts the calls."""

    def __init__(self, url: str) -> None:
        super().__init__(open_store(url))
        self.failures: dict[str, list[BaseException]] = {}
        self.calls: dict[str, int] = {}

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        name = verb.__name__
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.failures.get(name):
            raise self.failures[name].pop(0)
        return super().pass_on(verb, *args, **kwargs)


@pytest.fixture
def port() -> Failing:
    made = Failing(f"memory://{uuid4().hex}")
    session_of(made, lease_s=0.05)
    return made


@pytest.mark.parametrize("verb", ["renew", "get_record", "sync"])
@pytest.mark.parametrize(
    "failure", [OSError(errno.EIO, "Input/output error"), RuntimeError("a bug"), MemoryError()]
)
def test_one_error_does_not_end_the_beats(
    port: Failing, verb: str, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a store raises, and wherever in a round: it is logged, and the rounds go on. It ended the thread for good."""
    with caplog.at_level(logging.WARNING, "holdfast"), holdfast.run("r", store=holdfast.Store(port)) as run:
        run.step("one", str, 1)
        port.failures[verb] = [failure]
        until(lambda: not port.failures[verb])
        beats, syncs = port.calls.get("renew", 0), port.calls.get("sync", 0)
        until(lambda: port.calls.get("renew", 0) > beats + 1 and port.calls.get("sync", 0) > syncs + 1)
    assert [one for one in caplog.records if one.message.startswith("no ") and " for r: " in one.message]


def test_what_a_beat_meets_does_not_keep_a_cancellation_from_being_seen(port: Failing) -> None:
    """A beat that fails every time hides no letter: it is looked for apart."""
    store = holdfast.Store(port)
    with pytest.raises(holdfast.Cancelled), holdfast.run("r", store=store) as run:
        port.failures["renew"] = [OSError(errno.EIO, "broken")] * 10_000
        store.cancel("r", by="ada")
        until(lambda: run._held.journal is not None and run._held.journal.cancelled is not None)
        port.failures.clear()
        run.step("next", str, 2)


def test_a_place_that_cannot_be_looked_at_is_the_stores_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's look at its file says StoreUnavailable for whatever the system says: the port raises nothing else."""
    port = open_store(f"sqlite:///{tmp_path}/a.db")
    assert isinstance(port, SqliteStore)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.stores.sqlite.file_system.os.stat", refuse)
        with pytest.raises(errors.StoreUnavailable, match="Permission denied"):
            port.renew({"r": 1}, at=1.0)
    port.close()


def test_one_error_does_not_end_the_flusher(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose flush raises something unheard of does not keep the other streams from being written."""
    monkeypatch.setattr(stream_flusher, "STREAM_FLUSH_S", 0.002)

    class Stream:
        def __init__(self, error: Exception | None) -> None:
            self.error, self.flushes = error, 0

        def flush(self) -> None:
            self.flushes += 1
            if self.error is not None:
                raise self.error

    flusher = stream_flusher.Flusher()
    broken, sound = Stream(OSError(errno.EIO, "broken")), Stream(None)
    flusher.add(broken)
    flusher.add(sound)
    until(lambda: broken.flushes > 2 and sound.flushes > 2)
    flusher.remove(broken)
    flusher.remove(sound)


def test_one_error_does_not_leave_waiters_asleep(port: Failing) -> None:
    """The thread that listens for all tasks meets an error: each is woken to look by itself, and later ones are heard."""
    wakeup = InboxWakeup(port)
    port.failures["wait"] = [OSError(errno.EIO, "broken")]
    rung: list[str] = []
    with wakeup.listening("r", Cursor(0, 0), lambda: rung.append("first")):
        until(lambda: rung)
    with wakeup.listening("r", Cursor(5, 5), lambda: rung.append("second")):
        until(lambda: "second" in rung)
    until(lambda: wakeup._thread is None)
