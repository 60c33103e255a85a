"""Waits until a run has changed: polls, first often, then less and less.

Long waits come as many calls with a short timeout each: an interval that restarted with each call would never
grow. So the interval is kept between calls, as long as the wait is for the same cursor.

The letters are counted by a query each. A counter beside the row, updated by each writer of a letter, could
be read in the same request as the row. But the service charges per item and not per request, so it would cost
the waiter as much, and the writers twice.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.clock import SystemClock
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Cursor, Cursors, inbox_space
from holdfast.stores.dynamodb.table.keys import row_key
from holdfast.stores.dynamodb.table.run_item import known
from holdfast.stores.dynamodb.table.table import Table

_POLL_S: Final = 0.05
_POLL_S_MAX: Final = 1.0
_FORGOTTEN_S: Final = 5.0
"""After this long without a wait, the interval restarts."""
_PACES_MAX: Final = 10_000


class _Pace(NamedTuple):
    """The cursor that is waited for, and when to poll next."""

    cursor: Cursor
    poll_s: float
    due: float


class Waiter:
    """Waits for one handle; any number of threads may wait."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._paces: dict[str, _Pace] = {}

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        """See ``StorePort.wait``. A run that does not exist has the cursor (0, 0, 0)."""
        deadline = SystemClock.monotonic() + timeout_s
        while True:
            now = SystemClock.monotonic()
            ripe = [run for run in cursors if timeout_s <= 0 or self._pace(run, cursors[run], now).due <= now]
            moved = self._look(cursors, ripe)
            if moved and len(ripe) < len(cursors):
                moved |= self._look(cursors, cursors.keys() - ripe)
            left_s = deadline - SystemClock.monotonic()
            if moved or left_s <= 0:
                return moved
            now = SystemClock.monotonic()
            due = min((self._pace(run, cursors[run], now).due for run in cursors), default=deadline)
            self._table.line.pause(min(left_s, max(0.0, due - now)))

    def _pace(self, run: str, cursor: Cursor, now: float) -> _Pace:
        found = self._paces.get(run)
        if found is None or found.cursor != cursor or found.due + _FORGOTTEN_S < now:
            return _Pace(cursor, _POLL_S, now)
        return found

    def _look(self, cursors: Cursors, runs: Iterable[str]) -> frozenset[str]:
        moved = _moved(self._table, {run: cursors[run] for run in runs})
        if len(self._paces) > _PACES_MAX:
            self._paces.clear()
        now = SystemClock.monotonic()
        for run in runs:
            pace = self._pace(run, cursors[run], now)
            slower_s = min(pace.poll_s * 1.5, _POLL_S_MAX)
            self._paces[run] = pace._replace(poll_s=slower_s, due=now + pace.poll_s)
        return moved


def _moved(table: Table, cursors: Cursors) -> frozenset[str]:
    """The runs that have changed; if the row already shows it, the letters are not counted."""
    rows = {run: Cursor(0, 0) for run in cursors}
    for item in table.get_all(map(row_key, cursors), ("pk", "sk", "fence", "fence2", "head", "gone")):
        if "gone" not in item:
            run = item["pk"].removeprefix("run/")
            rows[run] = Cursor(known(table, item)["fence"], item["head"], cursors[run].letters)
            if rows[run] == cursors[run]:
                rows[run] = rows[run]._replace(letters=table.count(f"space/{inbox_space(run)}"))
    return frozenset(run for run, row in rows.items() if row != cursors[run])
