"""Counts what a run spends, and checks the budget before each model call.

An attempt starts with what the journal says was spent, and counts from there. Invariant: each recorded call
is counted exactly once, because it is counted when its outcome is about to be recorded. Crash windows: before
the outcome is recorded, the call is made again and was never counted; after it, the journal has it.
"""

from threading import Lock
from typing import TYPE_CHECKING, Final

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import Limit, Verdict, judge, plus
from holdfast.engine.budget.price_tables import own_prices
from holdfast.engine.journal.journal import draft
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
    spending = SPENDING.of(held)
    journal = held.require_journal("a model call")
    verdict, news = spending.ask()
    if verdict.stop is not None:
        raise _exceeded(held.run, verdict.stop)
    try:
        for limit in news:
            log().warning("run %s %s", held.run, _warning(limit))
            warned = draft(Kind.BUDGET_WARNED, limit.name, "", {**limit._asdict(), "words": limit.words})
            await journal.append(runtime, [warned], held.clock.wall(), synced=False)
    except BaseException:
        spending.end_call()
        raise


def note(held: "HeldRun", usage: Usage) -> Usage:
    """Count a model call whose outcome is about to be recorded. Returns the usage with its cost, if known."""
    return SPENDING.of(held).note(usage)


def note_failure(held: "HeldRun") -> None:
    """Count nothing for a call without an answer: whether it costs anything is not known."""
    SPENDING.of(held).end_call()


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
                verdict = judge(self.spent, self.budget, self.worked_s, under_way=self._under_way)
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
