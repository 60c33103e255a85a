"""LangGraph's store on Holdfast's memory: every operation, against LangGraph's own store where both can be asked.

Planted once each in a copy, and caught here: a filter that is not looked at; a namespace that matches its longer sibling; an
item that is found by words although it is not to be; a key that is written as it is.
"""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import holdfast
from holdfast.adapters.langgraph import HoldfastStore

ITEMS: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
    (("users", "1"), "coffee", {"text": "likes her coffee black", "score": 3, "tags": {"kind": "taste"}}),
    (("users", "1"), "city", {"text": "lives in Lisbon", "score": 5}),
    (("users", "12"), "tea", {"text": "likes tea", "score": 1}),
    (("users", "1", "deep"), "x/y@z %2F", {"text": "below", "score": 9}),
    (("docs",), "ü", {"text": "a document", "score": 0, "n": None}),
]


def filled(store: BaseStore) -> BaseStore:
    """The store with all items."""
    for namespace, key, value in ITEMS:
        store.put(namespace, key, value)
    return store


@pytest.fixture
def store() -> HoldfastStore:
    """An empty one."""
    return HoldfastStore(f"memory://{uuid4().hex}")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"filter": {"score": 3}},
        {"filter": {"score": {"$gte": 3}}},
        {"filter": {"score": {"$gt": 3, "$lt": 9}}},
        {"filter": {"score": {"$ne": 3}}},
        {"filter": {"tags": {"kind": "taste"}}},
        {"filter": {"text": {"$eq": "likes tea"}}},
        {"filter": {"score": {"$lte": 1}, "text": "likes tea"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("prefix", [(), ("users",), ("users", "1"), ("nobody",)], ids=str)
def test_searches_find_what_langgraphs_own_store_finds(store: HoldfastStore, prefix: Any, asked: Any) -> None:
    """By prefix and filter, the same items."""
    ours, theirs = (filled(one).search(prefix, limit=50, **asked) for one in (store, InMemoryStore()))
    assert {(item.namespace, item.key) for item in ours} == {(item.namespace, item.key) for item in theirs}
    assert all(item.value in [value for _, _, value in ITEMS] for item in ours)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"prefix": ("users",)},
        {"suffix": ("1",)},
        {"prefix": ("users", "*"), "max_depth": 2},
        {"max_depth": 1},
        {"limit": 2, "offset": 1},
    ],
    ids=str,
)
def test_namespaces_are_listed_as_by_langgraphs_own_store(store: HoldfastStore, asked: Any) -> None:
    """By prefix, suffix, with wildcards, cut off, and in pages."""
    assert filled(store).list_namespaces(**asked) == filled(InMemoryStore()).list_namespaces(**asked)


def test_items_are_put_replaced_found_and_deleted(store: HoldfastStore) -> None:
    """With the times of both, and as they were."""
    filled(store)
    for namespace, key, value in ITEMS:
        item = store.get(namespace, key)
        assert item is not None
        assert (item.namespace, item.key, item.value) == (namespace, key, value)
    store.put(("users", "1"), "city", {"text": "moved to Porto"})
    moved = store.get(("users", "1"), "city")
    assert moved is not None
    assert moved.value == {"text": "moved to Porto"}
    assert moved.created_at < moved.updated_at
    store.delete(("users", "1"), "city")
    store.delete(("users", "1"), "never was")
    assert store.get(("users", "1"), "city") is None


def test_a_query_ranks_by_words(store: HoldfastStore) -> None:
    """Best first, in pages; what is not to be indexed is not found, and only the fields that are named count."""
    filled(store)
    found = store.search(("users",), query="who likes coffee?")
    assert [item.key for item in found] == ["coffee", "tea"]
    assert found[0].score is not None
    assert found[1].score is not None
    assert found[0].score > found[1].score
    assert [item.key for item in store.search(("users",), query="who likes coffee?", limit=1, offset=1)] == [
        "tea"
    ]
    store.put(("users", "3"), "hidden", {"text": "likes coffee"}, index=False)
    store.put(("users", "3"), "part", {"text": "likes coffee", "title": "cocoa"}, index=["title"])
    assert "hidden" not in [item.key for item in store.search(("users", "3"), query="coffee")]
    assert [item.key for item in store.search(("users", "3"), query="cocoa")] == ["part"]
    assert store.search(("users", "3"), query="coffee") == []


def test_a_batch_reads_before_it_writes(store: HoldfastStore) -> None:
    """In both ways of waiting; of two puts of one key the last counts."""

    async def both() -> list[Any]:
        return await store.abatch(
            [
                PutOp(("a",), "k", {"n": 1}),
                GetOp(("a",), "k"),
                PutOp(("a",), "k", {"n": 2}),
                SearchOp(("a",)),
            ]
        )

    assert asyncio.run(both()) == [None, None, None, []]
    item = store.get(("a",), "k")
    assert item is not None
    assert item.value == {"n": 2}


def test_a_graph_and_holdfast_share_one_memory(tmp_path: Path) -> None:
    """What a node keeps, ``recall`` finds; what a run remembers, a node finds as an item with its text."""
    path = tmp_path / "s.db"
    with holdfast.run("r", store=path) as run:
        run.remember("the gate is at the north side", scope="users/1", key="gate")

    def node(_: MessagesState, *, store: BaseStore) -> dict[str, Any]:
        (item,) = store.search(("users", "1"), query="gate")
        store.put(("users", "1"), "seen", {"text": f"asked about: {item.value['text']}"})
        return {"messages": []}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.compile(store=HoldfastStore(path)).invoke({"messages": []})
    (found, *_) = holdfast.store(path).memory.recall("asked", scope="users/1")
    assert found.fact.text == "asked about: the gate is at the north side"
