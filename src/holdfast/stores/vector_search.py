"""The vectors of one space and one model in memory, and the nearest to a vector.

Brute force: some milliseconds for 100,000. It knows numpy, document numbers and bytes; it knows no database.
Without numpy, documents are found by words alone.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast.limits import VECTORS_MAX

if TYPE_CHECKING:
    import numpy as np


@cache
def is_possible() -> bool:
    """Whether numpy is there. It is looked for when vectors are first asked for, not by every process."""
    from importlib.util import find_spec

    return find_spec("numpy") is not None


class Nearest:
    """A matrix that grows at its end. Rows of removed documents are masked, not moved."""

    def __init__(self) -> None:
        self.last_id = 0
        self._ids: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self._rows: np.ndarray[Any, np.dtype[np.float32]] | None = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, found: Sequence[tuple[int, bytes]]) -> None:
        """Add documents in the order of their numbers, all above the earlier ones.

        Drops the oldest beyond the bound.
        """
        import numpy as np

        if not found:
            return
        ids = np.fromiter((id_ for id_, _ in found), dtype=np.int64, count=len(found))
        rows = unit_rows([vector for _, vector in found])
        if self._ids is None or self._rows is None:
            self._ids, self._rows = ids, rows
        else:
            self._make_room(len(found))
            self._ids[self._size : self._size + len(found)] = ids
            self._rows[self._size : self._size + len(found)] = rows
        self._size += len(found)
        self.last_id = int(ids[-1])
        if self._size > VECTORS_MAX:
            first = self._size - VECTORS_MAX
            self._ids, self._rows = (
                self._ids[first : self._size].copy(),
                self._rows[first : self._size].copy(),
            )
            self._size = VECTORS_MAX

    def _make_room(self, more: int) -> None:
        import numpy as np

        assert self._ids is not None
        assert self._rows is not None
        if self._size + more > len(self._ids):
            capacity = max(2 * len(self._ids), self._size + more)
            ids, rows = np.empty(capacity, np.int64), np.empty((capacity, self._rows.shape[1]), np.float32)
            ids[: self._size], rows[: self._size] = self._ids[: self._size], self._rows[: self._size]
            self._ids, self._rows = ids, rows

    def top(self, vector: bytes, limit: int, among: Iterable[int] | None = None) -> list[tuple[int, float]]:
        """The nearest, best first, each with its cosine; only among these numbers if they are given."""
        import numpy as np

        if self._ids is None or self._rows is None or not self._size:
            return []
        ids, rows = self._ids[: self._size], self._rows[: self._size]
        if among is not None:
            places = np.flatnonzero(np.isin(ids, np.fromiter(among, dtype=np.int64)))
            ids, rows = ids[places], rows[places]
        cosines = rows @ unit_rows([vector])[0]
        size = min(limit, len(ids))
        if not size:
            return []
        best = np.argpartition(-cosines, size - 1)[:size]
        return sorted(((int(ids[at]), float(cosines[at])) for at in best), key=lambda one: -one[1])

    def mask(self, gone: Iterable[int]) -> None:
        """Never return these again."""
        import numpy as np

        assert self._ids is not None
        assert self._rows is not None
        places = np.isin(self._ids[: self._size], np.fromiter(gone, dtype=np.int64))
        kept = np.flatnonzero(~places)
        self._ids[: len(kept)], self._rows[: len(kept)] = self._ids[kept], self._rows[kept]
        self._size = len(kept)


def unit_rows(vectors: Sequence[bytes]) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Vectors of one byte per dimension as rows of unit length; a zero vector stays zero."""
    import numpy as np

    rows = np.frombuffer(b"".join(vectors), dtype=np.int8).reshape(len(vectors), -1).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths == 0, 1, lengths)
    return rows
