"""Contents that events and letters refer to, read from a store and compared with their addresses."""

from collections.abc import Iterator, Sequence

from holdfast.codec.blobs import unpack
from holdfast.errors import Corrupt
from holdfast.limits import CONTEXT_READ_BYTES_MAX, CONTEXT_VALUE_BYTES_MAX
from holdfast.model.event_fields import fields_of, raw_part
from holdfast.model.events import Event
from holdfast.stores.port import StorePort


def read_blob(store: StorePort, address: str) -> bytes:
    """A blob's content, verified against its address."""
    ((_, content),) = read_blobs(store, [address])
    return content


def content_in(store: StorePort, event: Event) -> bytes:
    """The value in an event, as JSON, wherever it lies. Corrupt where it is missing or damaged."""
    return content_at(store, event.body)


def content_at(store: StorePort, body: bytes) -> bytes:
    """The value that a body holds, or tells where it is."""
    value = raw_part(body, "value")
    if value is not None:
        return value
    address = fields_of(body).get("value_blob")
    return b"null" if address is None else read_blob(store, address)


def read_blobs(store: StorePort, addresses: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Blobs asked for together and unpacked one by one, each verified. Corrupt names one that is missing or damaged."""
    packed = store.get_blobs(addresses)
    for address in addresses:
        if address not in packed:
            raise Corrupt(store=store.url, problem=f"blob {address} is missing")
        yield address, unpack(packed.pop(address), address=address)


class BoundedReader:
    """Reads stored values up to a bound, each and together; what is beyond it is told by its size."""

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
        """The content at an address, of so many bytes; None beyond the bound. Corrupt if it is damaged."""
        if size_bytes > min(self._each, self._left):
            return None
        self._left -= size_bytes
        return read_blob(self._store, address)
