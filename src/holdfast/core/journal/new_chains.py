"""Gives a journal new chains after its events were rewritten, and cuts the work into pages.

A page is one replacement in the store, and a kill between two of them must leave a journal whose chain fits.
So the pages are written from the last to the first. The first event of a page still follows an event with its
old chain: until the page before it is written, it is an anchor with the chain that it will have. The page
before it then ends with that event, chained.
"""

from collections.abc import Iterator, Sequence

from holdfast.limits import APPEND_EVENTS_MAX, APPEND_SIZE_BYTES_MAX
from holdfast.model.events import Event, anchor, checksum, link, link_behind
from holdfast.model.named_tuple import NamedTuple


class NewPage(NamedTuple):
    """Events in place of those after ``after_seq`` and up to the last of them."""

    after_seq: int
    events: tuple[Event, ...]


def rechained(run: str, birth: str, events: Sequence[Event], before: int) -> list[Event]:
    """The events with checksums and chains of their own, behind an event with the chain ``before``.

    An anchor stays one, because what it replaced is gone, unless it is chained to the event before it: so a
    work that was cut off is completed. Unchained events stay so.
    """
    made = []
    for event in events:
        crc = checksum(run, *event[:7])
        chain = event.chain
        linked = link(link_behind(before, birth), crc)
        if chain > 0 or chain == anchor(linked):
            chain = linked
        made.append(event._replace(crc=crc, chain=chain))
        before = chain
    return made


def pages(
    old: Sequence[Event], new: Sequence[Event], origin_seq: int, *, origin_moves: bool
) -> Iterator[NewPage]:
    """The pages to write, in this order. Both have the same seqs.

    ``origin_moves``: the event before the first one is another run's, and its chain is still the old one.
    """
    differing = [number for number, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
    if not differing:
        return
    first, end = differing[0], differing[-1] + 1
    last = end
    while end > first:
        start = _start(new, first, end, more=end < last)
        page = list(new[start : min(end + 1, last)])
        if start > first or (start == 0 and origin_moves):
            page[0] = _anchored(page[0])
        yield NewPage(old[start - 1].seq if start else origin_seq, tuple(page))
        end = start


def _start(new: Sequence[Event], first: int, end: int, *, more: bool) -> int:
    """Where the page that ends before ``end`` begins; with ``more``, the event at ``end`` is in it, too."""
    size = len(new[end].body) if more else 0
    count = 1 if more else 0
    start = end
    while start > first:
        size += len(new[start - 1].body)
        count += 1
        if start < end and (size > APPEND_SIZE_BYTES_MAX or count > APPEND_EVENTS_MAX):
            break
        start -= 1
    return start


def _anchored(event: Event) -> Event:
    return event._replace(chain=anchor(event.chain)) if event.chain > 0 else event
