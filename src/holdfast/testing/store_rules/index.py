"""The rules of a search index, for stores that have one."""

from importlib.util import find_spec

from holdfast.model.search import EVENTS, EVERYWHERE, FACTS, Document, Query, Within
from holdfast.stores.port import IndexPort, StorePort

_TEXTS = {
    "users/1\x1fcoffee": "the user like black coffee",
    "users/12\x1ftea": "the user like green tea",
    "projects/a\x1fttl": "the cach ttl is 300 second err_40.21",
    "\x1fsky": "the sky is blue",
}


def _vector(*parts: int) -> bytes:
    return bytes(part % 256 for part in (*parts, *[0] * (8 - len(parts))))


_VECTORS = {
    "users/1\x1fcoffee": _vector(100, 10),
    "users/12\x1ftea": _vector(90, 40),
    "projects/a\x1fttl": _vector(0, 0, 100),
    "\x1fsky": _vector(-100, 0, 0, 30),
}


def _document(key: str, version: str = "1", tags: tuple[str, ...] = ()) -> Document:
    return Document(key, version, tuple(_TEXTS[key].split()), _VECTORS[key], "m", 10.0, 0, 0.5, tags)


def _filled(store: StorePort) -> IndexPort | None:
    index = store.find_index()
    if index is not None:
        index.put(FACTS, [_document(key, tags=("x", "y") if "ttl" in key else ()) for key in _TEXTS])
    return index


def _has_vectors(index: IndexPort) -> bool:
    """Whether this index finds by meaning: a third party's index may work without numpy, ours does not."""
    return find_spec("numpy") is not None or bool(
        index.find_near(FACTS, _vector(1), "m", EVERYWHERE, limit=1)
    )


class IndexRules:
    """Every sentence of ``IndexPort``. A store without an index passes: its searches read everything."""

    def test_words_are_found_best_first(self, store: StorePort) -> None:
        """Any of the terms; a term that looks like an identifier as a whole.

        Nothing for terms that are nowhere.
        """
        if (index := _filled(store)) is None:
            return
        found = index.find_words(FACTS, Query(("coffee", "like", "user")), EVERYWHERE, limit=9)
        assert [match.key for match in found] == ["users/1\x1fcoffee", "users/12\x1ftea"]
        assert found[0].score > found[1].score > 0
        assert [m.key for m in index.find_words(FACTS, Query(("err_40.21",)), EVERYWHERE, limit=9)] == [
            "projects/a\x1fttl"
        ]
        assert index.find_words(FACTS, Query(("err_40",)), EVERYWHERE, limit=9) == []
        assert index.find_words(FACTS, Query(()), EVERYWHERE, limit=9) == []
        assert index.find_words(EVENTS, Query(("coffee",)), EVERYWHERE, limit=9) == []
        assert len(index.find_words(FACTS, Query(("the",)), EVERYWHERE, limit=2)) == 2

    def test_phrases_must_be_there(self, store: StorePort) -> None:
        """Word beside word, all of them; terms beside phrases only order what has them."""
        if (index := _filled(store)) is None:
            return
        phrase = ("green", "tea")
        assert [
            m.key for m in index.find_words(FACTS, Query(("coffee",), (phrase,)), EVERYWHERE, limit=9)
        ] == ["users/12\x1ftea"]
        assert index.find_words(FACTS, Query((), (phrase, ("sky",))), EVERYWHERE, limit=9) == []
        assert index.find_words(FACTS, Query((), (("tea", "green"),)), EVERYWHERE, limit=9) == []

    def test_what_is_searched_can_be_narrowed(self, store: StorePort) -> None:
        """By key prefixes and by tags, all of them; for words and for vectors."""
        if (index := _filled(store)) is None:
            return
        one = Within(("users/1\x1f", "users/1/"))
        the = Query(("the",))
        assert [m.key for m in index.find_words(FACTS, the, one, limit=9)] == ["users/1\x1fcoffee"]
        if _has_vectors(index):
            near = index.find_near(FACTS, _vector(90, 40), "m", one, limit=9)
            assert [m.key for m in near] == ["users/1\x1fcoffee"]
            tagged = index.find_near(FACTS, _vector(90, 40), "m", Within(tags=("x",)), limit=1)
            assert [m.key for m in tagged] == ["projects/a\x1fttl"]
        assert [m.key for m in index.find_words(FACTS, the, Within(tags=("x", "y")), limit=9)] == [
            "projects/a\x1fttl"
        ]
        assert index.find_words(FACTS, the, Within(tags=("x", "z")), limit=9) == []

    def test_vectors_are_found_nearest_first(self, store: StorePort) -> None:
        """By their cosine, of their own model; requested keys too; removed ones are not found."""
        if (index := _filled(store)) is None:
            return
        if not _has_vectors(index):
            return
        near = index.find_near(FACTS, _vector(90, 40), "m", EVERYWHERE, limit=2, also=["\x1fsky"])
        assert [m.key for m in near] == ["users/12\x1ftea", "users/1\x1fcoffee", "\x1fsky"]
        assert abs(near[0].score - 1.0) < 1e-3
        assert near[2].score < 0
        assert index.find_near(FACTS, _vector(90, 40), "other", EVERYWHERE, limit=2) == []
        index.drop(FACTS, "users/12\x1ftea")
        index.put(FACTS, [_document("users/12\x1ftea", "2")._replace(vector=_vector(0, 1))])
        again = index.find_near(FACTS, _vector(90, 40), "m", EVERYWHERE, limit=2)
        assert [(m.key, m.version) for m in again] == [("users/1\x1fcoffee", "1"), ("users/12\x1ftea", "2")]

    def test_versions_stand_beside_each_other_until_one_is_dropped(self, store: StorePort) -> None:
        """Put again, a version is there once; dropping leaves the one that is named."""
        if (index := _filled(store)) is None:
            return
        key = "users/1\x1fcoffee"
        index.put(FACTS, [_document(key), _document(key, "2")], synced=True)
        tea = Query(("coffee",))
        assert sorted(m.version for m in index.find_words(FACTS, tea, EVERYWHERE, limit=9)) == ["1", "2"]
        index.drop(FACTS, key, but="2")
        assert [m.version for m in index.find_words(FACTS, tea, EVERYWHERE, limit=9)] == ["2"]
        index.touch(FACTS, key, at=77.0, uses=3)
        (found,) = index.find_words(FACTS, tea, EVERYWHERE, limit=9)
        assert (found.at, found.uses, found.importance) == (77.0, 3, 0.5)
        index.drop(FACTS, key)
        assert index.find_words(FACTS, tea, EVERYWHERE, limit=9) == []
        assert index.count(FACTS) == index.count(FACTS, "m") == 3

    def test_notes_are_kept_with_documents(self, store: StorePort) -> None:
        """In one transaction; removed with their documents, and with their space."""
        if (index := _filled(store)) is None:
            return
        index.put(
            EVENTS, [_document("\x1fsky")._replace(key="r\x1f0001")], notes={"events:r": "4", "events:q": "1"}
        )
        index.put(FACTS, [], notes={"facts:whole": "yes"})
        assert index.get_notes("events:") == {"events:r": "4", "events:q": "1"}
        assert len(index.get_notes()) == 3
        index.drop_under(EVENTS, "r\x1f", notes=["events:r"])
        assert index.get_notes("events:") == {"events:q": "1"}
        assert index.count(EVENTS) == 0
        gone = [_document("\x1fsky")._replace(key=f"{run}\x1f0001") for run in ("s", "t", "u")]
        index.put(EVENTS, gone, notes={"events:s": "1", "events:t": "1", "events:u": "1"})
        index.drop_under(EVENTS, "s\x1f", "u\x1f", notes=["events:s", "events:u"])
        assert index.get_notes("events:") == {"events:q": "1", "events:t": "1"}
        assert index.count(EVENTS) == 1
        index.drop_under(EVENTS, "t\x1f", notes=["events:t"])
        index.clear(FACTS)
        assert (index.count(FACTS), index.get_notes()) == (0, {"events:q": "1"})
        assert index.find_words(FACTS, Query(("sky",)), EVERYWHERE, limit=9) == []

    def test_another_handle_sees_the_same(self, store: StorePort, other: StorePort) -> None:
        """What one process indexes, another finds.

        What one removes, the other no longer finds, though it was cached.
        """
        if (index := _filled(store)) is None or (beside := other.find_index()) is None:
            return
        assert len(beside.find_words(FACTS, Query(("the",)), EVERYWHERE, limit=9)) == 4
        near = beside.find_near(FACTS, _vector(100), "m", EVERYWHERE, limit=1)
        index.drop(FACTS, "users/1\x1fcoffee")
        again = beside.find_near(FACTS, _vector(100), "m", EVERYWHERE, limit=1)
        if _has_vectors(index):
            assert [m.key for m in near + again] == ["users/1\x1fcoffee", "users/12\x1ftea"]

    def test_thrown_away_it_is_made_anew(self, store: StorePort, other: StorePort) -> None:
        """Empty; other handles notice that it was replaced, and get the new one."""
        if (index := _filled(store)) is None or (beside := other.find_index()) is None:
            assert not store.drop_index()
            return
        assert beside.find_near(FACTS, _vector(100), "m", EVERYWHERE, limit=1) is not None
        assert index.is_in_place()
        index.check()
        assert store.drop_index()
        assert not beside.is_in_place()
        made, seen = store.find_index(), other.find_index()
        assert made is not None
        assert seen is not None
        assert (made.count(FACTS), seen.count(FACTS), made.get_notes()) == (0, 0, {})
        made.put(FACTS, [_document("\x1fsky")])
        assert [match.key for match in seen.find_words(FACTS, Query(("sky",)), EVERYWHERE, limit=9)] == [
            "\x1fsky"
        ]
        near = seen.find_near(FACTS, _vector(100), "m", EVERYWHERE, limit=9)
        if _has_vectors(made):
            assert [match.key for match in near] == ["\x1fsky"]
        assert made.is_in_place()
        assert store.drop_index()
        assert store.find_index(makes=False) is None
