"""A fact behind the point of a fork, a rewind or an import: remembered again by the same program, it changes nothing."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast.engine.memory import left_facts

OLD = "The TTL of the cache is 300 seconds."
NEW = "The TTL of the cache is 30 seconds."


class Stop(Exception):
    pass


def body(run: holdfast.Run, text: str = OLD, key: str | None = None) -> holdfast.Fact:
    run.step("look", len, "cache")
    return run.remember(text, key=key)


def enter(store: holdfast.Store, name: str, text: str = OLD, key: str | None = None) -> holdfast.Fact:
    """The fact that the run remembers in an attempt that ends in the middle."""
    found: list[holdfast.Fact] = []
    with pytest.raises(Stop), holdfast.run(name, store=store) as run:
        found.append(body(run, text, key))
        raise Stop
    return found[0]


def branch(store: holdfast.Store, how: str, path: Path) -> str:
    """Another history of run m that begins before its fact; its name."""
    if how == "rewind":
        store.rewind("m@1")
        return "m"
    if how == "import":
        return store.import_(path / "m.holdfast", as_="again").run
    store.fork("m@1", as_="f")
    if how == "fork":
        return "f"
    store.fork("f", as_="g")
    return "g"


def texts(store: holdfast.Store) -> list[str]:
    return [fact.text for fact in store.memory.list() if not fact.superseded_by]


@pytest.mark.parametrize("how", ["fork", "fork of a fork", "rewind", "import"])
@pytest.mark.parametrize("since", ["superseded", "replaced", "forgotten"])
def test_what_was_remembered_since_stays(url: str, tmp_path: Path, how: str, since: str) -> None:
    """The branch gets the recorded fact, and memory stays as it is.

    Before, the old fact superseded or replaced the newer one, or a forgotten one was there again.
    """
    store = holdfast.store(url)
    key = "ttl" if since == "replaced" else None
    with pytest.raises(Stop), holdfast.run("m", store=store) as run:
        run.step("look", len, "cache")
        store.export("m", tmp_path / "m.holdfast")
        run.remember(OLD, key=key)
        raise Stop
    (known,) = store.memory.list()
    if since == "forgotten":
        store.memory.forget(known.id)
    else:
        store.memory.remember(NEW, key=key)
    before = store.memory.list()
    name = branch(store, how, tmp_path)
    for _ in range(2):  # the second attempt is answered by its own record
        again = enter(store, name, key=key)
        assert (again.id, again.text, again.run) == (known.id, OLD, "m")
    assert store.memory.list() == before
    assert texts(store) == ([] if since == "forgotten" else [NEW])


def test_a_changed_text_supersedes_as_ever(url: str) -> None:
    """A branch that says something else says something new."""
    store = holdfast.store(url)
    enter(store, "m")
    store.fork("m@1", as_="f")
    changed = enter(store, "f", NEW)
    assert (changed.run, texts(store)) == ("f", [NEW])
    enter(store, "m")
    assert texts(store) == [NEW]


def test_a_second_fact_of_the_same_text_is_new(url: str) -> None:
    """The count is part of the identity: a branch that remembers it once more than its origin says it anew."""
    store = holdfast.store(url)
    enter(store, "m")
    store.memory.forget(store.memory.list()[0].id)
    store.fork("m@1", as_="f")
    with holdfast.run("f", store=store) as run:
        body(run)
        assert texts(store) == []
        run.remember(OLD)
    assert texts(store) == [OLD]


def test_a_child_begun_behind_the_point(url: str) -> None:
    """The same child of a fork is a new run, and the record is that of the origin's child."""
    store = holdfast.store(url)

    def parent(name: str) -> None:
        with pytest.raises(Stop), holdfast.run(name, store=store) as run:
            run.step("look", len, "cache")
            with holdfast.run(f"{name}/child", store=store) as child:
                body(child)
            raise Stop

    parent("m")
    store.memory.remember(NEW)
    store.fork("m@1", as_="f")
    parent("f")
    assert texts(store) == [NEW]


def test_discoveries_of_a_finished_run(url: str) -> None:
    """``finish(remember=True)`` again, with the discovery at another event: the fact that replaced it stays."""
    store = holdfast.store(url)

    def work(name: str, *more: str) -> None:
        with holdfast.run(name, store=store) as run:
            run.step("look", len, "cache")
            for text in more:
                run.think(text)
            run.discover(OLD)
            run.finish(remember=True)

    work("m")
    store.memory.remember(NEW)
    store.rewind("m@1")
    work("m", "the same, once more")
    assert texts(store) == [NEW]


def test_an_async_fork(url: str) -> None:
    """The same from a task of an event loop."""
    store = holdfast.store(url)
    enter(store, "m")
    store.memory.remember(NEW)
    store.fork("m@1", as_="f")

    async def main() -> Any:
        async with holdfast.run("f", store=store) as run:
            await run.step("look", len, "cache")
            return await run.remember(OLD)

    assert asyncio.run(main()).run == "m"
    assert texts(store) == [NEW]


def test_an_erased_origin_is_no_record(url: str) -> None:
    """Then the branch remembers by itself."""
    store = holdfast.store(url)
    enter(store, "m")
    store.fork("m@1", as_="f")
    store.erase("m", flatten=True)
    store.memory.remember(NEW)
    assert enter(store, "f").run == "f"
    assert texts(store) == [OLD]


def test_a_run_without_other_histories_reads_none(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first attempt, and a resumed one, write a fact without looking into any journal."""
    monkeypatch.setattr(left_facts, "_left_marks", None)
    store = holdfast.store(url)
    enter(store, "m")
    with holdfast.run("m", store=store) as run:
        body(run)
        run.remember("Another fact.")
    assert len(texts(store)) == 2


def test_an_import_does_not_bring_a_forgotten_fact_back(url: str, tmp_path: Path) -> None:
    """The export is older than that. What was remembered anew, here or there, is newer, and comes.

    Before, an import or a copy of any older version had it there again.
    """
    store = holdfast.store(url)
    known = enter(store, "m")
    path = tmp_path / "m.holdfast"
    store.export("m", path)
    store.memory.forget(known.id)
    assert store.import_(path, as_="first").facts == 0
    assert texts(store) == []
    store.memory.remember(OLD)
    assert texts(store) == [OLD]
    other = holdfast.store(f"memory://{uuid4().hex}")
    other.import_(path)
    assert texts(other) == [OLD]
    other.close()


def test_nothing_of_a_forgotten_fact_is_left(url: str) -> None:
    """Neither its text nor its scope or key is in what remains."""
    store = holdfast.store(url)
    store.memory.remember("Ada pays late.", key="pays", scope="users/ada")
    assert store.memory.forget("pays", scope="users/ada")
    assert not store.memory.forget("pays", scope="users/ada")
    left = [(record.key, record.body) for record in store._port.scan_records("forgotten", limit=10)]
    assert len(left) == 1
    assert b"ada" not in repr(left).lower().encode()
    assert "pays" not in repr(left)
