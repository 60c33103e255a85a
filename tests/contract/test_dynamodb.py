"""The shipped contract suite over DynamoDB, as two servers understand it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.aws.server import table_for, with_bucket
from tests.support.damage import damage

from holdfast import limits
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.port import StorePort
from holdfast.testing.store_contract import StoreContract
from holdfast.testing.store_rules.blobs import BlobRules


class Damaged:
    """How a row of a table is damaged."""

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        damage(store, what, *place)


class TestDynamoStore(Damaged, StoreContract):
    """A table per test, over a socket."""

    def make_store(self, directory: Path) -> StorePort:
        return DynamoStore(table_for(directory))


class TestSecondOpinion(Damaged, StoreContract):
    """Another implementation of the service: what passes here too does not rest on one server's oddities."""

    def make_store(self, directory: Path) -> StorePort:
        return DynamoStore(table_for(directory, "moto"))


class TestDynamoStoreWithBucket(Damaged, StoreContract):
    """Every content of a byte or more lies in a bucket. For ``make crash``: only what follows has to do with buckets."""

    @pytest.fixture(autouse=True)
    def _all_in_the_bucket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "OBJECT_SIZE_BYTES_MIN", 1)

    def make_store(self, directory: Path) -> StorePort:
        return DynamoStore(with_bucket(table_for(directory)))


class TestBuckets(BlobRules):
    """What a bucket has a part in."""

    server = "ministack"

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StorePort]:
        monkeypatch.setattr(limits, "OBJECT_SIZE_BYTES_MIN", 1)
        store = DynamoStore(with_bucket(table_for(tmp_path, self.server)))
        yield store
        store.close()


class TestSecondOpinionOnBuckets(TestBuckets):
    """The other implementation as well."""

    server = "moto"
