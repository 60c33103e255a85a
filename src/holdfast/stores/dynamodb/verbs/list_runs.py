"""Lists runs: one partition has them in order of creation, another in order of id.

A page of all runs costs what the page has. For a prefix the service cannot find the newest runs by itself:
all ids with the prefix are read, some 7,000 per request, but only the rows of the page.

Each fork has a note in a partition of its origin, written and deleted with it. Runs from before there were
notes have none: the first request for the forks of such a run scans all rows, and writes the notes.
"""

from collections.abc import Iterator
from heapq import nlargest
from itertools import islice

from holdfast.model.store_rows import RunRow
from holdfast.stores.dynamodb.table.actions import check, put, update
from holdfast.stores.dynamodb.table.keys import (
    NAMES,
    RUNS,
    fork_key,
    listed_run,
    listing_key,
    row_key,
)
from holdfast.stores.dynamodb.table.run_item import find_item, find_row, known, row_of
from holdfast.stores.dynamodb.table.split_bodies import read_body
from holdfast.stores.dynamodb.table.table import Table


def list_runs(table: Table, *, limit: int, before: RunRow | None, prefix: str) -> list[RunRow]:
    """See ``StorePort.list_runs``.

    A run that is deleted meanwhile is skipped, and the page continues after it.
    """
    rows: list[RunRow] = []
    below = "" if before is None else listing_key(before.run, before.created_at)["sk"]
    while len(rows) < limit:
        asked = limit - len(rows)
        places = _starting_with(table, prefix, below, asked) if prefix else _newest(table, below, asked)
        if not places:
            break
        wanted = [listed_run(place) for place in places]
        found = dict(_rows(table, wanted))
        rows += [found[run] for run in wanted if run in found]
        below = places[-1]
    return rows


def list_forks(table: Table, run: str, *, after: str, limit: int) -> list[RunRow]:
    """See ``StorePort.list_forks``.

    A run that is deleted meanwhile is skipped, and the page continues after it.
    """
    origin = find_item(table, run)
    if origin is None or not origin["forks"]:
        return []
    if "noted" not in origin:
        _note_forks(table, run)
    rows: list[RunRow] = []
    while len(rows) < limit:
        asked = limit - len(rows)
        notes = table.query(f"forks/{run}", above=after, page=asked, attributes=("sk",))
        wanted = [note["sk"] for note in islice(notes, asked)]
        if not wanted:
            break
        found = dict(_rows(table, wanted))
        rows += [found[fork] for fork in wanted if fork in found and found[fork].origin == run]
        after = wanted[-1]
    return rows


def _note_forks(table: Table, run: str) -> None:
    """Writes each note only if it is still a fork of this run: a concurrent delete leaves no note."""
    for item in table.get_all(
        row_key(listed_run(one["sk"])) for one in table.query(RUNS, attributes=("sk",))
    ):
        if item.get("origin") == run:
            fork = item["pk"].removeprefix("run/")
            is_fork = check(row_key(fork), "#origin = :origin", origin=run)
            table.transact([is_fork, put(fork_key(run, fork))])
    table.update(update(row_key(run), "SET #noted = :yes", "attribute_exists(#forks)", yes=True))


def _newest(table: Table, below: str, limit: int) -> list[str]:
    """Keys in the order of creation, the latest first."""
    items = table.query(RUNS, below=below, newest_first=True, page=limit, attributes=("sk",))
    return [item["sk"] for item in islice(items, limit)]


def _starting_with(table: Table, prefix: str, below: str, limit: int) -> list[str]:
    places = (
        listing_key(item["sk"], float(item["created_at"]))["sk"]
        for item in table.query(NAMES, prefix=prefix, attributes=("sk", "created_at"))
    )
    return nlargest(limit, (place for place in places if not below or place < below))


def _rows(table: Table, runs: list[str]) -> Iterator[tuple[str, RunRow]]:
    for found in table.get_all(map(row_key, runs)):
        if "gone" in found:
            continue
        item = known(table, found)
        body = read_body(table, item)
        row = find_row(table, item["pk"].removeprefix("run/")) if body is None else row_of(item, body)
        if row is not None:
            yield row.run, row
