"""Waiting until a run stands elsewhere: by asking, at first often, then more and more seldom."""

from collections.abc import Iterable
from typing import Final

from holdfast.clock import SystemClock
from holdfast.model.rows import Cursor, Cursors, inbox_space
from holdfast.stores.dynamodb.keys import row_key
from holdfast.stores.dynamodb.table import Table

_POLL_S: Final = 0.05
_POLL_S_MAX: Final = 1.0


def wait_for_change(table: Table, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
    """See ``StorePort.wait``. A run that does not exist stands at the cursor (0, 0, 0)."""
    deadline, poll_s = SystemClock.monotonic() + timeout_s, _POLL_S
    while True:
        standing = _standing(table, cursors)
        moved = frozenset(run for run, cursor in cursors.items() if standing[run] != cursor)
        left_s = deadline - SystemClock.monotonic()
        if moved or left_s <= 0:
            return moved
        table.line.pause(min(left_s, poll_s))
        poll_s = min(poll_s * 1.5, _POLL_S_MAX)


def _standing(table: Table, runs: Iterable[str]) -> dict[str, Cursor]:
    standing = dict.fromkeys(runs, Cursor(0, 0))
    for item in table.get_all(map(row_key, standing), ("pk", "sk", "fence", "head", "gone")):
        if "gone" not in item:
            run = item["pk"].removeprefix("run/")
            letters = table.count(f"space/{inbox_space(run)}")
            standing[run] = Cursor(item["fence"], item["head"], letters)
    return standing
