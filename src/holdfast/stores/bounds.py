"""The bounds that every store checks before it writes, so that no program depends on a particular store.

It knows ``holdfast.limits`` and the form of an append; it knows no store. What passes is written completely;
anything else raises ``TooLarge`` with nothing written. It also has the texts that all stores share.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from holdfast import limits
from holdfast.errors import TooLarge
from holdfast.model.events import Event, covers_from
from holdfast.model.store_rows import Append, Blob, Finding, Removal

SEALED: Final = b"\x01HF"
"""What a sealed value begins with, in a body behind its first line.

It may be larger by what sealing adds: the limits are about what was sealed, and ``stores.encrypted`` has
checked that.
"""
_HEAD_BYTES: Final = 40


def check_items(items: Sequence[Append]) -> None:
    """Each item is within the limits, and its events cover every seq after its place."""
    for item in items:
        check_item(item)


def check_skip(kinds: Collection[str], skip: int) -> None:
    """Only events of some kinds are skipped: all others are found by their seq."""
    assert skip == 0 or (kinds and skip > 0), f"{skip} events are skipped, of any kind"


def check_claim(agents: Sequence[str], limit: int) -> None:
    """A claim names at least one agent, and no more runs than a page has."""
    assert agents, "a claim for no agent"
    check_page("claimed runs", limit, limits.RUN_PAGE_MAX)


def check_removals(removals: Sequence[Removal]) -> None:
    """As many runs and records as one transaction may delete."""
    check_page("deleted runs", max(1, len(removals)), limits.REMOVALS_MAX)
    records = sum(len(removal.records) for removal in removals)
    check_page("deleted records", max(1, records), limits.REMOVED_RECORDS_MAX)


def check_item(item: Append) -> None:
    """The item is within the limits, and its events cover every seq after its place."""
    events = item.events
    assert events or not item.blobs, (
        f"blobs of {item.run} are touched at their first event's time; there is no event"
    )
    seq = item.after_seq
    for event in events:
        seq += 1
        if event.seq != seq:
            assert covers_from(event) <= seq < event.seq, (
                f"event {event.seq} of {item.run} is where {seq} belongs"
            )
            seq = event.seq
    _check_events(item.run, events)
    check_blobs(item.blobs)


def check_replacement(
    run: str, after_seq: int, upto_seq: int, events: Sequence[Event], blobs: Sequence[Blob]
) -> None:
    """The replacement of a range lies in it in order, and ends where it ended: the head must not move."""
    assert events, f"a stretch of {run} is replaced by nothing"
    last = after_seq
    for event in events:
        assert event.seq > last, f"event {event.seq} of {run} comes after {last}"
        last = event.seq
    assert last == upto_seq, f"the stretch of {run} up to {upto_seq} is replaced by one up to {last}"
    _check_events(run, events)
    check_blobs(blobs)


def _check_events(run: str, events: Sequence[Event]) -> None:
    if len(events) > limits.APPEND_EVENTS_MAX:
        raise TooLarge(
            what=f"an append to {run}", size=len(events), size_max=limits.APPEND_EVENTS_MAX, unit="events"
        )
    size = sum(len(event.body) for event in events)
    # the second sum only for what looks too large: every append comes here
    if size > limits.APPEND_SIZE_BYTES_MAX and size > limits.APPEND_SIZE_BYTES_MAX + sum(
        _sealing(event.body) for event in events
    ):
        raise TooLarge(
            what=f"an append to {run}", size=size, size_max=limits.APPEND_SIZE_BYTES_MAX, unit="bytes"
        )


def check_blobs(blobs: Iterable[Blob]) -> None:
    for blob in blobs:
        if blob.data is not None:
            _check_size(f"blob {blob.address}", blob.data, limits.BLOB_SIZE_BYTES_MAX)


def check_record(space: str, key: str, body: bytes) -> None:
    _check_size(f"record {space} {key}", body, limits.RECORD_SIZE_BYTES_MAX)


def check_run_body(run: str, body: bytes) -> None:
    _check_size(f"the body of run {run}", body, limits.RECORD_SIZE_BYTES_MAX)


def check_page(what: str, limit: int, limit_max: int) -> None:
    """A page has a size, and it is bounded; silently shortening one would look like the last page."""
    assert limit > 0, f"a page of {limit} {what}"
    if limit > limit_max:
        raise TooLarge(what=f"a page of {what}", size=limit, size_max=limit_max, unit=what)


def partial_finding(run: str) -> Finding:
    """The finding about an incomplete run; its events are not checked."""
    return Finding(
        "imports",
        "warning",
        f"run {run} is not whole: bringing it in was cut off, or is going on",
        "run the same `holdfast import`, `holdfast copy` or `holdfast erase` again",
    )


def _check_size(what: str, data: bytes, size_max: int) -> None:
    if len(data) > size_max and len(data) > size_max + _sealing(data):
        raise TooLarge(what=what, size=len(data), size_max=size_max, unit="bytes")


def _sealing(data: bytes) -> int:
    """The most that sealing has added to a value."""
    return limits.SEALED_BYTES_MAX if SEALED in data[:_HEAD_BYTES] else 0
