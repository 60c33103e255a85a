"""What goes wrong with a server: refused logins, foreign schemas, restarts, cut connections. Nothing acknowledged is lost."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.support.postgres.proxy import Proxy
from tests.support.postgres.server import PASSWORD, Server, ask
from tests.support.postgres.sharing import new_schema

import holdfast
from holdfast import limits
from holdfast.errors import (
    AccessDenied,
    BadUrl,
    ForkedHandle,
    HoldfastError,
    NewerFormat,
    NotAStore,
    StoreError,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.model.store_rows import Appended, Refusal
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.url import open_store, place_of
from holdfast.testing.store_rules.builders import an_append, append, held


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests may stop."""
    made = Server.started()
    yield made
    made.remove()


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url()}?schema={new_schema()}"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    made = opened(url)
    yield made
    made.close()


def opened(url: str) -> PostgresStore:
    place = place_of(url)
    return PostgresStore(place.name, place.password)


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]


# -- who is let in --------------------------------------------------------------------------------------------


def refused(url: str) -> HoldfastError:
    """What opening a store says; no password is in it."""
    with pytest.raises(HoldfastError) as caught:
        open_store(url)
    assert PASSWORD not in f"{caught.value} {caught.value.hint}"
    assert "wrong" not in f"{caught.value} {caught.value.hint}"
    return caught.value


def test_a_wrong_password_is_told_as_such(server: Server) -> None:
    """With where to put the right one."""
    error = refused(server.url(password="wrong"))
    assert isinstance(error, AccessDenied)
    assert "password authentication failed" in str(error)
    assert "PGPASSWORD" in error.hint


def test_a_missing_database_is_told_as_such(server: Server) -> None:
    """With the command that makes it."""
    error = refused(server.url("nowhere"))
    assert isinstance(error, StoreMissing)
    assert "createdb nowhere" in error.hint


def test_a_missing_right_is_told_with_what_grants_it(server: Server) -> None:
    """Who may not make the schema may use one that was made for it."""
    schema = new_schema()
    ask(server.url(), f"CREATE ROLE {schema} LOGIN PASSWORD 'pw'")
    url = f"{server.url(user=schema, password='pw')}?schema={schema}"
    error = refused(url)
    assert isinstance(error, AccessDenied)
    assert f"CREATE SCHEMA {schema} AUTHORIZATION {schema}" in error.hint
    ask(server.url(), f"CREATE SCHEMA {schema} AUTHORIZATION {schema}")
    store = opened(url)
    held(store)
    store.close()


def test_a_server_that_is_not_there_is_told_at_once(server: Server) -> None:
    """Nobody waits for a server that this process has never seen."""
    error = refused(f"postgresql://127.0.0.1:{_unused_port()}/x")
    assert isinstance(error, StoreUnavailable)
    assert "refused" in str(error)


def test_a_read_only_server_is_told_as_such(server: Server, url: str, store: PostgresStore) -> None:
    """Reading goes on."""
    held(store)
    reading = opened(f"{url}&options=-c%20default_transaction_read_only%3Don")
    try:
        assert reading.find_run("r") is not None
        with pytest.raises(StoreReadOnly):
            reading.put_record("s", "k", b"", revision=0)
    finally:
        reading.close()


@pytest.mark.parametrize(
    "bad", ["postgresql://host", "postgresql://host/db?schema=A%20b", "postgresql://host/db?poll=yes",
            "postgresql://host/db?nonsense=1", "postgresql://u:wrong@host"]
)  # fmt: skip
def test_a_url_that_cannot_be_understood(bad: str) -> None:
    """Is refused before anything is connected to, and shown without its password."""
    assert isinstance(refused(bad), BadUrl)


# -- what is there --------------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused(url: str, server: Server) -> None:
    """This code does not know what it would lose."""
    opened(url).close()
    ask(server.url(), f"UPDATE {schema_of(url)}.meta SET format = 3")
    with pytest.raises(NewerFormat, match="its format is 3"):
        opened(url)


@pytest.mark.parametrize("table", ["meta (a int)", "theirs (a int)"])
def test_a_schema_of_somebody_else_is_left_as_it_is(url: str, server: Server, table: str) -> None:
    """NotAStore, and nothing is added to it."""
    schema = schema_of(url)
    ask(server.url(), f"CREATE SCHEMA {schema}")
    ask(server.url(), f"CREATE TABLE {schema}.{table}")
    with pytest.raises(NotAStore) as caught:
        opened(url)
    assert "schema=" in caught.value.hint
    assert len(ask(server.url(), "SELECT 1 FROM pg_tables WHERE schemaname = %s", schema)) == 1


def test_many_who_start_at_once_make_one_schema(url: str) -> None:
    """Whoever comes while it is made waits for it."""
    failures: list[BaseException] = []

    def start() -> None:
        try:
            opened(url).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# -- connections that are lost --------------------------------------------------------------------------------


def test_a_restart_of_the_server_is_waited_for(server: Server, store: PostgresStore) -> None:
    """Whatever was acknowledged as synced is there, and the next verbs of the same handle work."""
    fence = held(store)
    append(store, an_append("r", fence, 0, 3))
    server.stop("immediate")
    starting = threading.Timer(0.5, server.start)
    starting.start()
    try:
        assert append(store, an_append("r", fence, 3)) == 4
    finally:
        starting.join()
    assert [event.seq for event in store.read_events("r", limit=9)] == [1, 2, 3, 4]
    assert store.put_record("s", "k", b"", revision=0)


def test_a_server_that_stays_away_is_told(
    server: Server, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the timeout, as unavailable; and when it is back, so is the store."""
    fence = held(store)
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_S", 0.3)
    server.stop("fast")
    try:
        with pytest.raises(StoreUnavailable):
            store.append([an_append("r", fence, 0)])
        with pytest.raises(StoreUnavailable):
            store.find_run("r")
    finally:
        server.start()
    monkeypatch.undo()
    assert append(store, an_append("r", fence, 0)) == 1


def test_what_a_crash_of_the_server_takes_of_a_run_is_only_what_was_flushed(server: Server, url: str) -> None:
    """The intent of a read may be gone, its outcome is not; the attempt goes on in the same process, and so does the next."""
    calls: list[str] = []

    def crash() -> str:
        calls.append("crash")
        server.stop("immediate")
        server.start()
        return "back"

    for _ in range(2):
        with holdfast.run("r", store=url, if_finished="reopen") as run:
            assert run.step("before", calls.append, "before") is None
            assert run.options(key="crash").step("crash", crash) == "back"
            assert run.step("after", calls.append, "after") is None
    assert calls == ["before", "crash", "after"]
    findings = holdfast.store(url)
    try:
        assert not [f for f in open_store(url).examine() if f.verdict == "failure"]
    finally:
        findings.close()


def test_backends_that_are_ended_during_appends_lose_and_double_nothing(
    server: Server, url: str, store: PostgresStore
) -> None:
    """Every append is taken once: written, or found written by the refusal of its repetition."""
    fence = held(store)
    over = threading.Event()

    def end_them() -> None:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            while not over.wait(0.02):
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'holdfast' AND pid <> pg_backend_pid()"
                )

    ending = threading.Thread(target=end_them)
    ending.start()
    try:
        for seq in range(60):
            _append_or_find(store, fence, seq)
    finally:
        over.set()
        ending.join()
    assert [event.seq for event in store.read_events("r", limit=999)] == list(range(1, 61))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_is_cut_around_a_commit(server: Server, when: str) -> None:
    """Before the server got it or after it did it: the same handle goes on, and each event is there once."""
    with Proxy(server.port) as proxy:
        url = f"{server.url().replace(str(server.port), str(proxy.port))}?schema={new_schema()}"
        store = opened(url)
        fence = held(store)
        for seq in range(0, 30, 3):
            proxy.cut_next(when)
            _append_or_find(store, fence, seq)
            proxy.cut_next(when)
            _append_or_find(store, fence, seq + 1, count=2)
        assert [event.seq for event in store.read_events("r", limit=99)] == list(range(1, 31))
        assert proxy.cuts == 20
        store.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cut_around_the_commit_of_a_record_is_of_unknown_outcome(server: Server, when: str) -> None:
    """A compare-and-set is never repeated blindly: it would be refused by its own success."""
    with Proxy(server.port) as proxy:
        url = f"{server.url().replace(str(server.port), str(proxy.port))}?schema={new_schema()}"
        store = opened(url)
        proxy.cut_next(when, b"COMMIT\0")
        with pytest.raises(StoreUnavailable):
            store.put_record("s", "k", b"1", revision=0)
        found = store.get_record("s", "k")
        assert (found is not None) == (when == "after")
        store.close()


def test_a_run_over_a_line_that_breaks_all_the_time(server: Server) -> None:
    """Every step runs once, whatever is cut."""
    calls: list[int] = []
    with Proxy(server.port) as proxy:
        url = f"{server.url().replace(str(server.port), str(proxy.port))}?schema={new_schema()}"
        with holdfast.run("r", store=url) as run:
            for number in range(20):
                proxy.cut_next("after" if number % 2 else "before")
                run.step("s", calls.append, number)
        assert calls == list(range(20))
        with holdfast.run("r", store=url, if_finished="reopen") as run:
            for number in range(20):
                run.step("s", calls.append, number)
        assert calls == list(range(20))
        holdfast.store(url).close()


# -- durability -----------------------------------------------------------------------------------------------


@contextmanager
def only_clients_write(connection: psycopg.Connection) -> Iterator[None]:
    """Stops the server's own processes that write or flush its log by themselves, at their own times."""
    pids = [
        pid
        for (pid,) in connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type IN"
            " ('walwriter', 'background writer', 'checkpointer', 'autovacuum launcher', 'autovacuum worker')"
        )
    ]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_synced_commit_is_on_the_disk_and_a_flushed_one_after_a_sync(
    server: Server, store: PostgresStore
) -> None:
    """By the server's own account of its log, asked over one connection: a new one may write hint bits to the log."""
    fence = held(store)
    with psycopg.connect(server.url(), autocommit=True) as connection, only_clients_write(connection):

        def on_disk() -> bool:
            row = connection.execute(
                "SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text"
            ).fetchone()
            assert row is not None
            written, flushed = row
            return lsn(flushed) >= lsn(written)

        on_disk()
        append(store, an_append("r", fence, 0))
        assert on_disk()
        append(store, an_append("r", fence, 1, synced=False))
        assert not on_disk(), "a flushed append waits for nothing"
        store.sync()
        assert on_disk()
        store.renew({"r": fence}, at=1.0)
        assert not on_disk()
        append(store, an_append("r", fence, 2, 2))
        assert on_disk()


def lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def test_a_server_that_forces_another_durability_is_settled(server: Server, url: str) -> None:
    """What a role or database is set to does not matter: a session of ours commits synchronously."""
    ask(server.url(), "ALTER DATABASE postgres SET synchronous_commit = off")
    try:
        store = opened(url)
        settings = [finding.text for finding in store.examine() if finding.subject == "settings"]
        store.close()
    finally:
        ask(server.url(), "ALTER DATABASE postgres RESET synchronous_commit")
    assert "synchronous_commit=on" in settings[0]


# -- fork -----------------------------------------------------------------------------------------------------


def test_a_forked_handle_refuses_and_its_parents_goes_on(store: PostgresStore) -> None:
    """The connections are the parent's, also after the child has ended."""
    fence = held(store)
    child = os.fork()
    if not child:
        try:
            store.find_run("r")
        except ForkedHandle:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert append(store, an_append("r", fence, 0)) == 1


def _append_or_find(store: PostgresStore, fence: int, after_seq: int, count: int = 1) -> None:
    """As the engine does it: a refusal at the right fence, or an unknown outcome, is resolved by reading."""
    item = an_append("r", fence, after_seq, count)
    for _ in range(20):
        try:
            (outcome,) = store.append([item])
        except StoreError:
            outcome = Refusal("conflict")
        if isinstance(outcome, Appended):
            return
        assert outcome.reason == "conflict"
        there = store.read_events("r", after_seq=after_seq, limit=9)
        if there:
            assert there == list(item.events)
            return
    raise AssertionError(f"{item} is never taken")


def _unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
