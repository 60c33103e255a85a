"""Lists runs: all, the forks of one, its descendants, and the names that its history has had."""

from collections.abc import Iterator

from holdfast.core.journal.run_row_facts import lineage_of, names_of
from holdfast.engine.journal.journal import chain_of
from holdfast.limits import RUN_PAGE_MAX
from holdfast.model.store_rows import RunRow
from holdfast.stores.port import StorePort


def lineage_names(store: StorePort, run: str) -> list[str]:
    """The run and those it was forked from, by all their names; empty where there is no such run."""
    names: list[str] = []
    row = store.find_run(run)
    while row is not None and row.run not in names:
        names += names_of(row)
        row = store.find_run(row.origin) if row.origin else None
    return names


def lineage_named(store: StorePort, row: RunRow) -> str:
    """The name of a run's lineage: random, the same for all its forks, and carried by exports."""
    return lineage_of([row] if row.origin is None else chain_of(store, row.run))


def is_kept_branch(row: RunRow) -> bool:
    """Whether this is the old branch that a rewind kept: a fork of the run, and no child."""
    return row.origin is not None and row.run.rpartition("~")[0] == row.origin


def descendants(store: StorePort, run: str) -> list[RunRow]:
    """Every run whose id begins with this one's and a ``/``, newest first."""
    found: list[RunRow] = []
    while page := store.list_runs(limit=RUN_PAGE_MAX, before=found[-1] if found else None, prefix=f"{run}/"):
        found += page
    return found


def all_runs(store: StorePort) -> Iterator[RunRow]:
    """Every run of the store, newest first."""
    before: RunRow | None = None
    while page := store.list_runs(limit=RUN_PAGE_MAX, before=before):
        yield from page
        before = page[-1]


def forks_of(store: StorePort, run: str) -> list[RunRow]:
    """The runs that were forked from this one, oldest first."""
    found: list[RunRow] = []
    while page := store.list_forks(run, after=found[-1].run if found else "", limit=RUN_PAGE_MAX):
        found += page
    return sorted(found, key=lambda row: (row.created_at, row.run))
