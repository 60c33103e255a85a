"""The read models by themselves: places, values in words, nesting, plans, and what to do next."""

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.codec.values import encode
from holdfast.core.journal.fold import View
from holdfast.core.lineage.points import Place, parse_place
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.reports.progress import work_on_plan
from holdfast.model.events import Event
from holdfast.model.run_info import Doubt, RunInfo
from holdfast.model.store_rows import Lease
from holdfast.views.event_text import KINDS, describe
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder, next_action
from holdfast.views.plan_progress import plan_items
from holdfast.views.steps import list_steps
from holdfast.views.timeline import Timeline
from holdfast.views.value_text import failure_line, one_line, readable


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a", Place("a")),
        ("a/b.2", Place("a/b.2")),
        ("a@44", Place("a", point=44)),
        ("a@#1203", Place("a", seq=1203)),
        ("a@draft-1", Place("a", label="draft-1")),
        ("a@x@y", Place("a", label="x@y")),
    ],
)
def test_places_are_read_and_written_alike(text: str, place: Place) -> None:
    """What people type is understood, and printing it gives the same back."""
    assert parse_place(text) == place
    assert str(place) == text


def recorded(value: Any) -> Any:
    return json.loads(encode(value, what="value"))


def test_values_are_shown_as_people_write_them() -> None:
    """JSON as JSON; Python's own types without the tags that they are stored with."""
    from datetime import date
    from decimal import Decimal

    values = [
        {"a": [1, None, True]},
        (1, 2),
        {3},
        Decimal("1.50"),
        date(2026, 3, 1),
        Path("/x"),
        b"\x00",
        {1: "one"},
    ]
    assert [readable(recorded(value)) for value in values] == [
        '{"a": [1, null, true]}',
        "(1, 2)",
        "set([3])",
        "1.50",
        "2026-03-01",
        "/x",
        'bytes("AA==")',
        '{1: "one"}',
    ]
    assert readable({"$": "dataclass", "type": "shop:Point", "v": {"x": 1, "y": "b"}}) == 'Point(x=1, y="b")'
    assert readable({"$": "enum", "type": "shop:Color", "name": "RED"}) == "Color.RED"
    assert readable({"$": "something-new", "v": [1]}) == "something-new([1])"


def test_long_values_are_cut() -> None:
    """One line, at most 200 characters, however large and deep the value is."""
    for value in ("x" * 1000, ["y" * 30] * 1000, {"k": {"k": [{"z": "\n" * 500}]}}):
        assert len(readable(recorded(value))) <= 200
        assert "\n" not in readable(recorded(value))
    assert readable(recorded("x" * 1000)).endswith("…")
    assert one_line("a\n  b\tc") == "a b c"


def test_failures_are_one_line() -> None:
    """The class without its module, and the first words."""
    assert failure_line({"type": "shop.errors:Outer.Refused", "message": "no\nway"}) == "Refused: no way"
    assert failure_line({"type": "builtins:KeyError", "message": ""}) == "KeyError"
    assert failure_line(None) == ""


def event(seq: int, kind: str, name: str = "", key: str = "", **body: Any) -> Event:
    return Event(seq, 1000.0 + seq, kind, name, key, 1, json.dumps(body).encode(), 0)


def started(seq: int, name: str, key: str, inside: str = "", effect: str = "read") -> Event:
    return event(seq, "step.started", name, key, **{"in": inside, "after": "", "effect": effect, "args": {}})


def test_nesting_is_seen_through_scopes() -> None:
    """A step inside a scope inside a step is one deep; a scope alone does not count."""
    events = [
        started(1, "outer", "a.1"),
        started(2, "inner", "b.1", inside="a.1:5c0pe"),
        event(3, "step.finished", "inner", "b.1", ms=1, value=1),
        started(4, "deep", "c.1", inside="b.1"),
        started(5, "aside", "d.1", inside=":5c0pe"),
        event(6, "mark", "thought", "e.1", value={"text": "hm"}),
    ]
    assert [line.depth for line in Timeline().lines(events)] == [0, 1, 1, 2, 0, 0]


def test_an_event_of_a_later_kind_is_shown_by_its_name() -> None:
    """A timeline hides nothing, also not what it does not know."""
    assert describe(event(1, "weather.changed", "answer")).what == "weather changed"
    assert "weather.changed" not in KINDS


def test_a_step_that_ran_again_is_one_line_and_a_failure_its_own() -> None:
    """Cut off and begun again: two tries. Failed and tried by the next attempt: a line each."""
    again = [
        started(1, "a", "k.1"),
        started(2, "a", "k.1"),
        event(3, "step.finished", "a", "k.1", ms=1, value=1),
    ]
    assert [(line.outcome, line.tries, line.point) for line in list_steps(again)] == [("done", 2, 1)]
    failed = [
        started(1, "a", "k.1"),
        event(2, "step.failed", "a", "k.1", error={"type": "x:E", "message": "m"}),
        started(3, "a", "k.1"),
        event(4, "step.finished", "a", "k.1", ms=1, value=1),
    ]
    assert [(line.outcome, line.point) for line in list_steps(failed)] == [("failed", 1), ("done", 2)]


@pytest.mark.parametrize(
    ("kind", "outcome"), [("read", "cut_off"), ("once", "in_doubt"), ("held", "running")]
)
def test_an_open_step_is_judged_by_its_holder(kind: str, outcome: str) -> None:
    """Running while its process lives; otherwise in doubt or, where it is safe to repeat, cut off."""
    lines = list_steps(
        [started(1, "a", "k.1")], in_doubt={"k.1"} if kind == "once" else (), is_held=kind == "held"
    )
    assert lines[0].outcome == outcome


def plan_of(*steps: tuple[str, str], is_finished: bool = False) -> list[tuple[str, str]]:
    """The plan a, b, c after these steps and outcomes."""
    plan = event(1, "mark", "plan", "p.1", value={"steps": ["a", "b", "c"]})
    events, seq = [plan], 1
    for name, outcome in steps:
        events.append(started(seq := seq + 1, name, f"{name}{seq}.1"))
        if outcome != "open":
            key = events[-1].key
            error = {"type": "x:E", "message": ""}
            kind = "step.finished" if outcome == "done" else "step.failed"
            events.append(event(seq := seq + 1, kind, name, key, ms=1, value=1, error=error))
    items = plan_items(plan, list_steps(events, is_held=True), is_finished=is_finished)
    return [(item.text, item.status) for item in items]


def test_a_plan_tells_only_what_names_can_tell() -> None:
    """Done once a later item has begun; under way before; unknown where no step bears the name."""
    assert plan_of() == [("a", "not_begun"), ("b", "not_begun"), ("c", "not_begun")]
    assert plan_of(("a", "done")) == [("a", "under_way"), ("b", "not_begun"), ("c", "not_begun")]
    assert plan_of(("a", "done"), ("b", "open")) == [("a", "done"), ("b", "under_way"), ("c", "not_begun")]
    assert plan_of(("a", "done"), ("c", "done")) == [("a", "done"), ("b", "unknown"), ("c", "under_way")]
    assert plan_of(("a", "failed")) == [("a", "failed"), ("b", "not_begun"), ("c", "not_begun")]
    assert plan_of(("a", "done"), is_finished=True) == [("a", "done"), ("b", "unknown"), ("c", "unknown")]


def test_a_plan_is_told_by_scopes_too(tmp_path: Path) -> None:
    """Whatever is done in a scope of an item's name is work on that item, as ``runs`` and the context take it."""
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        run.plan(["a", "b", "c"])
        for item in "ab":
            with run.scope(item), run.scope("inside"):
                run.step("work", int)
        store = holdfast.store(tmp_path / "s.db")
        view, events = store.view("r"), store.events("r")
    work = {call.key: item for item, call in work_on_plan(view)}
    items = plan_items(PLAN.of(view).event, list_steps(events, is_held=True), is_finished=False, work=work)
    assert [item.status for item in items] == ["done", "under_way", "not_begun"]


def attempt_view(**body: Any) -> View:
    view = View()
    view.add(event(1, "attempt.started", number=1, owner="1@h/1.1", **body))
    return view


def info(status: str) -> RunInfo:
    return RunInfo("my run", status, 1.0, 1, Lease(1, "1@h/1.1"), None)


def test_the_next_move_quotes_what_a_shell_would_split() -> None:
    """Commands can be pasted as they are: names, directories and stores with blanks in them, too."""
    view = attempt_view(argv=["python", "my agent.py"], cwd="/my place")
    doubt = Doubt("my run", "send mail", "k.1", 1.0, "never reported back")
    move = next_action(info("crashed"), view, [doubt], CommandBuilder("/", "my.db"))
    assert [choice.command for choice in move.choices] == [
        "holdfast resolve 'my run' d0 --done JSON --store my.db",
        "holdfast resolve 'my run' d0 --retry --store my.db",
        "holdfast resolve 'my run' d0 --failed --store my.db",
        "cd '/my place' && python 'my agent.py'",
    ]
    here = next_action(info("failed"), view, [], CommandBuilder("/my place"))
    assert [choice.command for choice in here.choices] == ["python 'my agent.py'"]


def test_no_command_is_shown_for_what_cannot_be_typed() -> None:
    """A program given on the command line over several lines, or a run that nobody began, has none to repeat."""
    view = attempt_view(argv=["python", "-c", "import x\nx.go()"], cwd="/")
    assert next_action(info("failed"), view, [], CommandBuilder()).choices == ()
    assert next_action(info("queued"), View(), [], CommandBuilder()).choices == ()
    assert next_action(info("finished"), view, [], CommandBuilder()).why == ""


def test_a_diverged_run_leads_to_what_differs() -> None:
    """The drift is to be seen first; then the code is restored, or the recorded call is set aside."""
    view = attempt_view(argv=["python", "a.py"], cwd="/")
    move = next_action(info("diverged"), view, [], CommandBuilder("/"), drifted_from="k.1")
    assert [choice.command for choice in move.choices] == [
        "holdfast log 'my run' --kind drifted",
        "holdfast resolve 'my run' k.1 --abandon",
        "python a.py",
    ]


def test_times_are_iso_and_moods_stay_inside() -> None:
    """The JSON shape of a line: moments as text, nothing that is only for the eye."""
    plain = as_plain(Timeline().lines([event(1, "run.started", goal="g")])[0])
    assert plain["at"] == "1970-01-01T00:16:41.000Z"
    assert "mood" not in plain
