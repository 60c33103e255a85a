"""What goes wrong between a store and the bucket of its large contents: nothing is lost, and the message names the bucket."""

import uuid
from collections.abc import Iterator

import pytest
from tests.support.aws.proxy import (
    CUT_AFTER,
    CUT_BEFORE,
    CUT_WITHIN,
    Proxy,
    object_refusal,
    proxy_to,
)
from tests.support.aws.server import table_for, with_bucket

import holdfast
from holdfast import limits
from holdfast.errors import (
    AccessDenied,
    BadUrl,
    StoreError,
    StoreMissing,
    StoreUnavailable,
    Throttled,
)
from holdfast.model.store_rows import Blob
from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.url import place_of
from holdfast.testing.store_rules.builders import an_append, append, held

ADDRESS = "ab" * 32
CONTENT = bytes(range(256)) * (limits.OBJECT_SIZE_BYTES_MIN // 256 + 1)


@pytest.fixture
def target() -> Target:
    return with_bucket(table_for(f"bucket-{uuid.uuid4().hex}"))


@pytest.fixture
def proxy(target: Target) -> Iterator[Proxy]:
    with proxy_to(target.endpoint) as proxy:
        yield proxy


@pytest.fixture
def store(target: Target, proxy: Proxy) -> Iterator[DynamoStore]:
    store = DynamoStore(target._replace(blobs_endpoint=proxy.address))
    yield store
    store.close()


def objects(store: DynamoStore) -> list[str]:
    return [name for name, _ in store._table.objects.names("")]


def put(store: DynamoStore) -> None:
    store.put_blobs([Blob(ADDRESS, CONTENT)], at=1.0)


def get(store: DynamoStore) -> None:
    assert store.get_blobs([ADDRESS]) == {ADDRESS: CONTENT}


FAULTS = [CUT_BEFORE, CUT_AFTER, object_refusal("SlowDown", 503), object_refusal("InternalError", 500)]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_what_is_disturbed_is_done_again(store: DynamoStore, proxy: Proxy, fault: object) -> None:
    """Each object is written once and deleted once, however often it was asked for."""
    proxy.faults["PUT"] = [fault, fault]
    put(store)
    assert len(objects(store)) == 1
    proxy.faults["GET"] = [fault, fault]
    get(store)
    proxy.faults["DELETE"] = [fault, fault]
    assert store.delete_blobs([ADDRESS], untouched_since=2.0) == 1
    assert objects(store) == []
    assert all(not left for left in proxy.faults.values())


def test_a_content_that_breaks_off_is_asked_for_again(store: DynamoStore, proxy: Proxy) -> None:
    """Half of it is never taken for the whole."""
    put(store)
    proxy.faults["GET"] = [CUT_WITHIN, CUT_WITHIN]
    get(store)
    assert proxy.faults["GET"] == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (object_refusal("NoSuchBucket", 404), StoreMissing),
        (object_refusal("AccessDenied", 403), AccessDenied),
        (object_refusal("InvalidAccessKeyId", 403), AccessDenied),
        (object_refusal("SlowDown", 503), Throttled),
        (object_refusal("InternalError", 500), StoreUnavailable),
    ],
    ids=str,
)
def test_a_refusal_is_told_in_our_words_and_changes_nothing(
    store: DynamoStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, fault: object, error: type[StoreError]
) -> None:
    """An append that brings such a content is not made, and can be made when the bucket is there again."""
    fence = held(store)
    assert objects(store) == []  # the line is there, with the patience of every day
    item = an_append("r", fence, 0, blobs=(Blob(ADDRESS, CONTENT),))
    proxy.faults["PUT"] = [fault] * 1_000
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_S", 0.2)
    with pytest.raises(error) as caught:
        store.append([item])
    monkeypatch.undo()
    if error in {StoreMissing, AccessDenied}:
        assert "bucket 'b-" in str(caught.value)
        assert proxy.seen["PUT"] == 1, "asking again would not help"
    assert store.read_events("r", limit=9) == []
    proxy.faults.clear()
    assert append(store, item) == 1
    get(store)


def test_deleting_waits_for_no_bucket(store: DynamoStore, proxy: Proxy) -> None:
    """The blob is gone; the object is left to the next reclaim, which tells how much it freed."""
    put(store)
    proxy.faults["DELETE"] = [object_refusal("AccessDenied", 403)]
    assert store.delete_blobs([ADDRESS], untouched_since=2.0) == 1
    assert store.get_blobs([ADDRESS]) == {}
    assert len(objects(store)) == 1
    assert store.reclaim() == len(CONTENT)
    assert objects(store) == []
    assert store.reclaim() == 0


def told_of_the_bucket(store: DynamoStore) -> list[tuple[str, str, str]]:
    return [(one.verdict, one.text, one.advice) for one in store.examine() if one.subject == "bucket"]


def test_doctor_tells_of_the_bucket(store: DynamoStore, proxy: Proxy) -> None:
    """That it is sound; that it cannot be looked into; that it is not there."""
    put(store)
    ((verdict, text, _),) = told_of_the_bucket(store)
    assert (verdict, text) == ("ok", f"{store._table.target.blobs} has what the table says: 1 object")
    proxy.faults["GET"] = [object_refusal("AccessDenied", 403)]
    ((verdict, text, advice),) = told_of_the_bucket(store)
    assert verdict == "warning"
    assert "s3:ListBucket" in advice
    proxy.faults["GET"] = [object_refusal("NoSuchBucket", 404)]
    ((verdict, text, advice),) = told_of_the_bucket(store)
    assert verdict == "failure"
    assert text.startswith("there is no bucket 'b-")
    assert "aws s3 mb" in advice


def test_a_content_that_somebody_deleted_is_found_and_missed(store: DynamoStore) -> None:
    """By doctor, as a failure; by whoever asks for it, as not there: neither a hang nor other bytes."""
    put(store)
    (name,) = objects(store)
    store._table.objects.delete(name)
    ((verdict, text, advice),) = told_of_the_bucket(store)
    assert (verdict, text) == ("failure", f"blob {ADDRESS} has lost its {name}")
    assert "lifecycle" in advice
    assert store.get_blobs([ADDRESS]) == {}


def incompressible() -> str:
    return "".join(uuid.uuid4().hex for _ in range(limits.OBJECT_SIZE_BYTES_MIN // 14))


def test_a_run_with_large_values_keeps_them_in_the_bucket(target: Target) -> None:
    """Through the real handle: the value comes back on replay, and erasing the run leaves nothing of it behind."""
    port, store = DynamoStore(target), holdfast.store(target.url)
    with holdfast.run("r", store=store) as run:
        text = run.step("write", incompressible)
    assert len(objects(port)) == 1
    with holdfast.run("r", store=store) as run:
        assert run.step("write", incompressible) == text
    store.erase("r")
    assert objects(port) == []
    port.close()
    store.close()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("blobs=bucket", "no s3://bucket"),
        ("blobs=s3://", "no s3://bucket"),
        ("blobs=s3://UPPER/x", "no s3://bucket"),
        ("blobs=s3://bucket//x", "no s3://bucket"),
        ("blobs_endpoint=http://127.0.0.1:1", "no blobs=s3://bucket"),
        ("blobs=s3://bucket&blobs_endpoint=nowhere", "no http:// or https:// address"),
    ],
)
def test_a_bucket_that_cannot_be_one_is_refused(options: str, problem: str) -> None:
    """Before anything is asked."""
    with pytest.raises(BadUrl, match=problem):
        place_of(f"dynamodb://table?region=eu-central-1&{options}")


def test_a_bucket_is_part_of_where_a_store_is() -> None:
    """However it was written."""
    told = "dynamodb://table?blobs=s3%3A%2F%2Fbucket%2Fx%2F&region=eu-central-1"
    assert place_of(told).name == "table?region=eu-central-1&blobs=s3://bucket/x"
