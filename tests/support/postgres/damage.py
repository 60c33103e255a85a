"""One bit of what a PostgreSQL store keeps, changed behind its back; see ``holdfast.testing.store_rules.damage``."""

from holdfast.stores.port import StorePort
from holdfast.stores.postgres import PostgresStore


def damage(store: StorePort, what: str, *place: str) -> None:
    """Of a record, a run or a run's status."""
    assert isinstance(store, PostgresStore)
    bit = "body = set_bit(body, 8, 1 - get_bit(body, 8))"
    change = f"UPDATE runs SET {bit} WHERE run = %s"
    if what == "status":
        change = "UPDATE runs SET status = 'finished' WHERE run = %s"
    elif what == "record":
        change = f"UPDATE records SET {bit} WHERE space = %s AND key = %s"
    store._database.write(lambda connection: connection.execute(change, place), synced=True)
