"""The budget, the cost and the counts of a run include its children."""

from typing import Any

import pytest
from tests.behaviour.budget.test_budgets import PRICES, ask, sent

import holdfast
from holdfast import Budget


@pytest.fixture(autouse=True)
def _fresh() -> None:
    sent.clear()


def body(run: holdfast.Run, children: int) -> None:
    """One call of its own, and two in each child."""
    ask(run, 0)
    for number in range(children):
        with holdfast.run(f"kid-{number}", prices=PRICES, loops=False) as kid:
            ask(kid, 1)
            ask(kid, 2)
            kid.finish(None)


def enter(url: str, children: int, **options: Any) -> None:
    with holdfast.run("parent", store=url, prices=PRICES, loops=False, **options) as run:
        body(run, children)


def test_children_spend_the_budget_of_their_parent(url: str) -> None:
    """The child's call that would exceed it is not sent; nor in the next attempt, which reads what was spent."""
    for _ in range(2):
        with pytest.raises(holdfast.BudgetExceeded) as stopped:
            enter(url, 3, budget=Budget(calls=4))
        assert stopped.value.run == "parent"
        assert len(sent) == 4
    enter(url, 3, budget=Budget(calls=7))
    assert len(sent) == 7


def test_a_grandchild_spends_it_too(url: str) -> None:
    """However deep the call is made."""
    with (
        pytest.raises(holdfast.BudgetExceeded),
        holdfast.run("parent", store=url, prices=PRICES, loops=False, budget=Budget(calls=1)),
        holdfast.run("kid", prices=PRICES, loops=False),
        holdfast.run("deep", prices=PRICES, loops=False) as deep,
    ):
        ask(deep, 0)
        ask(deep, 1)
    assert len(sent) == 1


def test_stats_of_a_run_count_its_children(url: str) -> None:
    """Calls and cost of all; the children are named."""
    enter(url, 2)
    found = holdfast.store(url).stats("parent")
    assert sorted(one.run for one in found.runs) == ["parent", "parent/kid-0", "parent/kid-1"]
    assert sum(tool.started for tool in found.tools) >= 5
