"""A handoff carries the effects of the giver's children: the taker's children do not repeat them.

Seen before: the document said that it carries no effect, and the taker's child published again.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.lineage.test_children import Cutting, Killed, editor, enter, made, publish

import holdfast
from holdfast.stores.url import open_store


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


def test_the_takers_children_do_not_repeat_the_givers(url: str, tmp_path: Path) -> None:
    """Done in a child or in a child of it: answered in the taker's child of the same name, in every attempt."""
    enter(url, "giver", editor)
    document = holdfast.store(url).handoff("giver", "taker", seal=True)
    assert sorted(item["child"] for item in document["effects"]) == ["first", "second", "second/deep"]
    there = f"sqlite:///{tmp_path}/there.db"
    for place, name in ((url, "taker"), (there, "giver")):
        store = holdfast.store(place)
        store.accept(document, as_=name)
        for _ in range(2):
            assert enter(place, name, editor) == ["first", "deep", "second"]
        assert store.get(f"{name}/second/deep").status == "finished"


def test_an_effect_in_doubt_in_a_child_is_in_doubt_in_the_takers(url: str) -> None:
    """Under the same key; the taker's child stops, and the taker itself has nothing in doubt."""

    def broken(what: str, *, idempotency_key: str = holdfast.KEY) -> str:
        made.append((what, idempotency_key))
        raise KeyError

    fails = holdfast.tool(effect="once", name="publish", settle_s=0)(broken)

    def body(run: holdfast.Run) -> None:
        with holdfast.run("kid"):
            fails("one")

    with pytest.raises(holdfast.StepInDoubt), holdfast.run("giver", store=url) as run:
        body(run)
    store = holdfast.store(url)
    document = store.handoff("giver", "taker", seal=True)
    assert [item["child"] for item in document["in_doubt"]] == ["kid"]
    store.accept(document, as_="taker")
    assert store.doubts("taker") == []
    with pytest.raises(holdfast.StepInDoubt) as stopped, holdfast.run("taker", store=url) as run:
        body(run)
    assert stopped.value.run == "taker/kid"
    assert len(made) == 1


def test_what_was_handed_over_is_handed_on(url: str) -> None:
    """A taker that hands over before it has asked for a child, and one that has: each effect goes on once."""
    enter(url, "giver", editor)
    store = holdfast.store(url)
    store.accept(store.handoff("giver", "b", seal=True), as_="b")

    def first_only(run: holdfast.Run) -> Any:
        run.step("plan", len, "a paper")
        with holdfast.run("first", inputs={"topic": "a"}) as child:
            child.finish(publish("first"))

    enter(url, "b", first_only)
    document = store.handoff("b", "c", seal=True)
    assert sorted(item["child"] for item in document["effects"]) == ["first", "second", "second/deep"]
    store.accept(document, as_="c")
    assert enter(url, "c", editor) == ["first", "deep", "second"]


def test_the_parent_does_not_claim_what_its_child_did(url: str) -> None:
    """The same call in the taker itself is a call of its own."""
    enter(url, "giver", editor)
    store = holdfast.store(url)
    store.accept(store.handoff("giver", "b", seal=True), as_="b")
    enter(url, "b", lambda run: publish("first"))
    assert [what for what, _ in made] == ["first", "deep", "second", "first"]


@holdfast.agent("handed-over-writer")
def writer(run: holdfast.Run, topic: str) -> str:
    return publish(topic)


def waits_for_kid(run: holdfast.Run, wait_s: float = 0) -> Any:
    return run.child("kid", writer, topic="one", queue=True, wait_s=wait_s)


def hand_over_with_a_queued_child(url: str) -> dict[str, Any]:
    with pytest.raises(holdfast.AwaitingChild), holdfast.run("giver", store=url) as run:
        waits_for_kid(run)
    return holdfast.store(url).handoff("giver", "taker", seal=True)


def test_a_sealed_handoff_seals_the_children(url: str) -> None:
    """A worker does not go on with a child of the giver: only the taker's child makes the effect.

    Seen before: the worker ran the giver's child, and the taker's child made the same effect.
    """
    document = hand_over_with_a_queued_child(url)
    store = holdfast.store(url)
    store.accept(document, as_="taker")
    with pytest.raises(holdfast.RunSealed, match="belongs to run giver, which was handed over to taker"):
        writer.run("giver/kid", topic="one", store=url)
    with holdfast.worker(writer, store=url) as worker:
        assert worker.wait_idle(30)
        assert made == []
        assert enter(url, "taker", lambda run: waits_for_kid(run, 30)) == "one is out"
        assert worker.wait_idle(30)
    assert [what for what, _ in made] == ["one"]
    row = open_store(url).find_run("giver/kid")
    assert row is not None
    assert (row.status, row.due_at, row.lease.owner) == ("queued", None, "")
    with pytest.raises(holdfast.RunSealed):
        store.cancel("giver/kid")


def test_a_run_that_is_taken_back_has_its_children_again(url: str) -> None:
    """A worker goes on with a child that was refused in between; also if the first command was killed."""
    hand_over_with_a_queued_child(url)
    with holdfast.worker(writer, store=url) as worker:
        assert worker.wait_idle(30)
    assert made == []
    with pytest.raises(Killed):
        holdfast.Store(Cutting(url, "append", 1)).unseal("giver")
    with pytest.raises(holdfast.Misuse):
        holdfast.store(url).unseal("giver")
    with holdfast.worker(writer, store=url) as worker:
        assert enter(url, "giver", lambda run: waits_for_kid(run, 30)) == "one is out"
        assert worker.wait_idle(30)


@pytest.mark.parametrize("by", ["the program", "another process"])
def test_a_handoff_waits_for_nobody(url: str, by: str) -> None:
    """A child that a process holds: refused, and the giver is not sealed."""
    enter(url, "giver", editor)
    store, port = holdfast.store(url), open_store(url)
    grant = port.acquire("giver/second/deep", at=store.now(), lease_s=60)
    assert grant.granted
    head = store.get("giver").head
    with pytest.raises(holdfast.RunHeld, match="giver/second/deep"):
        if by == "the program":
            with holdfast.run("giver", store=url) as run:
                run.handoff("taker", seal=True)
        else:
            store.handoff("giver", "taker", seal=True)
    assert store.get("giver").status != "sealed"
    assert by == "the program" or store.get("giver").head == head
    assert store.handoff("giver", "taker")["effects"]  # a plain handoff only reads
    port.release("giver/second/deep", fence=grant.lease.fence)
    with holdfast.run("giver", store=url) as run:
        assert len(run.handoff("taker", seal=True)["effects"]) == 3
    assert store.get("giver").status == "sealed"
    with pytest.raises(holdfast.RunSealed), holdfast.run("giver/second", store=url, if_finished="reopen"):
        pass
