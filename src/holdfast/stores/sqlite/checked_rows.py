"""Rows of a store file that its methods rely on, each checked before it is believed."""

from typing import Any

import apsw

from holdfast.errors import Corrupt
from holdfast.model.store_rows import Record, RunRow
from holdfast.stores import row_checksums
from holdfast.stores.row_checksums import judged_row
from holdfast.stores.sqlite import statements as sql


def find_row(connection: apsw.Connection, run: str, url: str) -> RunRow | None:
    """The run's row, checked."""
    try:
        found = connection.execute(sql.FIND_RUN, (run,)).fetchone()
    except UnicodeDecodeError as error:
        raise Corrupt(store=url, problem=f"the row of run {run} holds what is no text") from error
    return None if found is None else judged_row(found)


def find_record(connection: apsw.Connection, space: str, key: str, url: str) -> Record | None:
    """The record, checked. Raises Corrupt."""
    found: Any = connection.execute(sql.GET_RECORD, (space, key)).fetchone()
    if found is None:
        return None
    return row_checksums.sound_record(Record(space, key, *found[:2]), found[2], url)


def stored_fences(connection: apsw.Connection, url: str) -> tuple[int, str]:
    """The highest fence of a deleted run, and the store's id. Raises Corrupt."""
    found: Any = connection.execute(sql.META).fetchall()
    ((fences, id_, crc),) = found
    return row_checksums.sound_fences(fences, id_, crc, url), id_


def raise_fences(connection: apsw.Connection, fence: int, url: str) -> None:
    """Let new runs begin no lower than this fence. Raises Corrupt."""
    fences, id_ = stored_fences(connection, url)
    raised = max(fences, fence)
    connection.execute(sql.SET_FENCES, (raised, row_checksums.meta_crc(id_, raised)))
