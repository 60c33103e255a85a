"""``holdfast stats --cost``, and tokens and cost wherever a run is shown; what is not known is never a zero."""

import json
from contextlib import suppress
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from tests.cli.test_docs_page import documented

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

PRICES = {"big*": {"input": 1000, "output": 5000, "cached": 100}}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["n"] == "fail":
        raise LookupError("no such model")
    usage: dict[str, Any] = {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 400},
    }
    return {"model": request["model"], "usage": {} if request["model"] == "silent" else usage}


def ask(shop: "Shop", run: str, *questions: tuple[str, object], **options: Any) -> None:
    """A run that asks these models and then fails."""
    opening = holdfast.run(run, store=shop.store, prices=PRICES, loops=False, **options)
    with suppress(LookupError, holdfast.Parked), opening as entered:
        for model, n in questions:
            entered.model("ask", answer, {"model": model, "n": n}, provider="host")
        raise LookupError


@pytest.fixture
def spenders(own_shop: "Shop") -> "Shop":
    """One run whose cost is known, resumed once; one of which some is known; one of which nothing is; one without."""
    ask(own_shop, "paid", ("big-1", 1), ("big-1", 2))
    ask(own_shop, "paid", ("big-1", 1), ("big-1", 2), ("big-2", 3), ("big-2", "fail"))
    ask(own_shop, "mixed", ("big-1", 1), ("local", 2), budget={"cost": 10, "tokens": 5000})
    ask(own_shop, "silent", ("silent", 1), budget={"calls": 1})
    ask(own_shop, "silent", ("silent", 1), ("silent", 2), budget={"calls": 1})
    with holdfast.run("plain", store=own_shop.store) as run:
        run.step("x", str, 1)
    return own_shop


def test_all_runs_in_a_pipe(spenders: "Shop") -> None:
    """By model with the dearest first, by run newest first (here time stands still); runs without model calls are not listed.

    Planted: an unknown cost shown as ``$0.00``; replayed calls counted as spent.
    """
    assert spenders("stats", "--cost").out == dedent("""\
        runs             4
        model calls      6 answered, 1 without an answer and not counted
        tokens           5,000 in (2,000 cached), 250 out, and the unknown ones of 1 call
        cost             $3.56 and the unknown cost of 2 calls
        saved by replay  3 model calls, 2,100 tokens + ?, $1.78 and the unknown cost of 1 call

        Models
        MODEL   PROVIDER  CALLS     IN  CACHED  OUT   COST  UNKNOWN
        big-1   host          3  3,000   1,200  150  $2.67
        big-2   host          1  1,000     400   50  $0.89
        local   host          1  1,000     400   50      ?   1 call
        silent  host          1                          ?   1 call

        Runs
        RUN     STATUS  CALLS     IN  CACHED  OUT       COST  UNKNOWN  SAVED BY REPLAY
        silent  parked      1                              ?   1 call  1 call, ?
        paid    failed      3  3,000   1,200  150      $2.67           2 calls, $1.78
        mixed   failed      2  2,000     800  100  $0.89 + ?   1 call
        """)


def test_one_run_in_a_pipe(spenders: "Shop") -> None:
    """Its models; and that there are none."""
    assert spenders("stats", "mixed", "--cost").out == dedent("""\
        run              mixed
        model calls      2 answered
        tokens           2,000 in (800 cached), 100 out
        cost             $0.89 and the unknown cost of 1 call
        saved by replay  nothing yet

        Models
        MODEL  PROVIDER  CALLS     IN  CACHED  OUT   COST  UNKNOWN
        big-1  host          1  1,000     400   50  $0.89
        local  host          1  1,000     400   50      ?   1 call
        """)
    assert spenders("stats", "plain", "--cost").out == "run          plain\nmodel calls  none\n"
    assert "cost             cost not known\n" not in spenders("stats", "silent", "--cost").out
    assert "cost             not known\n" in spenders("stats", "silent", "--cost").out
    assert "tokens           not known\n" in spenders("stats", "silent", "--cost").out


def test_at_80_columns(spenders: "Shop") -> None:
    """On a terminal it fits, and the cost stays."""
    lines = spenders.on_terminal("stats", "--cost", NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= 80
    assert any("COST" in line for line in lines)


def test_wherever_a_run_is_shown(spenders: "Shop") -> None:
    """In the table of runs, in full, in the numbers, in the log."""
    table = {line.split()[0]: " ".join(line.split()) for line in spenders("runs").out.splitlines()[:5]}
    assert "3,150 $2.67" in table["paid"]
    assert "2,100 $0.89 + ?" in table["mixed"]
    assert table["silent"].endswith("?")
    assert "$" not in table["plain"]
    shown = spenders("show", "mixed").out
    assert (
        "spent   2 model calls, 2,100 tokens, $0.89 and the unknown cost of 1 call; allowed: 5,000 tokens, $10.00\n"
        in shown
    )
    assert "spent" not in spenders("show", "plain").out
    assert (
        "model calls      6 answered, 5,250 tokens + ?, $3.56 and the unknown cost of 2 calls\n"
        in spenders("stats").out
    )


def test_a_run_that_its_budget_has_parked(spenders: "Shop") -> None:
    """It says so, and what to do about it."""
    shown = spenders("show", "silent").out
    assert "its budget is spent: 1 of 1 call" in " ".join(shown.split())
    assert (
        "  its budget does not allow another model call: raise budget= in its program, then start it again\n"
        "  holdfast stats silent --cost --store STORE  # see what it was spent on\n"
    ) in shown
    listed = json.loads(spenders("show", "silent", "--json").out)
    assert listed["budget"] == {"calls": 1, "warn_at": 0.8, "unknown": "warn"}
    assert listed["spent"]["calls"] == 1


def test_the_log_tells_of_warnings(own_shop: "Shop") -> None:
    """``--kind budget`` lists them."""
    ask(own_shop, "near", *[("big-1", n) for n in range(6)], budget={"calls": 6})
    out = " ".join(own_shop("log", "near", "--kind", "budget").out.split())
    assert out.endswith("budget calls 5 of 6 calls")


def test_the_fields(spenders: "Shop") -> None:
    """Those of models are documented; each ``spent`` has the fields of ``totals.spent``; what is not known is null."""
    content = json.loads(spenders("stats", "--cost", "--json").out)
    assert content == json.loads(spenders("stats", "--json").out)
    models = {path.removeprefix("models[].") for path in documented("stats") if path.startswith("models[].")}
    assert all(set(model) == models for model in content["models"])
    fields = {p.removeprefix("totals.spent.") for p in documented("stats") if p.startswith("totals.spent.")}
    runs = {run["run"]: run for run in content["runs"]}
    attempt = runs["paid"]["attempts"][1]
    for part in (content["totals"]["spent"], runs["paid"]["saved_spent"], attempt["answered_spent"]):
        assert set(part) == fields
    assert (runs["silent"]["spent"]["cost"], runs["silent"]["spent"]["tokens"]) == (None, None)
    assert runs["paid"]["spent"]["cost"] == pytest.approx(2.67)
    assert runs["paid"]["unanswered"] == 1


def test_model_costs_is_what_the_api_counts(spenders: "Shop") -> None:
    """The view in the file and ``store.stats()`` agree, and a sum of nothing known is null."""
    rows = apsw.Connection(str(spenders.path)).execute(
        "SELECT run, model, provider, calls, input_tokens, output_tokens, cached_tokens, cost,"
        " unknown_cost_calls, unknown_token_calls FROM model_costs"
    )
    found = {(row[0], row[1], row[2]): row[3:] for row in rows}
    counted = {
        (run.run, model.model, model.provider): model.spent
        for run in spenders.store.stats().runs
        for model in run.models
    }
    assert found.keys() == counted.keys()
    for key, (calls, sent, answered, cached, cost, *unknown) in found.items():
        spent = counted[key]
        assert (calls, sent or 0, answered or 0, cached or 0) == (
            spent.calls,
            spent.input_tokens,
            spent.output_tokens,
            spent.cached_tokens,
        )
        assert unknown == [spent.unknown_cost_calls, spent.unknown_token_calls]
        assert cost == (None if spent.unknown_cost_calls == spent.calls else pytest.approx(spent.cost))


def test_a_difference_tells_what_each_side_took(spenders: "Shop") -> None:
    """Since the last event that both have in common."""
    store = spenders.store
    store.fork("paid@1", as_="other")
    ask(spenders, "other", ("big-1", 1), ("local", 5), ("big-1", 6))
    diff = store.diff("paid", "other")
    assert [(side.tokens, side.unknown_cost_calls) for side in (diff.a, diff.b)] == [(2100, 0), (2100, 1)]
    assert [side.cost for side in (diff.a, diff.b)] == pytest.approx([1.78, 0.89])
    assert "$0.89 + ?" in spenders("diff", "paid", "other", "--events").out
