"""Rows of a store file that its methods rely on, each checked before it is believed; and deleted runs.

The slots of deleted runs in the side file are freed with one sync for all of them, before the deletion is
committed: see ``acknowledged_heads``. Killed between the two, the runs are there, without slots until they
are held again.
"""

from collections.abc import Sequence
from typing import Any

import apsw

from holdfast.errors import Corrupt
from holdfast.model.store_rows import Record, Removal, RunRow, inbox_space
from holdfast.stores import row_checksums
from holdfast.stores.row_checksums import judged_row
from holdfast.stores.sqlite import statements as sql
from holdfast.stores.sqlite.acknowledged_heads import Heads


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


def deleted(connection: apsw.Connection, heads: Heads, removals: Sequence[Removal], url: str) -> list[bool]:
    """Delete these runs, or keep them; see ``StorePort.delete_runs``."""
    numbers = [_deleted(connection, heads, removal, url) for removal in removals]
    gone = [(number, one) for number, one in zip(numbers, removals, strict=True) if number is not None]
    if gone:
        heads.clear((number, removal.run) for number, removal in gone)
        raise_fences(connection, 1 + max(removal.fence for _, removal in gone), url)
    return [number is not None for number in numbers]


def _deleted(connection: apsw.Connection, heads: Heads, removal: Removal, url: str) -> int | None:
    """The number of the row that is deleted with all that belongs to it; None if it is kept."""
    run, fence, revision, records = removal
    number: int | None = connection.execute(sql.FIND_GUARDED, (run, fence, revision)).get
    if number is None or heads.is_cut(connection, run, url):
        return None
    connection.execute(sql.DELETE_RUN, (number, run))
    if not connection.changes():
        return None
    connection.execute(sql.DELETE_EVENTS, (number,))
    connection.execute(sql.DELETE_SPACE, (inbox_space(run),))
    for record in records:
        connection.execute(sql.FORGET_RECORD, record)
    return number
