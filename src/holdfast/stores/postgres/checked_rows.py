"""Rows of the database that the store's methods rely on, each checked before it is believed."""

from typing import LiteralString

from holdfast.errors import Corrupt
from holdfast.model.store_rows import Record
from holdfast.stores import row_checksums
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.connection import Connection


def find_record(connection: Connection, space: str, key: str, url: str) -> Record | None:
    """The record, checked. Raises Corrupt."""
    found = connection.execute(sql.GET_RECORD, (space, key), binary=True).fetchone()
    if found is None:
        return None
    return row_checksums.sound_record(Record(space, key, *found[:2]), found[2], url)


def is_sound(connection: Connection, space: str, key: str, url: str) -> bool:
    """Whether the record is there and what was written, or is not there."""
    try:
        find_record(connection, space, key, url)
    except Corrupt:
        return False
    return True


def stored_fences(connection: Connection, statement: LiteralString, url: str) -> tuple[int, str]:
    """The highest fence of a deleted run, and the store's id. Raises Corrupt."""
    ((fences, id_, crc),) = connection.execute(statement).fetchall()
    return row_checksums.sound_fences(fences, id_, crc, url), id_


def raise_fences(connection: Connection, fence: int, url: str) -> None:
    """Let new runs begin no lower than this fence. Raises Corrupt."""
    fences, id_ = stored_fences(connection, sql.LOCK_FENCES, url)
    raised = max(fences, fence)
    connection.execute(sql.SET_FENCES, (raised, row_checksums.meta_crc(id_, raised)))
