"""Creates the table: two keys and on-demand billing.

No TTL: the service would delete blobs that are shared.
"""

from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError, WaiterError

from holdfast.errors import StoreUnavailable
from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.errors import code_of, table_service, translated
from holdfast.stores.dynamodb.format_mark import FORMAT, MARK_KEY
from holdfast.stores.dynamodb.table.actions import encoded
from holdfast.stores.dynamodb.table.client import client_of

_KEYS: Final = {"pk": "HASH", "sk": "RANGE"}
_POLL_S: Final = 1
_POLLS_MAX: Final = 120


def create_table(target: Target) -> bool:
    """Create the table and wait until it can be used; False if it already exists."""
    client = client_of("dynamodb", target)
    try:
        created = _create(client, target)
        client.get_waiter("table_exists").wait(
            TableName=target.table, WaiterConfig={"Delay": _POLL_S, "MaxAttempts": _POLLS_MAX}
        )
        if created:
            client.put_item(TableName=target.table, Item=encoded({**MARK_KEY, "format": FORMAT}))
    except WaiterError as error:
        problem = f"table {target.table!r} does not become active: {error}"
        raise StoreUnavailable(store=target.url, problem=problem) from error
    except (ClientError, BotoCoreError) as error:
        raise translated(error, table_service(target)) from error
    finally:
        client.close()
    return created


def _create(client: Any, target: Target) -> bool:
    try:
        client.create_table(
            TableName=target.table,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in _KEYS.items()],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in _KEYS],
        )
    except ClientError as error:
        if code_of(error) != "ResourceInUseException":
            raise
        return False
    return True
