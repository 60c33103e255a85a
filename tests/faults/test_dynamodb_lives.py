"""Whole lives of runs over a DynamoDB that throttles, breaks lines or goes away: nothing is lost, nothing doubled, no effect
happens twice, and it goes on by itself."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.aws.proxy import CUT_AFTER, CUT_BEFORE, Proxy, proxy_to, refusal
from tests.support.aws.server import Server, table_for

import holdfast
from holdfast import limits
from holdfast.errors import StoreUnavailable, Throttled
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.stores import server_owners
from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.create_table import create_table

THROTTLED = refusal("ProvisionedThroughputExceededException")
STEPS = 5


class World:
    """What really happened, and an agent that makes it happen: steps, payments, a checkpoint, a result."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.ledger: dict[str, int] = {}
        self.in_the_middle: Callable[[int], None] = lambda number: None
        self.charge = holdfast.tool(effect="once", settle_s=0, verify=self._find, name="charge")(self._pay)

    def look(self, number: int) -> int:
        self.in_the_middle(number)
        self.calls.append(number)
        return number * number

    def _pay(self, amount: int, *, idempotency_key: str = holdfast.KEY) -> int:
        assert idempotency_key not in self.ledger, "paid twice"
        self.ledger[idempotency_key] = amount
        return amount

    def _find(self, amount: int, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
        paid = self.ledger.get(idempotency_key)
        return holdfast.NotDone() if paid is None else holdfast.Done(paid)

    def live(self, url: str) -> Any:
        with holdfast.run("r", store=url) as run:
            found = [run.step("look", self.look, number) for number in range(STEPS)]
            paid = [self.charge(amount) for amount in range(3)]
            run.checkpoint({"found": found, "paid": paid})
            run.finish([found, paid])
            return run.result

    def check(self, url: str) -> None:
        """Each step ran once, each payment is there once, and the journal has both, each once."""
        assert self.calls == list(range(STEPS))
        assert sorted(self.ledger.values()) == [0, 1, 2]
        store = holdfast.store(url)
        ends = Counter((e.name, e.key) for e in store.events("r") if is_good_end(e))
        assert set(ends.values()) == {1}
        assert len(ends) == STEPS + 3
        assert store.get("r").status == "finished"
        assert [finding for finding in store.examine() if finding.verdict != "ok"] == []
        store.close()


def is_good_end(event: Event) -> bool:
    """Whether a call was made. One whose intent alone arrived is settled as not made, and then made."""
    return event.kind == "step.finished" or (
        event.kind == "step.settled" and bool(contents_of(event.body)["how"] == "done")
    )


def become_another_process(url: str) -> None:
    """As if this one had ended: a lease that could not be given back stays its own for as long as it lives."""
    holdfast.store(url).close()
    server_owners._let_go_after_fork()


RESULT = [[number * number for number in range(STEPS)], [0, 1, 2]]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxy_to(table_for("lives").endpoint) as proxy:
        yield proxy


@pytest.fixture
def target() -> Target:
    return table_for(f"lives-{uuid.uuid4().hex}")


@pytest.fixture
def url(target: Target, proxy: Proxy) -> str:
    return target._replace(endpoint=proxy.address).url


@pytest.mark.parametrize(
    "fault", [CUT_BEFORE, CUT_AFTER, THROTTLED], ids=["cut before", "cut after", "throttled"]
)
def test_every_request_of_a_life_is_disturbed_once(
    world: World, proxy: Proxy, url: str, fault: object
) -> None:
    """From the first look to the last release. A request that is made again is the same one, so that what was done and not
    heard of is not done again; a beat is the one that may be."""
    known: set[bytes] = set()

    def first_time(operation: str, body: bytes) -> Any:
        if body in known or operation == "UpdateItem":
            return None
        known.add(body)
        return fault

    proxy.always = first_time
    assert world.live(url) == RESULT
    assert len(known) > 15
    proxy.always = lambda operation, body: None
    world.check(url)


@pytest.mark.parametrize(
    "fault", [CUT_BEFORE, CUT_AFTER, THROTTLED], ids=["cut before", "cut after", "throttled"]
)
@pytest.mark.parametrize("write", range(1, STEPS + 8, 4))
def test_a_service_that_does_not_come_back_in_time_ends_the_attempt_and_nothing_else(
    world: World, proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch, fault: object, write: int
) -> None:
    """From some write on, for good: the program is told what happened, and run again when the service is back it ends as if
    nothing had been. A payment whose outcome could not be written down is verified, not repeated."""
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_S", 0.05)
    writes = 0

    def gone(operation: str, body: bytes) -> Any:
        nonlocal writes
        writes += operation == "TransactWriteItems"
        return fault if writes > write else None

    proxy.always = gone
    with pytest.raises((Throttled, StoreUnavailable)):
        world.live(url)
    monkeypatch.undo()  # from here on the service has time to answer, however busy the machine is
    become_another_process(url)
    proxy.always = lambda operation, body: None
    assert world.live(url) == RESULT
    assert Counter(world.calls).most_common(1)[0][1] <= 2, "a read step may be made again, once"
    world.calls = sorted(set(world.calls))
    world.check(url)


def test_a_server_that_is_restarted_is_waited_for(world: World, tmp_path: Path) -> None:
    """Twice in the middle of a life: what it acknowledged is there, and the run goes on."""
    server = Server(PERSIST_STATE="1", STATE_DIR=str(tmp_path))
    target = Target("restarted", "eu-central-1", server.start())
    create_table(target)

    def restart(number: int) -> None:
        if number in {1, 3}:
            server.stop()
            server.start()

    world.in_the_middle = restart
    assert world.live(target.url) == RESULT
    world.check(target.url)
    server.stop()


def test_a_server_that_stays_away_is_told_and_come_back_to(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its address; and the same line goes on when it is back."""
    server = Server(PERSIST_STATE="1", STATE_DIR=str(tmp_path))
    target = Target("away", "eu-central-1", server.start())
    create_table(target)

    def end(number: int) -> None:
        if number == 2 and 2 not in world.calls:
            server.stop()
            monkeypatch.setattr(limits, "BUSY_TIMEOUT_S", 0.1)

    world.in_the_middle = end
    with pytest.raises(StoreUnavailable, match=server.address):
        world.live(target.url)
    become_another_process(target.url)
    monkeypatch.undo()
    server.start()
    assert world.live(target.url) == RESULT
    assert world.calls == [0, 1, 2, 2, 3, 4]
    world.calls.remove(2)
    world.check(target.url)
    server.stop()
