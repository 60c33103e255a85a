"""What goes wrong between a store and its DynamoDB: nothing is lost, nothing doubled, and the message says what it was."""

import uuid
from collections.abc import Iterator

import pytest
from tests.support.aws.proxy import CUT_AFTER, CUT_BEFORE, Proxy, cancelled, proxy_to, refusal
from tests.support.aws.server import REGION, endpoint, table_for

import holdfast
from holdfast import limits
from holdfast.errors import (
    AccessDenied,
    BadUrl,
    StoreBusy,
    StoreMissing,
    StoreUnavailable,
    Throttled,
)
from holdfast.model.store_rows import Appended, Grant, Refusal
from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.url import open_store
from holdfast.testing.store_rules.builders import AT, a_run, an_append, append, delete_run, held

WRITE = "TransactWriteItems"


@pytest.fixture
def target() -> Target:
    return table_for(f"faults-{uuid.uuid4().hex}")


@pytest.fixture
def proxy(target: Target) -> Iterator[Proxy]:
    with proxy_to(target.endpoint) as proxy:
        yield proxy


@pytest.fixture
def store(target: Target, proxy: Proxy) -> Iterator[DynamoStore]:
    store = DynamoStore(target._replace(endpoint=proxy.address))
    yield store
    store.close()


@pytest.mark.parametrize(
    "fault",
    [
        CUT_BEFORE,
        CUT_AFTER,
        refusal("ThrottlingException"),
        refusal("InternalServerError", 500),
        refusal("TransactionInProgressException"),
        cancelled("None", "TransactionConflict"),
        cancelled("ThrottlingError"),
    ],
    ids=str,
)
def test_an_append_that_is_disturbed_happens_once(store: DynamoStore, proxy: Proxy, fault: object) -> None:
    """Also when its answer got lost after the commit: a blind retry would be refused by its own first try, and the caller
    would believe that somebody else wrote. With a new token for each try, this fails for "cut after"."""
    fence = held(store)
    proxy.faults[WRITE] = [fault, fault]
    assert store.append([an_append("r", fence, 0, 2)]) == [Appended(2)]
    assert proxy.faults[WRITE] == []
    assert [event.seq for event in store.read_events("r", limit=9)] == [1, 2]


@pytest.mark.parametrize("fault", [CUT_BEFORE, CUT_AFTER])
def test_every_other_decision_is_made_once_too(store: DynamoStore, proxy: Proxy, fault: str) -> None:
    """Creating, taking and giving back a lease, swapping, records, deleting: each answers as if it had been heard at once.

    A lease is taken by an update if the row is known, and by a transaction if not.
    """

    def disturbed(operation: str = WRITE) -> None:
        assert not any(proxy.faults.values())
        proxy.faults[operation] = [fault]

    disturbed()
    assert store.create_run(a_run("r"))
    disturbed("UpdateItem")
    assert isinstance(grant := store.acquire("r", at=AT, lease_s=30.0), Grant)
    assert grant.granted
    disturbed()
    assert store.release("r", fence=grant.lease.fence)
    store._table.known.forget("r")
    disturbed()
    assert isinstance(grant := store.acquire("r", at=AT, lease_s=30.0), Grant)
    assert grant.granted
    disturbed()
    assert store.swap_run("r", revision=1, status="running", body=b"new")
    for revision in range(2):
        disturbed()
        assert store.put_record("s", "k", b"x", revision=revision)
    disturbed()
    assert store.delete_record("s", "k", revision=2)
    disturbed()
    assert store.release("r", fence=grant.lease.fence)
    disturbed()
    assert delete_run(store, "r", fence=grant.lease.fence, revision=2)
    assert store.find_run("r") is None


def test_being_slowed_down_for_too_long_is_told(
    store: DynamoStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """StoreBusy of its own kind, after the time that any store waits; nothing was written, and it goes on afterwards."""
    fence = held(store)
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_S", 0.2)
    proxy.faults[WRITE] = [refusal("ProvisionedThroughputExceededException")] * 1_000
    with pytest.raises(Throttled) as caught:
        append(store, an_append("r", fence, 0))
    assert isinstance(caught.value, StoreBusy)
    assert "run the same line again" in caught.value.hint
    proxy.faults.clear()
    monkeypatch.undo()
    assert store.read_events("r", limit=9) == []
    assert append(store, an_append("r", fence, 0)) == 1


def test_an_outcome_that_stays_unknown_is_called_so(
    store: DynamoStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """StoreUnavailable also where the last answer was "slow down": an earlier try may have been taken."""
    fence = held(store)
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_S", 0.2)
    proxy.faults[WRITE] = [CUT_AFTER, *[refusal("ThrottlingException")] * 1_000]
    with pytest.raises(StoreUnavailable, match="it is unknown"):
        append(store, an_append("r", fence, 0))
    proxy.faults.clear()
    monkeypatch.undo()
    assert [event.seq for event in store.read_events("r", limit=9)] == [1]
    (outcome,) = store.append([an_append("r", fence, 0)])
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.head) == ("conflict", 1)


def test_reads_and_batches_are_patient_too(store: DynamoStore, proxy: Proxy) -> None:
    """Whatever the operation."""
    fence = held(store)
    append(store, an_append("r", fence, 0, 3))
    for operation in ("GetItem", "Query", "BatchGetItem", "UpdateItem"):
        proxy.faults[operation] = [CUT_BEFORE, refusal("ThrottlingException"), CUT_AFTER]
    assert len(store.read_events("r", limit=9)) == 3
    assert len(store.list_runs(limit=9)) == 1
    assert store.renew({"r": fence}, at=AT) == frozenset()
    assert all(not left for left in proxy.faults.values())


def test_a_missing_table_is_named_with_the_command_that_makes_it() -> None:
    """Not an answer that there are no runs."""
    store = DynamoStore(Target("nowhere-to-be-found", REGION, endpoint()))
    with pytest.raises(StoreMissing, match="nowhere-to-be-found") as caught:
        store.find_run("r")
    assert f"holdfast doctor --create-table --store '{store.url}'" in caught.value.hint
    store.close()


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException"]
)
def test_a_missing_permission_is_told_at_once(store: DynamoStore, proxy: Proxy, code: str) -> None:
    """Asking again would not help."""
    for operation in ("BatchGetItem", "GetItem"):  # with the table's format, and without it
        proxy.faults[operation] = [refusal(code)]
        with pytest.raises(AccessDenied, match=code):
            store.find_run("r")
        assert proxy.seen[operation] == 1
        assert store.find_run("r") is None


def test_an_endpoint_where_nobody_listens_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address."""
    endpoint()  # for credentials
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_S", 0.2)
    store = DynamoStore(Target("table", REGION, "http://127.0.0.1:1"))
    with pytest.raises(StoreUnavailable, match=r"nothing answers at http://127\.0\.0\.1:1"):
        store.find_run("r")
    store.close()


def test_no_region_is_told_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL needs one, unless the environment has it."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(BadUrl, match="names no region"):
        open_store("dynamodb://some-table")


def test_a_read_step_costs_two_requests(target: Target, proxy: Proxy) -> None:
    """One transaction for the intent, one for the outcome; nothing is read in between."""
    url = target._replace(endpoint=proxy.address).url
    with holdfast.run("r", store=url) as run:
        run.step("warm-up", lambda: 0)
        before = proxy.seen.copy()
        for number in range(10):
            run.step("look", abs, number)
        spent = proxy.seen - before
    open_store(url).close()
    assert spent["UpdateItem"] <= 1, "a beat may fall into it"
    del spent["UpdateItem"]
    assert set(spent) == {WRITE}
    assert spent[WRITE] <= 20
