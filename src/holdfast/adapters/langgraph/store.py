"""``HoldfastStore``: LangGraph's long-term memory on Holdfast's. An item is a fact, its namespace the scope.

So ``run.recall`` and ``store.memory`` find what a graph keeps, and the reverse: a fact that was remembered as
text is an item whose value is its text. With an ``index`` config items are found by meaning, else by words.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from operator import eq, ge, gt, le, lt, ne
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
    tokenize_path,
)

from holdfast.adapters.langgraph.item_records import EXPIRES, LARGE, ItemRecords
from holdfast.adapters.langgraph.item_vectors import LOOP, ItemVectors
from holdfast.adapters.langgraph.thread_ids import escaped, unescaped
from holdfast.api.store.store import Store, session_at, store_at
from holdfast.core.memory.bm25 import rank, texts_in
from holdfast.core.memory.terms import query_of
from holdfast.engine.log import log
from holdfast.engine.memory.facts import fact_of, key_of, within
from holdfast.engine.run.store_session import masked_text
from holdfast.errors import HoldfastError
from holdfast.limits import FACT_TEXT_CHARS_MAX
from holdfast.model.facts import Fact
from holdfast.model.search import BETWEEN

if TYPE_CHECKING:
    import os

_UNSEARCHED: Final = "unsearched"
"""The tag of an item that word search must not find."""
_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": eq,
    "$ne": ne,
    "$gt": gt,
    "$gte": ge,
    "$lt": lt,
    "$lte": le,
}


class HoldfastStore(BaseStore):
    """Items that outlive their threads, in any store."""

    supports_ttl = True

    def __init__(
        self,
        store: "str | os.PathLike[str] | Store | None" = None,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """``store`` is a URL, a path or a handle, as for ``holdfast.run``; the rest as in LangGraph's stores.

        AdapterNotInstalled if ``index`` is given and numpy is missing.
        """
        handle = store_at(store)
        session = session_at(handle)
        self.memory = handle.memory
        self.ttl_config = ttl
        self.index_config = index
        self._records = ItemRecords(session)
        self._vectors = None if index is None else ItemVectors(session, index, self._records.value_of)
        self._sweeper: Sweeper | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do all of these: reads come before writes. Durable on return."""
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
            results.append(None if isinstance(op, PutOp) else self._read(op))
        for put in puts.values():
            self._put(put)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As ``batch``."""
        LOOP.set(asyncio.get_running_loop())
        return await asyncio.to_thread(self.batch, list(ops))

    # -- expiry ----------------------------------------------------------------------------------------------

    def sweep_ttl(self) -> int:
        """Delete expired items, and what killed processes left of large ones. Returns how many expired."""
        count = 0
        for key in self._records.take_expired():
            scope, _, id_ = key.rpartition(BETWEEN)
            count += self._delete(id_, scope)
        self._records.drop_left()
        return count

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep every so many minutes, in a thread, until the future is cancelled or the sweeper stopped."""
        every = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes") or 5
        if self._sweeper is None or not self._sweeper.is_alive:
            self._sweeper = Sweeper(self.sweep_ttl, 60 * every)
        return self._sweeper.future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop sweeping; False if the thread has not ended by then."""
        return self._sweeper is None or self._sweeper.stop(timeout)

    # -- operations ------------------------------------------------------------------------------------------

    def _read(self, op: GetOp | SearchOp | ListNamespacesOp) -> Result:
        if isinstance(op, GetOp):
            fact = self.memory.find(escaped(op.key), scope=_scope(op.namespace))
            if fact is None or not self._is_shown(fact):
                return None
            if op.refresh_ttl:
                self._records.refresh(fact)
            return Item(**self._item(fact))
        if isinstance(op, SearchOp):
            return self._search(op)
        return self._namespaces(op)

    def _put(self, op: PutOp) -> None:
        key, scope = escaped(op.key), _scope(op.namespace)
        if op.value is None:
            self._delete(key, scope)
            return
        value = dict(op.value)
        before = self.memory.find(key, scope=scope)
        parts = self._records.put_value(key_of(key, scope), value)
        marks = {_UNSEARCHED: op.index is False, EXPIRES: op.ttl is not None, LARGE: parts is not None}
        tags = [name for name, is_set in marks.items() if is_set]
        kept = value if parts is None else parts
        fact = fact_of(_text(op, value) or op.key, key=key, scope=scope, value=kept, tags=tags)
        if op.ttl is not None:
            self._records.expire(key_of(key, scope), op.ttl)
        texts = []
        if self._vectors is not None and op.index is not False:
            texts = self._vectors.texts(fact, value, op.index)
            self._vectors.put(texts)
        self.memory.remember(fact.text, key=key, scope=scope, value=kept, tags=tags)
        if before is None:
            return
        if self._vectors is not None:
            self._vectors.drop_before(before, texts)
        self._records.drop_value(before)
        if op.ttl is None and EXPIRES in before.tags:
            self._records.expire(key_of(key, scope), None)

    def _delete(self, key: str, scope: str) -> bool:
        before = self.memory.find(key, scope=scope)
        is_gone = self.memory.forget(key, scope=scope)
        if before is not None:
            if self._vectors is not None:
                self._vectors.drop(before)
            self._records.drop_value(before)
            if EXPIRES in before.tags:
                self._records.expire(key_of(key, scope), None)
        return is_gone

    def _is_shown(self, fact: Fact) -> bool:
        return not (self.ttl_config or {}).get("omit_expired") or not self._records.is_expired(fact)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        def is_wanted(fact: Fact) -> bool:
            return self._is_shown(fact) and (not op.filter or _fits(self._records.value_of(fact), op.filter))

        if op.query and self._vectors is not None:
            scored = self._near(op, is_wanted, self._vectors)
        else:
            scored = self._listed(op, is_wanted)
        found = scored[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            for _, fact in found:
                self._records.refresh(fact)
        return [SearchItem(**self._item(fact), score=score) for score, fact in found]

    def _near(
        self, op: SearchOp, is_wanted: Callable[[Fact], bool], vectors: ItemVectors
    ) -> list[tuple[float | None, Fact]]:
        """By meaning; then, as LangGraph's store does, items without a vector where there is room."""
        count = op.offset + op.limit
        bounds = within(_scope(op.namespace_prefix) or None)
        near: list[tuple[float | None, Fact]] = [*vectors.find(op.query or "", bounds, is_wanted, count)]
        if len(near) < count:
            known = {(fact.scope, fact.id) for _, fact in near}
            rest = (fact for _, fact in self._listed(op._replace(query=None), is_wanted))
            near += [(None, fact) for fact in rest if (fact.scope, fact.id) not in known]
        return near

    def _listed(self, op: SearchOp, is_wanted: Callable[[Fact], bool]) -> list[tuple[float | None, Fact]]:
        """The newest first; with a query, by its words."""
        found = [
            fact for fact in self.memory.list(scope=_scope(op.namespace_prefix) or None) if is_wanted(fact)
        ]
        found.sort(key=lambda fact: fact.changed_at)
        if not op.query:
            return [(None, fact) for fact in reversed(found)]
        found = [fact for fact in found if _UNSEARCHED not in fact.tags]
        return [(score, found[at]) for score, at in rank(query_of(op.query), [fact.text for fact in found])]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        all_of_them = {
            _namespace(fact.scope) for fact in self.memory.list() if fact.scope and self._is_shown(fact)
        }
        matching = {
            one for one in all_of_them if all(_matches(one, wanted) for wanted in op.match_conditions or ())
        }
        cut = sorted({one[: op.max_depth] for one in matching})
        return cut[op.offset : op.offset + op.limit]

    def _item(self, fact: Fact) -> dict[str, Any]:
        return {
            "namespace": _namespace(fact.scope) if fact.scope else (),
            "key": unescaped(fact.id),
            "value": self._records.value_of(fact),
            "created_at": datetime.fromtimestamp(fact.created_at, UTC),
            "updated_at": datetime.fromtimestamp(fact.changed_at, UTC),
        }


class Sweeper:
    """A thread that sweeps every so many seconds, until it is stopped."""

    def __init__(self, sweep: Callable[[], int], every_s: float) -> None:
        self.future: Future[None] = Future()
        self._stopped = Event()
        self._sweep, self._every_s = sweep, every_s
        self.future.add_done_callback(lambda _: self._stopped.set())
        self._thread = Thread(target=self._work, name="holdfast-ttl", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still sweeps."""
        return self._thread.is_alive()

    def stop(self, timeout: float | None) -> bool:
        """Stop it; False if it has not ended by then."""
        self._stopped.set()
        self._thread.join(timeout)
        return not self.is_alive

    def _work(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self._sweep()
            except HoldfastError as error:  # the next round may succeed
                log().warning("expired items could not be deleted: %s", error)
        if not self.future.done():
            self.future.set_result(None)


def _scope(namespace: tuple[str, ...]) -> str:
    return "/".join(escaped(label) for label in namespace)


def _namespace(scope: str) -> tuple[str, ...]:
    return tuple(unescaped(label) for label in scope.split("/"))


def _text(op: PutOp, value: dict[str, Any]) -> str:
    """The search text of an item: all texts in its value, or those at the paths in ``index``; masked."""
    if op.index:
        parts: Iterable[str] = (
            masked_text(text) for path in op.index for text in get_text_at_path(value, tokenize_path(path))
        )
    else:
        parts = texts_in(masked_text(value), chars_max=FACT_TEXT_CHARS_MAX)
    return " ".join(parts)[:FACT_TEXT_CHARS_MAX].strip()


def _fits(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_fits_one(value.get(name), one) for name, one in wanted.items())


def _fits_one(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if not any(name.startswith("$") for name in wanted):
        return isinstance(value, Mapping) and _fits(value, wanted)
    try:
        return all(_TESTS[name](value, one) for name, one in wanted.items())
    except TypeError:  # 1 < "a" is neither
        return False


def _matches(namespace: tuple[str, ...], wanted: MatchCondition) -> bool:
    path = tuple(wanted.path)
    part = namespace[: len(path)] if wanted.match_type == "prefix" else namespace[-len(path) :]
    return len(part) == len(path) and all(one in ("*", label) for label, one in zip(part, path, strict=True))
