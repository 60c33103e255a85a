"""Sums up what recorded model calls cost, and decides whether a budget allows another call.

The usage of a call is the first field of its outcome, so the fold sees by nine bytes whether there is
anything to decode. Invariants: sums depend only on the outcomes and their order, not on how a history is
divided into attempts, forks and compacted ranges; an unknown count is counted as unknown, never as zero.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.core.llm.request_shapes import usage_of
from holdfast.core.text.times import span
from holdfast.core.text.value_text import count, money
from holdfast.model.budget import NOTHING_SPENT, Budget, Spent
from holdfast.model.event_fields import fields_of
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.usage import Usage

# -- usage ---------------------------------------------------------------------------------------------------


def read_usage(body: bytes) -> Usage:
    """The usage in the body of an outcome. The answer, which may be long, is not decoded."""
    return usage_of(fields_of(body)["usage"])


# -- sums ----------------------------------------------------------------------------------------------------


def plus(spent: Spent, usage: Usage) -> Spent:
    """The sum with one more call."""
    calls, sent, answered, cached, cost, unknown_cost, unknown_tokens = spent
    has_tokens = usage.input_tokens is not None and usage.output_tokens is not None and not usage.at_least
    return Spent(
        calls + 1,
        sent + (usage.input_tokens or 0),
        answered + (usage.output_tokens or 0),
        cached + (usage.cached_tokens or 0),
        cost + (usage.cost or 0.0),
        unknown_cost + (usage.cost is None or usage.at_least),
        unknown_tokens + (not has_tokens),
    )


def total(parts: Iterable[Spent]) -> Spent:
    """All of them together."""
    whole = NOTHING_SPENT
    for part in parts:
        whole = Spent._make(a + b for a, b in zip(whole, part, strict=True))
    return whole


def since(now: Spent, before: Spent) -> Spent:
    """What was spent between two sums."""
    return Spent._make(a - b for a, b in zip(now, before, strict=True))


def known_tokens(spent: Spent) -> int | None:
    """The known tokens; None if those of no call are known."""
    return spent.tokens if spent.calls > spent.unknown_token_calls or spent.tokens else None


def known_cost(spent: Spent) -> float | None:
    """The known cost in dollars; None if that of no call is known."""
    return round(spent.cost, 9) if spent.calls > spent.unknown_cost_calls or spent.cost else None


# -- budgets -------------------------------------------------------------------------------------------------


class Limit(NamedTuple):
    """A limit, and what the run has spent of it.

    ``unknown_calls`` is how many calls are missing in ``spent``.
    """

    name: str
    spent: float
    allowed: float
    unknown_calls: int = 0

    @property
    def words(self) -> str:
        """``$0.81 of $1.00``; or how many calls are not known."""
        if self.unknown_calls:
            what = self.name.removeprefix("unknown ")
            calls = count(self.unknown_calls, "model call")
            return f"the {what} of {calls} is not known, and not in the {_amount(what, self.spent)} counted"
        if self.name in {"calls", "tokens"}:
            return f"{self.spent:,.0f} of {_amount(self.name, self.allowed)}"
        return f"{_amount(self.name, self.spent)} of {_amount(self.name, self.allowed)}"


class Verdict(NamedTuple):
    """Another model call is allowed if ``stop`` is None. ``warn`` are the limits that are near."""

    stop: Limit | None = None
    warn: tuple[Limit, ...] = ()


def judge(spent: Spent, budget: Budget, wall_s: float, *, under_way: int = 0) -> Verdict:
    """Decide whether a budget allows one more model call while ``under_way`` others run."""
    limits = [
        Limit(name, now, allowed)
        for name, now, allowed in (
            # Calls under way have no usage yet, so only their number can be counted.
            ("calls", spent.calls + under_way, budget.calls),
            ("tokens", spent.tokens, budget.tokens),
            ("cost", spent.cost, budget.cost),
            ("wall_s", wall_s, budget.wall_s),
        )
        if allowed is not None
    ]
    blind = [
        Limit(f"unknown {limit.name}", limit.spent, limit.allowed, unknown)
        for limit in limits
        if (unknown := _unknown(limit.name, spent))
    ]
    reached = [limit for limit in limits if limit.spent >= limit.allowed]
    if budget.unknown == "stop":
        reached += blind
    if reached:
        return Verdict(reached[0])
    near = [limit for limit in limits if limit.spent >= limit.allowed * budget.warn_at]
    return Verdict(None, (*near, *blind))


def allowed_words(budget: Budget) -> list[str]:
    """The limits of a budget: ``10 calls``, ``$1.00``."""
    return [_amount(name, allowed) for name in _LIMITS if (allowed := getattr(budget, name)) is not None]


_LIMITS: Final = ("calls", "tokens", "cost", "wall_s")


def _unknown(name: str, spent: Spent) -> int:
    return {"cost": spent.unknown_cost_calls, "tokens": spent.unknown_token_calls}.get(name, 0)


def _amount(name: str, value: float) -> str:
    if name == "cost":
        return money(value)
    return span(value) if name == "wall_s" else count(int(value), name.removesuffix("s"))
