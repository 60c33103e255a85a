"""A handoff of a run whose history is gone: its effects were compacted, or the branch that recorded them was erased.

Their arguments are not there any more. Such an effect is known by the key of its call, and is not made again in silence.
"""

from typing import Any

import pytest
from tests.behaviour.lineage.test_children import Killed

import holdfast

DONE: list[tuple[str, str]] = []
"""What was done, and under which key."""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@holdfast.tool(effect="once", settle_s=0)
def pay(amount: int, *, idempotency_key: str = holdfast.KEY) -> str:
    DONE.append((f"pay {amount}", idempotency_key))
    return f"paid {amount}"


@holdfast.tool(effect="idempotent")
def put(what: str, *, idempotency_key: str = holdfast.KEY) -> str:
    DONE.append((f"put {what}", idempotency_key))
    return what.upper()


@holdfast.tool(effect="once", settle_s=0, name="pay")
def broken(amount: int, *, idempotency_key: str = holdfast.KEY) -> str:
    DONE.append((f"pay {amount}", idempotency_key))
    raise ConnectionError


@holdfast.agent(name="payer")
def payer(run: holdfast.Run, amount: int) -> str:
    state = run.restore({})
    if "paid" not in state:
        state = {"paid": pay(amount)}
        run.checkpoint(state)
    run.step("look", len, "x")
    run.checkpoint({**state, "looked": True})
    return str(state["paid"])


def program(run: holdfast.Run) -> Any:
    """It restores its state, so what it did before can be compacted."""
    state = run.restore({})
    if "given" not in state:
        state = {"given": [pay(1), pay(2), put("a")]}
        run.checkpoint(state)
    if "looked" not in state:
        state = {**state, "looked": run.step("look", len, "x")}
        run.checkpoint(state)
    return state["given"]


def enter(store: holdfast.Store, name: str, body: Any = program) -> Any:
    given = []
    with pytest.raises(Killed), holdfast.run(name, store=store) as run:
        given.append(body(run))
        raise Killed
    return given[0]


def compact(store: holdfast.Store, run: str) -> None:
    store.prune(run, policy=holdfast.Retention(compact_events=1))
    assert any(event.kind == "compacted" for event in store.events(run))


def handed(store: holdfast.Store, run: str, to: str) -> dict[str, Any]:
    document = store.handoff(run, to=to, seal=True)
    store.accept(document, as_=to)
    return document


def test_compacted_effects_are_asked_about(url: str) -> None:
    """A ``once`` call is known to have happened, and a person says with which result; an idempotent one keeps its key.

    The document lists them, and the loss says what is not known. The next handoff knows them, too.
    """
    store = holdfast.store(url)
    enter(store, "giver")
    compact(store, "giver")
    document = handed(store, "giver", "taker")
    assert [item["step"] for item in document["effects"]] == ["pay", "pay", "put"]
    assert [one["what"] for one in document["left_out"]] == ["effect", "effect"]
    handed(store, "taker", "next")
    for amount in (1, 2):
        with (
            pytest.raises(holdfast.StepInDoubt, match="has happened already in run giver"),
            holdfast.run("next", store=store) as run,
        ):
            program(run)
        store.resolve("next", "pay", "done", value=f"paid {amount}")
    assert enter(store, "next") == ["paid 1", "paid 2", "A"]
    assert [what for what, _ in DONE] == ["pay 1", "pay 2", "put a", "put a"]
    assert DONE[2] == DONE[3]


def test_a_compacted_effect_does_not_answer_another_call(url: str) -> None:
    """Other arguments are another effect: it is made. A run that never calls it can finish."""
    store = holdfast.store(url)
    enter(store, "giver")
    compact(store, "giver")
    handed(store, "giver", "taker")
    with holdfast.run("taker", store=store) as run:
        assert pay(3) == "paid 3"
        run.finish()
    assert store.get("taker").status == "finished"


def test_compacted_effects_of_a_child_are_asked_about(url: str) -> None:
    """The taker's child asks, under the same rule."""
    store = holdfast.store(url)

    def parent(run: holdfast.Run) -> Any:
        return run.child("kid", payer, 7)

    enter(store, "giver", parent)
    compact(store, "giver/kid")
    handed(store, "giver", "taker")
    with pytest.raises(holdfast.StepInDoubt) as stopped, holdfast.run("taker", store=store) as run:
        parent(run)
    assert stopped.value.run == "taker/kid"
    store.resolve("taker/kid", "pay", "done", value="paid 7")
    assert enter(store, "taker", parent) == "paid 7"
    assert len(DONE) == 1


def straight(run: holdfast.Run) -> Any:
    return [pay(1), put("a")]


def test_effects_of_an_erased_branch_are_answered(url: str) -> None:
    """A rewind lists them with their outcomes, so the taker is answered though the branch that made them is gone."""
    store = holdfast.store(url)
    enter(store, "giver", straight)
    kept = store.rewind("giver@#2").kept
    store.erase(kept)
    document = handed(store, "giver", "taker")
    assert [(one["what"], one["name"]) for one in document["left_out"]] == [
        ("effect", "pay"),
        ("effect", "put"),
    ]
    handed(store, "taker", "next")
    for _ in range(2):
        assert enter(store, "next", straight) == ["paid 1", "A"]
    assert len(DONE) == 2


def test_a_doubt_of_an_erased_branch_is_a_doubt(url: str) -> None:
    """Through two handoffs: it is not made again, and not answered."""
    store = holdfast.store(url)
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("giver", store=store):
        broken(1)
    kept = store.rewind("giver@#2").kept
    store.erase(kept)
    handed(store, "giver", "taker")
    handed(store, "taker", "next")
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("next", store=store):
        pay(1)
    store.resolve("next", "pay", "done", value="paid 1")
    assert enter(store, "next", lambda _: pay(1)) == "paid 1"
    assert len(DONE) == 1
