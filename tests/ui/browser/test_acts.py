"""Every act, by a person with a mouse, and what the store has afterwards."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.ui.browser import library
from tests.ui.browser.inspector import AGENT, Inspector, Viewer, run_agent

import holdfast
from holdfast.model.event_fields import fields_of

View = Callable[..., Viewer]
Serve = Callable[..., Inspector]


def form(page: Page) -> Locator:
    return page.locator("#detail form[data-act-form]")


def done(page: Page, words: str) -> None:
    """The page says what was done."""
    expect(page.locator("#notice")).to_contain_text(words)
    expect(page.locator("#detail")).not_to_be_visible()


def more(page: Page, act: str) -> Locator:
    """The form of an act behind "More"."""
    page.get_by_role("button", name="More…").click()
    page.locator("#detail").get_by_role("button", name=act).click()
    expect(form(page)).to_be_visible()
    return form(page)


def test_answer(url: str, serve: Serve, view: View) -> None:
    """A question is answered with a reason, in the person's name, and leaves the first page by itself."""
    library.asked(url, about={"to": "ministry"})
    page = view(serve(url)).go("/")
    need = page.get_by_role("article").filter(has_text="Send it?")
    expect(need).to_contain_text('"to": "ministry"')
    need.get_by_role("button", name="Answer…").click()
    expect(form(page)).to_contain_text("The first answer counts.")
    form(page).get_by_label("Answer (").select_option("yes")
    form(page).get_by_label("Reason").fill("it is short enough")
    form(page).get_by_role("button", name="Answer", exact=True).click()
    done(page, "answered, by ada")
    expect(page.get_by_text("Nothing needs you.")).to_be_visible()
    (asked,) = holdfast.store(url).questions("asked")
    assert asked.pending_by == "ada"
    with holdfast.run("asked", store=url, goal="ask a person") as run:
        run.step("draft", str.upper, "dear minister")
        answer = run.ask("Send it?", returns=bool, about={"to": "ministry"})
    assert answer is True


def test_an_answer_that_does_not_fit_is_refused_in_the_form(url: str, serve: Serve, view: View) -> None:
    """The form stays open, says what fits, and nothing is recorded."""
    library.asked(url, question="How many pages?", returns=int)
    viewer = view(serve(url))
    viewer.allow("status of 409|status of 400")
    page = viewer.go("/")
    page.get_by_role("button", name="Answer…").click()
    form(page).get_by_label("Answer (").fill("many")
    form(page).get_by_role("button", name="Answer", exact=True).click()
    expect(form(page).get_by_role("alert")).to_contain_text("many")
    assert not holdfast.store(url).questions("asked")[0].pending_by
    form(page).get_by_label("Answer (").fill("12")
    form(page).get_by_role("button", name="Answer", exact=True).click()
    done(page, "answered")


@pytest.mark.parametrize(
    ("button", "how"), [("It happened…", "done"), ("It did not", "retry"), ("It failed", "failed")]
)
def test_resolve_a_doubt(url: str, serve: Serve, view: View, button: str, how: str) -> None:
    """An effect in doubt is settled as done, not done, or failed, with what it returned."""
    library.doubted(url)
    page = view(serve(url)).run("doubted")
    need = page.get_by_role("article", name="doubt")
    expect(need).to_contain_text("pay")
    need.get_by_role("button", name=button).click()
    expect(form(page)).to_contain_text("pay")
    if how == "done":
        form(page).get_by_label("What it returned").fill('{"receipt": "r-1"}')
    if how == "failed":
        form(page).get_by_label("The error").fill("the card was refused")
    form(page).get_by_role("button", name="Record it").click()
    done(page, f"is resolved as {how}, by ada")
    expect(page.get_by_role("article", name="doubt")).to_have_count(0)
    (doubt,) = holdfast.store(url).doubts("doubted")
    assert doubt.pending == how
    if how == "done":
        with holdfast.run("doubted", store=url, goal="pay Ada") as run:
            receipt: Any = run.once("pay", library.pay_and_die, "Ada")
        assert receipt == {"receipt": "r-1"}
        (settled,) = [
            event for event in holdfast.store(url).events("doubted") if event.kind == "step.settled"
        ]
        assert fields_of(settled.body)["by"] == "ada"


@pytest.mark.parametrize(("button", "how"), [("The same as", "same"), ("A new one", "new")])
def test_resolve_a_stopped_call(url: str, serve: Serve, view: View, button: str, how: str) -> None:
    """A call that may be a recorded effect is the same one, or a new one."""
    library.stopped(url)
    page = view(serve(url)).run("stopped")
    page.get_by_role("article", name="stopped").get_by_role("button", name=button).click()
    form(page).get_by_role("button", name="Record it").click()
    done(page, f"is resolved as {how}, by ada")
    expect(page.get_by_role("article", name="stopped")).to_have_count(0)
    with holdfast.run("stopped", store=url) as run:
        receipt = run.once("pay", library.pay, "Zoe")
    assert receipt == ("receipt for Ada" if how == "same" else "receipt for Zoe")


def test_cancel(url: str, serve: Serve, view: View) -> None:
    """A run is cancelled with a reason; its page shows it."""
    library.points(url)
    page = view(serve(url)).run("points")
    cancel = more(page, "Cancel…")
    expect(cancel).to_contain_text("does nothing more")
    cancel.get_by_label("Reason").fill("no longer needed")
    cancel.get_by_role("button", name="Cancel the run").click()
    done(page, "cancelled, by ada")
    expect(page.locator(".run-head .pill")).to_have_text("cancelled")
    assert holdfast.store(url).get("points").status == "cancelled"


def test_resume(url: str, serve: Serve, view: View) -> None:
    """A killed run is started again from the page, by its own command; the page shows it going on without a reload."""
    run_agent(url, DIE="stream")
    page = view(serve(url)).run("debt-cycles")
    expect(page.locator(".run-head .pill")).to_have_text("crashed")
    page.get_by_role("button", name="Resume…").click()
    expect(form(page)).to_contain_text("starts its program again")
    form(page).get_by_role("button", name="Start it").click()
    done(page, "debt-cycles")
    expect(page.locator(".run-head .pill")).to_have_text("parked")
    expect(page.get_by_role("article", name="question")).to_contain_text("May the briefing be sent")
    assert holdfast.store(url).get("debt-cycles").status == "parked"


def test_fork_with_another_outcome(url: str, serve: Serve, view: View) -> None:
    """A fork from a point of the scrubber, with an overridden outcome; the page goes to it, the origin stays."""
    library.points(url)
    page = view(serve(url)).run("points")
    before = holdfast.store(url).get("points")
    page.locator('[data-part="state"]').get_by_role("slider").press("ArrowLeft")
    expect(page.locator('[data-part="state"] h2')).to_contain_text("at-4")
    page.get_by_role("button", name="fork from here").click()
    expect(form(page)).to_contain_text("points stays as it is")
    expect(form(page)).to_contain_text("pay")
    form(page).get_by_label("Name of the new run").fill("points-other")
    form(page).get_by_text("Give steps other outcomes").click()
    form(page).get_by_label("Other outcomes").fill('{"count-3": 99}')
    form(page).get_by_role("button", name="Fork").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("points-other")
    expect(page.locator("#notice")).to_contain_text("is a fork of points@")
    store = holdfast.store(url)
    assert store.past("points-other").origin_seq > 0
    assert store.get("points").head == before.head
    overridden = [event for event in store.events("points-other") if event.kind == "step.overridden"]
    assert [store.content(event)["value"] for event in overridden] == [99]
    expect(page.get_by_text("is borrowed from the run that it was forked from")).to_be_visible()


def test_a_fork_that_is_refused_says_why(url: str, serve: Serve, view: View) -> None:
    """A name that is taken, and an override that is no JSON, are told in the form."""
    library.points(url)
    viewer = view(serve(url))
    viewer.allow("status of 4")
    page = viewer.run("points")
    page.get_by_role("button", name="Fork…").click()
    form(page).get_by_text("Give steps other outcomes").click()
    form(page).get_by_label("Other outcomes").fill("{count: 1}")
    form(page).get_by_role("button", name="Fork").click()
    expect(form(page).get_by_role("alert")).to_contain_text("is not JSON")
    form(page).get_by_label("Other outcomes").fill("")
    form(page).get_by_label("Name of the new run").fill("points")
    form(page).get_by_role("button", name="Fork").click()
    expect(form(page).get_by_role("alert")).to_contain_text("points")
    assert len(holdfast.store(url).runs()) == 1


def test_rewind(url: str, serve: Serve, view: View) -> None:
    """A rewind says what it throws away, moves the head back, and keeps the old branch as a fork."""
    library.points(url)
    page = view(serve(url)).run("points")
    page.locator('[data-part="state"]').get_by_role("slider").press("Home")
    expect(page.locator('[data-part="state"] h2')).to_contain_text("at-0")
    page.get_by_role("button", name="rewind to here").click()
    expect(form(page)).to_contain_text("throws away")
    expect(form(page)).to_contain_text("is kept as a fork")
    form(page).get_by_role("button", name="Rewind").click()
    done(page, "stands at points@")
    expect(page.locator('[data-part="state"]')).to_contain_text("at-0")
    expect(page.locator('[data-part="state"]')).not_to_contain_text("at-5")
    store = holdfast.store(url)
    assert {info.run for info in store.runs()} > {"points"}
    assert store.diff("points", "points").a.point == 2


def test_pin(url: str, serve: Serve, view: View) -> None:
    """A point is pinned by its label."""
    library.points(url)
    page = view(serve(url)).run("points")
    pin = more(page, "Pin a point…")
    pin.get_by_label("Point or label").fill("at-2")
    pin.get_by_role("button", name="Pin").click()
    done(page, "is pinned")
    assert [one.run for one in holdfast.store(url).pins()] == ["points"]


def test_prune_shows_its_plan_first(url: str, serve: Serve, view: View) -> None:
    """The form lists what would go; nothing goes before it is confirmed."""
    library.long(url, 400)
    store = holdfast.store(url)
    before = len(store.events("long"))
    page = view(serve(url)).run("long")
    prune = more(page, "Prune…")
    plan = store.prune("long", dry_run=True)
    expect(prune).to_contain_text("long: " if any(line.goes for line in plan.runs) else "nothing to prune")
    assert len(store.events("long")) == before
    prune.get_by_role("button", name="Prune").click()
    done(page, "less, of")
    assert not any(line.goes for line in store.prune("long", dry_run=True).runs)


def test_export(url: str, serve: Serve, view: View, tmp_path: Path) -> None:
    """A run is written to a file, which another store takes in; a file that exists is not written over."""
    library.points(url)
    viewer = view(serve(url))
    viewer.allow("status of 4")
    page = viewer.run("points")
    path = tmp_path / "points.holdfast"
    export = more(page, "Export…")
    export.get_by_label("File").fill(str(path))
    export.get_by_role("button", name="Export").click()
    done(page, "is written to")
    other = holdfast.store(f"sqlite:///{tmp_path / 'other.db'}")
    other.import_(str(path))
    assert "points" in {info.run for info in other.runs()}
    written = path.read_bytes()
    export = more(page, "Export…")
    export.get_by_label("File").fill(str(path))
    export.get_by_role("button", name="Export").click()
    expect(export.get_by_role("alert")).to_contain_text(str(path))
    assert path.read_bytes() == written


def test_handoff(url: str, serve: Serve, view: View, tmp_path: Path) -> None:
    """The handoff is written to a file, and the run is sealed if that is wished."""
    library.points(url)
    page = view(serve(url)).run("points")
    path = tmp_path / "points.json"
    handoff = more(page, "Hand over…")
    handoff.get_by_label("Receiver").fill("night shift")
    handoff.get_by_label("File").fill(str(path))
    handoff.get_by_label("Seal the run").check()
    handoff.get_by_role("button", name="Write the handoff").click()
    done(page, "holdfast accept")
    expect(page.locator(".run-head .pill")).to_have_text("sealed")
    assert json.loads(path.read_text())["to"] == "night shift"
    assert holdfast.store(url).get("points").status == "sealed"


def test_read_only_has_no_acts(story: str, serve: Serve, view: View) -> None:
    """No page has a button that acts, and the server refuses what no page offers."""
    viewer = view(serve(story, "--read-only"))
    for path in ("/", "/run/debt-cycles", "/run/points", "/run/stopped", "/runs"):
        page = viewer.go(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[data-act]")).to_have_count(0)
    viewer.allow("403")
    status = page.evaluate(
        "async () => (await fetch('/api/acts/cancel', {method: 'POST', headers: {'content-type': 'application/json'},"
        ' body: \'{"run": "points"}\'})).status'
    )
    assert status == 403
    assert holdfast.store(story).get("points").status == "failed"


def test_two_people_answer_at_once(url: str, serve: Serve, view: View) -> None:
    """Both have the form open: the first answer counts, and the other person is told who gave it."""
    library.asked(url)
    inspector = serve(url)
    other = serve(url, "--as", "grace")
    first, second = view(inspector), view(other)
    second.allow("status of 4")
    for viewer in (first, second):
        page = viewer.go("/")
        page.get_by_role("button", name="Answer…").click()
        expect(form(page)).to_be_visible()
    form(first.page).get_by_label("Answer (").select_option("yes")
    form(first.page).get_by_role("button", name="Answer", exact=True).click()
    done(first.page, "answered, by ada")
    form(second.page).get_by_label("Answer (").select_option("no")
    form(second.page).get_by_role("button", name="Answer", exact=True).click()
    expect(form(second.page).get_by_role("alert")).to_contain_text(re.compile("ada"))
    second.page.keyboard.press("Escape")
    expect(second.page.get_by_text("Nothing needs you.")).to_be_visible()
    (asked,) = holdfast.store(url).questions("asked")
    assert asked.pending_by == "ada"


def test_answered_while_the_form_is_open_then_the_agent_goes_on(url: str, serve: Serve, view: View) -> None:
    """What was answered on the page is what the sample agent gets, and it finishes with it."""
    run_agent(url)
    page = view(serve(url)).run("debt-cycles")
    page.get_by_role("button", name="Answer…").click()
    form(page).get_by_label("Answer (").select_option("yes")
    form(page).get_by_role("button", name="Answer", exact=True).click()
    done(page, "answered, by ada")
    subprocess.run([sys.executable, str(AGENT), url], check=True, capture_output=True)
    expect(page.locator(".run-head .pill")).to_have_text("finished")
    store = holdfast.store(url)
    ended = next(event for event in store.events("debt-cycles") if event.kind == "run.finished")
    assert store.content(ended)["value"] == {"sent": True, "sections": 3}
