"""``store.memory``: the facts of a store, outside of runs.

Inside a run use ``run.remember`` and ``run.recall``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from operator import attrgetter
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

_id_of, _scope_of = attrgetter("id"), attrgetter("scope")


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
        """Keep a fact. Durable when it returns.

        A fact that is known already is not kept twice. A fact that contradicts an old one supersedes it;
        ``history`` shows both. A fact with a ``key`` replaces the fact of that key. Raises BadName, Misuse,
        TooLarge or NotStorable.
        """
        fact = facts.fact_of(text, tags=tags, scope=scope, key=key, importance=importance, value=value)
        return remembering.remember(self._session, fact)

    def recall(
        self, query: str, k: int = 5, *, scope: str | None = None, tags: Iterable[str] = ()
    ) -> list[Recalled]:
        """The facts that fit the query best; for an empty query, the newest.

        ``scope`` searches that scope and those below it; None searches all. Facts must have all ``tags``.
        """
        return remembering.recall(self._session, query, k=k, scope=scope, tags=tags)

    def list(
        self, *, scope: str | None = None, tags: Iterable[str] = (), limit: int | None = None
    ) -> list[Fact]:
        """The facts of a scope and those below it, or all, with all of these tags; by scope and id."""
        found = facts.facts(self._session.store, facts.within(scope, tags))
        # A store that hides ids has them in the order of their hidden forms.
        scopes = (sorted(group, key=_id_of) for _, group in groupby(found, key=_scope_of))
        return [*islice(chain.from_iterable(scopes), limit)]

    def find(self, id: str, *, scope: str = "") -> Fact | None:  # noqa: A002 - what people call it
        """The fact with this id in this scope, or None."""
        return facts.find_fact(self._session.store, facts.key_of(id, facts.check_scope(scope)))

    def find_text(self, text: str, *, scope: str = "") -> Fact | None:
        """The fact with this text that was kept without a key, or None."""
        return self.find(facts.id_of(text), scope=scope)

    def get(self, id: str, *, scope: str = "") -> Fact:  # noqa: A002
        """The fact with this id in this scope. Raises UnknownFact."""
        fact = self.find(id, scope=scope)
        if fact is None:
            raise UnknownFact(fact=id, scope=scope or "no scope", store=self._session.store.url)
        return fact

    def history(self, id: str, *, scope: str = "") -> "builtins.list[Fact]":  # noqa: A002
        """The fact, the one it superseded, and so on: the newest first. Raises UnknownFact."""
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
        """Change the text, tags or importance of a fact.

        Its id stays. Durable when it returns. Raises UnknownFact.
        """
        known = self.get(id, scope=scope)
        wanted = facts.fact_of(
            known.text if text is None else text,
            tags=known.tags if tags is None else tags,
            importance=known.importance if importance is None else importance,
        )
        changes = {"text": wanted.text, "tags": wanted.tags, "importance": wanted.importance}
        return remembering.edit(self._session, known.id, known.scope, **changes)

    def forget(self, id: str, *, scope: str = "") -> bool:  # noqa: A002
        """Delete a fact; False if there is none. Durable when it returns."""
        return remembering.forget(self._session, id, facts.check_scope(scope))

    def export(self, some: "Iterable[Fact] | None" = None) -> Iterator[bytes]:
        """These facts, or all, as lines of JSON after a header line."""
        from holdfast.exports.facts_file import written

        return written(map(facts.body_of, self.list() if some is None else some))

    def import_(self, lines: Iterable[bytes], *, path: str = "the file") -> "TakenIn":
        """Import what ``export`` wrote; of two versions of one fact, the newer stays.

        Raises NotAnExport, and then nothing was written.
        """
        from holdfast.exports.facts_file import TakenIn, read

        some = [*read(lines, path, facts.fact_in_body)]
        outcomes = Counter(remembering.take_in(self._session, fact) for fact in some)
        return TakenIn(outcomes["added"], outcomes["replaced"], outcomes["known"])

    @property
    def embedder_name(self) -> str:
        """The name of the embedder; empty if facts are found by words alone."""
        return self._session.embedder.model if self._session.embedder is not None else ""

    def use(self, embedder: "Embedder | None") -> None:
        """Use this embedder for facts and history in this process from now on; None for words alone."""
        self._session.embedder = embedder

    def embed_again(self) -> int:
        """Compute the vectors of all facts with the current embedder. Returns the number of facts."""
        return remembering.rebuild(self._session)
