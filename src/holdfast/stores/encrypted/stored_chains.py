"""The chains of stored events: what the next one of a run is chained to, and what a replacement keeps.

Stored chains are over sealed rows, plain ones over plain events. The invariant: every store below finds a
sound journal, with the same anchors and unchained events as the plain one.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.limits import APPEND_EVENTS_MAX, APPEND_SIZE_BYTES_MAX, EVENT_PAGE_MAX
from holdfast.model.events import Event, anchor
from holdfast.model.store_rows import RunRow
from holdfast.stores.encrypted.seal import NotGenuineError
from holdfast.stores.encrypted.sealed_events import Owner, open_event, seal_events

if TYPE_CHECKING:
    from holdfast.stores.port import StorePort


def stored_chain(inner: "StorePort", run: str, seq: int) -> int:
    """The stored chain of event ``seq`` of a run's history, which may be its origin's; 0 if there is none."""
    while seq:
        found = inner.read_events(run, after_seq=seq - 1, upto_seq=seq, limit=1)
        if found:
            chain = found[0].chain
            return chain if isinstance(chain, int) else 0  # or damaged
        row = inner.find_run(run, damaged=True)
        if row is None or row.origin is None or seq > row.origin_seq:
            return 0
        run = row.origin
    return 0


def replaced(
    inner: "StorePort", owner: Owner, after_seq: int, upto_seq: int, events: Sequence[Event]
) -> list[Event]:
    """The stored events in place of a range. One that stays as it was stays bit for bit.

    The others keep the stored chain of what they replace, as anchors: so what follows still fits.
    """
    old = _stored_at(inner, owner.run, after_seq, upto_seq, events)
    made: list[Event] = []
    for event in events:
        stored = old.get(event.seq)
        if stored is not None and _opens_to(owner, stored, event):
            made.append(stored)
            continue
        (sealed,) = seal_events(owner, (event,), made[-1].chain if made else 0)
        if event.chain and stored is not None:
            sealed = sealed._replace(chain=anchor(stored.chain))
        made.append(sealed)
    return made


def adopted_batches(
    inner: "StorePort", row: RunRow, copy: RunRow, other: Owner | None, owner: Owner
) -> Iterator[tuple[int, list[Event]]]:
    """The events of a copy, sealed for the run that adopts them: batches, each after a seq.

    The run's own events stay bit for bit, because its forks are chained to them; and the anchor before them
    keeps the stored chain that it has in the origin's journal.
    """
    before = stored_chain(inner, copy.run, copy.origin_seq)
    after_seq = copy.origin_seq
    batch: list[Event] = []
    size = 0
    own = _own_events(inner, row)
    for event in _opened(inner, copy, other, owner):
        if batch and (len(batch) == APPEND_EVENTS_MAX or size + len(event.body) > APPEND_SIZE_BYTES_MAX):
            yield after_seq, batch
            after_seq, batch, size = batch[-1].seq, [], 0
        mine = next(own, None) if event.seq > row.origin_seq else None
        if mine is not None and mine.seq == event.seq and _opens_to(owner, mine, event):
            sealed = mine
        else:
            (sealed,) = seal_events(owner, (event,), before)
            if event.chain < 0 and event.seq <= row.origin_seq:
                sealed = sealed._replace(chain=anchor(stored_chain(inner, row.run, event.seq)))
        batch.append(sealed)
        before = sealed.chain
        size += len(event.body)
    if batch:
        yield after_seq, batch


def _own_events(inner: "StorePort", row: RunRow) -> Iterator[Event]:
    after_seq = row.origin_seq
    while page := inner.read_events(row.run, after_seq=after_seq, limit=APPEND_EVENTS_MAX):
        yield from page
        after_seq = page[-1].seq


def _opened(inner: "StorePort", copy: RunRow, other: Owner | None, owner: Owner) -> Iterator[Event]:
    """The copy's events; those that an earlier try has sealed for the adopting run already as well."""
    after_seq = copy.origin_seq
    while page := inner.read_events(copy.run, after_seq=after_seq, limit=APPEND_EVENTS_MAX):
        for event in page:
            try:
                if other is None:
                    raise NotGenuineError
                yield open_event(other, event)
            except NotGenuineError:
                yield open_event(owner, event)
        after_seq = page[-1].seq


def _stored_at(
    inner: "StorePort", run: str, after_seq: int, upto_seq: int, events: Sequence[Event]
) -> dict[int, Event]:
    """The stored events at the seqs of these."""
    if upto_seq - after_seq <= EVENT_PAGE_MAX:
        page = inner.read_events(run, after_seq=after_seq, upto_seq=upto_seq, limit=EVENT_PAGE_MAX)
        return {event.seq: event for event in page}
    found: dict[int, Event] = {}
    for event in events:  # few in place of many
        for one in inner.read_events(run, after_seq=event.seq - 1, upto_seq=event.seq, limit=1):
            found[one.seq] = one
    return found


def _opens_to(owner: Owner, stored: Event, event: Event) -> bool:
    try:
        return open_event(owner, stored) == event
    except NotGenuineError:
        return False
