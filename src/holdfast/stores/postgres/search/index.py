"""The search index of a store in PostgreSQL: ``tsvector`` for words, and pgvector for meaning if available.

It has its own connections, so that recording never waits for indexing or searches. Words are ranked by BM25,
which PostgreSQL does not have: the document frequency of a word is counted, its term frequency is derived
from its rank (``index.sql``), and the rest is a formula in the statement. The invariant: every method that
writes is one transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

from holdfast.errors import AccessDenied, StoreReadOnly
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.search import SPACES, Document, Match, Query, Within
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.connections import Database
from holdfast.stores.postgres.search import statements as sql
from holdfast.stores.postgres.search import tsvector
from holdfast.stores.postgres.search.create import ensure_index, identity
from holdfast.stores.postgres.search.vectors import InProcess, InServer, Vectors, model_of
from holdfast.stores.postgres.statements import after_prefix

_KNOWN_MAX: Final = 20_000
_KNOWN_FROM: Final = 100
"""A part in fewer documents is counted at once."""


class _Known(NamedTuple):
    """The document frequency of a part, and the change numbers between which it is valid.

    Within one percent.
    """

    documents: int
    since: int
    until: int


def find_index(address: Address) -> "PostgresIndex | None":
    """The index of a store, created if there is none.

    None without permission, or if a newer Holdfast made it.
    """
    database = Database(address)
    index = None
    try:
        shape = ensure_index(database)
        if shape is not None:
            place = shape.extension
            vectors = InProcess(database) if place is None else InServer(database, place)
            index = PostgresIndex(database, vectors, database.read(identity))
    except (AccessDenied, StoreReadOnly):
        return None
    finally:
        if index is None:
            database.close()
    return index


class PostgresIndex:
    """Implements ``IndexPort`` over tables of the store's schema."""

    def __init__(self, database: Database, vectors: Vectors, identity: int | None) -> None:
        self.identity: Final = identity
        self._database: Final = database
        self._vectors: Final = vectors
        self._known: Final[dict[tuple[str, str], _Known]] = {}

    # -- write -----------------------------------------------------------------------------------------------

    def put(
        self,
        space: str,
        documents: Sequence[Document],
        *,
        notes: Mapping[str, str] | None = None,
        synced: bool = False,
    ) -> None:
        once = {(one.key, one.version): one for one in documents}
        rows = [once[name] for name in sorted(once)]
        columns = _columns(space, rows) if rows else {}

        def put(connection: Connection) -> None:
            if rows:
                gone = connection.execute(sql.REMOVE_SAME, columns).fetchall()
                added = connection.execute(sql.ADD, columns).fetchall()
                new = [(id_, once[key, version]) for id_, key, version in added]
                came = [(_model(one), 1, len(one.terms)) for _, one in new]
                _count(connection, space, [*gone, *came])
                if found := [
                    (id_, model_of(one.model, one.vector), one.vector) for id_, one in new if one.vector
                ]:
                    self._vectors.add(connection, space, found)
            if notes:
                names = sorted(notes)
                connection.execute(sql.NOTE, (names, [notes[name] for name in names]))

        self._database.write(put, synced=synced)

    def drop(self, space: str, key: str, *, but: str = "") -> None:
        values = {"space": space, "key": key, "but": but}
        self._database.write(lambda c: _remove(c, sql.REMOVE_KEY, values), synced=False)

    def drop_under(self, space: str, *prefixes: str, notes: Sequence[str] = ()) -> None:
        def drop(connection: Connection) -> None:
            for prefix in prefixes:
                values = {"space": space, "first": prefix, "behind": after_prefix(prefix)}
                _remove(connection, sql.REMOVE_UNDER, values)
            for note in notes:
                connection.execute(sql.FORGET_NOTE, (note,))

        self._database.write(drop, synced=True)

    def touch(self, space: str, key: str, *, at: float, uses: int) -> None:
        self._database.write(lambda c: c.execute(sql.TOUCH, (at, uses, space, key)), synced=False)

    def clear(self, space: str) -> None:
        def clear(connection: Connection) -> None:
            _remove(connection, sql.REMOVE_ALL, {"space": space})
            connection.execute(sql.FORGET_NOTES, (space, after_prefix(space)))

        self._database.write(clear, synced=True)

    # -- find ------------------------------------------------------------------------------------------------

    def find_words(self, space: str, query: Query, within: Within, *, limit: int) -> list[Match]:
        parts = tsvector.parts_of(query)
        if not parts:
            return []
        return self._database.read(lambda c: self._best(c, space, parts, within, limit))

    def find_near(
        self, space: str, vector: bytes, model: str, within: Within, *, limit: int, also: Sequence[str] = ()
    ) -> list[Match]:
        if not vector:
            return []
        return self._vectors.near(space, vector, model, within, limit=limit, also=also)

    def count(self, space: str, model: str | None = None) -> int:
        values = {"space": space, "model": model}
        ((found,),) = self._database.read(lambda c: c.execute(sql.COUNT, values).fetchall())
        return int(found)

    def get_notes(self, prefix: str = "") -> dict[str, str]:
        values = {"first": prefix, "behind": after_prefix(prefix)}
        return dict(self._database.read(lambda c: c.execute(sql.NOTES, values).fetchall()))

    def _best(
        self, connection: Connection, space: str, parts: Sequence[tsvector.Part], within: Within, limit: int
    ) -> list[Match]:
        """The best documents.

        Rare parts come first: documents with only the others may score too low to matter.
        """
        documents, terms, weighed = self._weighed(connection, space, parts)
        if not weighed or sum(part.is_needed for part in parts) > sum(one.part.is_needed for one in weighed):
            return []
        statement, values = _ranking(weighed, within)
        base, by = tsvector.norm(documents, terms)
        values |= {"space": space, "base": base, "by": by, "limit": limit}

        def ranked(size: int) -> list[Match]:
            chosen = {**values, "asked": tsvector.asked_of(weighed[:size])}
            return [Match(*row) for row in connection.execute(statement, chosen, binary=True).fetchall()]

        if any(part.is_needed for part in parts):
            return ranked(len(weighed))
        size = tsvector.first_few(weighed, limit)
        matches = ranked(size)
        needed = tsvector.enough(weighed, matches[-1].score if len(matches) == limit else 0.0)
        return matches if needed <= size else ranked(needed)

    def _weighed(
        self, connection: Connection, space: str, parts: Sequence[tsvector.Part]
    ) -> tuple[int, int, list[tsvector.Weighed]]:
        """The numbers of documents and terms, and the weights of the parts.

        Frequent parts are not counted each time.
        """
        asked = [part.asked for part in parts]
        known = [self._known.get((space, one), _Known(0, 0, -1)) for one in asked]
        counts, since, until = zip(*known, strict=True)
        values = {"space": space, "asked": asked, "known": [*counts], "since": [*since], "until": [*until]}
        ((documents, terms, changes, found),) = connection.execute(sql.SIZE, values, binary=True).fetchall()
        if len(self._known) > _KNOWN_MAX:
            self._known.clear()
        for one, before, count in zip(asked, known, found, strict=True):
            if count >= _KNOWN_FROM and not before.since <= changes <= before.until:
                self._known[space, one] = _Known(count, changes, changes + count // 100)
        return documents, terms, tsvector.weighed(parts, found, documents)

    # -- the rest --------------------------------------------------------------------------------------------

    def is_in_place(self) -> bool:
        return self._database.read(identity) == self.identity

    def check(self) -> None:
        for space in SPACES:
            self.count(space)

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._database.close()


def _columns(space: str, rows: Sequence[Document]) -> dict[str, Any]:
    return {
        "space": space,
        "keys": [one.key for one in rows],
        "versions": [one.version for one in rows],
        "ats": [one.at for one in rows],
        "uses": [one.uses for one in rows],
        "importances": [one.importance for one in rows],
        "tags": [sql.tagged(one.tags) for one in rows],
        "models": [_model(one) for one in rows],
        "lengths": [len(one.terms) for one in rows],
        "words": [tsvector.vector_of(one.terms) for one in rows],
    }


def _model(document: Document) -> str:
    return document.model if document.vector else ""


def _remove(connection: Connection, statement: LiteralString, values: dict[str, Any]) -> None:
    _count(connection, values["space"], connection.execute(statement, values).fetchall())


def _count(connection: Connection, space: str, changes: Iterable[tuple[Any, ...]]) -> None:
    """Update the sums by model. The lock of these rows serializes changes to documents of the model."""
    sums: dict[str, tuple[int, int, int]] = {}
    for model, documents, terms in changes:
        before = sums.get(model, (0, 0, 0))
        sums[model] = (before[0] + documents, before[1] + terms, before[2] + abs(documents))
    if sums:
        models = sorted(sums)
        numbers = ([sums[model][place] for model in models] for place in range(3))
        connection.execute(sql.COUNT_IN, (space, models, *numbers))


def _ranking(weighed: Sequence[tsvector.Weighed], within: Within) -> tuple[bytes, dict[str, Any]]:
    """The statement that ranks documents by these parts, and its parameters."""
    where, values = sql.narrowed(within)
    times: list[str] = []
    for place, (part, _, gain) in enumerate(weighed):
        is_phrase = len(part.words) > 1
        times.append((sql.TIMES_PHRASE if is_phrase else sql.TIMES).format(place=place))
        values |= {
            f"word{place}": list(part.words) if is_phrase else part.asked,
            f"gain{place}": gain * (tsvector.K1 + 1),
        }
    score = " + ".join(sql.GAIN.format(place=place) for place in range(len(weighed)))
    return sql.BEST.format(score=score, times=", ".join(times), within=where).encode(), values
