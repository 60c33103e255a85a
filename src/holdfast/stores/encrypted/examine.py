"""The self-check of an encrypted store: that of the store below, and everything opened.

The store below checks what is stored. Here every row that is intact there is opened, and the plain journals
are followed. So what is reported twice by nature, a broken chain, is named once.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.limits import EVENT_PAGE_MAX, RUN_PAGE_MAX
from holdfast.model.events import Event, is_intact
from holdfast.model.store_rows import Finding, RunRow, Status
from holdfast.stores.encrypted.sealed_events import is_genuine
from holdfast.stores.row_checksums import RESTORE, event_damage, links_of

if TYPE_CHECKING:
    from holdfast.stores.port import StorePort


def examine(store: "StorePort", inner: "StorePort") -> list[Finding]:
    """What is wrong with a store, below and above its seals."""
    below = inner.examine()
    named = {finding.text for finding in below}
    found = [
        Finding("encryption", "failure", text, RESTORE)
        for row in _rows(store)
        for text in _damage(store, inner, row)
        if text not in named
    ]
    return [*below, *(found or [Finding("encryption", "ok", "every run and event was sealed by this store")])]


def _damage(store: "StorePort", inner: "StorePort", row: RunRow) -> Iterator[str]:
    if row.damage:
        yield row.damage
        return
    if row.status == Status.IMPORTING:
        return  # a copy that is being made, or was cut off
    links = links_of((row.birth, row.origin, row.origin_seq), lambda run, seq: _chain_at(store, run, seq))
    for stored, event in _events(store, inner, row):
        if not is_intact(row.run, stored):
            links.before = None  # the store below names it
        elif not is_genuine(event):
            links.before = None
            yield f"event {event.seq} of run {row.run} was not sealed by this store"
        elif damage := event_damage(row.run, event, links):
            yield damage


def _events(store: "StorePort", inner: "StorePort", row: RunRow) -> Iterator[tuple[Event, Event]]:
    """The run's own events, as stored and as opened."""
    after_seq = row.origin_seq
    while True:
        stored = inner.read_events(row.run, after_seq=after_seq, limit=EVENT_PAGE_MAX)
        plain = store.read_events(row.run, after_seq=after_seq, limit=EVENT_PAGE_MAX)
        yield from zip(stored, plain, strict=False)
        if len(stored) < EVENT_PAGE_MAX:
            return
        after_seq = stored[-1].seq


def _chain_at(store: "StorePort", run: str, seq: int) -> tuple[str | None, int, int] | None:
    row = store.find_run(run, damaged=True)
    if row is None or row.damage:
        return None
    found = store.read_events(run, after_seq=seq - 1, upto_seq=seq, limit=1)
    return row.origin, row.origin_seq, found[0].chain if found else 0


def _rows(store: "StorePort") -> Iterator[RunRow]:
    before: RunRow | None = None
    while page := store.list_runs(limit=RUN_PAGE_MAX, before=before):
        yield from page
        before = page[-1]
