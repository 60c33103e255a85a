"""``store.memory``: the facts of a store, for whoever is in no run."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.engine.memory import facts
from holdfast.engine.memory import remember as remembering
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import UnknownFact
from holdfast.model.facts import Fact, Recalled
from holdfast.model.markers import Neutral

if TYPE_CHECKING:
    import builtins

    from holdfast.embedding.embedders import Embedder
    from holdfast.exports.facts_file import TakenIn


class Memory(Neutral):
    """Facts that outlive their runs."""

    def __init__(self, session: StoreSession) -> None:
        self._session = session

    def remember(
        self,
        text: str,
        *,
        tags: Iterable[str] = (),
        scope: str = "",
        key: str | None = None,
        importance: float = 0.5,
        value: Any = None,
    ) -> Fact:
        """Keep a fact. What is known already is not kept again; what it contradicts is superseded, with its history kept.

        Under a ``key``, what was there is replaced. Durable when it returns. BadName, Misuse, TooLarge, NotStorable.
        """
        fact = facts.fact_of(text, tags=tags, scope=scope, key=key, importance=importance, value=value)
        return remembering.remember(self._session, fact)

    def recall(
        self, query: str, k: int = 5, *, scope: str | None = None, tags: Iterable[str] = ()
    ) -> list[Recalled]:
        """The facts that fit the query best; with an empty one, the newest. Of a scope and those below it, or of all."""
        return remembering.recall(self._session, query, k=k, scope=scope, tags=tags)

    def list(
        self, *, scope: str | None = None, tags: Iterable[str] = (), limit: int | None = None
    ) -> list[Fact]:
        """The facts of a scope and those below it, or all, that have all of these tags; by scope and id."""
        return [*islice(facts.facts(self._session.store, facts.within(scope, tags)), limit)]

    def find(self, id: str, *, scope: str = "") -> Fact | None:  # noqa: A002 - what people call it
        """The fact of this id in this scope, or None."""
        return facts.find_fact(self._session.store, facts.key_of(id, facts.check_scope(scope)))

    def find_text(self, text: str, *, scope: str = "") -> Fact | None:
        """The fact that has this text and no other name, or None."""
        return self.find(facts.id_of(text), scope=scope)

    def get(self, id: str, *, scope: str = "") -> Fact:  # noqa: A002
        """The fact of this id in this scope. UnknownFact."""
        fact = self.find(id, scope=scope)
        if fact is None:
            raise UnknownFact(fact=id, scope=scope or "no scope", store=self._session.store.url)
        return fact

    def history(self, id: str, *, scope: str = "") -> "builtins.list[Fact]":  # noqa: A002
        """The fact, what it superseded, what that did, and so on: the newest first. UnknownFact."""
        found = {id: self.get(id, scope=scope)}
        last = found[id]
        while last.supersedes and last.supersedes not in found:
            older = self.find(last.supersedes, scope=scope)
            if older is None:
                break
            found[older.id] = last = older
        return [*found.values()]

    def edit(
        self,
        id: str,  # noqa: A002
        *,
        scope: str = "",
        text: str | None = None,
        tags: Iterable[str] | None = None,
        importance: float | None = None,
    ) -> Fact:
        """Give a fact another text, other tags or another importance; it stays the same fact. Durable when it returns. UnknownFact."""
        known = self.get(id, scope=scope)
        wanted = facts.fact_of(
            known.text if text is None else text,
            tags=known.tags if tags is None else tags,
            importance=known.importance if importance is None else importance,
        )
        changes = {"text": wanted.text, "tags": wanted.tags, "importance": wanted.importance}
        return remembering.edit(self._session, known.id, known.scope, **changes)

    def forget(self, id: str, *, scope: str = "") -> bool:  # noqa: A002
        """Let a fact go; False where there is none. Durable when it returns."""
        return remembering.forget(self._session, id, facts.check_scope(scope))

    def export(self, some: "Iterable[Fact] | None" = None) -> Iterator[bytes]:
        """Facts as lines of JSON, the first of which says what they are; without ``some``, all of them."""
        from holdfast.exports.facts_file import written

        return written(map(facts.body_of, self.list() if some is None else some))

    def import_(self, lines: Iterable[bytes], *, path: str = "the file") -> "TakenIn":
        """Take in what ``export`` has written; of two that are one fact, the newer stays. NotAnExport, and then nothing was taken in."""
        from holdfast.exports.facts_file import TakenIn, read

        some = [*read(lines, path, facts.fact_in_body)]
        outcomes = Counter(remembering.take_in(self._session, fact) for fact in some)
        return TakenIn(outcomes["added"], outcomes["replaced"], outcomes["known"])

    @property
    def embedder_name(self) -> str:
        """What makes vectors of texts here; empty where facts are found by words alone."""
        return self._session.embedder.model if self._session.embedder is not None else ""

    def use(self, embedder: "Embedder | None") -> None:
        """Find facts and history in this store by this embedder from now on; by words alone with None."""
        self._session.embedder = embedder

    def embed_again(self) -> int:
        """Make the vectors of all facts anew, with the embedder that is used now; how many facts there are."""
        return remembering.rebuild(self._session)
