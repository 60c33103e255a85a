"""Listing runs: a partition of its own says which there are, in order of creation; their rows say the rest."""

from collections.abc import Iterator
from itertools import islice

from holdfast.model.rows import RunRow
from holdfast.stores.dynamodb.keys import RUNS, listed_run, listing_key, row_key
from holdfast.stores.dynamodb.rows import find_row, row_of
from holdfast.stores.dynamodb.table import Table
from holdfast.stores.dynamodb.values import read_body


def list_runs(table: Table, *, limit: int, before: RunRow | None, prefix: str) -> list[RunRow]:
    """See ``StorePort.list_runs``. A run that is deleted meanwhile is left out, and the page goes on behind it."""
    below = "" if before is None else listing_key(before.run, before.created_at)["sk"]
    names = _names(table, below, prefix, page=0 if prefix else limit)
    rows: list[RunRow] = []
    while len(rows) < limit:
        wanted = list(islice(names, limit - len(rows)))
        if not wanted:
            break
        found = dict(_rows(table, wanted))
        rows += [found[run] for run in wanted if run in found]
    return rows


def _names(table: Table, below: str, prefix: str, page: int) -> Iterator[str]:
    for item in table.query(RUNS, below=below, newest_first=True, page=page, attributes=("sk",)):
        run = listed_run(item["sk"])
        if run.startswith(prefix):
            yield run


def _rows(table: Table, runs: list[str]) -> Iterator[tuple[str, RunRow]]:
    for item in table.get_all(map(row_key, runs)):
        if "gone" in item:
            continue
        body = read_body(table, item)
        row = find_row(table, item["pk"].removeprefix("run/")) if body is None else row_of(item, body)
        if row is not None:
            yield row.run, row
