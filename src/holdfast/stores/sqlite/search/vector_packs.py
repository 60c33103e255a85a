"""The vectors of a search index, kept in packs: many in one row.

A process reads all of them before its first search by meaning, and a row for each would take ten times as
long. It knows the table ``packs``; whose a vector is, ``index`` knows.

A pack has a fixed number of slots. A slot has a vector and the number of its document, or zeros. It is
written in the transaction that writes the document, so that the two never differ. A removed vector is
overwritten, and its slot is given to a later document: packs do not become sparse.

A number is never given twice, and its vector never changes. So what a process has read stays true, and packs
with a number above all it has seen have what is new.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, Final

import apsw

from holdfast.errors import Corrupt
from holdfast.limits import VECTORS_MAX

SLOTS: Final = 128
"""32 KB with the shipped table: few rows to read, and few pages to write for one document."""
_PACKS_MAX: Final = -(-VECTORS_MAX // SLOTS)
_IDS: Final = Struct(f"<{SLOTS}q")

_OF_KIND: Final = "FROM packs WHERE space = ?1 AND model = ?2 AND width = ?3"
_ROOMY: Final = f"SELECT pack, free, last_id, ids, vectors {_OF_KIND} AND free > 0 LIMIT 1"
_GET: Final = "SELECT pack, free, last_id, ids, vectors FROM packs WHERE pack = ?"
_CREATE: Final = (
    "INSERT INTO packs (space, model, width, free, last_id, ids, vectors) "  # noqa: S608 - constants
    f"VALUES (?1, ?2, ?3, {SLOTS}, 0, zeroblob({_IDS.size}), zeroblob({SLOTS} * ?3)) "
    "RETURNING pack, free, last_id, ids, vectors"
)
_WRITE: Final = "UPDATE packs SET free = ?, last_id = ?, ids = ?, vectors = ? WHERE pack = ?"
_POINT: Final = "UPDATE documents SET pack = ? WHERE id = ?"
_TOO_OLD: Final = f"SELECT last_id {_OF_KIND} ORDER BY last_id DESC LIMIT 1 OFFSET ?4"
# The count comes from the statement that reads, because another process may add packs between two.
_NEW: Final = (
    f"SELECT (SELECT count(*) {_OF_KIND} AND last_id > ?4), last_id, ids, vectors "
    f"{_OF_KIND} AND last_id > ?4 ORDER BY last_id"
)
_DIFFERENT: Final = (
    f"SELECT (SELECT count(*) FROM documents WHERE pack <> 0) - (SELECT total({SLOTS} - free) FROM packs)"  # noqa: S608
)


class Packs:
    """Reads and writes packs by a connection that the caller has."""

    def __init__(self, path: str) -> None:
        self._path: Final = path

    def add(self, connection: apsw.Connection, space: str, found: Iterable[tuple[int, str, bytes]]) -> None:
        """Keep the vectors of new documents: each its number, its model and its vector."""
        kinds: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        for id_, model, vector in found:
            if vector:
                kinds.setdefault((model, len(vector)), []).append((id_, vector))
        for (model, width), left in kinds.items():
            kind = (space, model, width)
            while left:
                row = connection.execute(_ROOMY, kind).fetchone() or _only(connection, _CREATE, kind)
                pack = self._pack(row, width)
                taken = left[: pack.free]
                del left[: pack.free]
                pack.fill(taken)
                pack.write(connection)
                connection.executemany(_POINT, [(pack.number, id_) for id_, _ in taken])

    def remove(self, connection: apsw.Connection, gone: Mapping[int, Sequence[int]]) -> None:
        """Overwrite the vectors of removed documents: their numbers, by pack."""
        for number, ids in gone.items():
            pack = self._pack(connection.execute(_GET, (number,)).fetchone())
            if not pack.empty(ids):
                raise self._bent("a pack lacks the vector of a document")
            pack.write(connection)

    def clear(self, connection: apsw.Connection, space: str) -> None:
        """Remove all packs of a space."""
        connection.execute("DELETE FROM packs WHERE space = ?", (space,))

    def check(self, connection: apsw.Connection) -> None:
        """Raise Corrupt unless there are as many vectors as documents that have one."""
        if _only(connection, _DIFFERENT)[0]:
            raise self._bent("there are more or fewer vectors than documents that have one")

    def read_new(
        self, connection: apsw.Connection, kind: tuple[str, str, int], seen: int
    ) -> tuple[Any, Any, int]:
        """The numbers and vectors of a space, model and width after number ``seen``, and the last number.

        Of many, the packs that were written last.
        """
        import numpy as np

        after = seen
        if not seen:  # all of them: those beyond the bound are not even read
            after = connection.execute(_TOO_OLD, (*kind, _PACKS_MAX)).get or 0
        ids, rows, size = np.empty(0, np.int64), np.empty((0, kind[2]), np.int8), 0
        last = seen
        cursor = connection.execute(_NEW, (*kind, after))
        try:
            for count, last_id, numbers, vectors in cursor:
                if not size:
                    ids = np.empty(count * SLOTS, np.int64)
                    rows = np.empty((count * SLOTS, kind[2]), np.int8)
                self._check_row(last_id, numbers, vectors, kind[2])
                own = np.frombuffer(numbers, "<i8")
                new = own > seen  # a free slot has number 0
                own_rows = np.frombuffer(vectors, np.int8).reshape(SLOTS, kind[2])
                more = int(np.count_nonzero(new))
                is_whole = more == SLOTS
                ids[size : size + more] = own if is_whole else own[new]
                rows[size : size + more] = own_rows if is_whole else own_rows[new]
                size, last = size + more, last_id
        finally:
            cursor.close()  # an open statement would keep the WAL from being folded
        return ids[:size], rows[:size], last

    def _pack(self, row: Any, width: int | None = None) -> "_Pack":
        if row is None:
            raise self._bent("a document's vector is in no pack")
        number, free, last_id, ids, vectors = row
        if type(vectors) is not bytes or len(vectors) % SLOTS:
            raise self._bent("a pack is of another size than was written")
        self._check_row(last_id, ids, vectors, width or len(vectors) // SLOTS)
        pack = _Pack(number, last_id, ids, vectors)
        if pack.free != free:
            raise self._bent("a pack has more or fewer vectors than was written")
        return pack

    def _check_row(self, last_id: Any, ids: Any, vectors: Any, width: int) -> None:
        """A flipped bit may have changed the type of a field, which SQLite allows."""
        is_typed = type(last_id) is int and type(ids) is type(vectors) is bytes
        if not is_typed or (len(ids), len(vectors)) != (_IDS.size, SLOTS * width):
            raise self._bent("a pack is of another size than was written")

    def _bent(self, problem: str) -> Corrupt:
        return Corrupt(store=self._path, problem=problem)


class _Pack:
    """One pack, while it is changed."""

    def __init__(self, number: int, last_id: int, ids: bytes, vectors: bytes) -> None:
        self.number: Final = number
        self._last_id = last_id
        self._ids: Final = [*_IDS.unpack(ids)]
        self._vectors: Final = bytearray(vectors)
        self._width: Final = len(vectors) // SLOTS

    @property
    def free(self) -> int:
        """How many slots are free."""
        return self._ids.count(0)

    def fill(self, found: Sequence[tuple[int, bytes]]) -> None:
        """Put documents into free slots, of which there are enough."""
        at = 0
        for id_, vector in found:
            at = self._ids.index(0, at)
            self._set(at, id_, vector)
            self._last_id = max(self._last_id, id_)

    def empty(self, ids: Sequence[int]) -> bool:
        """Overwrite the vectors of these documents with zeros; False if one is not here."""
        for id_ in ids:
            if id_ not in self._ids:
                return False
            self._set(self._ids.index(id_), 0, bytes(self._width))
        return True

    def _set(self, at: int, id_: int, vector: bytes) -> None:
        self._ids[at] = id_
        self._vectors[at * self._width : (at + 1) * self._width] = vector

    def write(self, connection: apsw.Connection) -> None:
        """Write it back; SQLite writes only the pages that differ. An empty one is deleted."""
        if self.free == SLOTS:
            connection.execute("DELETE FROM packs WHERE pack = ?", (self.number,))
        else:
            ids = _IDS.pack(*self._ids)
            connection.execute(_WRITE, (self.free, self._last_id, ids, bytes(self._vectors), self.number))


def _only(connection: apsw.Connection, statement: str, bindings: tuple[Any, ...] = ()) -> Any:
    """The only row. All are read: a statement with RETURNING is done when it has no more."""
    (row,) = connection.execute(statement, bindings).fetchall()
    return row
