"""What a PostgreSQL store promises beyond the contract: who is dead, who is told, and what its URL shows."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from orjson import dumps
from tests.support.postgres.server import ask

from holdfast import limits
from holdfast.model.event_fields import rewritten
from holdfast.model.store_rows import Append, Cursor, Lease, inbox_space
from holdfast.stores import server_owners
from holdfast.stores import url as urls
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.url import open_store, place_of
from holdfast.testing.store_rules.builders import AT, an_append, an_event, append, held

_HOLD = (
    "import sys; from holdfast.stores.url import open_store; store = open_store(sys.argv[1]);"
    "print(store.owner, flush=True); sys.stdin.read()"
)


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    place = place_of(postgres_url)
    made = PostgresStore(place.name, place.password)
    yield made
    made.close()


# -- leases ---------------------------------------------------------------------------------------------------


def test_a_lease_that_is_released_while_it_refuses_is_taken(
    postgres_url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the judge of leases: the refusal and the lease that it names are two statements, and between them the
    holder may go. The caller was refused by a lease of nobody's."""
    place = place_of(postgres_url)
    holder = PostgresStore(place.name, place.password)
    fence = held(holder)
    execute = Connection.execute

    def leaving(self: Connection, query: Any, *args: Any, **options: Any) -> Any:
        if query == sql.GET_LEASE:
            monkeypatch.setattr(Connection, "execute", execute)
            assert holder.release("r", fence=fence)
        return execute(self, query, *args, **options)

    assert not store.acquire("r", at=AT, lease_s=9.0).granted
    monkeypatch.setattr(Connection, "execute", leaving)
    grant = store.acquire("r", at=AT, lease_s=9.0)
    assert (grant.granted, grant.lease.fence) == (True, fence + 1)
    holder.close()


# -- owners ---------------------------------------------------------------------------------------------------


def test_another_process_is_alive_until_it_is_killed(postgres_url: str, store: PostgresStore) -> None:
    """The kernel tells, at once, and not the connections: a server's restart would cut those of the living, too."""
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLD, postgres_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        owner = child.stdout.readline().strip()
        assert owner.startswith(f"{child.pid}@")
        assert store.probe(owner) == "alive"
        child.send_signal(SIGKILL)
        child.wait()
        assert store.probe(owner) == "dead"
        assert store.probe(store.owner) == "alive"


def test_a_child_does_not_keep_its_parents_name_alive(postgres_url: str, store: PostgresStore) -> None:
    """A fork that lives on is another process. Planted: without closing the inherited socket, the parent never died."""
    program = (
        "import os, sys; from holdfast.stores.url import open_store; store = open_store(sys.argv[1]);"
        "print(store.owner, flush=True); pid = os.fork(); print(pid, flush=True) if pid else None;"
        "sys.stdin.read() if not pid else os.kill(os.getpid(), 9)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, postgres_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        owner = child.stdout.readline().strip()
        child.stdout.readline()
        child.wait()
        _until(lambda: store.probe(owner) == "dead")  # the child lets go as soon as it runs


def test_a_process_elsewhere_cannot_be_proven_anything_about(store: PostgresStore) -> None:
    """Another machine, another boot, another network namespace: only its lease tells."""
    process, _, place = store.owner.rpartition(".")
    elsewhere = ("0" if place[0] != "0" else "1") + place[1:]
    assert store.probe(f"{process}.{elsewhere}") == "unknown"
    assert store.probe(f"1@host/{'ab' * 16}.{elsewhere}") == "unknown"
    assert server_owners.probe(f"1@host/{'ab' * 16}.{place}") == "dead"


# -- waiting --------------------------------------------------------------------------------------------------


def test_a_waiter_is_told_and_need_not_look(
    postgres_url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an event, a letter and a takeover that come through another process's handle, long before its own next look."""
    monkeypatch.setattr(limits, "LISTEN_LOOK_S", 30.0)
    place = place_of(postgres_url)
    other = PostgresStore(place.name, place.password)
    fence = held(store)
    append(store, an_append("r", fence, 0))
    changes: list[Callable[[], object]] = [
        lambda: append(other, an_append("r", fence, 1)),
        lambda: other.put_record(inbox_space("r"), "l", b"", revision=0),
        lambda: other.acquire("r", at=AT, lease_s=1.0, over=_lease(other)),
    ]
    for change in changes:
        row = other.find_run("r")
        assert row is not None
        letters = len(other.scan_records(inbox_space("r"), limit=9))
        answers: list[frozenset[str]] = []
        seen = {"r": Cursor(row.lease.fence, row.head, letters)}
        waiter = threading.Thread(target=_waited, args=(store, seen, answers))
        began = time.monotonic()
        waiter.start()
        _until(lambda: store._waiting._listens)
        change()
        waiter.join()
        assert answers == [frozenset({"r"})]
        assert time.monotonic() - began < 60.0
    other.close()


def _waited(store: PostgresStore, seen: dict[str, Cursor], answers: list[frozenset[str]]) -> None:
    answers.append(store.wait(seen, timeout_s=120.0))


def _lease(store: PostgresStore) -> Lease:
    row = store.find_run("r")
    assert row is not None
    return row.lease


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# -- the URL --------------------------------------------------------------------------------------------------


def test_the_url_shows_no_password_and_opens_the_same_store(postgres_url: str) -> None:
    """Within one process the place is the same, with the password or without it."""
    store = open_store(f"{postgres_url}&lease_s=7")
    try:
        assert place_of(postgres_url).password not in {None, ""}
        assert str(place_of(postgres_url).password) not in store.url
        assert open_store(store.url) is store
        assert open_store(postgres_url.replace("postgresql://", "postgres://")) is store
        assert urls.lease_s_of(f"{postgres_url}&lease_s=7") == 7.0
    finally:
        store.close()


def test_naming_a_postgres_store_imports_no_driver() -> None:
    """psycopg is loaded when the first such store is opened, not before."""
    program = (
        "import sys; from holdfast.stores.url import place_of; place_of('postgresql://h/d');"
        "assert 'psycopg' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# -- for people -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", [1, 2])
def test_the_views_say_what_those_of_sqlite_say(
    postgres_url: str, store: PostgresStore, tmp_path: Path, format_: int
) -> None:
    """Which tool ran most, where did runs fail, what did models cost: over the same events, the same rows in the same order.

    And the same of events of either format: the data hold an error that imitates fields of ours, and none of it counts.
    """
    file = SqliteStore(tmp_path / "x.db")
    form = (lambda body: body) if format_ == 1 else rewritten
    for run, told in _TOLD.items():
        for place in (store, file):
            fence = held(place, run)
            events = tuple(
                an_event(run, seq, body=form(body), name=name, kind=kind)
                for seq, (kind, name, body) in enumerate(told, 1)
            )
            append(place, Append(run, fence, 0, events))
    file.close()
    server, _, schema = postgres_url.partition("?schema=")
    shell = sqlite3.connect(tmp_path / "x.db")
    for view in ("journal", "tool_counts", "failures", "model_costs"):
        here = ask(server, f"SELECT * FROM {schema}.{view}")
        assert here == shell.execute(f"SELECT * FROM {view}").fetchall(), view
        assert here, f"{view} is empty"
    assert ask(server, f"SELECT * FROM {schema}.tool_counts") == [
        ("survey", 2, 1, 1, 1, 1.252625, 1.250125),
        ("ask", 1, 4, 0, 0, 0.0045, 0.0015),
        ("Draft", 1, 0, 1, 0, 0.0, 0.0),
        ("draft", 0, 1, 0, 0, 0.0, 0.0),
    ]
    failures = ask(server, f"SELECT run, seq, type, error FROM {schema}.failures")
    assert failures == [
        ("debt-cycles", 5, "OSError", "rate limited"),
        ("debt-cycles", 7, None, "no"),
        ("debt-cycles", 10, None, "gave up"),
        ("debt-cycles", 14, None, "in the middle of 'größe'"),
    ]
    costs = ask(server, f"SELECT model, calls, cost FROM {schema}.model_costs")
    assert costs == [("m", 1, 1.0), ("big-1", 2, 0.375), ("local", 1, None)]
    shell.close()


def test_the_views_bear_bodies_that_are_no_json(postgres_url: str, store: PostgresStore) -> None:
    """A damaged body costs its own numbers, not the answer; and it is shown."""
    fence = held(store)
    kinds = ("step.started", "step.failed", "step.settled", "attempt.ended", "step.finished")
    events = tuple(
        an_event("r", seq, kind=kind, body=b"\x00\xff" if seq % 2 else b'{"usage": [}')
        for seq, kind in enumerate(kinds, 1)
    )
    append(store, Append("r", fence, 0, events))
    server, _, schema = postgres_url.partition("?schema=")
    assert ask(server, f"SELECT name, started, failed, total_s FROM {schema}.tool_counts") == [
        ("survey", 1, 1, 0.0)
    ]
    assert ask(server, f"SELECT seq, error FROM {schema}.failures") == [(2, None)]
    assert ask(server, f"SELECT * FROM {schema}.model_costs") == []
    assert ask(server, f"SELECT fields, data FROM {schema}.journal LIMIT 1") == [("\\000\\377",) * 2]


def _usage(**fields: object) -> bytes:
    return b'{"usage":' + dumps(fields) + b',"ms":1.5}'


_TOLD: dict[str, list[tuple[str, str, bytes]]] = {
    "debt-cycles": [
        ("step.started", "survey", b'{"effect":"read"}'),
        ("step.finished", "survey", b'{"ms":1250.125}'),
        ("step.started", "survey", b"{}"),
        ("step.retried", "survey", b"{}"),
        ("step.failed", "survey", b'{"ms":2.5,"error":{"type":"OSError","message":"rate limited"}}'),
        ("step.started", "Draft", b"{}"),
        ("step.settled", "Draft", b'{"how":"failed","via":"person","error":{"message":"no"}}'),
        ("step.settled", "Draft", b'{"how":"failed","via":"origin","error":{"message":"elsewhere"}}'),
        ("step.settled", "draft", b'{"how":"done","via":"late","usage":{"model":"m","cost":1}}'),
        ("attempt.ended", "", b'{"how":"failed","error":{"message":"gave up"}}'),
        ("attempt.ended", "", b'{"error":{"message":"in the middle"},"again":3}'),
        ("attempt.ended", "", b'{"how":"interrupted","error":{"message":"SIGTERM"}}'),
        ("attempt.ended", "", b'{"error":null}'),
        ("attempt.crashed", "", '{"last":"in the middle of \'größe\'"}'.encode()),
    ],
    "spender": [
        ("step.started", "ask", b"{}"),
        ("step.finished", "ask", _usage(model="big-1", provider="p", input_tokens=10, output_tokens=5, cost=0.125)),
        ("step.finished", "ask", _usage(model="big-1", provider="p", input_tokens=7, cached_tokens=3, cost=0.25)),
        ("step.finished", "ask", _usage(model="local", input_tokens=1, output_tokens=1)),
        ("step.finished", "ask", b'{"usage":null}'),
    ],
}  # fmt: skip
