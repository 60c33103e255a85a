"""Spending: what recorded model calls took, summed up, and whether a budget allows another one.

The usage of a call stands first among the fields of its outcome, so that whoever folds a journal knows by nine bytes whether
there is anything to decode. The invariants: sums depend only on the outcomes and their order, however a history is cut
into attempts, forks and compacted stretches; and what is not known is never counted as zero, but as unknown.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from holdfast.core.llm.request_shapes import usage_of
from holdfast.core.text.times import span
from holdfast.core.text.value_text import count, money
from holdfast.model.budget import NOTHING_SPENT, Budget, Spent
from holdfast.model.event_fields import fields_of
from holdfast.model.usage import Usage

# -- usage -------------------------------------------------------------------------------------------------------


def read_usage(body: bytes) -> Usage:
    """The usage that a body tells. The answer itself may be long, and is not decoded."""
    return usage_of(fields_of(body)["usage"])


# -- sums --------------------------------------------------------------------------------------------------------


def plus(spent: Spent, usage: Usage) -> Spent:
    """The sum with one more call."""
    calls, sent, answered, cached, cost, unknown_cost, unknown_tokens = spent
    is_told = usage.input_tokens is not None and usage.output_tokens is not None
    return Spent(
        calls + 1,
        sent + (usage.input_tokens or 0),
        answered + (usage.output_tokens or 0),
        cached + (usage.cached_tokens or 0),
        cost + (usage.cost or 0.0),
        unknown_cost + (usage.cost is None),
        unknown_tokens + (not is_told),
    )


def total(parts: Iterable[Spent]) -> Spent:
    """All of them together."""
    whole = NOTHING_SPENT
    for part in parts:
        whole = Spent._make(a + b for a, b in zip(whole, part, strict=True))
    return whole


def since(now: Spent, before: Spent) -> Spent:
    """What was spent after that."""
    return Spent._make(a - b for a, b in zip(now, before, strict=True))


def known_tokens(spent: Spent) -> int | None:
    """The tokens, as far as they are known; None where nothing is known of any call, or there was none."""
    return spent.tokens if spent.calls > spent.unknown_token_calls or spent.tokens else None


def known_cost(spent: Spent) -> float | None:
    """The cost, as far as it is known, in dollars; None where that of no call is known, or there was none."""
    return round(spent.cost, 9) if spent.calls > spent.unknown_cost_calls else None


# -- budgets -----------------------------------------------------------------------------------------------------


class Limit(NamedTuple):
    """A limit, and where the run stands with it. ``unknown_calls`` are those that make it impossible to tell."""

    name: str
    spent: float
    allowed: float
    unknown_calls: int = 0

    @property
    def words(self) -> str:
        """``$0.81 of $1.00``; or what of it is not known."""
        if self.unknown_calls:
            what = self.name.removeprefix("unknown ")
            calls = count(self.unknown_calls, "model call")
            return f"the {what} of {calls} is not known, and not in the {_amount(what, self.spent)} counted"
        if self.name in {"calls", "tokens"}:
            return f"{self.spent:,.0f} of {_amount(self.name, self.allowed)}"
        return f"{_amount(self.name, self.spent)} of {_amount(self.name, self.allowed)}"


class Verdict(NamedTuple):
    """Whether another model call is allowed: not with a limit in ``stop``. ``warn`` are those that are near."""

    stop: Limit | None = None
    warn: tuple[Limit, ...] = ()


def judge(spent: Spent, budget: Budget, wall_s: float, *, under_way: int = 0) -> Verdict:
    """What a budget says to one more model call, with so many others on their way."""
    limits = [
        Limit(name, now, allowed)
        for name, now, allowed in (
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
