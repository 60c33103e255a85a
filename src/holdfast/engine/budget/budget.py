"""Counts what a run spends, and checks the budget before each model call.

An attempt starts with what the journal says was spent, and counts from there. Invariant: each recorded call
is counted exactly once, because it is counted when its outcome is about to be recorded. Crash windows: before
the outcome is recorded, the call is made again and was never counted; after it, the journal has it.

The budget of a run covers its descendants. Those of this process are counted as they spend, those of other
processes by what they have recorded: see ``family_spending``.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import Limit, Verdict, judge, plus, total
from holdfast.engine.budget.family_spending import Ancestor, Descendants, ancestor
from holdfast.engine.budget.price_tables import own_prices
from holdfast.engine.journal.drafts import draft
from holdfast.engine.log import log
from holdfast.engine.run.features import Feature, Slot
from holdfast.errors import BudgetExceeded
from holdfast.model.budget import Spent
from holdfast.model.events import Kind
from holdfast.model.usage import Usage

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.sync_async import Runtime


async def check_before_model_call(held: "HeldRun", runtime: "Runtime") -> None:
    """Allow one more model call, which counts as in flight until ``note`` or ``note_failure``.

    Near a limit it warns once, in the log and in the journal. At a limit it raises BudgetExceeded: do not
    send.
    """
    chain = _with_ancestors(held)
    journal = held.require_journal("a model call")
    if len(chain) > 1 or chain[0].budget is not None:
        await runtime.store(_look, chain)
    asked: list[Spending | Ancestor] = []
    try:
        for spending in chain:
            verdict, news = spending.ask()
            if verdict.stop is not None:
                raise _exceeded(spending.run, verdict.stop)
            asked.append(spending)
            for limit in news:
                log().warning("run %s %s", spending.run, _warning(limit))
                if spending is chain[0]:  # the journal of a parent is not this run's to write
                    fields = {**limit._asdict(), "words": limit.words}
                    warned = draft(Kind.BUDGET_WARNED, limit.name, "", fields)
                    await journal.append(runtime, [warned], held.clock.wall(), synced=False)
    except BaseException:
        for spending in asked:
            spending.end_call()
        raise


def _with_ancestors(held: "HeldRun") -> "tuple[Spending, *tuple[Spending | Ancestor, ...]]":
    """What this run spends is spent by its parents, too."""
    own = SPENDING.of(held)
    chain: list[Spending | Ancestor] = []
    run = held.run
    while run := run.rpartition("/")[0]:
        chain.append(_live_at(held.store.url, run) or own.ancestor(run))
    return own, *chain


def _live_at(url: str, run: str) -> "Spending | None":
    """The run as this process holds it; None if it does not."""
    found = _live.get((url, run))
    return None if found is None or found.held.is_closed else found


def _look(chain: "Sequence[Spending | Ancestor]") -> None:
    for spending in chain:
        spending.look()


def note(held: "HeldRun", usage: Usage) -> Usage:
    """Count a model call whose outcome is about to be recorded. Returns the usage with its cost, if known."""
    own, *parents = _with_ancestors(held)
    priced = own.note(usage)
    for parent in parents:
        parent.note_inner(held.run, priced)
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
        self._cost: Callable[[Usage], float | None] | None = None
        """Prices a call, once the tables are loaded."""
        self._warned = dict(known.warned)
        self._under_way = 0
        self._lock = Lock()
        self._below = Descendants(held.store, held.run, self._spent_here)
        self._ancestors: dict[str, Ancestor] = {}
        _live[held.store.url, held.run] = self

    @property
    def run(self) -> str:
        """The run that spends."""
        return self.held.run

    def ancestor(self, run: str) -> Ancestor:
        """A parent that this process does not hold. Kept here, so that the runs of this process share it."""
        if run not in self._ancestors:
            self._ancestors[run] = ancestor(self.held.store, run, self._spent_here)
        return self._ancestors[run]

    def _spent_here(self, run: str) -> Spent | None:
        found = _live_at(self.held.store.url, run)
        return None if found is None else found.spent

    def look(self) -> None:
        """Read what descendants in other processes have spent, which only a budget needs."""
        if self.budget is not None:
            self._below.look()

    @property
    def worked_s(self) -> float:
        """How long all attempts took, including this one so far."""
        return self.held.view.worked_s + self.held.took_s

    def ask(self) -> tuple[Verdict, list[Limit]]:
        """Whether the budget allows one more call, which is then in flight; and the limits to warn of now."""
        if self._cost is None:
            self._load_prices()
        with self._lock:
            if self.budget is None:
                self._under_way += 1
                return _ALLOWED
            spent = total((self.spent, self._below.spent()))
            verdict = judge(spent, self.budget, self.worked_s, under_way=self._under_way)
            news = [limit for limit in verdict.warn if self._warned.get(limit.name) != limit.allowed]
            self._warned |= {limit.name: limit.allowed for limit in news}
            # Counted before it is sent: concurrent calls must not all pass the same limit.
            self._under_way += verdict.stop is None
            return verdict, news

    def note(self, usage: Usage) -> Usage:
        """Count an answer, with its cost."""
        priced = usage
        if usage.cost is None:
            cost = (self._cost or self._load_prices())(usage)
            priced = usage if cost is None else usage._replace(cost=cost)
        with self._lock:
            self._under_way = max(0, self._under_way - 1)
            self.spent = plus(self.spent, priced)
        return priced

    def note_inner(self, run: str, priced: Usage) -> None:
        """Count an answer that a descendant got in this process."""
        with self._lock:
            self._under_way = max(0, self._under_way - 1)
            self._below.note(run, priced)

    def end_call(self) -> None:
        """A call is not in flight any more."""
        with self._lock:
            self._under_way = max(0, self._under_way - 1)

    def _load_prices(self) -> "Callable[[Usage], float | None]":
        """Load prices before the call: a paid answer must not be lost because a file cannot be opened."""
        from holdfast.core.budget.prices import cost_of  # most runs make no model calls
        from holdfast.engine.budget.price_tables import shipped_prices

        tables = (shipped_prices(),) if self._prices is None else (self._prices, shipped_prices())
        self._cost = lambda usage: cost_of(usage, *tables)
        return self._cost


_ALLOWED: Final[tuple[Verdict, list[Limit]]] = Verdict(), []
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
