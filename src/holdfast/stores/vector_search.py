"""The vectors of one space and one model in memory, and the nearest to a vector.

Brute force: some milliseconds for 100,000. It knows numpy, document numbers and bytes; it knows no database.
Without numpy, documents are found by words alone.

Vectors stay as they are stored, one signed byte per dimension, and become floats a part at a time: a part
fits the processor's cache, so that this is as fast as a matrix of floats, which would be four times as large
and would have to be made by every process before its first search.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.limits import VECTORS_MAX

if TYPE_CHECKING:
    import numpy as np

    Ids = np.ndarray[Any, np.dtype[np.int64]]
    Rows = np.ndarray[Any, np.dtype[np.int8]]
    Floats = np.ndarray[Any, np.dtype[np.float32]]

_PART_NUMBERS: Final = 262_144
"""How many bytes become floats at a time: 1 MB of floats."""


@cache
def is_possible() -> bool:
    """Whether numpy is there. It is looked for when vectors are first asked for, not by every process."""
    from importlib.util import find_spec

    return find_spec("numpy") is not None


class Nearest:
    """A matrix that grows at its end. Rows of removed documents are taken out when they are noticed."""

    def __init__(self) -> None:
        self.last_id = 0
        """Every document up to this number is here, or was removed or is too old."""
        self._ids: Ids | None = None
        self._rows: Rows | None = None
        self._lengths: Floats | None = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, ids: "Ids", rows: "Rows") -> None:
        """Add documents that are not here yet. Drops the earliest beyond the bound."""
        if not len(ids):
            return
        lengths = _lengths_of(rows)
        if self._ids is None or self._rows is None or self._lengths is None:
            self._ids, self._rows, self._lengths = ids, rows, lengths
        else:
            self._make_room(len(ids))
            new = slice(self._size, self._size + len(ids))
            self._ids[new], self._rows[new], self._lengths[new] = ids, rows, lengths
        self._size += len(ids)
        self.last_id = max(self.last_id, int(ids.max()))
        if self._size > VECTORS_MAX:
            kept = slice(self._size - VECTORS_MAX, self._size)
            self._ids, self._rows = self._ids[kept].copy(), self._rows[kept].copy()
            self._lengths = self._lengths[kept].copy()
            self._size = VECTORS_MAX

    def _make_room(self, more: int) -> None:
        import numpy as np

        ids, rows, lengths = self._used()
        assert self._ids is not None
        if self._size + more > len(self._ids):
            capacity = max(2 * len(self._ids), self._size + more)
            self._ids, self._lengths = np.empty(capacity, np.int64), np.empty(capacity, np.float32)
            self._rows = np.empty((capacity, rows.shape[1]), np.int8)
            size = self._size
            self._ids[:size], self._rows[:size], self._lengths[:size] = ids, rows, lengths

    def top(self, vector: bytes, limit: int, among: Iterable[int] | None = None) -> list[tuple[int, float]]:
        """The nearest, best first, each with its cosine; only among these numbers if they are given."""
        import numpy as np

        if not self._size:
            return []
        ids, rows, lengths = self._used()
        if among is not None:
            places = np.flatnonzero(np.isin(ids, np.fromiter(among, dtype=np.int64)))
            ids, rows, lengths = ids[places], rows[places], lengths[places]
        size = min(limit, len(ids))
        if not size:
            return []
        wanted = np.frombuffer(vector, np.int8)
        cosines = _products_of(rows, wanted.astype(np.float32)) / (lengths * _lengths_of(wanted[None])[0])
        best = np.argpartition(-cosines, size - 1)[:size]
        return sorted(((int(ids[at]), float(cosines[at])) for at in best), key=lambda one: -one[1])

    def mask(self, gone: Iterable[int]) -> None:
        """Never return these again."""
        import numpy as np

        ids, rows, lengths = self._used()
        kept = np.flatnonzero(~np.isin(ids, np.fromiter(gone, dtype=np.int64)))
        size = self._size = len(kept)
        ids[:size], rows[:size], lengths[:size] = ids[kept], rows[kept], lengths[kept]

    def _used(self) -> "tuple[Ids, Rows, Floats]":
        assert self._ids is not None
        assert self._rows is not None
        assert self._lengths is not None
        return self._ids[: self._size], self._rows[: self._size], self._lengths[: self._size]


def matrix_of(found: Sequence[tuple[int, bytes]]) -> "tuple[Ids, Rows]":
    """Document numbers and their vectors as ``Nearest.extend`` takes them."""
    import numpy as np

    ids = np.fromiter((id_ for id_, _ in found), dtype=np.int64, count=len(found))
    rows = np.frombuffer(bytearray().join(vector for _, vector in found), np.int8)
    return ids, rows.reshape(len(found), -1) if found else rows.reshape(0, 0)


def _parts(rows: "Rows") -> "Iterator[tuple[slice, Floats]]":
    """The rows as floats, some at a time, in memory that is used again for the next."""
    import numpy as np

    count = max(1, _PART_NUMBERS // max(1, rows.shape[1]))
    floats = np.empty((min(count, len(rows)), rows.shape[1]), np.float32)
    for at in range(0, len(rows), count):
        part = floats[: len(rows) - at]
        part[...] = rows[at : at + count]
        yield slice(at, at + count), part


def _products_of(rows: "Rows", wanted: "Floats") -> "Floats":
    """The product of each row with a vector: exact, as long as whole numbers fit a float."""
    import numpy as np

    found = np.empty(len(rows), np.float32)
    for part, floats in _parts(rows):
        np.dot(floats, wanted, out=found[part])
    return found


def _lengths_of(rows: "Rows") -> "Floats":
    """The length of each row; 1 for zeros, whose cosine is 0."""
    import numpy as np

    found = np.empty(len(rows), np.float32)
    for part, floats in _parts(rows):
        np.sqrt(np.einsum("ij,ij->i", floats, floats), out=found[part])
    found[found == 0] = 1
    return found
