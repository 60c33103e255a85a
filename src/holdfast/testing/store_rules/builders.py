"""Builders of the nouns that the rules store, with correct checksums and plain contents."""

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

from holdfast.model.events import Event, checksum
from holdfast.model.store_rows import Append, Appended, Removal, RunRow
from holdfast.stores.port import StorePort

AT = 1_700_000_000.25


def a_run(run: str, **fields: Any) -> RunRow:
    """A queued run."""
    row = RunRow(run=run, birth=f"birth-of-{run}", created_at=AT, status="queued", body=b'{"goal":"x"}')
    return row._replace(**fields)


def an_event(
    run: str,
    seq: int,
    *,
    body: bytes = b"{}",
    at: float = AT,
    name: str = "survey",
    fence: int = 1,
    kind: str = "step.finished",
) -> Event:
    """An event with its checksum."""
    crc = checksum(run, seq, at, kind, name, f"key-{seq}", fence, body)
    return Event(seq, at, kind, name, f"key-{seq}", fence, body, crc)


def an_append(run: str, fence: int, after_seq: int, count: int = 1, **fields: Any) -> Append:
    """An item of so many events, right after ``after_seq``."""
    seqs = range(after_seq + 1, after_seq + 1 + count)
    return Append(run, fence, after_seq, tuple(an_event(run, seq, fence=fence) for seq in seqs))._replace(
        **fields
    )


def held(store: StorePort, run: str = "r", **fields: Any) -> int:
    """Create a run, and its origin if that does not exist; take its lease; returns the fence."""
    row = a_run(run, **fields)
    if row.origin is not None:
        store.create_run(a_run(row.origin))
    assert store.create_run(row, origin_revision=revision_of(store, row.origin) if row.origin else 0)
    grant = store.acquire(run, at=AT, lease_s=30.0)
    assert grant.granted
    return grant.lease.fence


def delete_run(
    store: StorePort, run: str, *, fence: int, revision: int, records: Sequence[tuple[str, str]] = ()
) -> bool:
    """Delete one run; whether it is gone."""
    (is_gone,) = store.delete_runs([Removal(run, fence, revision, tuple(records))])
    return is_gone


def revision_of(store: StorePort, run: str) -> int:
    """The revision of a run that must exist."""
    found = store.find_run(run)
    assert found is not None, run
    return found.revision


def head_of(store: StorePort, run: str) -> int:
    """The head of a run that must exist."""
    found = store.find_run(run)
    assert found is not None, run
    return found.head


def append(store: StorePort, item: Append) -> int:
    """Append one item that must be accepted; returns the new head."""
    (outcome,) = store.append([item])
    assert isinstance(outcome, Appended), outcome
    return outcome.head


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(0)`` … at the same time and wait for all; the first failure of any is raised."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
            failures.append(error)

    threads = [Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
