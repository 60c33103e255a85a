"""What goes wrong around a server, with real processes, locks and a full disk.

The disk is a small one, mounted in a namespace of the test's own. That takes root; a machine where it does not work fails
the test and does not skip it.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg import sql
from tests.support.postgres.proxy import Proxy
from tests.support.postgres.server import ask

from holdfast import limits
from holdfast.errors import StoreBusy
from holdfast.model.store_rows import Appended
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.url import place_of
from holdfast.testing.store_rules.builders import an_append, append, held

PROCESSES = 100
DEADLINE_S = 60.0


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    made = opened(postgres_url)
    yield made
    made.close()


def opened(url: str) -> PostgresStore:
    place = place_of(url)
    return PostgresStore(place.name, place.password)


@contextmanager
def row_locked(url: str, run: str = "r") -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Somebody has a run's row locked, in a transaction that ends with the block."""
    server, _, schema = url.partition("?schema=")
    with psycopg.connect(server) as somebody:
        query = sql.SQL("SELECT 1 FROM {} WHERE run = %s FOR UPDATE").format(sql.Identifier(schema, "runs"))
        somebody.execute(query, (run,))
        yield somebody
        somebody.rollback()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# -- what was sent ahead --------------------------------------------------------------------------------------

_POST_AND_DIE = """
import os, signal, sys
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.url import place_of
from holdfast.testing.store_rules.builders import an_append
place = place_of(sys.argv[1])
store = PostgresStore(place.name, place.password)
(outcome,) = store.append([an_append("r", int(sys.argv[2]), 0, synced=False, hasty=True)])
os.write(1, str(outcome).encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_posted_survives_its_process(postgres_url: str, store: PostgresStore) -> None:
    """Killed while the server has not even begun with it: it is in the kernel's hands, and is delivered.

    The row is locked until the process is gone. Planted: what is posted kept back until the next append; it was lost.
    """
    fence = held(store)
    with row_locked(postgres_url):
        dying = subprocess.run(
            [sys.executable, "-c", _POST_AND_DIE, postgres_url, str(fence)],
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert (dying.returncode, dying.stdout) == (-SIGKILL, str(Appended(1)).encode()), dying.stderr
        assert store.read_events("r", limit=9) == []
    until(lambda: [event.seq for event in store.read_events("r", limit=9)] == [1])


@pytest.mark.parametrize("ending", ["append", "append several", "sync"])
def test_what_was_posted_and_did_not_arrive_is_put_back(
    postgres_url: str, store: PostgresStore, ending: str
) -> None:
    """By whatever builds on it, and by the next sync if nothing does."""
    fence = held(store)
    with through_proxy(postgres_url) as (proxy, cut_off):
        append(cut_off, an_append("r", fence, 0))
        proxy.cut_next("before")
        append(cut_off, an_append("r", fence, 1, synced=False, hasty=True))
        until(lambda: proxy.cuts == 1)
        assert [event.seq for event in store.read_events("r", limit=9)] == [1]
        if ending == "sync":
            cut_off.sync()
            assert append(store, an_append("r", fence, 2)) == 3
        else:
            assert append(cut_off, an_append("r", fence, 2, 1 if ending == "append" else 2)) >= 3
        events = store.read_events("r", limit=9)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_of_two_for_one_place_the_one_that_was_given_up_is_not_put_back(
    postgres_url: str, store: PostgresStore
) -> None:
    """A holder that read its head anew writes something else there; what it had posted before is nobody's any more.

    Planted: what was lost looked for from its beginning; the one that was given up stood there.
    """
    fence = held(store)
    given_up = an_append("r", fence, 0, synced=False, hasty=True)
    (event,) = given_up.events
    other = given_up._replace(events=(event._replace(name="other"),))
    with through_proxy(postgres_url) as (proxy, cut_off):
        proxy.cut_next("before", b"survey")
        append(cut_off, given_up)
        until(lambda: proxy.cuts == 1)
        assert cut_off.read_events("r", limit=9) == []
        proxy.cut_next("before", b"other")
        append(cut_off, other)
        until(lambda: proxy.cuts == 2)
        assert append(cut_off, an_append("r", fence, 1)) == 2
        assert [found.name for found in store.read_events("r", limit=9)] == ["other", "survey"]


@contextmanager
def through_proxy(url: str) -> Iterator[tuple[Proxy, PostgresStore]]:
    """A handle on the same store whose line can be cut."""
    port = str(psycopg.conninfo.conninfo_to_dict(url.partition("?")[0])["port"])
    with Proxy(int(port)) as proxy:
        cut_off = opened(url.replace(f":{port}/", f":{proxy.port}/"))
        try:
            yield proxy, cut_off
        finally:
            cut_off.close()


# -- who is in the way ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["lock", "statement"])
def test_a_timeout_of_the_server_is_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """Whose row is locked by somebody else is told so, and how to find out by whom; afterwards everything goes on."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_S" if which == "lock" else "STATEMENT_TIMEOUT_S", 1.0)
    store = opened(postgres_url)
    fence = held(store)
    with row_locked(postgres_url):
        for verb in (
            lambda: store.append([an_append("r", fence, 0)]),
            lambda: store.append([an_append("r", fence, 0, 2)]),
            lambda: store.release("r", fence=fence),
        ):
            with pytest.raises(StoreBusy, match=f"{which} timeout") as caught:
                verb()
            assert "pg_stat_activity" in caught.value.hint
    assert append(store, an_append("r", fence, 0)) == 1
    store.close()


def test_what_was_posted_and_timed_out_is_put_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server gives it up after its process was told that it is on its way; what builds on it brings it along."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_S", 1.0)
    store = opened(postgres_url)
    fence = held(store)
    with row_locked(postgres_url) as somebody:
        append(store, an_append("r", fence, 0, synced=False, hasty=True))
        letting_go = threading.Timer(1.5, somebody.rollback)
        letting_go.start()
        assert append(store, an_append("r", fence, 1)) == 2
        letting_go.join()
    assert [event.seq for event in store.read_events("r", limit=9)] == [1, 2]
    store.close()


# -- many processes -------------------------------------------------------------------------------------------

_OPEN_AT_ONCE = """
import os, sys
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.url import place_of
place, count = place_of(sys.argv[1]), int(sys.argv[2])
inward, outward = os.pipe()
children = []
for number in range(count):
    child = os.fork()
    if not child:
        os.close(outward)
        os.read(inward, 1)  # until the last one is there
        code = 1
        try:
            store = PostgresStore(place.name, place.password)
            store.put_record("started", str(number), b"", revision=0)
            store.close()
            code = 0
        finally:
            os._exit(code)
    children.append(child)
os.close(outward)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


def test_a_hundred_processes_open_a_new_schema_at_once(postgres_url: str) -> None:
    """One makes it, the others wait for it; each of them works in it."""
    done = subprocess.run(
        [sys.executable, "-c", _OPEN_AT_ONCE, postgres_url, str(PROCESSES)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    server, _, schema = postgres_url.partition("?schema=")
    assert ask(server, f"SELECT count(*) FROM {schema}.records") == [(PROCESSES,)]
    assert ask(server, f"SELECT count(*) FROM {schema}.meta") == [(1,)]


# -- a full disk ----------------------------------------------------------------------------------------------

_FILL = """
import os, shutil, sys
from pathlib import Path
import holdfast
from holdfast import limits
from holdfast.errors import DiskFull
from tests.support.postgres.server import Server, ask
limits.OUTCOME_HOLD_S = 0.0  # what a full disk refuses is told at once
place, ballast = Path(sys.argv[1]), Path(sys.argv[1]) / "ballast"
ballast.write_bytes(bytes(400_000))
server = Server.started()
try:
    small = place / "small"
    small.mkdir()
    if os.geteuid() == 0:
        shutil.chown(small, "nobody")
    ask(server.url(), f"CREATE TABLESPACE small LOCATION '{small}'")
    url = f"{server.url()}?schema=full&options=-c%20default_tablespace%3Dsmall"
    CALLS, RECORDED, refused = [], [], 0
    def work(number):
        CALLS.append(number)
        return os.urandom(6000).hex()
    with holdfast.run("r", store=url) as run:
        number = 0
        while refused < 3:
            try:
                RECORDED.append(run.step("work", work, number))
                number += 1
            except DiskFull as error:
                refused += 1
                assert "No space left on device" in str(error), error
        assert len(RECORDED) > 20, len(RECORDED)
        ballast.unlink()
        for number in range(number, number + 5):
            RECORDED.append(run.step("work", work, number))
    before = len(CALLS)
    with holdfast.run("r", store=url, if_finished="reopen") as run:
        for number, value in enumerate(RECORDED):
            assert run.step("work", work, number) == value
    assert len(CALLS) == before, "something acknowledged was lost"
    store = holdfast.store(url)
    assert not [f for f in store._port.examine() if f.verdict == "failure"]
    store.close()
    print("done")
finally:
    server.remove()
"""


def test_a_full_disk_of_the_server_refuses_and_loses_nothing() -> None:
    """DiskFull, again and again; with some space freed the run goes on, in the same process, and nothing ran twice."""
    mounting = 'mount -t tmpfs -o size=2500k,mode=755 tmpfs "$1"; exec "$2" -c "$3" "$1"'
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    with TemporaryDirectory(
        prefix="holdfast-small-"
    ) as place:  # pytest's own are closed to the server's user
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-ec", mounting, "sh", place, sys.executable, _FILL],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
    assert (done.returncode, done.stdout) == (0, "done\n"), (
        f"it takes root to mount a small disk: {done.stderr}"
    )
