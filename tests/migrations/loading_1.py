"""Golden stores of format 1 brought to life: the file unpacked, rows and items put back with plain statements.

It knows nothing of Holdfast's code: what a later version would write is not what stood there.
"""

from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import orjson
import psycopg
from backports import zstd
from psycopg import sql

HERE = Path(__file__).parent / "golden" / "format-1"


def boxed(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: boxed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [boxed(part) for part in value]
    return value


def unboxed(value: Any) -> Any:
    """What was boxed."""
    if isinstance(value, dict):
        if value.keys() == {"base64"}:
            return b64decode(value["base64"])
        return {key: unboxed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [unboxed(part) for part in value]
    return value


def content(name: str) -> bytes:
    """A golden file, unpacked."""
    return zstd.decompress((HERE / f"{name}.zst").read_bytes())


def put_sqlite(path: Path) -> str:
    """The URL of a copy at this path."""
    path.write_bytes(content("sqlite.db"))
    return f"sqlite:///{path}?lease_s=1"


def put_postgresql(server: str, schema: str) -> str:
    """The URL of a copy in a schema that is made for it."""
    rows = [unboxed(orjson.loads(line)) for line in content("postgresql.jsonl").splitlines()]
    with psycopg.connect(server) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        connection.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
        connection.execute((HERE / "postgresql.sql").read_bytes())
        for table, row in rows:
            statement = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})").format(
                sql.Identifier(table),
                sql.SQL(", ").join(map(sql.Identifier, row)),
                sql.SQL(", ").join(sql.Placeholder() * len(row)),
            )
            connection.execute(statement, list(row.values()))
        connection.execute("SELECT setval(pg_get_serial_sequence('runs', 'id'), (SELECT max(id) FROM runs))")
    return f"{server}{'&' if '?' in server else '?'}schema={schema}&lease_s=1"


def put_dynamodb(name: str) -> str:
    """The URL of a copy in a table of that name."""
    from tests.support.aws.server import table_for

    from holdfast.stores.dynamodb.table.client import client_of

    target = table_for(name)
    client = client_of("dynamodb", target)
    items = [unboxed(orjson.loads(line)) for line in content("dynamodb.jsonl").splitlines()]
    for start in range(0, len(items), 25):  # as many as a request may have
        requests = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        answer = client.batch_write_item(RequestItems={target.table: requests})
        assert not answer["UnprocessedItems"]
    client.close()
    return f"{target.url}{'&' if '?' in target.url else '?'}lease_s=1"
