"""``store.memory``: the facts of a store, for whoever is in no run."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from holdfast.engine import remembering
from holdfast.engine.workshop import Workshop
from holdfast.errors import UnknownFact
from holdfast.model.markers import Neutral
from holdfast.model.memories import Fact, Recalled


class Memory(Neutral):
    """Facts that outlive their runs."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

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
        """Keep a fact. The same text in the same scope is one fact; under a ``key``, what was there is replaced.

        Durable when it returns. BadName, Misuse, TooLarge, NotStorable.
        """
        fact = remembering.fact_of(text, tags=tags, scope=scope, key=key, importance=importance, value=value)
        return remembering.remember(self._workshop.store, fact, self._workshop.clock.wall())

    def recall(
        self, query: str, k: int = 5, *, scope: str | None = None, tags: Iterable[str] = ()
    ) -> list[Recalled]:
        """The facts that fit the query best; with an empty one, the newest. Of a scope and those below it, or of all."""
        return remembering.recall(self._workshop.store, query, k=k, scope=scope, tags=tags)

    def list(
        self, *, scope: str | None = None, tags: Iterable[str] = (), limit: int | None = None
    ) -> list[Fact]:
        """The facts of a scope and those below it, or all, that have all of these tags; by scope and id."""
        return [*islice(remembering.facts(self._workshop.store, scope=scope, tags=tags), limit)]

    def find(self, id: str, *, scope: str = "") -> Fact | None:  # noqa: A002 - what people call it
        """The fact of this id in this scope, or None."""
        return remembering.find_fact(self._workshop.store, id, scope)

    def get(self, id: str, *, scope: str = "") -> Fact:  # noqa: A002
        """The fact of this id in this scope. UnknownFact."""
        fact = self.find(id, scope=scope)
        if fact is None:
            raise UnknownFact(fact=id, scope=scope or "no scope", store=self._workshop.store.url)
        return fact

    def forget(self, id: str, *, scope: str = "") -> bool:  # noqa: A002
        """Let a fact go; False where there is none. Durable when it returns."""
        return remembering.forget(self._workshop.store, id, scope)
