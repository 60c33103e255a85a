"""The names that a run's history has had: its own, those of its origins, and those from before an import."""

from holdfast.core.journal.run_row_facts import names_of
from holdfast.stores.port import StorePort


def lineage_names(store: StorePort, run: str) -> list[str]:
    """The run and those it was forked from, by all their names; empty where there is no such run."""
    names: list[str] = []
    row = store.find_run(run)
    while row is not None and row.run not in names:
        names += names_of(row)
        row = store.find_run(row.origin) if row.origin else None
    return names
