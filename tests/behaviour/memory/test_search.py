"""Facts and history found by words and by meaning; repeats, changes and age; the index that can be dropped."""

from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.conftest import SetClock
from tests.support.context_check import verify
from tests.support.stores import over_shared_stores

import holdfast
from holdfast.core.context.context import context_of
from holdfast.engine.journal.blob_content import BoundedReader, read_blob
from holdfast.engine.journal.journal import read_all
from holdfast.engine.memory import facts as facts_
from holdfast.engine.memory.run_memory import _for_context
from holdfast.stores.port import StorePort
from holdfast.testing.relay_store import Relay

DAY_S = 86_400.0


@pytest.fixture
def store(shared_url: str) -> holdfast.Store:
    """A store that processes share."""
    return holdfast.store(shared_url)


def texts(found: list[holdfast.Recalled]) -> list[str]:
    """What was recalled, best first."""
    return [one.fact.text for one in found]


def search_file(path: Path) -> Path:
    """The index beside a store in a file."""
    return path.with_name(path.name + "-search")


@over_shared_stores
def test_a_fact_is_found_by_what_it_means(store: holdfast.Store) -> None:
    """Without a word in common; words in quotes must be there all the same, and what has nothing to do with it is not found."""
    memory = store.memory
    memory.remember("Her doctor told her to avoid peanuts")
    memory.remember("The database is backed up every night")
    memory.remember("Invoices are sent at the end of the month", scope="projects/a")
    assert texts(memory.recall("what food is the physician warning about?", k=1)) == [
        "Her doctor told her to avoid peanuts"
    ]
    assert texts(memory.recall('"backed up"')) == ["The database is backed up every night"]
    assert memory.recall('"backed down"') == []
    assert memory.recall("peanuts", scope="projects/a") == []
    assert memory.recall("zebra migration patterns of the savannah") == []


@over_shared_stores
def test_what_is_newer_supersedes_and_history_stays(store: holdfast.Store) -> None:
    """The value changed: two facts, of which the newer is found. Changed back, the older one is true again.

    Planted: with likeness alone, "TTL is 30" is taken for "TTL is 300".
    """
    memory = store.memory
    old = memory.remember("The cache TTL is 300 seconds", scope="projects/a")
    new = memory.remember("The cache TTL is 30 seconds", scope="projects/a")
    assert (new.supersedes, memory.get(old.id, scope="projects/a").superseded_by) == (old.id, new.id)
    assert texts(memory.recall("cache ttl")) == ["The cache TTL is 30 seconds"]
    assert [fact.id for fact in memory.history(new.id, scope="projects/a")] == [new.id, old.id]
    elsewhere = memory.remember("The cache TTL is 600 seconds", scope="projects/b")
    assert elsewhere.supersedes == ""
    again = memory.remember("The cache TTL is 300 seconds", scope="projects/a")
    assert (again.id, again.supersedes, again.superseded_by) == (old.id, new.id, "")
    assert texts(memory.recall("cache ttl", scope="projects/a")) == ["The cache TTL is 300 seconds"]
    assert memory.get(new.id, scope="projects/a").superseded_by == old.id


@over_shared_stores
def test_what_is_known_is_not_kept_twice(store: holdfast.Store) -> None:
    """Said otherwise, it is the fact that is known, with the tags of both; server 1 is not server 2."""
    memory = store.memory
    known = memory.remember("The deploy happens on Friday", tags=["ops"])
    again = memory.remember("On Friday the deploy happens.", tags=["calendar"], importance=0.9)
    assert (again.id, again.tags, again.importance) == (known.id, ("ops", "calendar"), 0.9)
    memory.remember("Server 1 has 8 GB of memory")
    memory.remember("Server 2 has 8 GB of memory")
    assert len(memory.list()) == 3


def test_what_was_not_of_use_for_long_counts_less(tmp_path: Path) -> None:
    """Of two that fit alike the fresh one comes first; recalled, the old one is fresh again; none is ever gone.

    A use counts once an hour. Planted: without the touch of the index, the order does not change.
    """
    store = holdfast.store(tmp_path / "s.db")
    clock = SetClock()
    store._session.clock = clock
    memory = store.memory
    memory.remember("The printer in room 12 needs magenta toner", key="old")
    clock.jump(400 * DAY_S)
    memory.remember("The printer in room 14 needs magenta toner", key="new")
    assert [one.fact.id for one in memory.recall("magenta toner")] == ["new", "old"]
    (only,) = memory.recall('"room 12"')
    assert (only.fact.recalls, only.fact.recalled_at) == (1, clock.at)
    clock.jump(200 * DAY_S)
    for _ in range(3):
        memory.recall('"room 12"')
    clock.jump(30 * DAY_S)
    assert memory.get("old").recalls == 2
    assert [one.fact.id for one in memory.recall("magenta toner")] == ["old", "new"]


def test_the_index_can_be_dropped(tmp_path: Path) -> None:
    """Deleted, damaged, or somebody else's file: it is made anew from the facts, which are the truth."""
    url = tmp_path / "s.db"
    store = holdfast.store(url)
    for number in range(300):
        store.memory.remember(f"Customer number {number} lives in street {number}", key=f"c{number}")
    for damage in (None, b"", b"no database" * 1000):
        store.close()
        search_file(url).unlink()
        for end in ("-wal", "-shm"):
            search_file(url).with_name(search_file(url).name + end).unlink(missing_ok=True)
        if damage is not None:
            search_file(url).write_bytes(damage)
        store = holdfast.store(url)
        assert [one.fact.id for one in store.memory.recall('"customer number 217"')] == ["c217"]


class Failing(Relay):
    """A store whose records cannot be written when it is told so."""

    is_failing = False

    def pass_on(self, verb: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.is_failing and verb.__name__ == "put_record":
            raise holdfast.StoreUnavailable(store="it", problem="was pulled")
        return super().pass_on(verb, *args, **kwargs)


def failing(port: StorePort) -> tuple[Failing, holdfast.Store]:
    """A store behind one that can fail."""
    relay = Failing(port)
    return relay, holdfast.Store(relay, lease_s=10)


def test_an_entry_that_leads_nowhere_is_dropped(tmp_path: Path) -> None:
    """Indexed and not written: not found, and gone from the index; changed and not written: found by what it says still.

    Planted: the record written first, a fact that was cut off is never found.
    """
    url = tmp_path / "s.db"
    relay, store = failing(holdfast.store(url)._port)
    store.memory.remember("The gate code is in the safe", key="gate")
    relay.is_failing = True
    with pytest.raises(holdfast.StoreUnavailable):
        store.memory.remember("The vault is open at noon")
    with pytest.raises(holdfast.StoreUnavailable):
        store.memory.edit("gate", text="The portcullis password is under the carpet")
    relay.is_failing = False
    index = store._port.find_index()
    assert index is not None
    assert index.count("facts") == 3
    assert store.memory.recall("vault at noon") == []
    assert texts(store.memory.recall("portcullis password carpet")) in ([], ["The gate code is in the safe"])
    assert texts(store.memory.recall("gate code")) == ["The gate code is in the safe"]
    assert index.count("facts") == 1


def test_without_vectors_words_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By words alone; when an embedder is there for the first time, what is known gets its vectors."""
    url = tmp_path / "s.db"
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "none")
    store = holdfast.store(url)
    store.memory.remember("Her doctor told her to avoid peanuts")
    store.memory.remember("The TTL is 300")
    store.memory.remember("The TTL is 30")
    assert texts(store.memory.recall("the doctors")) == ["Her doctor told her to avoid peanuts"]
    assert texts(store.memory.recall("physician food warning")) == []
    assert texts(store.memory.recall("ttl")) == ["The TTL is 30"]
    assert store.memory.embedder_name == ""
    store.close()
    monkeypatch.delenv("HOLDFAST_EMBEDDER")
    store = holdfast.store(url)
    assert texts(store.memory.recall("physician food warning")) == ["Her doctor told her to avoid peanuts"]
    assert store.memory.embedder_name.startswith("holdfast")


def test_another_embedder_is_used_when_it_is_told(tmp_path: Path) -> None:
    """Vectors of another model are not compared; embedded again, everything is found by the new one."""

    class Letters:
        model = "letters"
        dimensions = 26

        def embed(self, given: Any) -> list[list[float]]:
            return [[float(text.lower().count(chr(97 + at))) for at in range(26)] for text in given]

    store = holdfast.store(tmp_path / "s.db")
    store.memory.remember("zzz zzz zzy")
    store.memory.use(Letters())
    assert store.memory.recall("zyz") == []
    assert store.memory.embed_again() == 1
    assert texts(store.memory.recall("zyz")) == ["zzz zzz zzy"]


@over_shared_stores
def test_history_is_found_by_meaning_and_followed(store: holdfast.Store) -> None:
    """What is recorded later is found later; what is erased or pruned is not, and nor is what a recall only repeated."""
    with holdfast.run("trip", goal="Plan the journey", store=store.url) as run:
        run.think("the physician warned her about peanuts")
    assert [(hit.run, hit.name) for hit in store.search("doctor and food allergies", k=1)] == [
        ("trip", "thought")
    ]
    store.memory.remember("Peanuts are legumes")
    with holdfast.run("later", store=store.url) as run:
        run.recall("peanuts")
        run.discover("the train leaves at nine")
    assert [hit.run for hit in store.search("train at nine")] == ["later"]
    assert {hit.run for hit in store.search("peanuts")} == {"trip"}
    store.erase("trip")
    assert store.search("peanuts") == []


def test_nothing_of_an_erased_run_is_left_in_the_index(tmp_path: Path) -> None:
    """Not a word of it in any file."""
    url = tmp_path / "s.db"
    store = holdfast.store(url)
    with holdfast.run("secret", store=url) as run:
        run.think("the password is swordfishes")
    assert len(store.search("swordfishes")) == 1
    assert any(b"swordfish" in file.read_bytes() for file in tmp_path.iterdir())
    store.erase("secret")
    assert not [file.name for file in tmp_path.iterdir() if b"swordfish" in file.read_bytes()]


def test_a_fork_and_a_run_under_an_old_name_are_indexed_anew(tmp_path: Path) -> None:
    """By the birth of the run and its revision, not by its name."""
    url = tmp_path / "s.db"
    store = holdfast.store(url)
    with holdfast.run("a", store=url) as run:
        run.think("apples")
    assert len(store.search("apples")) == 1
    store.erase("a")
    with holdfast.run("a", store=url) as run:
        run.think("oranges")
    assert [hit.text for hit in store.search("apples")] == []
    assert len(store.search("oranges")) == 1
    store.fork("a", as_="b")
    assert [hit.run for hit in store.search("oranges")] == ["a"]


# -- in the context of a run --------------------------------------------------------------------------------------


def test_the_context_has_what_other_runs_left(tmp_path: Path) -> None:
    """Marked as recalled, with its run and its age, each line borne out by the journal; the same in a replay; not other users' facts.

    Planted: recalled without bounds, user 7's fact is told to whoever plans for user 42.
    """
    url = tmp_path / "s.db"
    store = holdfast.store(url)
    with holdfast.run("first", store=url) as run:
        run.remember("The venue in Lisbon has no wheelchair access")
        run.remember("User 42 travels with a wheelchair to Lisbon", scope="users/42")
        run.remember("User 7 is afraid of flying to Lisbon", scope="users/7")

    def attempt() -> str:
        with holdfast.run("second", goal="Plan a conference in Lisbon", store=url) as run:
            run.remember("Lisbon conference dinner is at nine")
            told: str = run.context(scopes=["users/42"])
            if run.attempt == 1:
                raise KeyError(told)
        return told

    with pytest.raises(KeyError) as caught:
        attempt()
    told = caught.value.args[0]
    section = told.split("## Recalled from memory")[1].split("##")[0]
    assert '"The venue in Lisbon has no wheelchair access", known for' in section
    assert 'from run "first"' in section
    assert "User 42" in section
    assert "User 7" not in told
    assert "dinner" not in section
    store.memory.remember("Lisbon is closed for repairs")
    assert attempt() == told
    port = store._port
    events = read_all(port, "second")
    context = context_of(events, BoundedReader(port))
    assert verify(context, events, lambda address: read_blob(port, address)) == []


def test_its_own_facts_do_not_crowd_out_those_of_others(tmp_path: Path) -> None:
    """A run that has kept many facts of its own is told what others left, all the same: by a query, and without one."""
    url = tmp_path / "s.db"
    with holdfast.run("first", store=url) as run:
        run.remember("The venue in Lisbon has no wheelchair access")
    with holdfast.run("second", goal="Plan a conference in Lisbon", store=url) as run:
        for what in ("dinner", "badges", "posters", "trams", "hotels", "speakers", "coffee", "projectors"):
            run.remember(f"Plan a conference in Lisbon: {what}", key=what)
        told = run.context()
        assert "no wheelchair access" in told.split("## Recalled from memory")[1]
        assert [one.fact.run for one in _for_context(run._held, "", [])] == ["first"]


def test_a_run_leaves_its_discoveries_behind(tmp_path: Path) -> None:
    """With the run and the event; recalled text is not kept again as new; and the facts stay when the run goes."""
    url = tmp_path / "s.db"
    store = holdfast.store(url)
    store.memory.remember("The API allows 60 requests a minute")
    with holdfast.run("probe", goal="Find the limits", store=url) as run:
        (known,) = run.recall("api requests")
        run.discover(known.fact.text)
        run.discover("The upload endpoint takes 20 MB at most")
        run.finish({"limits": 2}, remember=True)
    kept = {fact.text: fact for fact in store.memory.list()}
    assert len(kept) == 3
    upload = kept["The upload endpoint takes 20 MB at most"]
    event = next(e for e in store.events("probe") if e.seq == upload.event)
    assert (event.name, upload.tags, upload.run) == ("discovery", ("discovery",), "probe")
    assert kept["The API allows 60 requests a minute"].run == ""
    outcome = kept['Find the limits: {"limits":2}']
    assert outcome.tags == ("outcome",)
    store.erase("probe")
    assert len(store.memory.list()) == 3
    with holdfast.run("other", store=url) as run:
        run.finish(None, remember=["The moon is full"], scope="sky")
    assert store.memory.list(scope="sky")[0].run == "other"
    with holdfast.run("wrong", store=url) as run, pytest.raises(holdfast.Misuse, match="no text"):
        run.finish(None, remember=[3])  # type: ignore[list-item]


# -- as a file ----------------------------------------------------------------------------------------------------


def test_facts_travel_as_a_file(tmp_path: Path) -> None:
    """With all they have; of two that are one fact the newer stays; a file that is none changes nothing."""
    here, there = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    here.memory.remember("The sky is blue", tags=["x"], value={"hue": 210}, importance=0.9)
    here.memory.remember("The cache TTL is 300")
    here.memory.remember("The cache TTL is 30")
    lines = [*here.memory.export()]
    assert there.memory.import_(lines) == (3, 0, 0)
    assert there.memory.list() == here.memory.list()
    assert texts(there.memory.recall("ttl")) == ["The cache TTL is 30"]
    (sky,) = there.memory.list(tags=["x"])
    here.memory.edit(sky.id, text="The sky is grey")
    assert there.memory.import_(here.memory.export()) == (0, 1, 2)
    assert texts(there.memory.recall("sky")) == ["The sky is grey"]
    before = there.memory.list()
    for bad in (
        [],
        [b"{}"],
        [lines[0], b'{"id": "x"}'],
        [lines[0], b"nonsense"],
        [b'{"holdfast_facts": 99}'],
    ):
        with pytest.raises(holdfast.HoldfastError, match="the file"):
            there.memory.import_(bad)
    assert there.memory.list() == before


def test_the_key_of_a_fact_is_its_scope_and_its_id() -> None:
    """So that a scope is a range of keys, and no scope holds another that only begins like it."""
    bounds = facts_.within("users/4")
    keys = [facts_.key_of("x", scope) for scope in ("users/4", "users/4/a", "users/42", "")]
    assert [key.startswith(bounds.prefixes) for key in keys] == [True, True, False, False]


def test_what_is_pruned_is_not_found(tmp_path: Path) -> None:
    """Neither of a run whose thoughts went, nor of one that went as a whole; what is kept of it still is.

    Planted: an index that is not told is caught by the look into the journal; one that is not dropped, by its count.
    """
    url = tmp_path / "s.db"
    store = holdfast.store(url)
    with holdfast.run("r", store=url) as run:
        for number in range(30):
            run.think(f"zebra number {number}")
            run.checkpoint({"at": number})
        run.step("survey", str.upper, "the giraffe")
    assert len(store.search("zebra", k=50)) == 30
    index = store._port.find_index()
    assert index is not None
    before = index.count("events")
    store.prune("r", policy=holdfast.Retention(reasoning=holdfast.Keep(last=0)))
    assert index.count("events") < before
    assert store.search("zebra", k=50) == []
    assert {hit.name for hit in store.search("giraffe")} == {"survey"}
    store.prune(policy=holdfast.Retention(finished=holdfast.Keep(last=0)))
    assert (store.search("giraffe"), index.count("events")) == ([], 0)
