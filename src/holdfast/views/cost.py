"""The usage and cost of model calls as text and as JSON. Unknown costs are marked, never shown as zero."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.budget.spending import allowed_words, known_cost, known_tokens
from holdfast.core.text.value_text import count, money
from holdfast.model.budget import Budget, Spent
from holdfast.model.named_tuple import NamedTuple

UNKNOWN = "?"


class ModelCost(NamedTuple):
    """Usage and cost of model calls. ``tokens`` and ``cost`` are None if no call's are known."""

    calls: int
    tokens: int | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: float | None
    unknown_cost_calls: int
    unknown_token_calls: int


def bill(spent: Spent) -> ModelCost:
    """What was spent, as every surface shows it."""
    return ModelCost(
        spent.calls,
        known_tokens(spent),
        spent.input_tokens,
        spent.output_tokens,
        spent.cached_tokens,
        known_cost(spent),
        spent.unknown_cost_calls,
        spent.unknown_token_calls,
    )


def marked_cost(cost: float | None, unknown_calls: int) -> str:
    """``$0.42``; ``$0.42 + ?`` if the cost of some calls is unknown; ``?`` if all are.

    Empty without calls.
    """
    return _with_unknown("" if cost is None else money(cost), unknown_calls)


def token_words(made: ModelCost) -> str:
    """``12,345 tokens``, with the same marks."""
    known = "" if made.tokens is None else count(made.tokens, "token")
    return _with_unknown(known, made.unknown_token_calls, of=" tokens")


def bill_words(made: ModelCost) -> str:
    """``12 model calls, 34,000 tokens, $0.42``; empty without calls."""
    return f"{count(made.calls, 'model call')}, {_took(made)}" if made.calls else ""


def answered_words(made: ModelCost) -> str:
    """``12 answered, 34,000 tokens, $0.42``."""
    return f"{made.calls:,} answered, {_took(made)}"


def spent_words(made: ModelCost, budget: Mapping[str, Any] | None) -> str:
    """``12 model calls, 34,000 tokens, $0.42; allowed: $1.00``. Empty without calls and limits."""
    known = {name: limit for name, limit in (budget or {}).items() if name in Budget._fields}
    allowed = allowed_words(Budget(**known))
    spent = bill_words(made) or ("no model calls" if allowed else "")
    return f"{spent}; allowed: {', '.join(allowed)}" if allowed else spent


def cost_note(made: ModelCost) -> str:
    """``$0.42``, and the number of calls whose cost is unknown."""
    if made.cost is None:
        return "not known"
    if not made.unknown_cost_calls:
        return money(made.cost)
    return f"{money(made.cost)} and the unknown cost of {count(made.unknown_cost_calls, 'call')}"


def _took(made: ModelCost) -> str:
    return f"{token_words(made)}, {'cost ' if made.cost is None else ''}{cost_note(made)}"


def _with_unknown(known: str, unknown_calls: int, of: str = "") -> str:
    if not unknown_calls:
        return known
    return f"{known} + {UNKNOWN}" if known else f"{UNKNOWN}{of}"
