"""Deletes runs: a statement each for all of them, inside an open transaction.

The locks are taken in the order of all others: the fences, then the rows by number. The invariant: a run that
goes is locked and still as its removal says, and no run that stays was forked from it.
"""

from collections.abc import Sequence

from holdfast.model.store_rows import Removal, inbox_space
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.checked_rows import raise_fences, stored_fences
from holdfast.stores.postgres.connection import Connection


def deleted(connection: Connection, removals: Sequence[Removal], url: str) -> list[bool]:
    """Delete these runs, or keep them; see ``StorePort.delete_runs``."""
    stored_fences(connection, sql.LOCK_FENCES, url)
    gone = _removable(connection, removals)
    if gone:
        numbers = [number for number, _ in gone.values()]
        going = [removal for _, removal in gone.values()]
        records = [record for removal in going for record in removal.records]
        connection.execute(sql.FORGET_RUNS, (numbers,))
        connection.execute(sql.DELETE_EVENTS_OF_RUNS, (numbers,))
        connection.execute(sql.DELETE_SPACES, ([inbox_space(removal.run) for removal in going],))
        if records:
            connection.execute(sql.DELETE_RECORDS, [*map(list, zip(*records, strict=True))])
        raise_fences(connection, 1 + max(removal.fence for removal in going), url)
        connection.execute(sql.NOTIFY_ALL, ([removal.run for removal in going],))
    return [number in gone for number in range(len(removals))]


def _removable(connection: Connection, removals: Sequence[Removal]) -> dict[int, tuple[int, Removal]]:
    """The removals that are carried out, by their place, with the numbers of the runs.

    Judged in order, as if each run went before the next is looked at.
    """
    runs = [removal.run for removal in removals]
    rows = connection.execute(sql.LOCK_TO_DELETE, (runs,), binary=True).fetchall()
    standing = {run: (number, fence, revision) for run, number, fence, revision in rows}
    forks: dict[str, set[str | None]] = {}
    for origin, fork in connection.execute(sql.FORKS_OF_RUNS, {"runs": runs}).fetchall():
        forks.setdefault(origin, set()).add(fork)
    gone: dict[int, tuple[int, Removal]] = {}
    left: set[str | None] = {None, *standing}
    for place, removal in enumerate(removals):
        number, *guard = standing.get(removal.run, (0,))
        is_same = guard == [removal.fence, removal.revision] and removal.run in left
        if is_same and not forks.get(removal.run, set()) & left:
            gone[place] = (number, removal)
            left.discard(removal.run)
    return gone
