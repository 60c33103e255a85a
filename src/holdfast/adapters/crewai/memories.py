"""Memory and knowledge whose searches and saves are steps, with the model and embedding calls inside them.

A search is recorded with its result: scores depend on the time, and the memory changes while the crew works.
Inside of a search or a save, each look at the storage is recorded too. So a save that was cut off makes the
same requests again, which the journal answers, though a part of it may be in the storage already.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from crewai.memory.types import MemoryMatch, MemoryRecord  # pyright: ignore[reportMissingImports]
from orjson import dumps

from holdfast.adapters.crewai.kickoff_session import Session, session_of
from holdfast.adapters.shared.journaled_calls import ASIDE
from holdfast.core.steps.identity import idempotency_key
from holdfast.engine.run.call_site import here_now
from holdfast.errors import StopSignal
from holdfast.model.calls import CallOptions, Effect

_STORAGE: Final[dict[str, Effect]] = {
    "search": "read",
    "get_record": "read",
    "get_scope_info": "read",
    "list_records": "read",
    "list_scopes": "read",
    "list_categories": "read",
    "count": "read",
    "update": "idempotent",
    "delete": "idempotent",
    "reset": "idempotent",
}
"""What the methods of a storage do. Others are called unchanged."""
_OF_THE_MOMENT: Final = {"id", "created_at", "last_accessed", "embedding"}
"""Fields of a record that differ when it is made again."""
_usage: ContextVar["dict[str, int] | None"] = ContextVar("holdfast crewai memory usage", default=None)


def is_counted() -> bool:
    """Whether this is inside of a search or a save."""
    return _usage.get() is not None


def count_usage(usage: Mapping[str, int]) -> None:
    """Count the usage of a model call for the search or save that it belongs to, if any."""
    counters = _usage.get()
    if counters is not None:
        add(counters, usage)


def add(counters: dict[str, int], more: Mapping[str, int]) -> None:
    """Add numbers to counters."""
    for name, number in more.items():
        counters[name] = counters.get(name, 0) + number


class DurableMemory:
    """A memory in a session."""

    __slots__ = ()

    @property
    def _llm(self) -> Any:
        llm, session = super()._llm, session_of(self)  # type: ignore[misc]
        if session is not None:  # it is made when it is first needed
            session.hold(llm)
        return llm

    @property
    def _embedder(self) -> Any:
        embed, session = super()._embedder, session_of(self)  # type: ignore[misc]
        return embed if session is None else partial(_embedded, session, embed)

    @property
    def _storage(self) -> Any:
        storage, session = self.__pydantic_private__["_storage"], session_of(self)  # type: ignore[attr-defined]
        return storage if session is None else JournaledStorage(session, storage)

    def recall(self, query: str, *args: Any, **kwargs: Any) -> Any:
        """Search, as a step."""
        search = partial(super().recall, query, *args, **kwargs)  # type: ignore[misc]
        given = {"query": query, **kwargs, **({"args": list(args)} if args else {})}
        return self._step("memory.recall", given, lambda: [_without_vector(match) for match in search()])

    def _encode_batch(self, contents: list[str], *args: Any, **kwargs: Any) -> Any:
        save = partial(super()._encode_batch, contents, *args, **kwargs)  # type: ignore[misc]
        given = {"contents": contents, **kwargs, **({"args": list(args)} if args else {})}
        return self._step("memory.save", given, lambda: [_without_vector(record) for record in save()])

    def _submit_save(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for the save: its steps belong before those that follow, and to a run that is not left yet."""
        future = super()._submit_save(*args, **kwargs)  # type: ignore[misc]
        if session_of(self) is not None and isinstance(future.exception(), StopSignal):
            future.result()
        return future

    def _step(self, name: str, given: dict[str, Any], perform: Callable[[], Any]) -> Any:
        session = session_of(self)
        if session is None:
            return perform()
        usage: dict[str, int] = {}
        is_made = False

        def act() -> Any:
            nonlocal is_made
            is_made = True
            with _counted(usage):
                return {"value": perform(), "usage": usage}

        kept = session.aside(name, given, act)
        counters = getattr(self._llm, "_token_usage", None) if kept["usage"] and not is_made else None
        if counters is not None:
            add(counters, kept["usage"])
        return kept["value"]


@contextmanager
def _counted(usage: dict[str, int]) -> Iterator[None]:
    token = _usage.set(usage)
    try:
        yield
    finally:
        _usage.reset(token)


def _embedded(session: Session, embed: Callable[[list[str]], Any], texts: list[str]) -> Any:
    return session.aside(
        "memory.embed",
        {"texts": list(texts)},
        lambda: [[float(number) for number in vector] for vector in embed(texts)],
    )


def _without_vector(found: Any) -> Any:
    """A record without its vector, which is not needed after the search."""
    if isinstance(found, MemoryMatch):
        return found.model_copy(update={"record": _without_vector(found.record)})
    if isinstance(found, MemoryRecord):
        return found.model_copy(update={"embedding": None})
    if isinstance(found, (list, tuple)):
        return type(found)(_without_vector(one) for one in found)
    return found


class JournaledStorage:
    """The storage of a memory, whose reads and writes are steps."""

    def __init__(self, session: Session, storage: Any) -> None:
        self._session, self._storage = session, storage

    def __getattr__(self, name: str) -> Any:
        own, effect = getattr(self._storage, name), _STORAGE.get(name)
        return own if effect is None else partial(self._step, name, effect, own)

    def _step(self, name: str, effect: Effect, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = {**kwargs, **({"args": list(args)} if args else {})}
        told = {key: _plain(value, {*_OF_THE_MOMENT} - {"id"}) for key, value in given.items()}
        return self._session.aside(
            f"memory.{name}",
            told,
            lambda: _without_vector(own(*args, **kwargs)),
            ASIDE._replace(effect=effect),
        )

    def save(self, records: list[MemoryRecord]) -> None:
        """Store the records that are not stored yet: after a kill, their ids are the same."""
        storage = self._storage

        def perform() -> list[str]:
            here = here_now()
            assert here is not None
            key = idempotency_key(here.held.birth, here.scope)
            ids = [str(uuid5(NAMESPACE_OID, f"{key} {number}")) for number in range(len(records))]
            _name(records, ids)
            missing = [record for record in records if storage.get_record(record.id) is None]
            if missing:
                storage.save(missing)
            return ids

        told = {"records": _plain(records, _OF_THE_MOMENT)}
        _name(records, self._session.aside("memory.store", told, perform, _STORED))


_STORED: Final[CallOptions] = ASIDE._replace(effect="idempotent")


def _name(records: list[MemoryRecord], ids: list[str]) -> None:
    for record, name in zip(records, ids, strict=True):
        record.id = name


def _plain(value: Any, left_out: set[str]) -> Any:
    """An argument of a storage as it identifies the call: records without what differs, vectors as a hash."""
    if isinstance(value, MemoryRecord):
        return value.model_dump(mode="json", exclude=left_out)
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(one, float) for one in value):
            return sha256(dumps(list(value))).hexdigest()[:16]
        return [_plain(one, left_out) for one in value]
    return value


class DurableKnowledge:
    """Knowledge in a session: a query is a step, with the embedding of its text."""

    __slots__ = ()

    def query(self, query: list[str], *args: Any, **kwargs: Any) -> Any:
        """Search, as a step."""
        perform, session = partial(super().query, query, *args, **kwargs), session_of(self)  # type: ignore[misc]
        if session is None:
            return perform()
        return session.aside("knowledge.query", _query_of(self, query, args, kwargs), perform)

    async def aquery(self, query: list[str], *args: Any, **kwargs: Any) -> Any:
        """As ``query``, awaiting."""
        perform, session = partial(super().aquery, query, *args, **kwargs), session_of(self)  # type: ignore[misc]
        if session is None:
            return await perform()
        return await session.aside_async("knowledge.query", _query_of(self, query, args, kwargs), perform)


def _query_of(
    knowledge: Any, query: list[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    collection = getattr(knowledge.storage, "collection_name", None)
    return {"collection": collection, "query": query, **kwargs, **({"args": list(args)} if args else {})}
