"""Reads the contents that events and letters refer to, and verifies each against its address."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from holdfast.codec.blobs import unpack
from holdfast.errors import Corrupt
from holdfast.limits import CONTEXT_READ_BYTES_MAX, CONTEXT_VALUE_BYTES_MAX
from holdfast.model.event_fields import blob_fields, fields_of, filled, raw_part
from holdfast.model.events import Event, Kind, checksum
from holdfast.stores.port import StorePort

_kind_of: Final = attrgetter("kind")


def read_blob(store: StorePort, address: str) -> bytes:
    """A blob's content. Corrupt if it is missing or damaged."""
    ((_, content),) = read_blobs(store, [address])
    return content


def content_in(store: StorePort, event: Event) -> bytes:
    """The value of an event as JSON, from its body or from a blob. Corrupt if it is missing or damaged."""
    return content_at(store, event.body)


def content_at(store: StorePort, body: bytes) -> bytes:
    """The value that a body holds or refers to."""
    value = raw_part(body, "value")
    if value is not None:
        return value
    address = fields_of(body).get("value_blob")
    return b"null" if address is None else read_blob(store, address)


def read_blobs(store: StorePort, addresses: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The contents of these blobs, verified: one query, unpacked one by one. Corrupt names a bad one."""
    packed = store.get_blobs(addresses)
    for address in addresses:
        if address not in packed:
            raise Corrupt(store=store.url, problem=f"blob {address} is missing")
        # Popped: the packed bytes of one blob can be freed while the caller works on the next.
        yield address, unpack(packed.pop(address), address=address)


class BoundedReader:
    """Reads stored values within a bound for each value and one for all."""

    def __init__(
        self,
        store: StorePort,
        *,
        each_bytes: int = CONTEXT_VALUE_BYTES_MAX,
        all_bytes: int = CONTEXT_READ_BYTES_MAX,
    ) -> None:
        self._store = store
        self._each, self._left = each_bytes, all_bytes

    def __call__(self, address: str, size_bytes: int) -> bytes | None:
        """The content at an address, which has this size; None if it exceeds a bound. Corrupt if damaged."""
        if size_bytes > min(self._each, self._left):
            return None
        self._left -= size_bytes
        return read_blob(self._store, address)


def with_views(store: StorePort, run: str, events: list[Event]) -> list[Event]:
    """The same list; each compacted event in it now holds its view."""
    if Kind.COMPACTED not in map(_kind_of, events):  # of nearly all pages, and it takes a third of the loop
        return events
    for number, event in enumerate(events):
        if event.kind == Kind.COMPACTED:
            events[number] = _with_view(store, run, event)
    return events


def _with_view(store: StorePort, run: str, event: Event) -> Event:
    address = blob_fields(event.body).get("view_blob")
    if address is None:
        return event
    body = filled(event.body, "view", read_blob(store, address))
    return event._replace(body=body, crc=checksum(run, *event[:6], body))
