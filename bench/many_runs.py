"""Stores with many runs, made fast: one run is recorded as programs record, and its events stand under many names.

At the level of the store: rows one by one, journals many at a time. Every tenth run is a fork of the one before it, in
the middle of it.
"""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import holdfast
from holdfast.model.events import Event, checksum
from holdfast.model.store_rows import Append, Appended, RunRow, Status
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort

EVENTS: Final = 50
AT: Final = 1_750_000_000.0
FORKED_EVERY: Final = 10
_AT_ONCE: Final = 200


class Cut(Exception):
    """Ends the attempt that is copied."""


def work(number: int) -> dict[str, object]:
    return {"number": number, "text": "a short result, as most tools give"}


def a_journal() -> list[Event]:
    """What a program of some twenty steps and a few checkpoints records, up to its 50th event."""
    port = MemoryStore("memory://pattern")
    store = holdfast.Store(port)
    try:
        with holdfast.run("pattern", goal="count what is there", store=store) as run:
            for number in range(EVENTS):
                run.step("work", work, number)
                if number % 5 == 4:
                    run.think(f"{number} are done")
                    run.checkpoint({"done": number, "notes": ["short", "notes"]})
            raise Cut
    except Cut:
        return [event for event in store.events("pattern") if event.seq <= EVENTS]
    finally:
        store.close()
    raise AssertionError


def add_runs(store: StorePort, first: int, last: int) -> None:
    """Add the runs of these numbers, the last one excluded; later ones are newer."""
    pattern = a_journal()
    for begin in range(first, last, _AT_ONCE):
        items: list[Append] = []
        for number in range(begin, min(begin + _AT_ONCE, last)):
            row = _row(number)
            origin = store.find_run(row.origin) if row.origin else None
            made = store.create_run(row, origin_revision=origin.revision if origin else 0)
            assert made, f"there is a run {row.run} already"
            items += _appends(row, pattern, store)
        for outcome in store.append(items):
            assert isinstance(outcome, Appended), outcome


def name_of(number: int) -> str:
    """The name of a run."""
    return f"run-{number:05}"


def _row(number: int) -> RunRow:
    is_fork = number % FORKED_EVERY == FORKED_EVERY - 1
    return RunRow(
        run=name_of(number),
        birth=UUID(int=number + 1).hex[::-1],
        created_at=AT + number,
        status=Status.FAILED if number % 50 == 7 else Status.INTERRUPTED,
        body=b"{}",
        origin=name_of(number - 1) if is_fork else None,
        origin_seq=EVENTS // 2 if is_fork else 0,
    )


def _appends(row: RunRow, pattern: list[Event], store: StorePort) -> Iterator[Append]:
    found = store.find_run(row.run)
    assert found is not None
    own = [_of(row, event) for event in pattern if event.seq > row.origin_seq]
    yield Append(row.run, found.lease.fence, row.origin_seq, tuple(own))


def _of(row: RunRow, event: Event) -> Event:
    at = row.created_at + event.seq
    moved = event._replace(at=at)
    return moved._replace(
        crc=checksum(row.run, *moved[:7]), chain=0
    )  # as format 1 had none: nobody chains so many anew
