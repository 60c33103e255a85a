"""Where a run stands in its plan, and when it was last heard of."""

from typing import Any

import pytest
from orjson import dumps

from holdfast.core.journal.fold import View, fold
from holdfast.core.reports.progress import LastSign, PlanPosition, last_sign, plan_position
from holdfast.core.steps.identity import scope_of
from holdfast.model.events import Event, Kind, checksum
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import Lease

PLAN = ["survey", "compare", "draft"]


def journal(*happened: tuple[str, str] | tuple[str, str, dict[str, Any]]) -> View:
    """A view of these events, a second each: kinds and names, and what else their bodies say."""
    events = []
    for seq, (kind, name, *more) in enumerate(happened, 1):
        body = {"effect": "read", "in": "", "how": "done", **(more[0] if more else {})}
        content = (seq, float(seq), kind, name, f"{name}.{seq if kind == Kind.MARK else 1}", 1, dumps(body))
        events.append(Event(*content, checksum("run", *content)))
    return fold(events)


def plan(*items: str) -> tuple[str, str, dict[str, Any]]:
    return (Kind.MARK, "plan", {"value": {"steps": items or PLAN}})


def begun(name: str, inside: str = "") -> tuple[str, str, dict[str, Any]]:
    return (Kind.STEP_STARTED, name, {"in": inside})


def done(name: str) -> tuple[str, str]:
    return (Kind.STEP_FINISHED, name)


def test_without_a_plan_there_is_no_place_in_it() -> None:
    """Only the counter of points tells then."""
    assert plan_position(journal(begun("survey"))) is None
    assert plan_position(View()) is None


def test_before_anything_of_it_was_begun() -> None:
    """Other work does not count."""
    assert plan_position(journal(plan(), begun("warm up"))) == PlanPosition(0, 3, "")


def test_the_item_begun_last_is_where_it_stands() -> None:
    """While it is worked on, and until the next one is begun; however often it is done."""
    assert plan_position(journal(plan(), begun("survey"))) == PlanPosition(1, 3, "survey")
    assert plan_position(journal(plan(), begun("survey"), done("survey"))) == PlanPosition(1, 3, "survey")
    view = journal(plan(), begun("survey"), done("survey"), begun("compare"), done("compare"), begun("other"))
    assert plan_position(view) == PlanPosition(2, 3, "compare")


def test_going_back_is_told() -> None:
    """A plan is no promise: the program may do an earlier item again, or begin with the last."""
    assert plan_position(journal(plan(), begun("draft"))) == PlanPosition(3, 3, "draft")
    assert plan_position(journal(plan(), begun("draft"), begun("survey"))) == PlanPosition(1, 3, "survey")


def test_an_item_that_stands_in_the_plan_twice() -> None:
    """Is the next one of its name. Planted: always the first, and the run seemed to go back."""
    items = plan("search", "compare", "search", "draft")
    view = journal(items, begun("search"), done("search"), begun("compare"))
    assert plan_position(view) == PlanPosition(2, 4, "compare")
    view = journal(items, begun("search"), begun("compare"), (Kind.STEP_STARTED, "search", {"in": ":x"}))
    # One call of a name is one call: what was begun last of it counts.
    assert plan_position(view) == PlanPosition(3, 4, "search")


def test_a_scope_of_that_name_is_work_on_it() -> None:
    """At the top only; what a step does inside itself is that step's. Planted: any scope, at any depth."""
    inside = scope_of("", "compare")
    assert plan_position(journal(plan(), begun("fetch", inside))) == PlanPosition(2, 3, "compare")
    deeper = scope_of(inside, "page 7")
    assert plan_position(journal(plan(), begun("fetch", deeper))) == PlanPosition(2, 3, "compare")
    other = scope_of(scope_of("", "other"), "compare")
    assert plan_position(journal(plan(), begun("fetch", other))) == PlanPosition(0, 3, "")
    in_a_step = scope_of("0123456789abcdef0123.1", "compare")
    assert plan_position(journal(plan(), begun("fetch", in_a_step))) == PlanPosition(0, 3, "")


def test_finished_is_the_end_of_the_plan() -> None:
    """Whatever was left out of it."""
    view = journal(plan(), begun("survey"), done("survey"), (Kind.RUN_FINISHED, "", {"value": None}))
    assert plan_position(view) == PlanPosition(3, 3, "draft")


def test_the_latest_plan_counts() -> None:
    """Also for what was done before it."""
    view = journal(plan(), begun("survey"), plan("survey", "publish"))
    assert plan_position(view) == PlanPosition(1, 2, "survey")


@pytest.mark.parametrize("value", [None, [], {"steps": []}, "words"])
def test_a_plan_without_items_is_none(value: object) -> None:
    """Nor is one that cannot be read as such."""
    assert plan_position(journal((Kind.MARK, "plan", {"value": value}))) is None


@pytest.mark.parametrize(
    ("owner", "beat_at", "events", "expected"),
    [
        ("1@h/x", 9.0, 2, LastSign(9.0, "beat")),
        ("1@h/x", 1.0, 2, LastSign(2.0, "event")),
        ("", 9.0, 2, LastSign(2.0, "event")),  # nobody holds it: an old beat says nothing
        ("1@h/x", 9.0, 0, LastSign(9.0, "beat")),
        ("", 0.0, 0, LastSign(0.5, "made")),
    ],
)
def test_the_last_sign_of_life(owner: str, beat_at: float, events: int, expected: LastSign) -> None:
    """A beat while somebody holds it, else the last event; of a run that was only made, that."""
    info = RunInfo("run", "running", 0.5, events, Lease(1, owner, 1, 0.0, beat_at, 30.0), None)
    view = journal(*[begun(f"s{n}") for n in range(events)])
    assert last_sign(info, view) == expected
