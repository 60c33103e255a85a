"""Finds the records that go with deleted runs, for many runs at once.

Most spaces hold few records: one page shows all of them. A space with more is asked run by run.
"""

from collections.abc import Collection, Iterator
from typing import Final

from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.store_rows import RUN_SPACES, SETTLEMENTS, Record
from holdfast.stores.port import StorePort

_FEW: Final = 200
"""A page with bodies, of which some are large."""


def records_of(store: StorePort, runs: Collection[str]) -> dict[str, list[tuple[str, str]]]:
    """Space and key of each record under the ids of these runs, damaged ones too; not their inboxes.

    Not how their promises ended: other branches may have them. ``forget_settlements`` deletes those.
    """
    found: dict[str, list[tuple[str, str]]] = {run: [] for run in runs}
    for space in RUN_SPACES:
        for record in _candidates(store, space, runs):
            run, sign, _ = record.key.partition("@")
            if run in found and not (sign and space == SETTLEMENTS):
                found[run].append((space, record.key))
    return found


def _candidates(store: StorePort, space: str, runs: Collection[str]) -> Iterator[Record]:
    page = store.scan_records(space, limit=_FEW, damaged=True)
    if len(page) < _FEW:
        yield from page
        return
    for run in runs:
        # The id itself sorts before all other keys that begin with it.
        yield from (
            one for one in store.scan_records(space, prefix=run, limit=1, damaged=True) if one.key == run
        )
        yield from _under(store, space, f"{run}@")


def _under(store: StorePort, space: str, prefix: str) -> Iterator[Record]:
    after = ""
    while page := store.scan_records(space, after=after, prefix=prefix, limit=RECORD_PAGE_MAX, damaged=True):
        yield from page
        after = page[-1].key
