"""A store behind a real PgBouncer in transaction mode: the whole contract, and what a pooler takes away."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.damage import damage
from tests.support.postgres.bouncer import Bouncer
from tests.support.postgres.server import ask

import holdfast
from holdfast.model.store_rows import Cursor
from holdfast.stores.port import StorePort
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.url import open_store, place_of
from holdfast.testing.store_contract import StoreContract
from holdfast.testing.store_rules.builders import an_append, append, held

CALLS: list[tuple[int, int]] = []


async def work(run: int, step: int) -> int:
    CALLS.append((run, step))
    return step


@pytest.fixture(scope="module")
def bouncer(postgres_server: str) -> Iterator[Bouncer]:
    """A pooler before the session's server."""
    with Bouncer(postgres_server) as made:
        yield made


@pytest.fixture
def pooled_url(postgres_url: str, bouncer: Bouncer) -> str:
    """A store's URL through the pooler. It says nothing of a pooler."""
    return f"{bouncer.url}?{postgres_url.partition('?')[2]}"


@pytest.fixture
def pooled(pooled_url: str) -> Iterator[PostgresStore]:
    store = opened(pooled_url)
    yield store
    store.close()


def opened(url: str) -> PostgresStore:
    place = place_of(url)
    return PostgresStore(place.name, place.password)


class TestPooledPostgresStore(StoreContract):
    """Every sentence of the port, through a session that is another one for every transaction."""

    @pytest.fixture(autouse=True)
    def _place(self, pooled_url: str) -> None:
        self.url = pooled_url

    def make_store(self, directory: Path) -> StorePort:
        return opened(self.url)

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        damage(store, what, *place)


def test_a_pooler_is_noticed(pooled: PostgresStore, postgres_url: str) -> None:
    """By itself, without ``?poll=1``; and where there is none, nothing is polled."""
    assert [f.text for f in pooled.examine() if f.subject == "waiting"] == [
        "a process that waits for a run polls: there is a pooler before the server"
    ]
    direct = opened(postgres_url)
    assert "is notified by the server" in " ".join(f.text for f in direct.examine())
    direct.close()


def test_sessions_are_shared_and_nothing_is_left_in_them(pooled: PostgresStore, bouncer: Bouncer) -> None:
    """No setting and no prepared statement: the pooler's sessions are as the next client expects them.

    Found so: opening set a session's search path before it knew of the pooler, and batches were prepared there.
    """
    fence = held(pooled)
    for seq in range(20):
        append(pooled, an_append("r", fence, seq, synced=seq % 2 == 0, hasty=seq % 2 == 1))
    for after in range(20, 26, 2):
        pooled.append([an_append("r", fence, after), an_append("r", fence, after + 1)])
    with psycopg.connect(bouncer.url, autocommit=True, prepare_threshold=None) as other:
        for _ in range(8):
            row = other.execute(
                "SELECT current_setting('search_path'), current_setting('synchronous_commit'), "
                "(SELECT count(*) FROM pg_prepared_statements)"
            ).fetchone()
            assert row == ('"$user", public', "on", 0)


def test_a_waiter_sees_a_change_by_looking(pooled: PostgresStore, postgres_url: str) -> None:
    """Nobody can listen through a pooler; what somebody else appends on a connection of its own is seen all the same."""
    fence = held(pooled)
    direct = opened(postgres_url)
    answers: list[frozenset[str]] = []
    waiter = threading.Thread(
        target=lambda: answers.append(pooled.wait({"r": Cursor(fence, 0)}, timeout_s=120.0))
    )
    waiter.start()
    append(direct, an_append("r", fence, 0))
    waiter.join()
    assert answers == [frozenset({"r"})]
    direct.close()


def test_many_runs_through_few_sessions(pooled_url: str, postgres_server: str) -> None:
    """Blocking and async runs, killed by nothing and stopped by nothing: every step once, every journal sound."""
    CALLS.clear()

    async def one(number: int) -> None:
        async with holdfast.run(f"run-{number}", store=pooled_url) as run:
            for step in range(5):
                await run.step("work", work, number, step)

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, range(20)))

    asyncio.run(all_of_them())
    asyncio.run(all_of_them())
    assert sorted(CALLS) == [(run, step) for run in range(20) for step in range(5)]
    store = holdfast.store(pooled_url)
    try:
        assert {info.status for info in store.runs()} == {"finished"}
        assert not [finding for finding in open_store(pooled_url).examine() if finding.verdict == "failure"]
    finally:
        store.close()
    schema = pooled_url.rpartition("schema=")[2]
    assert ask(postgres_server, f"SELECT count(DISTINCT run) FROM {schema}.events") == [(20,)]
