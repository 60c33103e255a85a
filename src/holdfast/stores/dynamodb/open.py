"""From the name of a table to the store in it. Imports the driver, unlike ``target``, which only reads names."""

from holdfast.stores.dynamodb import create_table as creation
from holdfast.stores.dynamodb.address import target_of
from holdfast.stores.dynamodb.store import DynamoStore


def open_table(name: str) -> DynamoStore:
    """The store in the table of this name, which must be there."""
    return DynamoStore(target_of(name, f"dynamodb://{name}"))


def create_table(name: str) -> bool:
    """Make the table and wait until it can be used; False if it was there already."""
    return creation.create_table(target_of(name, f"dynamodb://{name}"))
