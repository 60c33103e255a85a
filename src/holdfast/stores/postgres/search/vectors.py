"""Finds the nearest vectors: on the server with pgvector, otherwise in this process.

Both compare every vector of a space and model, up to the newest ``VECTORS_MAX``. A model's stored name starts
with its number of dimensions, so that only comparable vectors are compared.
"""

import threading
from array import array
from collections.abc import Sequence
from typing import Any, Final, Protocol

from psycopg import sql as composing

from holdfast.limits import VECTORS_MAX
from holdfast.model.search import EVERYWHERE, Match, Within
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.connections import Database
from holdfast.stores.postgres.search.statements import narrowed
from holdfast.stores.vector_search import Nearest, is_possible, matrix_of

_ADD: Final = (
    "INSERT INTO search_vectors (space, document, model, vector) SELECT %s, document, model, vector::{type} "
    "FROM unnest(%s::bigint[], %s::text[], %s::{given}[]) AS o (document, model, vector)"
)
_OF_MODEL: Final = "v.space = %(space)s AND v.model = %(model)s"
# Only queried if there must be one: it walks over all numbers.
_LAST_LEFT_OUT: Final = (
    "SELECT CASE WHEN (SELECT documents FROM search_counts WHERE space = %(space)s "  # noqa: S608
    "AND model = %(name)s) > %(max)s THEN "
    f"(SELECT v.number FROM search_vectors v WHERE {_OF_MODEL} ORDER BY v.number DESC "
    "LIMIT 1 OFFSET %(max)s) END"
)
_BESIDE: Final = "JOIN search_documents d ON d.space = v.space AND d.id = v.document"
_FIELDS: Final = "d.key, d.version, 1 - {distance}, d.at, d.uses, d.importance"
_WHERE: Final = f"WHERE {_OF_MODEL} AND v.number > %(after)s"

# A zero vector has no direction: orthogonal to everything.
_DISTANCE: Final = "coalesce(nullif(v.vector OPERATOR({place}.<=>) %(vector)s::{place}.halfvec, 'NaN'), 1)"
# Without the documents, which need not be read for that.
_TOP: Final = (
    f"SELECT {_FIELDS.format(distance='v.distance')} "  # noqa: S608
    f"FROM (SELECT v.space, v.document, v.number, {_DISTANCE} AS distance "
    f"FROM search_vectors v {_WHERE} ORDER BY distance LIMIT %(limit)s) AS v {_BESIDE} "
    "ORDER BY v.distance, v.number"
)
_TOP_WITHIN: Final = (
    f"SELECT {_FIELDS.format(distance=_DISTANCE)} FROM search_vectors v {_BESIDE} "  # noqa: S608
    f"{_WHERE}{{within}} ORDER BY {_DISTANCE}, v.number LIMIT %(limit)s"
)
_KEYS: Final = " AND d.key = ANY(%(keys)s::text[])"

_LOAD: Final = f"SELECT v.number, v.vector FROM search_vectors v {_WHERE} ORDER BY v.number"  # noqa: S608
_NUMBERS: Final = f"SELECT v.number FROM search_vectors v {_BESIDE} WHERE {_OF_MODEL}"  # noqa: S608
_MATCHES: Final = (
    f"SELECT v.number, {_FIELDS.format(distance='1')} FROM search_vectors v {_BESIDE} "  # noqa: S608
    "WHERE v.space = %(space)s AND v.model = %(model)s AND v.number = ANY(%(numbers)s::bigint[])"
)


def model_of(model: str, vector: bytes) -> str:
    """The stored name of a model."""
    return f"{len(vector)} {model}"


class Vectors(Protocol):
    """How an index stores vectors, and finds the near ones."""

    def add(self, connection: Connection, space: str, found: Sequence[tuple[int, str, bytes]]) -> None:
        """Store the vectors of documents: number, model, vector.

        In a transaction that holds the lock of their count.
        """
        ...

    def near(
        self, space: str, vector: bytes, model: str, within: Within, *, limit: int, also: Sequence[str]
    ) -> list[Match]:
        """See ``IndexPort.find_near``."""
        ...


class InServer:
    """Stored at half precision, which holds a byte exactly; pgvector compares them."""

    def __init__(self, database: Database, place: str) -> None:
        self._database: Final = database
        self._place: Final = composing.Identifier(place).as_string(None).replace("%", "%%")

    def add(self, connection: Connection, space: str, found: Sequence[tuple[int, str, bytes]]) -> None:
        documents, models, vectors = zip(*found, strict=True)
        statement = _ADD.format(type=f"{self._place}.halfvec", given="text").encode()
        connection.execute(statement, (space, list(documents), list(models), list(map(_text, vectors))))

    def near(
        self, space: str, vector: bytes, model: str, within: Within, *, limit: int, also: Sequence[str]
    ) -> list[Match]:
        where, bound = narrowed(within)
        values = {
            "space": space,
            "name": model,
            "model": model_of(model, vector),
            "vector": _text(vector),
            "max": VECTORS_MAX,
            "limit": limit,
            "keys": list(also),
            **bound,
        }
        top = (_TOP if within == EVERYWHERE else _TOP_WITHIN).format(place=self._place, within=where)
        beside = _TOP_WITHIN.format(place=self._place, within=_KEYS)

        def find(connection: Connection) -> list[tuple[Any, ...]]:
            values["after"] = _last_left_out(connection, values)
            rows = connection.execute(top.encode(), values, binary=True).fetchall()
            if also:
                everything = {**values, "limit": None}
                rows += connection.execute(beside.encode(), everything, binary=True).fetchall()
            return rows

        matches = {row[:2]: Match(*row) for row in self._database.read(find)}
        return sorted(matches.values(), key=lambda match: -match.score)


class InProcess:
    """Stored as bytes, read once and compared here, each by a number that is never reused.

    Numbers grow in commit order (``index.sql``), so that all vectors after the last one read are new.
    """

    def __init__(self, database: Database) -> None:
        self._database: Final = database
        self._nearest: dict[tuple[str, str], Nearest] = {}
        self._loading: Final = threading.Lock()

    def add(self, connection: Connection, space: str, found: Sequence[tuple[int, str, bytes]]) -> None:
        documents, models, vectors = zip(*found, strict=True)
        statement = _ADD.format(type="bytea", given="bytea").encode()
        connection.execute(statement, (space, list(documents), list(models), list(vectors)))

    def near(
        self, space: str, vector: bytes, model: str, within: Within, *, limit: int, also: Sequence[str]
    ) -> list[Match]:
        if not is_possible():
            return []
        values = {"space": space, "name": model, "model": model_of(model, vector), "max": VECTORS_MAX}
        with self._loading:
            nearest = self._loaded(values)
            among = None if within == EVERYWHERE else self._numbers(values, *narrowed(within))
            found = self._alive(nearest, values, vector, limit, among)
            if also:
                beside = self._numbers(values, _KEYS, {"keys": list(also)})
                found |= self._alive(nearest, values, vector, max(1, len(beside)), beside)
        return sorted(found.values(), key=lambda match: -match.score)

    def _loaded(self, values: dict[str, Any]) -> Nearest:
        nearest = self._nearest.setdefault((values["space"], values["model"]), Nearest())

        def load(connection: Connection) -> list[tuple[int, bytes]]:
            after = nearest.last_id or _last_left_out(connection, values)
            return connection.execute(_LOAD.encode(), {**values, "after": after}, binary=True).fetchall()

        nearest.extend(*matrix_of(self._database.read(load)))
        return nearest

    def _numbers(self, values: dict[str, Any], where: str, bound: dict[str, Any]) -> list[int]:
        statement = (_NUMBERS + where).encode()
        rows = self._database.read(
            lambda c: c.execute(statement, {**values, **bound}, binary=True).fetchall()
        )
        return [number for (number,) in rows]

    def _alive(
        self, nearest: Nearest, values: dict[str, Any], vector: bytes, limit: int, among: list[int] | None
    ) -> dict[int, Match]:
        """The nearest that still exist: others may have removed some since they were read."""
        while True:
            top = dict(nearest.top(vector, limit, among))
            found = self._matches(values, top)
            if len(found) == len(top):
                return found
            nearest.mask(top.keys() - found.keys())

    def _matches(self, values: dict[str, Any], top: dict[int, float]) -> dict[int, Match]:
        asked = {**values, "numbers": list(top)}
        rows = self._database.read(lambda c: c.execute(_MATCHES.encode(), asked, binary=True).fetchall())
        return {number: Match(*fields)._replace(score=top[number]) for number, *fields in rows}


def _last_left_out(connection: Connection, values: dict[str, Any]) -> int:
    """The newest vector that is too old to be compared; 0 if there is none."""
    ((number,),) = connection.execute(_LAST_LEFT_OUT.encode(), values).fetchall()
    return number or 0


def _text(vector: bytes) -> str:
    return f"[{','.join(map(str, array('b', vector)))}]"
