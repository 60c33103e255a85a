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


@holdfast.agent("budget-worker")
def spender(run: holdfast.Run, calls: int) -> int:
    for number in range(calls):
        ask(run, number)
    return calls


def waits_for(url: str, calls: int, children: int = 1, **options: Any) -> list[Any]:
    """The results of children that a worker runs; each step gives up at once."""
    results = []
    with holdfast.run("parent", store=url, prices=PRICES, loops=False, **options) as run:
        ask(run, 0)
        for number in range(children):
            try:
                results.append(run.child(f"kid-{number}", spender, calls=calls, queue=True, wait_s=0))
            except holdfast.AwaitingChild:
                results.append(None)
        raise KeyboardInterrupt
    return results


def work(url: str, concurrency: int = 1) -> list[str]:
    """Let a worker do all that is due; what became of it."""
    told: list[str] = []
    reports = lambda report: told.append(f"{report.what} {report.text}")  # noqa: E731
    with holdfast.worker(spender, store=url, concurrency=concurrency, tell=reports) as worker:
        assert worker.wait_idle(30)
    return told


def test_a_workers_child_knows_the_budget_of_its_parent(url: str) -> None:
    """The call that would exceed it is not sent, though the parent runs nowhere. With a larger budget the child goes on.

    Seen before: a worker's child spent as much as it liked.
    """
    for calls in (3, 3, 5):
        with pytest.raises(KeyboardInterrupt):
            waits_for(url, 4, budget=Budget(calls=calls))
        work(url)
        assert len(sent) == calls
        status = holdfast.store(url).get("parent/kid-0").status
        assert status == ("finished" if calls == 5 else "parked")


def test_children_of_one_worker_share_it(url: str) -> None:
    """What siblings spend counts, also while their calls are under way."""
    with pytest.raises(KeyboardInterrupt):
        waits_for(url, 3, children=4, budget=Budget(calls=8))
    work(url, concurrency=4)
    assert len(sent) == 8


def test_a_parent_that_runs_sees_what_workers_spend(url: str) -> None:
    """Not only what they had spent before its first call."""
    with (
        pytest.raises(holdfast.BudgetExceeded),
        holdfast.run("parent", store=url, prices=PRICES, loops=False, budget=Budget(calls=3)) as run,
    ):
        ask(run, 0)
        with pytest.raises(holdfast.AwaitingChild):
            run.child("kid", spender, calls=2, queue=True, wait_s=0)
        work(url)
        assert len(sent) == 3
        ask(run, 1)
    assert len(sent) == 3


def test_a_rewound_child_is_counted_once(url: str) -> None:
    """The branch that its rewind kept shares what was spent."""
    with holdfast.run("parent", store=url, prices=PRICES, loops=False) as run:
        body(run, 1)
    holdfast.store(url).rewind("parent/kid-0@1")
    with (
        pytest.raises(holdfast.BudgetExceeded),
        holdfast.run(
            "parent", store=url, prices=PRICES, loops=False, budget=Budget(calls=4), if_finished="reopen"
        ) as run,
    ):
        ask(run, 0)
        for number in range(1, 4):
            ask(run, number)
    assert len(sent) == 4
