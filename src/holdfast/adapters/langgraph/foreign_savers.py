"""Reads the threads that LangGraph's own SqliteSaver or PostgresSaver keeps. It only reads.

LangGraph's saver assembles each checkpoint. The writes are read from its table, because the saver does not
give out their indexes and paths.

A value of the user's own classes is not made: no module is imported because data names it, and one that
cannot be imported here would come back as something else. It stays as the bytes that LangGraph wrote.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from holdfast.adapters.langgraph.serde import DELTA
from holdfast.errors import ThreadsUnreadable
from holdfast.model.named_tuple import NamedTuple

_FORMS: Final = "use sqlite:///path/to/checkpoints.db or postgresql://user@host/database"
_KNOWN: Final = (
    "builtins.",
    "collections.",
    "datetime.",
    "decimal.",
    "ipaddress.",
    "langchain_core.",
    "langgraph.",
    "pathlib.",
    "re.",
    "uuid.",
    "zoneinfo.",
)
"""The modules whose objects are made: of Python, LangChain and LangGraph."""
_DELTA_CODE: Final = 7
_NAMED_CODES: Final = range(6)
"""The codes of values that begin with a module and a name."""


class Place(NamedTuple):
    """Where one checkpoint is in its thread."""

    id: str
    chain: str
    parent: str | None


class Write(NamedTuple):
    """One pending write."""

    task: str
    path: str
    nth: int
    channel: str
    value: Any


class Source:
    """An open database of one of LangGraph's savers."""

    def __init__(
        self,
        name: str,
        saver: BaseCheckpointSaver[Any],
        rows: Callable[[str, Sequence[str]], list[Any]],
        writes: str,
    ) -> None:
        self.name = name
        """Its URL, without a password."""
        self._saver = saver
        self._rows = rows
        self._writes = writes

    def threads(self) -> list[str]:
        """The ids of its threads."""
        found = self._rows("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id", ())
        return [row[0] for row in found]

    def places(self, thread: str) -> list[Place]:
        """The checkpoints of a thread in the order of their ids, which is their age; parents come first."""
        sql = (
            "SELECT checkpoint_id, checkpoint_ns, parent_checkpoint_id FROM checkpoints "
            "WHERE thread_id = ? ORDER BY checkpoint_id, checkpoint_ns"
        )
        left = {(one.chain, one.id): one for one in (Place(*row) for row in self._rows(sql, (thread,)))}
        ordered: list[Place] = []
        for place in [*left.values()]:
            line: list[Place] = []
            following: Place | None = place
            while following is not None:
                found = left.pop((following.chain, following.id), None)
                line += [] if found is None else [found]
                parent = None if found is None else (found.chain, found.parent or "")
                following = None if parent is None else left.get(parent)
            ordered += reversed(line)
        return ordered

    def checkpoint(self, thread: str, place: Place) -> CheckpointTuple:
        """One checkpoint. ThreadsUnreadable."""
        config: Any = {"thread_id": thread, "checkpoint_ns": place.chain, "checkpoint_id": place.id}
        with self._readable(thread, place):
            found = self._saver.get_tuple({"configurable": config})
            if found is None:
                raise LookupError("it was deleted meanwhile")
        return found

    def writes(self, thread: str, place: Place) -> list[Write]:
        """The writes that are pending with a checkpoint. ThreadsUnreadable."""
        found = self._rows(self._writes, (thread, place.chain, place.id))
        with self._readable(thread, place):
            return [
                Write(task, path, nth, channel, self._saver.serde.loads_typed((kind, bytes(data))))
                for task, path, nth, channel, kind, data in found
            ]

    @contextmanager
    def _readable(self, thread: str, place: Place) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise ThreadsUnreadable(
                source=self.name,
                problem=f"checkpoint {place.id} of thread {thread!r} cannot be read: {_told(error)}",
                advice=(
                    "if its graph used a serializer of its own (encryption, pickle), call "
                    "holdfast.adapters.langgraph.import_threads(…, serde=…) with the same one"
                ),
            ) from error


@contextmanager
def opened(url: str, serde: SerializerProtocol | None) -> Iterator[Source]:
    """The database of one of LangGraph's savers. ThreadsUnreadable."""
    scheme = url.partition("://")[0] if "://" in url else "sqlite"
    if scheme not in {"sqlite", "postgresql", "postgres"}:
        raise ThreadsUnreadable(
            source=_without_password(url), problem="is no database of LangGraph", advice=_FORMS
        )
    with (_sqlite if scheme == "sqlite" else _postgres)(url, serde or untouched_serde()) as source:
        yield source


@contextmanager
def _sqlite(url: str, serde: SerializerProtocol) -> Iterator[Source]:
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError as error:
        raise _without_saver(url, "langgraph-checkpoint-sqlite", error) from error
    path = sqlite_path(url)
    if not path.is_file():
        raise ThreadsUnreadable(source=url, problem=f"{path} is no file", advice=_FORMS)
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        try:
            connection.execute("BEGIN")  # what a graph writes meanwhile is for the next import
            columns = {row[1] for row in connection.execute("PRAGMA table_info(writes)")}
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        except sqlite3.Error as error:
            raise ThreadsUnreadable(source=url, problem=f"is not readable: {error}", advice=_FORMS) from error
        if not {"checkpoints", "writes"} <= tables:
            raise _without_tables(url)
        saver = SqliteSaver(connection, serde=serde)
        saver.is_setup = True  # setting up would write
        path_column = "task_path" if "task_path" in columns else "''"
        saver._has_task_path = "task_path" in columns  # noqa: SLF001 - it is set where it sets up, which writes
        yield Source(
            url,
            saver,
            lambda sql, given: connection.execute(sql, given).fetchall(),
            f"SELECT task_id, {path_column}, idx, channel, type, value FROM writes "  # noqa: S608 - one of two
            "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx",
        )
    finally:
        connection.close()


@contextmanager
def _postgres(url: str, serde: SerializerProtocol) -> Iterator[Source]:
    try:
        from langgraph.checkpoint.postgres import PostgresSaver
    except ImportError as error:
        raise _without_saver(_without_password(url), "langgraph-checkpoint-postgres", error) from error
    name = _without_password(url)
    opening = PostgresSaver.from_conn_string(url)
    try:
        saver = opening.__enter__()
    except Exception as error:
        raise ThreadsUnreadable(
            source=name, problem=f"cannot be opened: {_told(error)}", advice=_FORMS
        ) from error
    try:
        saver.serde = serde
        connection: Any = saver.conn

        def rows(sql: str, given: Sequence[str]) -> list[Any]:
            found = connection.execute(sql.replace("?", "%s"), given).fetchall()
            return [tuple(row.values()) for row in found]

        tables = "SELECT to_regclass('checkpoints') AS a, to_regclass('checkpoint_writes') AS b"
        if None in rows(tables, ())[0]:
            raise _without_tables(name)
        yield Source(
            name,
            saver,
            rows,
            "SELECT task_id, task_path, idx, channel, type, blob FROM checkpoint_writes "
            "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx",
        )
    finally:
        opening.__exit__(None, None, None)


def sqlite_path(url: str) -> Path:
    """The file of a SQLite URL or bare path."""
    return Path(unquote(url.removeprefix("sqlite:///")) if "://" in url else url)


def _without_saver(source: str, package: str, error: ImportError) -> ThreadsUnreadable:
    problem = f"LangGraph's saver for it cannot be imported: {error}"
    return ThreadsUnreadable(source=source, problem=problem, advice=f"pip install {package}")


def _without_tables(source: str) -> ThreadsUnreadable:
    return ThreadsUnreadable(
        source=source,
        problem="has no checkpoints of a LangGraph saver (tables checkpoints and writes)",
        advice="name the database that the graph's SqliteSaver or PostgresSaver wrote",
    )


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@")).geturl()
    except ValueError:
        return url.partition("://")[0] + "://…"


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


# -- values --------------------------------------------------------------------------------------------------


def untouched_serde() -> SerializerProtocol:
    """LangGraph's serializer, for reading; objects of unknown classes come back as ``ormsgpack.Ext``."""
    usual = JsonPlusSerializer()

    def made(code: int, data: bytes) -> Any:
        if code == _DELTA_CODE and DELTA is not None:
            return DELTA(ormsgpack.unpackb(data, ext_hook=made, option=ormsgpack.OPT_NON_STR_KEYS))
        raw = ormsgpack.Ext(code, data)
        return usual.loads_typed(("msgpack", ormsgpack.packb(raw))) if _is_known(code, data) else raw

    return JsonPlusSerializer(__unpack_ext_hook__=made)


def _is_known(code: int, data: bytes) -> bool:
    """Whether all classes in a value are of Python, LangChain or LangGraph."""
    known = [code in _NAMED_CODES]

    def inner(code: int, data: bytes) -> None:
        known.append(_is_known(code, data))

    parts = ormsgpack.unpackb(data, ext_hook=inner, option=ormsgpack.OPT_NON_STR_KEYS)
    return all(known) and f"{parts[0]}.".startswith(_KNOWN)
