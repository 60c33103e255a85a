"""The search index of a store in a file.

A second file beside it, with FTS5 for words and vectors for meaning.

It is a separate file, because writing to it must never make a recording wait, and because it is derived:
deleted, damaged or of another format, it is recreated. Vectors (``vector_packs``) are read once and kept in
memory, each by a number that is never reused; a document that was removed since is noticed when it is looked
up.
"""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import apsw

from holdfast.errors import Corrupt, DiskFull, StoreBusy, StoreError, StoreReadOnly
from holdfast.model.search import EVERYWHERE, SPACES, Document, Match, Query, Within
from holdfast.stores.shared_sql import after_prefix
from holdfast.stores.sqlite.connection import Shape, file_beside
from holdfast.stores.sqlite.create import ensure_store
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.errors import translated, translated_os
from holdfast.stores.sqlite.locks.owners import Owners
from holdfast.stores.sqlite.locks.reread import reread
from holdfast.stores.sqlite.reclaim import reclaimed
from holdfast.stores.sqlite.search.vector_packs import Packs
from holdfast.stores.vector_search import Nearest, is_possible

if TYPE_CHECKING:
    from _typeshed import StrPath

SHAPE: Final = Shape(0x484F4C46, 2, file_beside(__file__, "index.sql"))
_opening: Final = threading.Lock()
"""Threads of one process: file locks do not keep them apart."""
_FILES: Final = ("", "-wal", "-shm")
_AHEAD: Final = 4
"""How many times more of the nearest are read before the bounds are applied."""
_SEPARATOR: Final = "\x1f"
_WORDS: Final = {space: f"{space}_words" for space in SPACES}

_FIND: Final = "SELECT id FROM documents WHERE space = ? AND key = ? AND version = ?"
_ADD: Final = (
    "INSERT INTO documents (space, key, version, at, uses, importance, tags, model, pack) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)"
)
_OTHERS: Final = "SELECT id FROM documents WHERE space = ? AND key = ? AND version <> ?"
_UNDER: Final = "SELECT id FROM documents WHERE space = ? AND key >= ? AND key < ?"
_DELETE: Final = "DELETE FROM documents WHERE id = ? RETURNING pack"
_TOUCH: Final = "UPDATE documents SET at = ?, uses = ? WHERE space = ? AND key = ?"
_MATCH: Final = "d.key, d.version, {score}, d.at, d.uses, d.importance"
_MATCH_TYPES: Final = (str, str, float, float, int, float)
_COUNT: Final = "SELECT count(*) FROM documents WHERE space = ?1 AND (?2 IS NULL OR model = ?2)"
_NOTE: Final = (
    "INSERT INTO notes (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_NOTES: Final = "SELECT name, value FROM notes WHERE name >= ?1 AND (?2 IS NULL OR name < ?2)"
_FORGET_NOTES: Final = "DELETE FROM notes WHERE name >= ? AND name < ?"


def index_path(store: "StrPath") -> str:
    """The path of a store's index."""
    return f"{store}-search"


def find_index(store: "StrPath", owners: Owners, *, makes: bool = True) -> "SqliteIndex | None":
    """The index beside a store, created if it is missing or damaged; None if it cannot be opened.

    With ``makes`` off nothing is deleted: a damaged one raises its error.
    """
    path = index_path(store)
    for is_last in (False, True):
        try:
            ensure_store(path, SHAPE, owners)
            with _opening, owners.creating():  # or it might be deleted between its file and its WAL
                return SqliteIndex(path, owners)
        except (apsw.Error, OSError, StoreError) as error:
            if not makes:
                raise _said(error, path) from error
            if is_last or not _is_damage(error):
                return None
            if not throw_away(store, owners, None, is_damaged=True):
                return None
            _log("the search index %s cannot be used, and is recreated: %s", path, error)
    return None


def throw_away(store: "StrPath", owners: Owners, lost: "SqliteIndex | None", *, is_damaged: bool) -> bool:
    """Remove the files of an index; returns whether they are gone. Other users notice at their next request.

    If it ``is_damaged``, only that one: another process may have found the same damage, and recreated it. The
    database is deleted first: after a kill, the rest is removed before a new one is made. The other way
    round, an older state of the index might seem complete.
    """
    path = index_path(store)
    if not os.path.exists(path):
        return True
    try:
        with _opening, owners.creating():
            if is_damaged and _is_another(path, owners, lost):
                return True
            for end in _FILES:
                with suppress(FileNotFoundError):
                    os.unlink(path + end)
    except (OSError, StoreError):
        return False
    return True


def _is_another(path: str, owners: Owners, lost: "SqliteIndex | None") -> bool:
    if lost is not None:
        return not lost.is_in_place()
    try:
        SqliteIndex(path, owners).close()
    except (apsw.Error, OSError, StoreError):
        return False
    return True


def _said(error: Exception, path: str) -> StoreError:
    if isinstance(error, apsw.Error):
        return translated(error, path)
    return translated_os(error, path) if isinstance(error, OSError) else cast("StoreError", error)


def _is_damage(error: Exception) -> bool:
    """Whether the file itself is damaged, and not the disk, permissions or other processes at fault."""
    return not isinstance(
        error,
        (
            OSError,
            apsw.FullError,
            apsw.ReadOnlyError,
            apsw.PermissionsError,
            apsw.BusyError,
            DiskFull,
            StoreReadOnly,
            StoreBusy,
        ),
    )


def _log(text: str, *about: object) -> None:
    import logging

    logging.getLogger("holdfast").warning(text, *about)


class SqliteIndex:
    """Implements ``IndexPort`` over one file."""

    def __init__(self, path: str, owners: Owners) -> None:
        self.path: Final = path
        try:
            self._database: Final = Database(path, owners, SHAPE)
        except apsw.Error as error:
            raise translated(error, path) from error
        except OSError as error:
            raise translated_os(error, path) from error
        self._packs: Final = Packs(path)
        self._nearest: dict[tuple[str, str, int], Nearest] = {}
        self._loading: Final = threading.Lock()

    def is_in_place(self) -> bool:
        return self.is_open

    def check(self) -> None:
        with self._database.read() as connection:
            found = [text for (text,) in _rows(connection, "PRAGMA quick_check(1)")]
        if found != ["ok"]:
            raise Corrupt(store=self.path, problem=f"quick_check says: {'; '.join(map(str, found))}")
        with self._database.read() as connection:
            self._packs.check(connection)
        with self._database.write(synced=False) as connection:
            for words in _WORDS.values():
                connection.execute(f"INSERT INTO {words} ({words}) VALUES ('integrity-check')")  # noqa: S608 - a constant

    @property
    def is_open(self) -> bool:
        """Whether it can still be used in this process, and is still the file at its path."""
        if self._database.is_gone:
            return False
        with suppress(StoreError):
            self._database.check_in_place()
            return True
        return False

    # -- write -----------------------------------------------------------------------------------------------

    def put(
        self,
        space: str,
        documents: Sequence[Document],
        *,
        notes: Mapping[str, str] | None = None,
        synced: bool = False,
    ) -> None:
        last_of_each = {(one.key, one.version): one for one in documents}.values()
        with self._database.write(synced=synced) as connection:
            vectors = list[tuple[int, str, bytes]]()
            for one in last_of_each:
                self._remove(connection, space, _ids(connection, _FIND, space, one.key, one.version))
                fields = (one.at, one.uses, one.importance, _tagged(one.tags), one.model)
                connection.execute(_ADD, (space, one.key, one.version, *fields))
                vectors.append((connection.last_insert_rowid(), one.model, one.vector))
                words = f"INSERT INTO {_WORDS[space]} (rowid, words) VALUES (?, ?)"  # noqa: S608 - a constant
                connection.execute(words, (vectors[-1][0], " ".join(one.terms)))
            self._packs.add(connection, space, vectors)
            for note in (notes or {}).items():
                connection.execute(_NOTE, note)

    def drop(self, space: str, key: str, *, but: str = "") -> None:
        with self._database.write(synced=False) as connection:
            self._remove(connection, space, _ids(connection, _OTHERS, space, key, but))

    def drop_under(self, space: str, *prefixes: str, notes: Sequence[str] = ()) -> None:
        with self._database.write(synced=True) as connection:
            for prefix in prefixes:
                self._remove(connection, space, _ids(connection, _UNDER, space, prefix, after_prefix(prefix)))
            for note in notes:
                connection.execute("DELETE FROM notes WHERE name = ?", (note,))

    def touch(self, space: str, key: str, *, at: float, uses: int) -> None:
        with self._database.write(synced=False) as connection:
            connection.execute(_TOUCH, (at, uses, space, key))

    def clear(self, space: str) -> None:
        with self._database.write(synced=True) as connection:
            connection.execute("DELETE FROM documents WHERE space = ?", (space,))
            self._packs.clear(connection, space)
            connection.execute(f"INSERT INTO {_WORDS[space]} ({_WORDS[space]}) VALUES ('delete-all')")  # noqa: S608
            connection.execute(_FORGET_NOTES, (space, after_prefix(space)))

    def _remove(self, connection: apsw.Connection, space: str, ids: Iterable[int]) -> None:
        packs: dict[int, list[int]] = {}
        for id_ in ids:
            connection.execute(f"DELETE FROM {_WORDS[space]} WHERE rowid = ?", (id_,))  # noqa: S608 - a constant
            for pack in _ids(connection, _DELETE, id_):
                packs.setdefault(pack, []).append(id_)
        packs.pop(0, None)  # those without a vector
        self._packs.remove(connection, packs)

    # -- find ------------------------------------------------------------------------------------------------

    @reread
    def find_words(self, space: str, query: Query, within: Within, *, limit: int) -> list[Match]:
        asked = _asked(query)
        if not asked:
            return []
        words, (where, bound) = _WORDS[space], _where(within)
        # Without bounds, only the best documents need the join.
        joined = f"JOIN documents d ON d.id = {words}.rowid " if where else ""
        ranked = f"SELECT {words}.rowid AS id, rank FROM {words} {joined}WHERE {words} MATCH ?{where}"  # noqa: S608
        found = (
            f"SELECT {_MATCH.format(score='-w.rank')} FROM ({ranked} ORDER BY rank LIMIT ?) w "  # noqa: S608
            "JOIN documents d ON d.id = w.id ORDER BY w.rank"
        )
        with self._database.read() as connection:
            return [_match(row, self.path) for row in connection.execute(found, (asked, *bound, limit))]

    def find_near(
        self, space: str, vector: bytes, model: str, within: Within, *, limit: int, also: Sequence[str] = ()
    ) -> list[Match]:
        if not is_possible() or not vector:
            return []
        with self._loading:
            nearest = self._loaded((space, model, len(vector)))
            top = self._top_within(nearest, space, vector, within, limit)
            if also:
                top |= dict(nearest.top(vector, len(nearest), self._numbers(space, also)))
        return sorted(self._matches(top), key=lambda match: -match.score)

    @reread
    def count(self, space: str, model: str | None = None) -> int:
        with self._database.read() as connection:
            return int(connection.execute(_COUNT, (space, model)).get)

    @reread
    def get_notes(self, prefix: str = "") -> dict[str, str]:
        with self._database.read() as connection:
            notes = dict(_rows(connection, _NOTES, prefix, after_prefix(prefix)))
        if not all(type(text) is str for note in notes.items() for text in note):
            raise _bent(self.path)
        return notes

    def _loaded(self, kind: tuple[str, str, int]) -> Nearest:
        """All vectors of this space, model and width, including new ones."""
        nearest = self._nearest.setdefault(kind, Nearest())
        # Taken in only when the read is known to be good: what is here is never read again.
        ids, rows, last_id = self._read_new(kind, nearest.last_id)
        nearest.extend(ids, rows)
        nearest.last_id = last_id
        return nearest

    @reread
    def _read_new(self, kind: tuple[str, str, int], seen: int) -> tuple[Any, Any, int]:
        with self._database.read() as connection:
            return self._packs.read_new(connection, kind, seen)

    @reread
    def _top_within(
        self, nearest: Nearest, space: str, vector: bytes, within: Within, limit: int
    ) -> dict[int, float]:
        """The nearest within bounds. If most of the near ones are within, the others need not be checked."""
        if within == EVERYWHERE:
            return self._alive(nearest, vector, limit)
        where, bound = _where(within)
        some = self._alive(nearest, vector, _AHEAD * limit)
        fits = f"SELECT 1 FROM documents d WHERE d.id = ?{where}"  # noqa: S608 - made of constants
        with self._database.read() as connection:
            found = {
                id_: cosine
                for id_, cosine in some.items()
                if connection.execute(fits, (id_, *bound)).get is not None
            }
            if len(found) >= limit or len(some) < _AHEAD * limit:
                return dict([*found.items()][:limit])
            every = f"SELECT d.id FROM documents d WHERE d.space = ?{where}"  # noqa: S608 - made of constants
            among = _ids(connection, every, space, *bound)
        return self._alive(nearest, vector, limit, among)

    def _alive(
        self, nearest: Nearest, vector: bytes, limit: int, among: Sequence[int] | None = None
    ) -> dict[int, float]:
        """The nearest that still exist, best first: others may have removed some since they were read."""
        while True:
            top = nearest.top(vector, limit, among)
            there = self._there([id_ for id_, _ in top])
            gone = [id_ for id_, _ in top if id_ not in there]
            if not gone:
                return dict(top)
            nearest.mask(gone)

    @reread
    def _there(self, ids: Sequence[int]) -> set[int]:
        with self._database.read() as connection:
            return {
                id_
                for id_ in ids
                if connection.execute("SELECT 1 FROM documents WHERE id = ?", (id_,)).get is not None
            }

    @reread
    def _numbers(self, space: str, keys: Sequence[str]) -> list[int]:
        with self._database.read() as connection:
            return [id_ for key in keys for id_ in _ids(connection, _OTHERS, space, key, "")]

    @reread
    def _matches(self, cosines: Mapping[int, float]) -> list[Match]:
        found = f"SELECT {_MATCH.format(score='?')} FROM documents d WHERE d.id = ?"  # noqa: S608
        with self._database.read() as connection:
            rows = (connection.execute(found, (cosine, id_)).fetchone() for id_, cosine in cosines.items())
            return [_match(row, self.path) for row in rows if row is not None]

    # -- the rest --------------------------------------------------------------------------------------------

    def reclaim(self, *, thoroughly: bool) -> int:
        """See ``StorePort.reclaim``; this is a part of it."""
        if thoroughly:  # the terms of removed documents stay in their segments until these are merged
            for words in _WORDS.values():
                with self._database.write(synced=True) as connection:
                    connection.execute(f"INSERT INTO {words} ({words}) VALUES ('optimize')")  # noqa: S608 - a constant
        return reclaimed(self._database, thoroughly=thoroughly)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._database.close()


def _match(row: Any, path: str) -> Match:
    """A row as a match. A flipped bit may have changed the type of a field, which SQLite allows."""
    if tuple(map(type, row)) != _MATCH_TYPES:
        raise _bent(path)
    return Match(*row)


def _bent(path: str) -> Corrupt:
    return Corrupt(store=path, problem="a field of a row is of another type than was written")


def _rows(connection: apsw.Connection, statement: str, *bindings: str | int | None) -> list[Any]:
    """All of them at once, so that no statement stays open. The schema decides their types."""
    return list(connection.execute(statement, bindings))


def _ids(connection: apsw.Connection, statement: str, *bindings: str | int | None) -> list[int]:
    return [id_ for (id_,) in _rows(connection, statement, *bindings)]


def _tagged(tags: Iterable[str]) -> str:
    return "".join(f"{_SEPARATOR}{tag}{_SEPARATOR}" for tag in tags)


def _where(within: Within) -> tuple[str, tuple[str | None, ...]]:
    """The rest of a WHERE for these bounds, and its parameters."""
    parts: list[str] = []
    bound: list[str | None] = []
    if within.prefixes:
        parts.append(f"({' OR '.join(['(d.key >= ? AND d.key < ?)'] * len(within.prefixes))})")
        bound += [end for prefix in within.prefixes for end in (prefix, after_prefix(prefix))]
    for tag in within.tags:
        parts.append("instr(d.tags, ?) > 0")
        bound.append(_tagged([tag]))
    return "".join(f" AND {part}" for part in parts), tuple(bound)


def _asked(query: Query) -> str:
    """The query in FTS5's syntax: all phrases, and any of the terms for the score."""
    phrases = [_quoted(" ".join(phrase)) for phrase in query.phrases]
    terms = [_quoted(term) for term in query.terms]
    if not phrases:
        return " OR ".join(terms)
    return f"{' AND '.join(phrases)} AND ({' OR '.join([phrases[0], *terms])})"


def _quoted(text: str) -> str:
    return f'"{text.replace(chr(34), " ")}"'
