"""Facts that outlive their runs: kept, found, replaced and let go, on every store; in a run, once."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.stores import over_shared_stores

import holdfast
from holdfast.engine.memory import run_memory


@pytest.fixture
def memory(shared_url: str) -> "holdfast.Store":
    """A store that processes share."""
    return holdfast.store(shared_url)


@over_shared_stores
def test_a_fact_is_kept_found_and_let_go(memory: holdfast.Store) -> None:
    """By its words, by its scope and those above it, by its tags; forgotten, it is gone."""
    facts = memory.memory
    ttl = facts.remember("The cache TTL is 300 seconds", tags=["cache"], scope="projects/alpha")
    facts.remember("The user likes her coffee black", scope="users/42")
    facts.remember("Deploys happen on Tuesdays", value={"day": "Tuesday", "window": [9, 11]})
    assert [one.fact.text for one in facts.recall("how long is the cache ttl?")] == [ttl.text]
    assert facts.recall("coffee", scope="projects") == []
    assert [one.fact.scope for one in facts.recall("coffee", scope="users")] == ["users/42"]
    assert facts.list(scope="users/4") == []
    assert [fact.id for fact in facts.list(tags=["cache"])] == [ttl.id]
    assert facts.recall("tuesday window")[0].fact.value == {"day": "Tuesday", "window": [9, 11]}
    assert [one.fact.text[:7] for one in facts.recall("", k=2)] == ["Deploys", "The use"]
    found = facts.get(ttl.id, scope="projects/alpha")
    assert found._replace(recalled_at=0.0, recalls=0) == ttl
    assert found.recalls == 1
    assert facts.forget(ttl.id, scope="projects/alpha")
    assert not facts.forget(ttl.id, scope="projects/alpha")
    with pytest.raises(holdfast.UnknownFact, match=ttl.id):
        facts.get(ttl.id, scope="projects/alpha")


def test_the_same_text_is_one_fact_and_a_key_is_replaced(tmp_path: Path) -> None:
    """Said twice, a fact is there once, with its first date; under a key, the newer text stands in the older one's place."""
    facts = holdfast.store(tmp_path / "s.db").memory
    first = facts.remember("The sky is blue")
    assert facts.remember("  The sky is blue\n") == first
    facts.remember("The sky is blue", scope="paintings")
    assert len(facts.list()) == 2
    old = facts.remember("TTL is 300", key="ttl")
    new = facts.remember("TTL is 30", key="ttl")
    assert (new.created_at, facts.get("ttl").text) == (old.created_at, "TTL is 30")
    assert new.changed_at >= old.changed_at


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": " "}, "needs a text"),
        ({"text": "x" * 20_001}, "20,001"),
        ({"text": "x", "importance": 2.0}, "importance"),
        ({"text": "x", "tags": ["a\nb"]}, "tag"),
        ({"text": "x", "scope": "a\x1fb"}, "scope"),
        ({"text": "x", "value": {"s": object()}}, r"\.s"),
    ],
)
def test_what_cannot_be_a_fact_is_refused_and_nothing_is_kept(
    tmp_path: Path, given: dict[str, object], said: str
) -> None:
    """The error names the part that is wrong."""
    facts = holdfast.store(tmp_path / "s.db").memory
    with pytest.raises(holdfast.HoldfastError, match=said):
        facts.remember(**given)  # type: ignore[arg-type]
    assert facts.list() == []


def test_a_run_remembers_once_and_recalls_the_same(tmp_path: Path) -> None:
    """Resumed, it is given what it recalled then, whatever was remembered since; and keeps no fact that was let go.

    Planted: recalled outside of ``draw``, the second attempt sees the newer fact.
    """
    url = tmp_path / "s.db"
    store = holdfast.store(url)

    def attempt() -> list[str]:
        found: list[str] = []
        with holdfast.run("r", store=url) as run:
            run.remember("Paris is the capital of France", tags=["geo"])
            found += [one.fact.text for one in run.recall("capital")]
            if run.attempt == 1:
                raise KeyError
        return found

    with pytest.raises(KeyError):
        attempt()
    (fact,) = store.memory.list()
    assert (fact.run, fact.tags) == ("r", ("geo",))
    store.memory.remember("Rome is the capital of Italy, the capital")
    store.memory.forget(fact.id)
    assert attempt() == [fact.text]
    assert [one.text[:4] for one in store.memory.list()] == ["Rome"]


def test_an_async_run_remembers_too(tmp_path: Path) -> None:
    """The same names, awaited."""

    found: list[holdfast.Recalled] = []

    async def work() -> None:
        async with holdfast.run("r", store=tmp_path / "s.db") as run:
            await run.remember("Paris is the capital of France", scope="geo")
            found.extend(await run.recall("capital of France", k=1, scope="geo"))

    asyncio.run(work())
    assert [one.fact.run for one in found] == ["r"]
    assert found[0].score > 0


def test_history_is_found_by_its_words(tmp_path: Path) -> None:
    """Thoughts, decisions, arguments, results and failures, each with the run and the event to look at; a fork's are its own."""
    url = tmp_path / "s.db"
    store = holdfast.store(url)

    def survey(topic: str) -> dict[str, str]:
        return {"finding": f"{topic} defaulted twice, see order_17"}

    with holdfast.run("debt", store=url, goal="Explain sovereign debt") as run:
        run.decide("skip the IMF feed", because="rate limited three times")
        run.step("survey", survey, "Argentina")
        run.think("x" * 30_000)
    with holdfast.run("other", store=url) as run:
        run.think("nothing of interest")
    (decided,) = store.search("rate limits of the imf")
    assert (decided.run, decided.kind, decided.name) == ("debt", "mark", "decision")
    assert "skip the IMF feed" in decided.text
    assert {hit.kind for hit in store.search("argentina")} == {"step.started", "step.finished"}
    assert [hit.kind for hit in store.search('"order_17"')] == ["step.finished"]
    assert store.search('"seventeen order"') == []
    assert store.search("argentina", run="other") == []
    assert [hit.kind for hit in store.search("sovereign", k=1)] == ["run.started"]
    event = next(event for event in store.events("debt") if event.seq == decided.seq)
    assert event.name == "decision"
    with pytest.raises(holdfast.Misuse, match="no word"):
        store.search("?!")
    with pytest.raises(holdfast.UnknownRun):
        store.search("x", run="no-such-run")


@pytest.mark.parametrize("branch", ["fork", "kept", "import", "renamed"])
def test_a_branch_does_not_remember_again_what_its_history_has(url: str, tmp_path: Path, branch: str) -> None:
    """The fact was forgotten since, and stays so. Seen before: the run was part of the identity, so every branch put it back."""

    def body(run: holdfast.Run) -> str:
        run.step("look", len, "sky")
        return run.remember("The sky is green.").id

    store = holdfast.store(url)
    with holdfast.run("m", store=store) as run:
        id_ = body(run)
    store.memory.forget(id_)
    name = {"fork": "f", "kept": "m~1", "import": "m", "renamed": "z"}[branch]
    target = store
    if branch == "fork":
        store.fork("m", as_="f")
    elif branch == "kept":
        store.rewind("m@1")
    else:
        store.export("m", tmp_path / "m.holdfast", move=True)
        target = holdfast.store(f"memory://{uuid4().hex}")
        target.import_(tmp_path / "m.holdfast", as_="z" if branch == "renamed" else None)
    with holdfast.run(name, store=target) as run:
        assert body(run) == id_
    assert target.memory.list() == []


def test_a_record_of_an_earlier_version_answers_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its identity has the name of the run that recorded it: found again in that run and in its fork."""

    def body(run: holdfast.Run) -> str:
        return run.remember("The sky is green.").id

    store = holdfast.store(url)
    with monkeypatch.context() as patch:
        before = run_memory._identity
        patch.setattr(run_memory, "_identity", lambda fact: before(fact, "m"))
        with holdfast.run("m", store=store) as run:
            id_ = body(run)
    store.memory.forget(id_)
    store.fork("m", as_="f")
    for name in ("m", "f"):
        with holdfast.run(name, store=store) as run:
            assert body(run) == id_
    assert store.memory.list() == []


def test_a_discovery_of_an_earlier_version_is_kept_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its identity has the event of the discovery: killed before the run was finished, the mark is found again."""

    def body(run: holdfast.Run) -> None:
        run.discover("The sky is green.")
        run.finish(remember=True)

    store = holdfast.store(url)
    with monkeypatch.context() as patch:
        before = run_memory._identity
        patch.setattr(run_memory, "_identity", lambda fact: before(fact, "", fact.event))
        with holdfast.run("m", store=store) as run:
            body(run)
    (known,) = store.memory.list()
    store.memory.forget(known.id)
    store.fork(f"m@#{store.get('m').head - 1}", as_="f")
    with holdfast.run("f", store=store) as run:
        body(run)
    assert store.memory.list() == []
    assert [event.name for event in store.events("f")].count("remembered") == 1


def test_facts_with_other_values_supersede_each_other(url: str) -> None:
    """The value is data beside the text: it does not keep a new fact apart from the old one.

    The same words without a value add nothing to a fact that has one.
    """
    memory = holdfast.store(url).memory
    old = memory.remember("the TTL of the cache is 300 seconds", value=300)
    new = memory.remember("the TTL of the cache is 30 seconds", value=30)
    assert new.supersedes == old.id
    assert [one.fact.value for one in memory.recall("TTL of the cache")] == [30]
    worded = memory.remember("The TTL of the cache is now 30 seconds", value={"s": 30})
    assert worded.supersedes == new.id
    assert memory.remember("the TTL of the cache is 30 seconds!").id == worded.id
    assert [one.fact.value for one in memory.recall("TTL of the cache")] == [{"s": 30}]
