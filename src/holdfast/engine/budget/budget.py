"""Counts what a run spends, and checks the budget before each model call.

An attempt starts with what the journal says was spent, and counts from there. Invariant: each recorded call
is counted exactly once, because it is counted when its outcome is about to be recorded. Crash windows: before
the outcome is recorded, the call is made again and was never counted; after it, the journal has it.

The budget of a run covers its descendants. Those of this process are counted as they spend; those that
workers run are counted when the attempt reads their journals, before its first model call.
"""

from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import Limit, Verdict, judge, plus, total
from holdfast.engine.budget.price_tables import own_prices
from holdfast.engine.journal.journal import draft
from holdfast.engine.journal.lineage_names import descendants
from holdfast.engine.journal.load_view import load
from holdfast.engine.log import log
from holdfast.engine.run.features import Feature, Slot
from holdfast.errors import BudgetExceeded
from holdfast.model.budget import NOTHING_SPENT, Spent
from holdfast.model.events import Kind
from holdfast.model.usage import Usage

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.sync_async import Runtime
    from holdfast.stores.port import StorePort


async def check_before_model_call(held: "HeldRun", runtime: "Runtime") -> None:
    """Allow one more model call, which counts as in flight until ``note`` or ``note_failure``.

    Near a limit it warns once, in the log and in the journal. At a limit it raises BudgetExceeded: do not
    send.
    """
    chain = _with_ancestors(held)
    journal = held.require_journal("a model call")
    for spending in chain:
        if spending.budget is not None and spending.inner is None:
            spending.begin_inner(await runtime.store(_spent_below, held.store, spending.held.run))
    asked: list[Spending] = []
    try:
        for spending in chain:
            verdict, news = spending.ask()
            if verdict.stop is not None:
                raise _exceeded(spending.held.run, verdict.stop)
            asked.append(spending)
            for limit in news:
                log().warning("run %s %s", spending.held.run, _warning(limit))
                if spending.held is held:  # the journal of a parent is not this run's to write
                    fields = {**limit._asdict(), "words": limit.words}
                    warned = draft(Kind.BUDGET_WARNED, limit.name, "", fields)
                    await journal.append(runtime, [warned], held.clock.wall(), synced=False)
    except BaseException:
        for spending in asked:
            spending.end_call()
        raise


def _with_ancestors(held: "HeldRun") -> "list[Spending]":
    """What this run spends is spent by its parents, too, as far as this process holds them."""
    chain, run = [SPENDING.of(held)], held.run
    while run := run.rpartition("/")[0]:
        parent = _live.get((held.store.url, run))
        if parent is not None and not parent.held.is_closed:
            chain.append(parent)
    return chain


def _spent_below(store: "StorePort", run: str) -> Spent:
    """What the descendants of a run have spent, as their journals say."""
    return total(BUDGET.of(load(store, row.run)).spent for row in descendants(store, run) if row.head)


def note(held: "HeldRun", usage: Usage) -> Usage:
    """Count a model call whose outcome is about to be recorded. Returns the usage with its cost, if known."""
    own, *parents = _with_ancestors(held)
    priced = own.note(usage)
    for parent in parents:
        parent.note_inner(priced)
    return priced


def note_failure(held: "HeldRun") -> None:
    """Count nothing for a call without an answer: whether it costs anything is not known."""
    for spending in _with_ancestors(held):
        spending.end_call()


class Spending(Feature):
    """What a run has spent and may spend. It has its own lock: calls end in any thread."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        known = BUDGET.of(held.view)
        self.budget = held.entry.budget if held.entry is not None else None
        self.spent: Spent = known.spent
        self._prices = own_prices(held.entry.prices if held.entry is not None else None)
        self._warned = dict(known.warned)
        self._under_way = 0
        self._lock = Lock()
        self.inner: Spent | None = None
        """What descendants have spent; None until it was read, which only a budget needs."""
        _live[held.store.url, held.run] = self

    @property
    def worked_s(self) -> float:
        """How long all attempts took, including this one so far."""
        return self.held.view.worked_s + self.held.took_s

    def ask(self) -> tuple[Verdict, list[Limit]]:
        """Whether the budget allows one more call, which is then in flight; and the limits to warn of now."""
        self._load_prices()
        with self._lock:
            verdict = Verdict()
            if self.budget is not None:
                spent = total((self.spent, self.inner or NOTHING_SPENT))
                verdict = judge(spent, self.budget, self.worked_s, under_way=self._under_way)
            news = [limit for limit in verdict.warn if self._warned.get(limit.name) != limit.allowed]
            self._warned |= {limit.name: limit.allowed for limit in news}
            # Counted before it is sent: concurrent calls must not all pass the same limit.
            self._under_way += verdict.stop is None
            return verdict, news

    def note(self, usage: Usage) -> Usage:
        """Count an answer, with its cost."""
        priced = usage if usage.cost is not None else usage._replace(cost=self._cost(usage))
        with self._lock:
            self._under_way = max(0, self._under_way - 1)
            self.spent = plus(self.spent, priced)
        return priced

    def begin_inner(self, spent: Spent) -> None:
        """Begin to count descendants, from what their journals say."""
        with self._lock:
            self.inner = self.inner or spent

    def note_inner(self, priced: Usage) -> None:
        """Count an answer that a descendant got in this process."""
        with self._lock:
            self._under_way = max(0, self._under_way - 1)
            if self.inner is not None:
                self.inner = plus(self.inner, priced)

    def end_call(self) -> None:
        """A call is not in flight any more."""
        with self._lock:
            self._under_way = max(0, self._under_way - 1)

    def _load_prices(self) -> None:
        """Load prices before the call: a paid answer must not be lost because a file cannot be opened."""
        from holdfast.core.budget import prices  # noqa: F401 - see above
        from holdfast.engine.budget.price_tables import shipped_prices

        shipped_prices()

    def _cost(self, usage: Usage) -> float | None:
        from holdfast.core.budget.prices import cost_of  # most runs make no model calls
        from holdfast.engine.budget.price_tables import shipped_prices

        own = () if self._prices is None else (self._prices,)
        return cost_of(usage, *own, shipped_prices())


SPENDING: Final = Slot("budget", Spending)
_live: "WeakValueDictionary[tuple[str, str], Spending]" = WeakValueDictionary()
"""The runs of this process that count what they spend, by store and id."""


def _warning(limit: Limit) -> str:
    if limit.unknown_calls:
        return f"cannot keep its budget: {limit.words}"
    return f"has spent {limit.words}; at the limit it is parked"


def _exceeded(run: str, limit: Limit) -> BudgetExceeded:
    reason = "its budget cannot be kept" if limit.unknown_calls else "its budget is spent"
    return BudgetExceeded(
        run=run,
        reason=f"{reason}: {limit.words}",
        until=None,
        limit=limit.name,
        spent=limit.spent,
        allowed=limit.allowed,
    )
