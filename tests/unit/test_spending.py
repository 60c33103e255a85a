"""Spending: usage read from a body, sums in which nothing unknown is a zero, and what a budget says to them."""

from typing import Any

import pytest
from orjson import dumps

import holdfast
from holdfast.core.budget.spending import (
    Limit,
    judge,
    known_cost,
    known_tokens,
    plus,
    read_usage,
    since,
    total,
)
from holdfast.core.llm.request_shapes import known_of, usage_in, usage_of, with_tries
from holdfast.engine.steps.call_options import budget_of
from holdfast.model.budget import NOTHING_SPENT, Budget, Spent
from holdfast.model.usage import Usage

CALL = Usage("m", "p", 100, 20, 40, cost=0.5)


@pytest.mark.parametrize("after", [{"ms": 1.5, "value": "x"}, {"value": 1}, {}, {"pruned": "refetchable"}])
@pytest.mark.parametrize("model", ["m", 'a},"ms":{"', "}", "ü"])
def test_the_usage_that_a_body_begins_with(after: dict[str, Any], model: str) -> None:
    """Whatever the model is called, and whatever follows. Planted: cut at the first brace."""
    told = {"model": model, "input_tokens": 3, "cost": 0.25}
    assert read_usage(dumps({"usage": told, **after})) == Usage(model, "", 3, cost=0.25)
    assert read_usage(dumps({"usage": {}, **after})) == Usage()


def test_tries_of_one_call_count_together() -> None:
    """What each try reported is summed, and the whole is "at least": a try that was cut off did not report all.

    What the last try did not report stays unknown. The record has the mark only where it is true.
    """
    whole = with_tries(CALL, [Usage("", "", 90, 1), Usage()])
    assert whole == CALL._replace(input_tokens=190, output_tokens=21, at_least=True)
    assert with_tries(Usage("m"), [CALL]) == Usage("m", at_least=True)
    assert with_tries(CALL, []) == CALL
    assert usage_of(known_of(whole)) == whole
    assert "at_least" not in known_of(CALL)
    spent = plus(NOTHING_SPENT, whole)
    assert spent == Spent(1, 190, 21, 40, 0.5, unknown_cost_calls=1, unknown_token_calls=1)
    assert (known_tokens(spent), known_cost(spent)) == (211, 0.5)


def test_what_is_not_known_is_counted_as_unknown() -> None:
    """Never as zero: a call without counts is a call all the same. Planted: its cost taken as zero and known."""
    spent = plus(plus(plus(NOTHING_SPENT, CALL), Usage("m", "p", 7)), Usage())
    assert spent == Spent(3, 107, 20, 40, 0.5, unknown_cost_calls=2, unknown_token_calls=2)
    assert (known_tokens(spent), known_cost(spent)) == (127, 0.5)
    nobody = plus(NOTHING_SPENT, Usage())
    assert (known_tokens(nobody), known_cost(nobody)) == (None, None)
    assert (known_tokens(NOTHING_SPENT), known_cost(NOTHING_SPENT)) == (None, None)
    free = plus(NOTHING_SPENT, Usage("m", "p", 0, 0, cost=0.0))
    assert (known_tokens(free), known_cost(free)) == (0, 0.0)


def test_sums_and_differences() -> None:
    """The parts are the whole, and what came after is the rest."""
    one = plus(NOTHING_SPENT, CALL)
    assert total([one, one]) == plus(one, CALL)
    assert since(plus(one, Usage()), one) == plus(NOTHING_SPENT, Usage())
    assert total([]) == NOTHING_SPENT


SPENT = Spent(8, 700, 100, 0, 0.8, 0, 0)


@pytest.mark.parametrize(
    ("budget", "stop", "warn"),
    [
        (Budget(), "", []),
        (Budget(calls=11), "", []),
        (Budget(calls=10), "", ["calls"]),
        (Budget(calls=9), "", ["calls"]),
        (Budget(calls=8), "calls", []),
        (Budget(tokens=1001), "", []),
        (Budget(tokens=1000), "", ["tokens"]),
        (Budget(tokens=800), "tokens", []),
        (Budget(cost=1.0), "", ["cost"]),
        (Budget(cost=0.8), "cost", []),
        (Budget(wall_s=100), "", []),
        (Budget(wall_s=75), "", ["wall_s"]),
        (Budget(wall_s=60), "wall_s", []),
        (Budget(calls=10, cost=1.0, warn_at=1), "", []),
        (Budget(calls=0), "calls", []),
        (Budget(calls=9, cost=0.9, tokens=801, wall_s=61), "", ["calls", "tokens", "cost", "wall_s"]),
        (Budget(calls=100, cost=0.1), "cost", []),
    ],
)
def test_the_verdict(budget: Budget, stop: str, warn: list[str]) -> None:
    """A limit that is reached stops; one of which four fifths are spent warns. Planted: ``>`` for ``>=``."""
    verdict = judge(SPENT, budget, 60.0)
    assert (verdict.stop.name if verdict.stop else "") == stop
    assert [limit.name for limit in verdict.warn] == warn


def test_calls_on_their_way_count() -> None:
    """Of ten that are asked for side by side, no more begin than are allowed."""
    assert judge(SPENT, Budget(calls=10), 0.0, under_way=1).stop is None
    assert judge(SPENT, Budget(calls=10), 0.0, under_way=2).stop == Limit("calls", 10, 10)


def test_a_budget_that_cannot_be_kept() -> None:
    """Calls of unknown cost are warned of, or stop; only where the cost is limited."""
    blind = SPENT._replace(unknown_cost_calls=3, unknown_token_calls=2)
    assert judge(blind, Budget(calls=100), 0.0).warn == ()
    (told,) = judge(blind, Budget(cost=9), 0.0).warn
    assert told == Limit("unknown cost", 0.8, 9, 3)
    assert told.words == "the cost of 3 model calls is not known, and not in the $0.80 counted"
    assert judge(blind, Budget(cost=9, unknown="stop"), 0.0).stop == told
    assert judge(blind, Budget(tokens=9000, unknown="stop"), 0.0).stop == Limit(
        "unknown tokens", 800, 9000, 2
    )
    assert judge(SPENT, Budget(cost=9, unknown="stop"), 0.0).stop is None


def test_limits_in_words() -> None:
    """As a person would say it."""
    assert Limit("cost", 0.8123, 1.0).words == "$0.8123 of $1.00"
    assert Limit("cost", 0.00001, 1.0).words == "<$0.0001 of $1.00"
    assert Limit("tokens", 81_000, 100_000).words == "81,000 of 100,000 tokens"
    assert Limit("calls", 8, 10).words == "8 of 10 calls"
    assert Limit("wall_s", 50, 60).words == "50 s of 1 min 0 s"


def test_a_budget_may_be_a_dict() -> None:
    """With the same names."""
    assert budget_of({"cost": 2, "warn_at": 0.5}) == Budget(cost=2, warn_at=0.5)
    assert budget_of(Budget(calls=3)) == Budget(calls=3)
    assert budget_of(None) is None


@pytest.mark.parametrize(
    "given",
    [
        3,
        {"dollars": 3},
        {"cost": -1},
        {"calls": "3"},
        {"tokens": True},
        {"cost": float("nan")},
        {"warn_at": 2},
    ],
)
def test_what_is_no_budget_is_refused(given: Any) -> None:
    """Before anything is entered; the hint tells what one looks like."""
    with pytest.raises(holdfast.Misuse) as refused:
        holdfast.run("a", store="memory://none", budget=given)
    assert "holdfast.Budget(" in refused.value.hint
    with pytest.raises(holdfast.BadOption):
        budget_of({"unknown": "ignore"})


def test_input_that_was_cached_apart_is_input() -> None:
    """Anthropic counts it beside the rest; a usage has it within."""
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 5,
        "output_tokens": 2,
    }
    assert usage_in({"usage": usage})[2:5] == (45, 2, 30)
    assert usage_in({"usage": {"input_tokens": 10, "output_tokens": 2}})[2:5] == (10, 2, None)
