"""The shipped contract suite over DynamoDB, as two servers understand it."""

from pathlib import Path

from tests.aws.server import table_for

from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.port import StorePort
from holdfast.testing.contract import StoreContract


class TestDynamoStore(StoreContract):
    """A table per test, over a socket."""

    def make_store(self, directory: Path) -> StorePort:
        return DynamoStore(table_for(directory))


class TestSecondOpinion(StoreContract):
    """Another implementation of the service: what passes here too does not rest on one server's oddities."""

    def make_store(self, directory: Path) -> StorePort:
        return DynamoStore(table_for(directory, "moto"))
