"""Opens the store in a table. Imports the driver, unlike ``address``, which only parses names."""

from holdfast.stores.dynamodb import create_table as creation
from holdfast.stores.dynamodb.address import target_of
from holdfast.stores.dynamodb.store import DynamoStore


def open_table(name: str) -> DynamoStore:
    """The store in the table of this name, which must exist."""
    return DynamoStore(target_of(name, f"dynamodb://{name}"))


def create_table(name: str) -> bool:
    """Create the table and wait until it can be used; False if it already exists."""
    return creation.create_table(target_of(name, f"dynamodb://{name}"))
