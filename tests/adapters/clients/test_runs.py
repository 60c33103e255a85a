"""What a run promises, through every client: stop-signals and typed errors as what they are, budgets, no keys in the store."""

import asyncio
import threading
import time
from contextlib import closing
from contextvars import Context
from copy import copy
from pathlib import Path
from typing import Any

import apsw
import pytest
from backports import zstd
from tests.adapters.clients.drivers import (
    ASK,
    KEY,
    QUICK,
    Agent,
    Driver,
    alone,
    attempt,
    events,
    finish,
)
from tests.support.model_server import Provider, Reply, faults

import holdfast
from holdfast.model.events import Kind


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_another_request_is_drift(driver: Driver, provider: Provider, url: str, streamed: bool) -> None:
    """Diverged, and nothing is sent."""
    texts = iter((ASK, "Tell of the land."))

    async def work(agent: Agent) -> None:
        text = next(texts)
        await (agent.read(text) if streamed else agent.ask(text))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt(driver, provider, url, work)
    with pytest.raises(holdfast.Diverged):
        attempt(driver, provider, url, work)
    assert len(provider.calls) == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_budget_counts_tokens_and_cost(
    driver: Driver, provider: Provider, url: str, streamed: bool
) -> None:
    """BudgetExceeded before the third call; answers from the journal cost nothing."""
    spent: list[Any] = []

    async def work(agent: Agent) -> None:
        for number in range(5):
            text = f"{ASK} {number}"
            await (agent.read(text) if streamed else agent.ask(text))
            spent.append(agent.run.spent)

    prices = {f"{driver.model}*": {"input": 1.0, "output": 1_000_000.0}}
    enter = {"budget": holdfast.Budget(cost=75.0), "prices": prices}
    for _ in range(2):
        with pytest.raises(holdfast.BudgetExceeded):
            attempt(driver, provider, url, work, enter=enter)
    assert len(provider.calls) == 2
    assert [one.calls for one in spent] == [1, 2, 2, 2]
    assert spent[1].output_tokens == 80
    assert spent[1].input_tokens > 0
    assert 80 <= spent[1].cost < 80.01


def test_a_cancelled_run_stops_at_its_next_call(driver: Driver, provider: Provider, url: str) -> None:
    """Cancelled, though it waits for its provider."""
    provider.script.outage = faults.status(503)

    def cancel() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if events(url, Kind.WAIT_STARTED):
                    break
            except holdfast.UnknownRun:
                pass
            time.sleep(0.005)
        holdfast.store(url).cancel("a", reason="enough")

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(holdfast.Cancelled):
        attempt(driver, provider, url, Agent.ask)
    thread.join(60)
    assert holdfast.store(url).get("a").status == "cancelled"


def test_a_limit_that_is_lifted_later_parks_the_run(driver: Driver, provider: Provider, url: str) -> None:
    """AwaitingProvider, with the time; started before that, the run asks nobody."""
    provider.script.outage = faults.rate_limited(retry_after="360")
    for _ in range(2):
        with pytest.raises(holdfast.AwaitingProvider) as parked:
            attempt(driver, provider, url, Agent.ask, patience=QUICK._replace(park_s=5.0))
        assert 300 < parked.value.fields["until"] - time.time() <= 360
    assert len(provider.calls) == 1


@pytest.mark.filterwarnings("ignore")  # that the endpoint is an old one
def test_a_call_that_no_journal_records_is_refused(driver: Driver, provider: Provider, url: str) -> None:
    """Unjournaled names the client; nothing is sent. Outside of a run it is the client's own affair."""

    async def work(agent: Agent) -> None:
        await driver.unjournaled(agent.client)

    with pytest.raises(holdfast.Unjournaled) as refused:
        attempt(driver, provider, url, work)
    assert driver.name.partition("-")[0] in refused.value.fields["client"].lower()
    assert not provider.exchanges
    with pytest.raises(driver.refusals[404]):  # the scripted provider has no such endpoint
        alone(driver, provider, work)
    assert provider.exchanges


def test_a_call_outside_of_the_run_that_is_held_is_refused(
    driver: Driver, provider: Provider, url: str
) -> None:
    """NoCurrentRun: a context without the run would lose the answer."""

    async def work(agent: Agent) -> None:
        if driver.is_async:
            await asyncio.get_running_loop().create_task(agent.ask(), context=Context())
        else:
            Context().run(finish, agent.ask())

    with pytest.raises(holdfast.NoCurrentRun):
        attempt(driver, provider, url, work)
    assert not provider.exchanges


def test_no_key_reaches_the_store(driver: Driver, provider: Provider, tmp_path: Path) -> None:
    """Not with an answer, a stream, a cut-off stream or a refusal: nowhere in the whole store."""
    file = tmp_path / "a.db"
    provider.script.reply(
        Reply(), Reply(fault=faults.cut(after=10)), Reply(), Reply(fault=faults.unauthorized())
    )

    async def work(agent: Agent) -> None:
        for number in range(4):
            await (agent.read(f"{ASK} {number}") if number % 2 else agent.ask(f"{ASK} {number}"))

    with pytest.raises(Exception):  # noqa: B017 - whatever the client has for 401
        attempt(driver, provider, f"sqlite:///{file}", work)
    attempt(driver, provider, f"sqlite:///{file}", work)
    found = b"".join(_contents(file))
    assert b"Tell of the sea" in found
    assert KEY.encode() not in found
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def _contents(file: Path) -> list[bytes]:
    """Every value of every table, decompressed where it is compressed."""
    found: list[bytes] = []
    with closing(apsw.Connection(str(file))) as connection:
        tables = [
            str(name) for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")
        ]
        for table in tables:
            for row in connection.execute(f'select * from "{table}"'):
                found += [
                    one.encode() if isinstance(one, str) else one
                    for one in row
                    if isinstance(one, (str, bytes))
                ]
    return found + [plain for one in found if (plain := _decompressed(one))]


def _decompressed(data: bytes) -> bytes:
    at = data.find(b"\x28\xb5\x2f\xfd")
    return zstd.ZstdDecompressor().decompress(data[at:]) if at >= 0 else b""


def test_the_given_client_is_unchanged(driver: Driver, provider: Provider) -> None:
    """Its attributes are the same objects as before, and inside a run it sends its calls unjournaled."""
    if not driver.is_client:
        pytest.skip("it is a module")

    async def work(agent: Agent) -> None:
        before = copy(vars(agent.client))
        transports = [_transport(part) for part in before.values()]
        client: Any = holdfast.wrap(agent.client, patience=QUICK)
        after = vars(agent.client)
        assert before.keys() == after.keys()
        assert all(before[name] is after[name] for name in before)
        assert transports == [_transport(part) for part in after.values()]
        assert type(client).__name__ == type(agent.client).__name__
        assert isinstance(client, type(agent.client))
        for _ in range(2):
            assert await agent.ask() == await Agent(driver, client).ask()

    alone(driver, provider, work)
    assert len(provider.calls) == 4


def _transport(part: Any) -> Any:
    return getattr(part, "_transport", None)


def test_a_client_that_only_the_wrapped_one_knows_stays_open(
    driver: Driver, provider: Provider, url: str
) -> None:
    """``holdfast.wrap(Client())``: collecting the given client does not close the connections of the copy."""
    if not driver.is_client:
        pytest.skip("it is a module")
    import gc

    async def whole() -> tuple[str, str]:
        kept = driver.connect(provider.url)
        client = holdfast.wrap(kept)
        first = await Agent(driver, client).ask()
        again = holdfast.wrap(driver.connect(provider.url))
        gc.collect()
        second = await Agent(driver, again).ask()
        await driver.close(again)
        await driver.close(kept)
        return first, second

    first, second = asyncio.run(whole()) if driver.is_async else finish(whole())
    assert first == second
