"""What the random walk of tests/crossings found where two operations meet, as small cases."""

from typing import Any

import pytest
from tests.behaviour.lineage.test_children import Cutting, Killed, enter, made, publish

import holdfast


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


@holdfast.tool(effect="once", name="publish", settle_s=0)
def broken(what: str, *, idempotency_key: str = holdfast.KEY) -> str:
    made.append((what, idempotency_key))
    raise ConnectionError


def parent(run: holdfast.Run, tool: Any = publish) -> Any:
    run.step("plan", len, "one child")
    with holdfast.run("kid"):
        return tool("letter")


@pytest.mark.parametrize("enters", [False, True], ids=["untouched", "entered"])
def test_a_childs_doubt_survives_two_handoffs(url: str, enters: bool) -> None:
    """The second taker's child stops in doubt, once, whether or not the first taker's program ran in between.

    Planted, and caught: a handoff that does not pass on what was handed over for children that were not begun.
    """
    store = holdfast.store(url)
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("m", store=url) as run:
        parent(run, broken)
    for giver, taker in (("m", "t"), ("t", "u")):
        store.accept(store.handoff(giver, to=taker, seal=True), as_=taker)
        if enters or taker == "u":
            with pytest.raises(holdfast.StepInDoubt) as stopped, holdfast.run(taker, store=url) as run:
                parent(run)
            assert stopped.value.run == f"{taker}/kid"
    store.resolve("u/kid", "publish", "done", value="letter")
    with holdfast.run("u", store=url) as run:
        assert parent(run) == "letter"
    assert len(made) == 1


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_the_kept_branch_of_a_rewind_that_was_killed_knows_the_children(url: str, nth: int) -> None:
    """Killed after the row of a kept branch, that of its child, or the first append: no branch repeats an effect of a child.

    Planted, and caught: a kept branch that borrows only the children begun before the point.
    """
    enter(url, "m", parent)
    store = holdfast.store(url)
    point = next(event.seq for event in store.events("m") if event.kind == "step.finished")
    with pytest.raises(Killed):
        holdfast.Store(Cutting(url, "append" if nth == 3 else "create_run", 1 if nth == 3 else nth)).rewind(
            f"m@#{point}"
        )
    names = [info.run for info in store.runs() if "/" not in info.run]
    assert "m~1" in names
    for name in names:
        for _ in range(2):
            enter(url, name, parent)
    assert len(made) == 1
