"""What a PostgreSQL store is found by, beyond the contract: with pgvector and without, beside SQLite's index, and by whom it is made."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql as composing
from tests.support.postgres.server import PASSWORD, ask
from tests.support.postgres.sharing import new_schema

import holdfast
from holdfast.errors import HandleClosed
from holdfast.model.search import EVENTS, EVERYWHERE, FACTS, Document, Match, Query, Within
from holdfast.stores.port import IndexPort, StorePort
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.search import create, tsvector, vectors
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.url import place_of
from holdfast.testing.store_rules.index import IndexRules

Opener = Callable[[], PostgresStore]


@pytest.fixture
def opened(postgres_url: str) -> Iterator[Opener]:
    """Makes handles on one store, and closes them."""
    made: list[PostgresStore] = []

    def one() -> PostgresStore:
        place = place_of(postgres_url)
        made.append(PostgresStore(place.name, place.password))
        return made[-1]

    yield one
    for store in made:
        store.close()


@pytest.fixture(params=["with pgvector", "without"])
def index(request: pytest.FixtureRequest, opened: Opener, monkeypatch: pytest.MonkeyPatch) -> IndexPort:
    if request.param == "without":
        monkeypatch.setattr(create, "EXTENSION", "of_nobody")
    return index_of(opened())


def index_of(store: StorePort) -> IndexPort:
    index = store.find_index()
    assert index is not None
    return index


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]


def document(key: str, text: str, vector: bytes = b"") -> Document:
    return Document(key, "1", tuple(text.split()), vector, "m" if vector else "")


def keys(matches: list[Match]) -> list[str]:
    return [match.key for match in matches]


class TestIndexWithoutPgvector(IndexRules):
    """The contract where vectors are bytes, compared in this process."""

    @pytest.fixture(autouse=True)
    def _absent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(create, "EXTENSION", "of_nobody")

    @pytest.fixture
    def store(self, opened: Opener) -> PostgresStore:
        return opened()

    @pytest.fixture
    def other(self, opened: Opener) -> PostgresStore:
        return opened()


def test_vectors_are_the_servers_where_it_can_have_them(
    postgres_url: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its catalogue: half precision with pgvector, bytes without; and whoever comes later takes what is there."""
    found = "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attname = 'vector' AND attrelid = %s::regclass"
    table = f"{schema_of(postgres_url)}.search_vectors"
    index_of(opened())
    assert ask(postgres_url.partition("?")[0], found, table) == [("halfvec",)]
    monkeypatch.setattr(create, "EXTENSION", "of_nobody")
    assert isinstance(opened().find_index()._vectors, vectors.InServer)  # type: ignore[union-attr]
    ask(postgres_url.partition("?")[0], f"DROP TABLE {table}, {schema_of(postgres_url)}.search_meta")
    assert isinstance(opened().find_index()._vectors, vectors.InProcess)  # type: ignore[union-attr]
    assert ask(postgres_url.partition("?")[0], found, table) == [("bytea",)]


# -- words ----------------------------------------------------------------------------------------------------

_ODD = (
    "o'neil",
    "c:\\temp\\x",
    "''",
    "\\",
    "a&b|!c",
    "größe",
    "日本",
    "🙂",
    "x:*",
    "<->",
    "(",
    "nul\0",
    "nul\1" + "0",
    "%s",
    "{}",
)


def test_any_term_is_a_word_by_itself(opened: Opener) -> None:
    """Quotes, backslashes, operators, other scripts, even a NUL: each finds its own document and no other.

    Planted: without doubling backslashes, ``c:\\temp\\x`` was not found.
    """
    index = index_of(opened())
    index.put(FACTS, [Document(str(place), "1", ("same", term)) for place, term in enumerate(_ODD)])
    for place, term in enumerate(_ODD):
        assert keys(index.find_words(FACTS, Query((term,)), EVERYWHERE, limit=99)) == [str(place)], term
        both = Query((), (("same", term),))
        assert keys(index.find_words(FACTS, both, EVERYWHERE, limit=99)) == [str(place)], term
    assert len(index.find_words(FACTS, Query(("same",)), EVERYWHERE, limit=99)) == len(_ODD)


def test_a_term_longer_than_a_lexeme_is_told_from_others(opened: Opener) -> None:
    """Two terms that begin alike and are too long for PostgreSQL to keep."""
    index = index_of(opened())
    one, two = "é" * 3000 + "1", "é" * 3000 + "2"
    index.put(FACTS, [Document("one", "1", (one,)), Document("two", "1", (two, ""))])
    assert keys(index.find_words(FACTS, Query((two,)), EVERYWHERE, limit=9)) == ["two"]
    assert index.find_words(FACTS, Query(("é" * 3000,)), EVERYWHERE, limit=9) == []


def test_a_phrase_with_a_word_twice(opened: Opener) -> None:
    """Is there where the words stand like that, as often as they do."""
    index = index_of(opened())
    index.put(
        FACTS,
        [
            document("once", "that is what it is x x x x"),
            document("twice", "no no no is said here and"),
            document("apart", "no is no said here and there"),
        ],
    )
    assert keys(index.find_words(FACTS, Query((), (("no", "no"),)), EVERYWHERE, limit=9)) == ["twice"]
    assert keys(index.find_words(FACTS, Query((), (("no", "no", "no"),)), EVERYWHERE, limit=9)) == ["twice"]
    assert index.find_words(FACTS, Query((), (("no", "no", "no", "no"),)), EVERYWHERE, limit=9) == []
    assert keys(index.find_words(FACTS, Query((), (("is", "what", "it", "is"),)), EVERYWHERE, limit=9)) == [
        "once"
    ]


def test_a_document_longer_than_a_tsvector_counts(opened: Opener) -> None:
    """All its words and phrases are found, also those across and behind the last place that there is; and one of more words than
    fit is kept as far as it goes.

    Planted: with places as they are, or without a second place for the first one of a round, phrases were not found.
    """
    index = index_of(opened())
    early = [f"w{place}" for place in range(16_380)]
    late = [f"v{place}" for place in range(2_000)]
    index.put(FACTS, [Document("long", "1", (*early, "a", "b", "c", "d", *late, "last"))])
    for term in ("w0", "w16379", "b", "v1999", "last"):
        assert keys(index.find_words(FACTS, Query((term,)), EVERYWHERE, limit=9)) == ["long"], term
    for phrase in ("w7 w8 w9", "w16379 a b", "b c", "c d v0", "v1998 v1999 last"):
        query = Query((), (tuple(phrase.split()),))
        assert keys(index.find_words(FACTS, query, EVERYWHERE, limit=9)) == ["long"], phrase
    assert index.find_words(FACTS, Query((), (("v0", "v2"),)), EVERYWHERE, limit=9) == []
    index.put(FACTS, [Document("huge", "1", tuple(f"{place:0200}" for place in range(10_000)))])
    assert keys(index.find_words(FACTS, Query((f"{7:0200}",)), EVERYWHERE, limit=9)) == ["huge"]


def test_a_phrase_with_a_word_that_is_there_often(opened: Opener) -> None:
    """As in a long table: the 700th place of a word is a place, though a tsvector keeps 255.

    Planted: with the first 255 alone, "id 600" was not found.
    """
    index = index_of(opened())
    table = " ".join(f"id {number} ok" for number in range(700))
    index.put(FACTS, [document("table", table), document("other", "id ok")])
    for phrase in ("id 3", "id 600", "599 ok id 600 ok"):
        query = Query((), (tuple(phrase.split()),))
        assert keys(index.find_words(FACTS, query, EVERYWHERE, limit=9)) == ["table"], phrase
    assert index.find_words(FACTS, Query((), (("id", "700"),)), EVERYWHERE, limit=9) == []
    both = index.find_words(FACTS, Query(("id",)), EVERYWHERE, limit=9)
    assert sorted(keys(both)) == ["other", "table"]


def test_how_often_a_word_is_there_is_counted(opened: Opener, postgres_url: str) -> None:
    """By the rank that the server gives, for every count that a tsvector can tell."""
    index_of(opened())
    (counts,) = zip(
        *ask(
            postgres_url.partition("?")[0],
            f"SELECT {schema_of(postgres_url)}.search_times(w::tsvector, 'a') FROM unnest(%s::text[]) WITH ORDINALITY AS o (w, n) "
            "ORDER BY n",
            [tsvector.vector_of(["a"] * times) for times in range(300)],
        ),
        strict=True,
    )
    assert list(counts) == [min(times, 255) for times in range(300)]


def test_what_many_have_is_counted_again_once_it_changed(opened: Opener) -> None:
    """A count is about true until a hundredth of it came or went, by whomever; then scores are those of a fresh handle.

    Planted: with a count kept for good, the scores stayed.
    """
    index, other = index_of(opened()), index_of(opened())
    common = Query(("common",))
    other.put(FACTS, [document(str(place), "common" if place < 300 else "else") for place in range(1000)])
    before = index.find_words(FACTS, common, EVERYWHERE, limit=1)
    other.put(FACTS, [document("another", "common")])
    assert index.find_words(FACTS, common, EVERYWHERE, limit=1)[0].score == pytest.approx(
        before[0].score, rel=0.01
    )
    for _ in range(2):
        other.drop_under(FACTS, "1")
        (told,) = index.find_words(FACTS, common, EVERYWHERE, limit=1)
        assert [told] == index_of(opened()).find_words(FACTS, common, EVERYWHERE, limit=1)
        other.clear(FACTS)
        assert index.find_words(FACTS, common, EVERYWHERE, limit=1) == []
        other.put(FACTS, [document(str(place), "common" if place < 150 else "else") for place in range(1000)])


# -- beside SQLite --------------------------------------------------------------------------------------------


def _corpus(size: int) -> list[Document]:
    """Documents of words as common as words are, with vectors; always the same."""
    chance = random.Random(7)
    vocabulary = [f"w{number}" for number in range(300)]
    weights = [1 / (number + 2) for number in range(300)]
    return [
        Document(
            f"users/{place % 7}\x1f{place:04}",
            "1",
            tuple(chance.choices(vocabulary, weights, k=chance.randint(3, 60))),
            bytes(chance.randrange(256) for _ in range(32)),
            "m",
            float(place),
            place,
            0.5,
            ("odd",) if place % 2 else (),
        )
        for place in range(size)
    ]


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[IndexPort]:
    """SQLite's index."""
    store = SqliteStore(tmp_path / "store.db")
    yield index_of(store)
    store.close()


def _same(ours: list[Match], theirs: list[Match]) -> None:
    """In the same order with the same scores; alike ones in any order."""
    assert [round(match.score, 4) for match in ours] == [round(match.score, 4) for match in theirs]
    last = theirs[-1].score if theirs else 0.0
    kept = [
        sorted(
            (round(match.score, 4), match._replace(score=0.0)) for match in found if match.score > last + 1e-4
        )
        for found in (ours, theirs)
    ]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("first", [1, None])
def test_words_rank_as_in_sqlite(
    opened: Opener, beside: IndexPort, monkeypatch: pytest.MonkeyPatch, first: int | None
) -> None:
    """400 documents, 60 queries of rare and common terms, phrases, bounds: the order and the scores of FTS5.

    Whether a query begins with its rarest part or with what it thinks best. Planted: without the second look, and with a ceiling of half of what a word can
    add, orders differed; a first phrase that counts once gave other scores.
    """
    if first is not None:
        monkeypatch.setattr(tsvector, "first_few", lambda _parts, _limit: first)
    corpus, chance = _corpus(400), random.Random(8)
    index = index_of(opened())
    for one in (index, beside):
        one.put(FACTS, corpus[:200])
        one.put(FACTS, corpus[100:])
        one.drop(FACTS, corpus[3].key)
    for number in range(60):
        asked = [f"w{int(300 * chance.random() ** 3)}" for _ in range(chance.randint(1, 8))]
        line = chance.choice(corpus).terms
        phrases = tuple(line[at : at + 2] for at in range(0, number % 3, 2))
        query = Query(tuple(asked), phrases)
        for within in (EVERYWHERE, Within(("users/1\x1f", "users/3\x1f")), Within(tags=("odd",))):
            _same(
                index.find_words(FACTS, query, within, limit=20),
                beside.find_words(FACTS, query, within, limit=20),
            )


def test_vectors_rank_as_in_sqlite(index: IndexPort, beside: IndexPort) -> None:
    """By cosine, with bounds and with keys beside; a vector of nothing stands at a right angle to everything."""
    corpus = _corpus(300)
    corpus[5] = corpus[5]._replace(vector=bytes(32))
    for one in (index, beside):
        one.put(FACTS, corpus)
        one.put(EVENTS, corpus[:50])
    for asked in (corpus[9].vector, corpus[100].vector, bytes(31) + b"\x05"):
        for within in (EVERYWHERE, Within(("users/1\x1f",)), Within(tags=("odd",))):
            for limit in (10, 400):
                also = [corpus[5].key, corpus[8].key, "nowhere"]
                ours = index.find_near(FACTS, asked, "m", within, limit=limit, also=also)
                _same(ours, beside.find_near(FACTS, asked, "m", within, limit=limit, also=also))
                assert {corpus[5].key, corpus[8].key} <= set(keys(ours))


def test_only_vectors_of_one_size_are_compared(index: IndexPort) -> None:
    """A model that gives other dimensions than it did: what was made before is not near, and nothing fails."""
    index.put(FACTS, [document("short", "x", b"\x01\x02"), document("long", "x", b"\x01\x02\x03")])
    assert keys(index.find_near(FACTS, b"\x01\x02\x03", "m", EVERYWHERE, limit=9, also=["short"])) == ["long"]
    assert index.count(FACTS, "m") == 2


def test_only_the_newest_vectors_are_compared(index: IndexPort, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a bound; older ones are found by their words."""
    monkeypatch.setattr(vectors, "VECTORS_MAX", 3)
    index.put(FACTS, [document(str(place), "x", bytes([1, place])) for place in range(5)])
    assert sorted(keys(index.find_near(FACTS, b"\x01\x00", "m", EVERYWHERE, limit=9))) == ["2", "3", "4"]
    assert len(index.find_words(FACTS, Query(("x",)), EVERYWHERE, limit=9)) == 5


def test_a_vector_is_numbered_when_nobody_before_it_can_come_late(opened: Opener, postgres_url: str) -> None:
    """While another puts, a vector waits for its number: whoever has read up to a number has not missed a lower one.

    Planted: with vectors kept before the counts, it had one.
    """
    index = index_of(opened())
    index.put(FACTS, [document("first", "x", b"\x01")])
    server, schema = postgres_url.partition("?")[0], schema_of(postgres_url)
    last = f"SELECT last_value FROM {schema}.search_numbers"
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND %s = ANY(pg_blocking_pids(pid))"
    with psycopg.connect(server) as before:
        before.execute(f"SELECT FROM {schema}.search_counts WHERE model = 'm' FOR UPDATE")
        putting = threading.Thread(target=index.put, args=(FACTS, [document("second", "x", b"\x02")]))
        putting.start()
        deadline = time.monotonic() + 60.0
        while ask(server, waits, before.info.backend_pid) == [(0,)]:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert ask(server, last) == [(1,)]
    putting.join()
    assert ask(server, last) == [(2,)]


# -- who makes it, and who may --------------------------------------------------------------------------------

_INDEX = """
import sys
from holdfast.model.search import FACTS, Document
from holdfast.stores.url import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
index = store.find_index()
documents = [Document(f"k{n}", "1", ("word", f"w{n}"), b"\\x01\\x02", "m") for n in range(20)]
for number in range(5):
    index.put(FACTS, documents[::-1] if number % 2 else documents, notes={"b": "1", "a": "2"})
store.close()
"""


def test_processes_make_it_at_once(postgres_url: str, opened: Opener) -> None:
    """Four that begin together, and put the same documents in opposite orders: one index, each document once, counted once."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _INDEX, postgres_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0
    index = index_of(opened())
    assert (index.count(FACTS), index.count(FACTS, "m")) == (20, 20)
    assert len(index.find_words(FACTS, Query(("word",)), EVERYWHERE, limit=99)) == 20
    assert len(index.find_near(FACTS, b"\x01\x02", "m", EVERYWHERE, limit=99)) == 20
    assert index.get_notes() == {"a": "2", "b": "1"}


def test_counts_are_true_after_writers_crossed(index: IndexPort, postgres_url: str) -> None:
    """Threads that put, drop and clear at once leave counts that are those of the tables.

    Planted: with the counts of a space simply deleted by ``clear``, they were off.
    """
    chance = random.Random(3)
    corpus = _corpus(60)

    def work(seed: int) -> None:
        mine = random.Random(seed)
        for _ in range(12):
            some = mine.sample(corpus, 15)
            index.put(FACTS, some, notes={f"facts:{seed}": "1"})
            index.drop(FACTS, mine.choice(corpus).key)
            index.touch(FACTS, mine.choice(corpus).key, at=1.0, uses=1)
            if mine.random() < 0.4:
                index.drop_under(FACTS, f"users/{mine.randrange(7)}\x1f")
            if mine.random() < 0.2:
                index.clear(FACTS)

    threads = [threading.Thread(target=work, args=(chance.randrange(99),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    schema = schema_of(postgres_url)
    true = ask(
        postgres_url.partition("?")[0],
        f"SELECT count(*), coalesce(sum(length), 0)::bigint, (SELECT count(*) FROM {schema}.search_vectors) "
        f"FROM {schema}.search_documents",
    )
    told = ask(
        postgres_url.partition("?")[0],
        f"SELECT sum(documents)::bigint, sum(terms)::bigint, sum(documents)::bigint FROM {schema}.search_counts",
    )
    assert true == told
    assert len(index.find_near(FACTS, corpus[0].vector, "m", EVERYWHERE, limit=99)) == true[0][2]


def test_who_may_not_make_tables_has_no_index(postgres_url: str, opened: Opener) -> None:
    """A role that may use the store and no more is told None, and gets what an administrator makes later with its next handle."""
    assert opened().find_index(makes=False) is None
    server, schema, role = postgres_url.partition("?")[0], schema_of(postgres_url), f"r_{new_schema()}"
    ask(server, f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    try:
        ask(server, f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        ask(server, f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}")
        place = place_of(postgres_url.replace("holdfast:", f"{role}:"))
        store = PostgresStore(place.name, place.password)
        assert store.find_index() is None
        assert store.find_index() is None
        assert store.list_runs(limit=1) == []
        store.close()
        index_of(opened()).put(FACTS, [document("k", "word")])
        ask(server, f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}")
        ask(server, f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")
        store = PostgresStore(place.name, place.password)
        assert keys(index_of(store).find_words(FACTS, Query(("word",)), EVERYWHERE, limit=9)) == ["k"]
        index_of(store).put(FACTS, [document("l", "word", b"\x01")])
        store.close()
    finally:
        ask(server, f"DROP OWNED BY {role}")
        ask(server, f"DROP ROLE {role}")


def test_an_older_or_broken_one_is_made_anew_and_a_newer_one_left(
    postgres_url: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is derived. The store's own tables stay as they are."""
    server, schema = postgres_url.partition("?")[0], schema_of(postgres_url)
    index_of(opened()).put(FACTS, [document("k", "word")])
    ask(server, f"ALTER TABLE {schema}.search_vectors DROP COLUMN vector")  # as DROP EXTENSION … CASCADE does
    assert index_of(opened()).count(FACTS) == 0
    index_of(opened()).put(FACTS, [document("k", "word")])
    ask(server, f"UPDATE {schema}.search_meta SET format = 2")
    assert opened().find_index() is None
    monkeypatch.setattr(create, "FORMAT_VERSION", 3)
    assert index_of(opened()).count(FACTS) == 0
    assert opened().create_run is not None
    assert ask(server, f"SELECT format FROM {schema}.meta") == [(2,)]


def test_nothing_of_what_was_dropped_is_left(opened: Opener, postgres_url: str) -> None:
    """Not in tables or their indexes after a thorough reclaim, read as bytes; and not in the server's statistics at any time.

    Found so: told to the parent before its parts were made, "no statistics" held for none of them. Planted: a reclaim that leaves
    these tables out.
    """
    server, schema = postgres_url.partition("?")[0], schema_of(postgres_url)
    store = opened()
    index = index_of(store)
    kept = [document(f"keep\x1f{n}", f"plainword w{n}", b"\x01\x02") for n in range(200)]
    gone = [
        Document(
            f"hush\x1fsecretkey{n}", "secretversion", ("secretword",), b"\x01\x02", "m", tags=("secrettag",)
        )
        for n in range(200)
    ]
    index.put(FACTS, [*kept, *gone], notes={"facts:secretnote": "secretvalue"})
    for table in ("facts", "facts_vectors", "notes", "counts"):
        ask(server, f"ANALYZE {schema}.search_{table}")
    samples = composing.SQL("SELECT s::text FROM pg_stats s WHERE schemaname = {}").format(schema)
    assert "secret" not in str(ask(server, samples.as_string()))
    index.drop_under(FACTS, "hush\x1f", notes=["facts:secretnote"])
    store.sync()

    def files() -> list[tuple[str, bytes]]:
        store.reclaim(thoroughly=True)
        ask(server, "CHECKPOINT")  # what is read are files
        found = ask(
            server,
            "SELECT c.oid::regclass::text, pg_read_binary_file(pg_relation_filepath(c.oid)) FROM pg_class c "
            "WHERE c.relnamespace = %s::regnamespace AND c.relname LIKE 'search%%' "
            "AND pg_relation_filepath(c.oid) IS NOT NULL",
            schema,
        )
        return [(name, bytes(data)) for name, data in found]

    # A transaction of another test on this server, begun before the drop, keeps dead rows for as long as it is open.
    deadline = time.monotonic() + 60
    relations = files()
    while any(b"secret" in data for _, data in relations) and time.monotonic() < deadline:
        time.sleep(0.05)
        relations = files()
    assert any(b"plainword" in data for _, data in relations)
    assert [name for name, data in relations if b"secret" in data] == []
    assert index.count(FACTS) == 200


def test_it_closes_with_its_store(opened: Opener) -> None:
    """And has connections of its own until then, beside the store's."""
    store = opened()
    index = index_of(store)
    store.close()
    with pytest.raises(HandleClosed):
        index.count(FACTS)
    with pytest.raises(HandleClosed):
        store.find_index()


BREAKS = {
    "no documents": "DROP TABLE search_documents CASCADE",
    "no notes": "DROP TABLE search_notes CASCADE",
    "no counts": "DROP TABLE search_counts CASCADE",
    "no vectors": "DROP TABLE search_vectors CASCADE",
    "no meta": "DROP TABLE search_meta CASCADE",
    "another shape": "ALTER TABLE search_documents DROP COLUMN words CASCADE",
    "no function": "DROP FUNCTION search_times(tsvector, tsquery) CASCADE",
    "nothing at all": "DROP TABLE search_documents, search_vectors, search_counts, search_notes, search_meta CASCADE",
}


@pytest.mark.parametrize("is_open", [True, False], ids=["while it is open", "before it is opened"])
@pytest.mark.parametrize("broken", BREAKS)
def test_no_verb_fails_when_tables_are_gone_or_of_another_shape(
    postgres_url: str, broken: str, caplog: pytest.LogCaptureFixture, *, is_open: bool
) -> None:
    """Facts and events are found all the same, the index is made anew, and another process's is the same."""
    url, _, schema = postgres_url.rpartition("?schema=") if "?schema=" in postgres_url else ("", "", "")
    if not schema:
        url, _, schema = postgres_url.rpartition("&schema=")

    def is_found(text: str, query: str) -> bool:
        return text in [one.fact.text for one in store.memory.recall(query)]

    with holdfast.run("sea", store=postgres_url) as run:
        run.discover("the harbour is old")
    store = holdfast.store(postgres_url)
    store.memory.remember("The harbour opens at nine")
    assert store.search("harbour")
    if not is_open:
        store.close()
        store = holdfast.store(postgres_url)
    ask(url, f'SET search_path = "{schema}"; {BREAKS[broken]}')
    store.memory.remember("Gulls follow the ferry")
    assert is_found("Gulls follow the ferry", "gulls")
    assert is_found("The harbour opens at nine", "harbour")
    assert "sea" in {hit.run for hit in store.search("harbour old")}
    found = store.examine_index()
    assert found is not None
    assert found.verdict == "ok", found
    if is_open and broken not in {
        "no meta",
        "nothing at all",
    }:  # an index that is gone is made, and that is no damage
        assert "SQLSTATE 42" in caplog.text
    store.close()
