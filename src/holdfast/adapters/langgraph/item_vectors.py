"""Finds items of a LangGraph store by meaning, in the store's own search index.

Each text of an item has a vector of the graph's embedder, stored beside the documents of facts under a key
and a model of its own, so that neither finds the other's. The index is derived data: where it was deleted,
the next search embeds the items again; a store without an index keeps the vectors in memory.

Crash window: vectors are written before their item. Killed in between, they have no item of their version,
and no search returns them.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Final

from langgraph.store.base import IndexConfig, ensure_embeddings, get_text_at_path, tokenize_path

from holdfast.engine.memory.fact_search import Scanned, Texts, documents, vectors_of
from holdfast.engine.memory.index_cache import tidy_index, with_index
from holdfast.engine.memory.remember import current_facts, version_of
from holdfast.engine.run.store_session import StoreSession, masked_text
from holdfast.errors import AdapterNotInstalled, Corrupt
from holdfast.model.facts import Fact
from holdfast.model.search import BETWEEN, FACTS, ITEM_VECTORS, Match, Within

LOOP: Final[ContextVar[AbstractEventLoop | None]] = ContextVar("holdfast_langgraph_loop", default=None)
"""The loop of the caller, in which an async embedder runs."""
_BATCH: Final = 100


class GraphEmbedder:
    """The embedder of an index config. ``model`` names it: vectors of different ones are never compared."""

    def __init__(self, config: IndexConfig) -> None:
        if find_spec("numpy") is None:
            raise AdapterNotInstalled(
                adapter="langgraph (index)",
                package="numpy",
                extra="memory",
                problem="not found",
                advice="pip install numpy",
            )
        settings: Any = config
        given: Any = settings["embed"]
        self._embeddings: Any = ensure_embeddings(given)
        self.dimensions = int(settings["dims"])
        named = given if isinstance(given, str) else getattr(given, "model", None)
        kind: Any = given if hasattr(given, "__qualname__") else type(given)
        self.model = f"langgraph/{named or f'{kind.__module__}.{kind.__qualname__}'}/{self.dimensions}"

    def embed(self, texts: Sequence[str]) -> Any:
        """A row for each text."""
        made = self._embeddings
        if hasattr(made, "afunc") and not hasattr(made, "func"):  # it was given as an async function
            loop, coming = LOOP.get(), made.aembed_documents([*texts])
            return asyncio.run_coroutine_threadsafe(coming, loop).result() if loop else asyncio.run(coming)
        return made.embed_documents([*texts])


class _QueryEmbedder(GraphEmbedder):
    """Some embedders treat a query otherwise than a document."""

    def embed(self, texts: Sequence[str]) -> Any:
        made = self._embeddings
        if hasattr(made, "afunc") and not hasattr(made, "func"):
            return super().embed(texts)
        return [made.embed_query(text) for text in texts]


class ItemVectors:
    """The vectors of one store's items."""

    def __init__(
        self, session: StoreSession, config: IndexConfig, value_of: Callable[[Fact], dict[str, Any]]
    ) -> None:
        self._session = session
        self._embedder = GraphEmbedder(config)
        self._asker = _QueryEmbedder(config)
        self._fields = [*(config.get("fields") or ["$"])]
        self._value_of = value_of
        self._note = f"{ITEM_VECTORS}{self._embedder.model}"
        self._in_memory: dict[str, tuple[Texts, bytes]] = {}
        """The vectors of a store without an index."""

    def texts(self, fact: Fact, value: dict[str, Any], index: Sequence[str] | None) -> list[Texts]:
        """What is embedded of an item: the texts at the paths that its put named, else at the fields."""
        paths = [path if path == "$" else tokenize_path(path) for path in index or self._fields]
        found = [masked_text(text) for path in paths for text in get_text_at_path(value, path)]
        return [
            Texts(f"{fact.scope}{BETWEEN}{fact.id}{BETWEEN}{nth}", version_of(fact), text, tags=fact.tags)
            for nth, text in enumerate(dict.fromkeys(found))
            if text.strip()
        ]

    def put(self, texts: Sequence[Texts]) -> None:
        """Store the vectors of an item that is about to be written. Durable on return."""

        def act(index: Any) -> None:
            if index is None:
                self._keep(texts)
            else:
                index.put(FACTS, self._documents(texts), synced=True)

        if texts:
            with_index(self._session, act, ready=self._fill, writes=True)

    def drop_before(self, before: Fact, now: Sequence[Texts]) -> None:
        """Remove the vectors of an item's earlier version."""
        kept = {one.key: one.version for one in now}
        try:
            was = self.texts(before, self._value_of(before), None)
        except Corrupt:  # parts of its value are gone; vectors of another version are never returned
            return
        for one in was:
            self._drop_key(one.key, but=kept.get(one.key, ""))

    def _drop_key(self, key: str, *, but: str) -> None:
        if not but:
            self._in_memory.pop(key, None)
        tidy_index(self._session.store, lambda index: index.drop(FACTS, key, but=but))

    def drop(self, fact: Fact) -> None:
        """Remove the vectors of a deleted item."""
        prefix = f"{fact.scope}{BETWEEN}{fact.id}{BETWEEN}"
        for key in [key for key in self._in_memory if key.startswith(prefix)]:
            del self._in_memory[key]
        tidy_index(self._session.store, lambda index: index.drop_under(FACTS, prefix))

    def find(
        self, query: str, within: Within, wanted: Callable[[Fact], bool], count: int
    ) -> list[tuple[float, Fact]]:
        """The nearest items that are wanted, with their cosines, best first; at most ``count``."""
        (vector,) = vectors_of([query], self._asker)

        def act(index: Any) -> list[tuple[float, Fact]]:
            limit = max(50, 2 * count)
            while True:
                if index is None:
                    self._keep_all()
                    matches = self._scan(vector, within, limit)
                else:
                    matches = index.find_near(FACTS, vector, self._embedder.model, within, limit=limit)
                found = self._checked(matches, wanted)
                if len(found) >= count or len(matches) < limit:
                    return found[:count]
                limit *= 4

        return with_index(self._session, act, ready=self._fill)

    def _checked(self, matches: Iterable[Match], wanted: Callable[[Fact], bool]) -> list[tuple[float, Fact]]:
        """The items of these matches as they are now: each once, by its best text."""
        from holdfast.engine.memory.facts import find_whole

        found: dict[str, tuple[float, Fact]] = {}
        for match in matches:
            key = match.key.rpartition(BETWEEN)[0]
            fact = None if key in found else find_whole(self._session.store, key)
            if fact is not None and version_of(fact) == match.version and wanted(fact):
                found[key] = match.score, fact
        return [*found.values()]

    # -- items that were stored without vectors --------------------------------------------------------------

    def _fill(self, index: Any) -> None:
        """Embed all items, where the index is new or the embedder is another one."""
        if self._note in index.get_notes(self._note):
            return
        for batch in self._batches():
            index.put(FACTS, self._documents(batch))
        index.put(FACTS, [], notes={self._note: "whole"}, synced=True)

    def _batches(self) -> Iterable[list[Texts]]:
        batch: list[Texts] = []
        for fact in current_facts(self._session, Within()):
            if "unsearched" not in fact.tags:
                batch += self.texts(fact, self._value_of(fact), None)
            if len(batch) >= _BATCH:
                yield batch
                batch = []
        yield batch

    def _documents(self, texts: Sequence[Texts]) -> list[Any]:
        """Without words: those of the item's fact find it."""
        return [one._replace(terms=()) for one in documents(texts, self._embedder)]

    def _keep_all(self) -> None:
        for batch in self._batches():
            self._keep([one for one in batch if not self._is_kept(one)])

    def _is_kept(self, one: Texts) -> bool:
        return one.key in self._in_memory and self._in_memory[one.key][0].version == one.version

    def _keep(self, texts: Sequence[Texts]) -> None:
        for one, vector in zip(texts, vectors_of([t.text for t in texts], self._embedder), strict=True):
            self._in_memory[one.key] = one, vector

    def _scan(self, vector: bytes, within: Within, limit: int) -> list[Match]:
        texts, vectors = zip(*self._in_memory.values(), strict=True) if self._in_memory else ((), ())
        scanned = Scanned(texts, None, vectors)
        return scanned.find_near(FACTS, vector, self._embedder.model, within, limit=limit)
