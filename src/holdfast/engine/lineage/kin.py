"""Finds the runs of one lineage, which share packs of states, without reading the rows of all runs.

A lineage is mostly one tree of forks, and origins and forks lead to all of it. Flattening splits a tree, and
an import under another name adds a second tree: then notes, kept as records, lead to the other trees.

Invariant: if a lineage has more than one tree in this store, each tree has a note at one of its runs. A run
has a birth id of its own unless it was imported, so:

- every import of a tree notes it, and the runs of its earlier names, before the tree exists;
- every flattening that splits a tree notes both parts before it does so.

A crash in between leaves a note too many, which does no harm: a reader of a note checks the rows. Runs from
before there were notes are noted once, by the first removal, which then writes ``_WHOLE``; until then, all
rows are read.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from holdfast.codec.blobs import address_of
from holdfast.core.journal.run_row_facts import facts_of, lineage_of, lineages
from holdfast.engine.journal.lineage_names import forks_of
from holdfast.engine.lineage.dependents import Family, all_rows, families
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.store_rows import RunRow, Status
from holdfast.stores.port import StorePort

KIN: Final = "kin"
"""The record space of the notes; a key has the lineage and the run's name."""
_WHOLE: Final = "@"
"""The record that says: runs from before there were notes are noted, too."""
_DIGITS: Final = 24


def family_of(store: StorePort, run: str) -> Family:
    """The lineage of a run, which must exist. Nothing is written."""
    return finder(store)(run)


def finder(store: StorePort) -> Callable[[str], Family]:
    """A function that finds the lineages of several runs.

    Before the first removal there are no notes: then it reads all rows, once.
    """
    if store.get_record(KIN, _WHOLE) is None:
        return finder_among(all_rows(store))
    return partial(_indexed, store)


def finder_among(rows: Mapping[str, RunRow]) -> Callable[[str], Family]:
    """A function that finds the lineage of a run among all rows of a store."""
    return {run: family for family in families(rows) for run in family.rows}.__getitem__


def _indexed(store: StorePort, run: str) -> Family:
    path = _path(store, run)
    name = lineage_of(path)
    rows = _tree(store, path[-1])
    for noted in _noted(store, name):
        found = [] if noted in rows else _path(store, noted)
        # The row of a run that is being imported does not say yet which lineage it belongs to.
        if found and (lineage_of(found) == name or found[0].status == Status.IMPORTING):
            rows |= _tree(store, found[-1])
    return Family(rows)


def lineage_name(store: StorePort, run: str) -> str:
    """The name of the lineage of a run, which must exist."""
    return lineage_of(_path(store, run))


def note(store: StorePort, lineage: str, runs: Iterable[str]) -> None:
    """Note that a lineage may have several trees: these runs lead to them. Durable when it returns."""
    for run in runs:
        store.put_record(KIN, _key(lineage, run), b"", revision=0)


def note_import(store: StorePort, run: str, birth: str, facts: dict[str, object], was: str) -> None:
    """Note a tree that is about to be imported under this name, and the runs of its earlier names."""
    lineage, names = facts.get("lineage"), facts.get("was")
    before = [was, *(names if isinstance(names, list) else ())]
    known = [name for name in before if name != run and store.find_run(name) is not None]
    note(store, str(lineage or birth[:12]), [run, *known])


def note_all(store: StorePort, rows: Mapping[str, RunRow] | None = None) -> None:
    """Note the runs from before there were notes, if that is not done. Durable when it returns.

    ``rows`` are all rows of the store, if the caller has just read them.
    """
    if store.get_record(KIN, _WHOLE) is not None:
        return
    rows = all_rows(store) if rows is None else rows
    names = lineages(rows)
    roots: dict[str, list[RunRow]] = {}
    for row in rows.values():
        if row.origin is None or row.origin not in rows:
            roots.setdefault(names[row.run], []).append(row)
    for name, trees in roots.items():
        if len(trees) > 1 or any(_is_imported(row) for row in trees):
            note(store, name, [row.run for row in trees])
    store.put_record(KIN, _WHOLE, b"", revision=0)


def forget(store: StorePort, lineage: str, run: str) -> None:
    """Remove the note of a deleted run."""
    record = store.get_record(KIN, _key(lineage, run))
    if record is not None:
        store.delete_record(KIN, record.key, revision=record.revision)


def all_noted(store: StorePort) -> dict[str, set[str]]:
    """The runs of all notes, by the digest of their lineage: for a look at many lineages."""
    found: dict[str, set[str]] = {}
    after = ""
    while page := store.scan_records(KIN, after=after, limit=RECORD_PAGE_MAX):
        for record in page:
            digest, sign, run = record.key.partition("@")
            if digest and sign:
                found.setdefault(digest, set()).add(run)
        after = page[-1].key
    return found


def digest_of(lineage: str) -> str:
    """A lineage in a key: that of an imported run may be any text, and a key has to be short."""
    return address_of(lineage.encode())[:_DIGITS]


def place_of(lineage: str, run: str) -> tuple[str, str]:
    """Space and key of a run's note."""
    return KIN, _key(lineage, run)


def _key(lineage: str, run: str) -> str:
    return f"{digest_of(lineage)}@{run}"


def _path(store: StorePort, run: str) -> list[RunRow]:
    """The run and its origins, nearest first, as far as they exist."""
    path: list[RunRow] = []
    name: str | None = run
    while name is not None and (row := store.find_run(name)) is not None:
        path.append(row)
        name = row.origin
    return path


def _tree(store: StorePort, root: RunRow) -> dict[str, RunRow]:
    rows, left = {root.run: root}, [root.run]
    while left:
        for fork in forks_of(store, left.pop()):
            if fork.run not in rows:
                rows[fork.run] = fork
                left.append(fork.run)
    return rows


def _noted(store: StorePort, lineage: str) -> list[str]:
    prefix, found = _key(lineage, ""), list[str]()
    after = ""
    while page := store.scan_records(KIN, prefix=prefix, after=after, limit=RECORD_PAGE_MAX):
        found += [record.key.removeprefix(prefix) for record in page]
        after = page[-1].key
    return found


def _is_imported(row: RunRow) -> bool:
    return (
        bool(row.damage)
        or row.status == Status.IMPORTING
        or bool({"elsewhere", "lineage"} & facts_of(row).keys())
    )
