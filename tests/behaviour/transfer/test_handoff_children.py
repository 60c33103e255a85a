"""A handoff carries the effects of the giver's children: the taker's children do not repeat them.

Seen before: the document said that it carries no effect, and the taker's child published again.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.lineage.test_children import editor, enter, made, publish

import holdfast


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
