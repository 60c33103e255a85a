"""``HoldfastStore``: LangGraph's long-term memory on Holdfast's. An item is a fact, its namespace the scope.

So ``run.recall`` and ``store.memory`` find what a graph keeps, and the reverse: a fact that was remembered as
text is an item whose value is its text. Items are searched by words and ranked like facts; no model is
called.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)

from holdfast.adapters.langgraph.thread_ids import escaped, unescaped
from holdfast.api.store.store import Store, store_at
from holdfast.core.memory.bm25 import rank, texts_in
from holdfast.core.memory.terms import query_of
from holdfast.limits import FACT_TEXT_CHARS_MAX
from holdfast.model.facts import Fact

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

    def __init__(self, store: "str | os.PathLike[str] | Store | None" = None) -> None:
        """``store`` is a URL, a path or a handle, as for ``holdfast.run``."""
        self.memory = store_at(store).memory

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
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: GetOp | SearchOp | ListNamespacesOp) -> Result:
        if isinstance(op, GetOp):
            fact = self.memory.find(escaped(op.key), scope=_scope(op.namespace))
            return None if fact is None else Item(**_item(fact))
        if isinstance(op, SearchOp):
            return self._search(op)
        return self._namespaces(op)

    def _put(self, op: PutOp) -> None:
        key, scope = escaped(op.key), _scope(op.namespace)
        if op.value is None:
            self.memory.forget(key, scope=scope)
            return
        value = dict(op.value)
        tags = [_UNSEARCHED] if op.index is False else []
        self.memory.remember(_text(op, value) or op.key, key=key, scope=scope, value=value, tags=tags)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found = self.memory.list(scope=_scope(op.namespace_prefix) or None)
        found = [fact for fact in found if _fits(_value(fact), op.filter or {})]
        found.sort(key=lambda fact: fact.changed_at)
        scored: list[tuple[float | None, Fact]] = [(None, fact) for fact in reversed(found)]
        if op.query:
            found = [fact for fact in found if _UNSEARCHED not in fact.tags]
            scored = [
                (score, found[at]) for score, at in rank(query_of(op.query), [fact.text for fact in found])
            ]
        return [
            SearchItem(**_item(fact), score=score) for score, fact in scored[op.offset : op.offset + op.limit]
        ]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        all_of_them = {_namespace(fact.scope) for fact in self.memory.list() if fact.scope}
        matching = {
            one for one in all_of_them if all(_matches(one, wanted) for wanted in op.match_conditions or ())
        }
        cut = sorted({one[: op.max_depth] for one in matching})
        return cut[op.offset : op.offset + op.limit]


def _scope(namespace: tuple[str, ...]) -> str:
    return "/".join(escaped(label) for label in namespace)


def _namespace(scope: str) -> tuple[str, ...]:
    return tuple(unescaped(label) for label in scope.split("/"))


def _value(fact: Fact) -> dict[str, Any]:
    return fact.value if isinstance(fact.value, dict) else {"text": fact.text}


def _item(fact: Fact) -> dict[str, Any]:
    return {
        "namespace": _namespace(fact.scope) if fact.scope else (),
        "key": unescaped(fact.id),
        "value": _value(fact),
        "created_at": datetime.fromtimestamp(fact.created_at, UTC),
        "updated_at": datetime.fromtimestamp(fact.changed_at, UTC),
    }


def _text(op: PutOp, value: dict[str, Any]) -> str:
    """The search text of an item: all texts in its value, or those at the paths in ``index``."""
    if op.index:
        parts: Iterable[str] = (
            text for path in op.index for text in get_text_at_path(value, tokenize_path(path))
        )
    else:
        parts = texts_in(value, chars_max=FACT_TEXT_CHARS_MAX)
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
