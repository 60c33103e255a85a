"""Items of a LangGraph store that expire, that are large, and that are found by meaning."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from langgraph.store.base import GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import holdfast
from holdfast.adapters.langgraph import HoldfastStore
from holdfast.adapters.langgraph.item_records import _EXPIRIES, _PARTS
from holdfast.api.store.store import session_at
from holdfast.cli.app import app

NEAR = ("users",)
TOPICS = ("coffee", "train", "music", "rain")


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store without an index, one with, and one of a server."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_url")
        return
    made = f"memory://{uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path / 's.db'}"
    yield made
    holdfast.store(made).close()


def records(url: str, space: str) -> int:
    """How many records of a space there are."""
    return len(session_at(url).store.scan_records(space, limit=100))


# -- expiry --------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that stands until it is moved, in minutes."""

    def __init__(self) -> None:
        self.minutes = 1_000_000.0

    def wall(self) -> float:
        """Now."""
        return 60 * self.minutes


def timed(url: str, **ttl: Any) -> tuple[HoldfastStore, Clock]:
    """A store whose items expire by this clock."""
    store, clock = HoldfastStore(url, ttl=ttl or None), Clock()  # type: ignore[arg-type]
    store._records._session = SimpleNamespace(store=store._records._store, clock=clock)  # type: ignore[assignment]
    return store, clock


def test_an_item_expires(url: str) -> None:
    """It is deleted by the sweep after its time, with its record; one without a time stays."""
    store, clock = timed(url)
    store.put(("a",), "short", {"n": 1}, ttl=10)
    store.put(("a",), "long", {"n": 2}, ttl=100)
    store.put(("a",), "ever", {"n": 3})
    clock.minutes += 9
    assert store.sweep_ttl() == 0
    clock.minutes += 2
    assert store.get(("a",), "short", refresh_ttl=False) is not None, (
        "until it is swept, as in LangGraph's stores"
    )
    assert store.sweep_ttl() == 1
    assert store.get(("a",), "short") is None
    assert {item.key for item in store.search(("a",))} == {"long", "ever"}
    assert records(url, _EXPIRIES) == 1


def test_reading_begins_the_time_anew(url: str) -> None:
    """A get and a search, unless they are told otherwise or the config says so."""
    store, clock = timed(url)
    for key in ("got", "found", "seen"):
        store.put(("a", key), key, {"n": 1}, ttl=10)
    clock.minutes += 8
    store.get(("a", "got"), "got")
    store.search(("a", "found"))
    store.get(("a", "seen"), "seen", refresh_ttl=False)
    clock.minutes += 8
    assert store.sweep_ttl() == 1
    assert store.get(("a", "seen"), "seen") is None
    store, clock = timed(url, refresh_on_read=False, default_ttl=10)
    store.put(("b",), "k", {})
    clock.minutes += 9
    store.get(("b",), "k")
    clock.minutes += 2
    assert store.sweep_ttl() >= 1
    assert store.get(("b",), "k") is None


def test_the_default_and_what_a_put_says(url: str) -> None:
    """A put without a time has the default; one with None never expires, also over one that would."""
    store, clock = timed(url, default_ttl=10)
    store.put(("a",), "default", {"n": 1})
    store.put(("a",), "never", {"n": 1})
    store.put(("a",), "never", {"n": 2}, ttl=None)
    clock.minutes += 11
    assert store.sweep_ttl() == 1
    assert [item.key for item in store.search(("a",))] == ["never"]
    store.put(("a",), "gone", {}, ttl=5)
    store.delete(("a",), "gone")
    assert records(url, _EXPIRIES) == 0


def test_expired_items_can_be_omitted_before_the_sweep(url: str) -> None:
    """By a get, a search and the list of namespaces."""
    store, clock = timed(url, omit_expired=True)
    store.put(("a", "b"), "k", {"n": 1}, ttl=10)
    assert store.list_namespaces() == [("a", "b")]
    clock.minutes += 11
    assert store.get(("a", "b"), "k") is None
    assert store.search(("a",)) == []
    assert store.list_namespaces() == []


def test_a_thread_sweeps(url: str) -> None:
    """Until it is stopped, or its future is cancelled."""
    store = HoldfastStore(url, ttl={"default_ttl": 0.0001, "refresh_on_read": False})
    store.put(("a",), "k", {})
    future = store.start_ttl_sweeper(0.0005)
    assert store.start_ttl_sweeper() is future
    until = monotonic() + 30
    while store.get(("a",), "k") is not None:
        assert monotonic() < until
        sleep(0.01)
    assert store.stop_ttl_sweeper(30)
    assert future.done()
    again = store.start_ttl_sweeper(1)
    again.cancel()
    assert store.stop_ttl_sweeper(30)


# -- large items ---------------------------------------------------------------------------------------------------


def test_an_item_may_be_large(url: str) -> None:
    """3 MB come back as they were, are replaced and deleted, and leave nothing behind."""
    store = HoldfastStore(url)
    large = {"text": "a large one", "data": [f"{n:0100}" for n in range(30_000)]}
    store.put(("docs",), "big", large)
    item = store.get(("docs",), "big")
    assert item is not None
    assert item.value == large
    assert [one.value for one in store.search(("docs",), filter={"text": "a large one"})] == [large]
    assert records(url, _PARTS) == 4
    assert [one.key for one in store.search(("docs",), query="large")] == ["big"]
    store.put(("docs",), "big", {**large, "more": 1})
    assert records(url, _PARTS) == 4
    store.put(("docs",), "big", {"text": "small now"})
    assert records(url, _PARTS) == 0
    store.put(("docs",), "big", large)
    store.delete(("docs",), "big")
    assert records(url, _PARTS) == 0
    assert store.get(("docs",), "big") is None


def test_what_a_killed_put_left_is_swept(url: str) -> None:
    """Parts that no item names, when they are old; those of a put that is under way stay."""
    store, clock = timed(url)
    large = {"data": "x" * 1_000_000}
    store._records.put_value("docs\x1fkilled", large)
    store.put(("docs",), "whole", large)
    store.sweep_ttl()
    assert records(url, _PARTS) == 4
    clock.minutes += 61
    store.sweep_ttl()
    assert records(url, _PARTS) == 2
    item = store.get(("docs",), "whole")
    assert item is not None
    assert item.value == large


def test_a_missing_part_is_corrupt() -> None:
    """It is an error that names the item, not a shorter value; and the item can be deleted."""
    url = f"memory://{uuid4().hex}"
    store = HoldfastStore(url)
    store.put(("docs",), "big", {"data": "x" * 2_000_000})
    port = session_at(url).store
    (first, *_) = port.scan_records(_PARTS, limit=1)
    port.delete_record(_PARTS, first.key, revision=first.revision)
    with pytest.raises(holdfast.Corrupt, match="item big in docs is not there"):
        store.get(("docs",), "big")
    store.delete(("docs",), "big")
    assert records(url, _PARTS) == 0


# -- by meaning ----------------------------------------------------------------------------------------------------


class Topics:
    """An embedder that knows four topics, and counts what it was asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return [[1.0 * text.count(topic) + 0.01 for topic in TOPICS] for text in texts]


def indexed(url: str, **more: Any) -> tuple[HoldfastStore, Topics]:
    """A store with an index, and its embedder."""
    topics = Topics()
    config: Any = {"dims": 4, "embed": topics, **more}
    return HoldfastStore(url, index=config), topics


ITEMS = [
    (("users", "1"), "a", {"text": "coffee coffee", "n": 1}),
    (("users", "1"), "b", {"text": "coffee in the train", "n": 2}),
    (("users", "12"), "c", {"text": "music", "n": 3}),
    (("users", "2"), "d", {"text": "rain rain rain", "n": 4}),
    (("other",), "e", {"text": "coffee", "n": 5}),
]


@pytest.mark.parametrize("query", ["coffee", "train", "music", "rain coffee"])
@pytest.mark.parametrize("prefix", [(), NEAR, ("users", "1")])
@pytest.mark.parametrize("wanted", [None, {"n": {"$gt": 1}}])
def test_the_same_items_in_the_same_order_as_in_langgraphs_own_store(
    url: str, query: str, prefix: tuple[str, ...], wanted: Any
) -> None:
    """With nearly the same scores: a stored number has one byte."""
    ours, topics = indexed(url, fields=["text"])
    theirs = InMemoryStore(index={"dims": 4, "embed": Topics(), "fields": ["text"]})
    for one in (ours, theirs):
        for item in ITEMS:
            one.put(*item)
    found, other = (one.search(prefix, query=query, filter=wanted, limit=3) for one in (ours, theirs))
    assert [round(item.score or 0, 1) for item in found] == [round(item.score or 0, 1) for item in other]
    assert {item.key for item in found if (item.score or 0) > 0.5} == {
        item.key for item in other if (item.score or 0) > 0.5
    }
    assert topics.texts[-1] == query


def test_no_item_is_embedded_twice(url: str) -> None:
    """A put embeds its text and a search its query; another process embeds nothing again where there is an index."""
    store, topics = indexed(url, fields=["text"])
    for item in ITEMS:
        store.put(*item)
    store.search(NEAR, query="coffee")
    store.search(NEAR, query="music")
    assert sorted(topics.texts) == sorted([*(str(value["text"]) for _, _, value in ITEMS), "coffee", "music"])


def test_changes_count_at_once(url: str) -> None:
    """A replaced text is found by what it says now, a deleted item not at all, an unindexed one last and without a score."""
    store, _ = indexed(url, fields=["text", "notes[*]"])
    store.put(("u",), "a", {"text": "coffee", "notes": ["rain", "music"]})
    store.put(("u",), "b", {"text": "train"})
    assert store.search(("u",), query="music", limit=1)[0].key == "a", "by the best of its texts"
    store.put(("u",), "a", {"text": "train train"})
    assert [item.score and item.score > 0.9 for item in store.search(("u",), query="music")] == [False, False]
    store.put(("u",), "hidden", {"text": "music"}, index=False)
    found = store.search(("u",), query="music")
    assert (found[-1].key, found[-1].score) == ("hidden", None)
    store.put(("u",), "title", {"text": "train", "title": "music"}, index=["title"])
    assert store.search(("u",), query="music", limit=1)[0].key == "title"
    store.delete(("u",), "title")
    assert "title" not in [item.key for item in store.search(("u",), query="music")]
    assert [item.key for item in store.search(("u",), query="train", offset=1, limit=1)] in (["a"], ["b"])


def test_items_from_before_the_index_are_found(tmp_path: Path) -> None:
    """Those of a store without an index config, facts that runs remembered, and all of them after the index was lost."""
    path = tmp_path / "s.db"
    HoldfastStore(path).put(("u",), "before", {"text": "coffee"})
    with holdfast.run("r", store=path) as run:
        run.remember("the train is late", scope="u", key="fact")
    store, topics = indexed(str(path))
    assert store.search(("u",), query="coffee", limit=1)[0].key == "before"
    assert store.search(("u",), query="train", limit=1)[0].key == "fact"
    session_at(str(path)).store.drop_index()
    asked = len(topics.texts)
    assert store.search(("u",), query="coffee", limit=1)[0].key == "before"
    assert len(topics.texts) == asked + 3, "two items and the query"
    assert [one.fact.id for one in holdfast.store(path).memory.recall("coffee", scope="u")] == ["before"]
    assert store.search(("u",), query="coffee", limit=1)[0].score is not None
    holdfast.store(path).close()


def test_an_async_embedder(url: str) -> None:
    """It runs in the caller's loop; and without one in a loop of its own."""
    loops = []

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        loops.append(asyncio.get_running_loop())
        return Topics()(texts)

    store = HoldfastStore(url, index={"dims": 4, "embed": embed})

    async def all_of_it() -> None:
        await store.aput(("u",), "a", {"text": "coffee"})
        (found,) = await store.asearch(("u",), query="coffee")
        assert found.key == "a"
        assert {*loops} == {asyncio.get_running_loop()}
        assert (await store.abatch([GetOp(("u",), "a"), PutOp(("u",), "a", None), SearchOp(("u",))]))[
            0
        ] is not None

    asyncio.run(all_of_it())
    store.put(("u",), "b", {"text": "rain"})
    assert [item.key for item in store.search(("u",), query="rain")] == ["b"]


def test_doctor_counts_facts_not_vectors(tmp_path: Path) -> None:
    """Three vectors of one item are one indexed fact; a lost fact is not made up for by them."""
    path = tmp_path / "s.db"
    store, _ = indexed(str(path), fields=["text", "notes[*]"])
    store.put(("u",), "a", {"text": "coffee", "notes": ["rain", "music"]})
    told = CliRunner().invoke(app, ["doctor", "--store", str(path)]).output
    assert "1 fact and 0 events are indexed" in told
    holdfast.store(path).close()
