"""What a run has spent depends on its answers alone, however its history is cut: by crashes, forks, rewinds and pruning.

The model is a list: every request that was really sent, with what it took. A history's sum is that of the requests that
were sent on the way to it, each once.

Planted once in a copy, and caught here: ``spent`` left out of a compacted view, and out of a snapshot; replayed answers
counted; what a rewind leaves behind forgotten; the parts of a compacted stretch left out of the statistics.
"""

from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

import holdfast
from holdfast import Keep, Retention, Spent
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import plus, total
from holdfast.core.lineage.reachable_points import is_kept
from holdfast.model.budget import NOTHING_SPENT
from holdfast.model.usage import Usage

PRICES = {"m": {"input": 100, "output": 300}}
serial = count(1)


class Crash(Exception):
    pass


def usage_of(n: int) -> Usage:
    """What the n-th request takes: now and then the provider does not say."""
    if n % 5 == 0:
        return Usage("m", "")
    if n % 7 == 0:
        return Usage("other", "", n, 1)
    return Usage("m", "", n, 3, cost=(n * 100 + 3 * 300) / 1e6)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    usage = usage_of(request["n"])
    told = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    return {"model": usage.model, "usage": {} if usage.input_tokens is None else told}


class Branch:
    """One run, and every request that was sent for it or for what it has borrowed; also as it was at each checkpoint."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paid: list[int] = []
        self.own: list[int] = []
        self.asks: dict[int, int] = {}
        self.paid_at: dict[int, list[int]] = {}

    def work(self, store: holdfast.Store, further: int) -> None:
        """Restore, ask, save after each answer, and crash."""

        def ask(request: dict[str, Any]) -> dict[str, Any]:
            self.paid.append(request["n"])
            self.own.append(request["n"])
            return answer(request)

        opening = holdfast.run(self.name, store=store, prices=PRICES, loops=False, retention=None)
        with suppress(Crash), opening as run:
            begin = run.restore({"at": 0})["at"]
            assert same(run.spent, sum_of(self.paid))
            for at in range(begin, begin + further):
                # Where the latest state was pruned, it goes on from an older one, and asks what it had asked then.
                n = self.asks.setdefault(at, next(serial))
                run.model("ask", ask, {"model": "m", "n": n})
                run.checkpoint({"at": at + 1})
                assert run._held.journal is not None
                self.paid_at[run._held.journal.head] = self.paid.copy()
            assert same(run.spent, sum_of(self.paid))
            raise Crash

    def points(self, store: holdfast.Store) -> list[int]:
        """The checkpoints that a fork or a rewind may go to."""
        events = store.events(self.name) if self.paid_at else []
        return [seq for seq in sorted(self.paid_at) if is_kept(events, seq)]

    def fork(self, store: holdfast.Store, seq: int, name: str) -> "Branch":
        store.fork(f"{self.name}@#{seq}", as_=name)
        made = Branch(name)
        made.paid, made.asks = self.paid_at[seq].copy(), self.asks.copy()
        made.paid_at = {at: paid for at, paid in self.paid_at.items() if at <= seq}
        return made

    def rewind(self, store: holdfast.Store, seq: int) -> None:
        store.rewind(f"{self.name}@#{seq}")
        self.paid_at = {at: paid for at, paid in self.paid_at.items() if at <= seq}


def sum_of(numbers: list[int]) -> Spent:
    spent = NOTHING_SPENT
    for n in numbers:
        spent = plus(spent, usage_of(n))
    return spent


def same(a: Spent, b: Spent) -> bool:
    """Sums of dollars are equal up to the order of summing."""
    return a._replace(cost=0.0) == b._replace(cost=0.0) and a.cost == pytest.approx(b.cost, abs=1e-12)


moves = st.lists(
    st.tuples(
        st.sampled_from(["work", "work", "fork", "rewind", "prune"]), st.integers(0, 4), st.integers(0, 30)
    ),
    min_size=1,
    max_size=12,
)


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves=moves)
def test_however_a_history_is_cut(moves: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The view, the live count and the statistics agree with the list of what was sent."""
    monkeypatch.setattr("holdfast.engine.journal.load_view.SNAPSHOT_EVENTS_MIN", 6)
    store = holdfast.store(f"memory://{uuid4().hex}")
    branches = [Branch("a")]
    branches[0].work(store, 2)
    for kind, number, place in moves:
        branch = branches[place % len(branches)]
        points = branch.points(store)
        if kind == "work":
            branch.work(store, number)
        elif kind == "prune":
            store.prune(policy=Retention(checkpoints=Keep(last=1 + number), compact_events=0))
        elif kind == "fork" and points:
            branches.append(branch.fork(store, points[number % len(points)], f"b{len(branches)}"))
        elif points:
            branch.rewind(store, points[number % len(points)])
    own = {run.run: total(model.spent for model in run.models) for run in store.stats().runs}
    for branch in branches:
        assert same(BUDGET.of(store.view(branch.name)).spent, sum_of(branch.paid)), branch.name
        assert same(own[branch.name], sum_of(branch.own)), branch.name
    store.close()
