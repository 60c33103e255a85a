"""Writes blobs into a store in batches of bounded size."""

from holdfast.codec.blobs import pack
from holdfast.engine.run.store_session import StoreSession
from holdfast.model.store_rows import Blob

_BATCH_BYTES = 8_000_000


class Blobs:
    """Blobs on their way into a store, in bounded batches."""

    def __init__(self, session: StoreSession) -> None:
        self._session = session
        self._batch: list[Blob] = []
        self._size = 0

    def put(self, address: str, data: bytes) -> None:
        """Take one; durable after the next flush."""
        packed = pack(data)
        self._batch.append(Blob(address, packed))
        self._size += len(packed)
        if self._size > _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was taken. Synced when it returns."""
        if self._batch:
            self._session.store.put_blobs(self._batch, at=self._session.clock.wall())
        self._batch, self._size = [], 0
