"""Every page, and every part of the page of a run, shows what the store has."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.ui.browser.inspector import Inspector, Viewer

View = Callable[..., Viewer]


def part(page: Page, name: str) -> "object":
    return page.locator(f'[data-part="{name}"]')


def test_what_needs_a_person_is_first(story_ui: Inspector, view: View) -> None:
    """The first page has the effect in doubt, the call that was stopped and the question, in this order, and counts them."""
    page = view(story_ui).go("/")
    expect(page.get_by_role("heading", name="Needs you", level=1)).to_be_visible()
    needs = page.get_by_role("article")
    expect(needs.nth(0)).to_contain_text("create_contact")
    expect(needs.nth(0)).to_contain_text("never reported back")
    expect(needs.nth(1)).to_contain_text("it may be an effect that is recorded already")
    expect(needs.nth(2)).to_contain_text("Send it?")
    expect(page.locator("[data-needs-count]")).to_have_text(str(needs.count()))
    expect(page).to_have_title(re.compile(rf"^\({needs.count()}\) Needs you"))
    expect(page.get_by_role("link", name="All runs")).to_be_visible()


def test_runs_are_filtered_by_name_and_status(story_ui: Inspector, view: View) -> None:
    """The table has a line a run, children under their parents; both filters and their empty result say so."""
    page = view(story_ui).go("/runs")
    rows = page.locator("table.runs tbody tr")
    expect(rows.filter(has_text="debt-cycles")).to_contain_text("in doubt")
    names = [text.splitlines()[0] for text in page.locator("table.runs .run-name").all_inner_texts()]
    assert names.index("team") < min(names.index(f"team/{name}") for name in ("germany", "france", "italy"))
    page.get_by_label("Name begins with").fill("team/")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(3)
    page.get_by_label("Name begins with").fill("")
    page.get_by_label("Status").select_option("parked")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("asked")
    page.get_by_label("Status").select_option("queued")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No runs here.")).to_be_visible()


def test_a_search_finds_an_event_and_opens_it(story_ui: Inspector, view: View) -> None:
    """Words that an agent wrote lead to the event that has them."""
    page = view(story_ui).go("/runs")
    page.get_by_label("Search everything").fill("refinancing round")
    page.keyboard.press("Enter")
    hits = page.get_by_role("region", name="Found").get_by_role("listitem")
    expect(hits.first).to_contain_text("refinancing")
    expect(page.locator("[data-live-word]")).to_have_text(re.compile("live|ready"))  # its modules are loaded
    hits.first.get_by_role("link").click()
    expect(page.locator("#detail")).to_contain_text("debt-cycles")
    expect(page.locator("#detail pre")).to_contain_text("refinancing")


def test_the_story_of_a_run_at_a_glance(story_ui: Inspector, view: View) -> None:
    """It died, came back, did nothing twice, and needs something: the head, the picture and the rows say the same."""
    page = view(story_ui).run("debt-cycles")
    head = page.get_by_label("The run", exact=True)
    expect(head.get_by_role("heading", level=1)).to_have_text("debt-cycles")
    expect(head).to_contain_text("Explain sovereign debt cycles")
    expect(head).to_contain_text("1 in doubt")
    picture = page.get_by_role("img", name=re.compile("attempt 1 from .* died"))
    expect(picture).to_be_visible()
    rows = page.get_by_role("table", name="Steps").get_by_role("row")
    expect(rows.filter(has_text="charge_card")).to_have_count(1)
    expect(rows.filter(has_text="charge_card")).to_contain_text("once · done")
    expect(rows.filter(has_text="steps replayed")).to_have_count(3)
    expect(rows.filter(has_text="attempt 1 died")).to_contain_text("the answer was kept up to")
    expect(page.get_by_label("What needs you")).to_contain_text("create_contact")
    expect(page.get_by_label("Thoughts and decisions")).to_contain_text(
        "Decided: skip the IMF feed, because it was rate limited"
    )


def test_time_travel(story_ui: Inspector, view: View) -> None:
    """The scrubber shows the state at a point, with what was added since the point before; the live page does not reset it."""
    page = view(story_ui).run("debt-cycles")
    state = page.locator('[data-part="state"]')
    expect(state.locator("h2")).to_contain_text("section-3")
    expect(state.locator("ins", has_text="IT")).not_to_have_count(0)
    state.get_by_role("slider").press("ArrowLeft")
    expect(state.locator("h2")).to_contain_text("section-2")
    expect(state).not_to_contain_text("Italian")
    expect(state.get_by_role("slider")).to_be_focused()
    state.get_by_role("slider").press("Home")
    expect(state.locator("h2")).to_contain_text("section-1")
    expect(state.get_by_role("slider")).to_have_attribute("aria-valuetext", re.compile("section-1"))


def test_an_event_in_a_dialog(story_ui: Inspector, view: View) -> None:
    """A row, a thought and a journal line open their event, which stays an address of its own."""
    viewer = view(story_ui)
    page = viewer.run("debt-cycles")
    page.get_by_role("table", name="Steps").get_by_role("row").filter(has_text="charge_card").get_by_role(
        "link"
    ).click()
    dialog = page.locator("#detail")
    expect(dialog.get_by_role("heading")).to_contain_text("charge_card")
    expect(dialog.locator("pre")).to_contain_text('"receipt": "r-7"')
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    page.get_by_label("Thoughts and decisions").get_by_role("link").first.click()
    expect(dialog.locator("pre")).to_contain_text("IMF")


def test_conversations(story_ui: Inspector, view: View) -> None:
    """The latest call is shown; another one is chosen; an answer that was cut off is marked, and shows what was kept."""
    page = view(story_ui).run("debt-cycles")
    talk = page.locator('[data-part="conversation"]')
    talk.scroll_into_view_if_needed()
    expect(talk.locator(".turn.assistant")).to_contain_text("The Italian cycle is flat")
    calls = talk.get_by_role("link", name=re.compile(r"^ask #"))
    calls.nth(1).click()
    expect(talk.locator(".turn.marked")).to_contain_text("cut off")
    expect(talk.locator(".turn.marked .text")).to_contain_text("The French cycle has been rising")
    expect(talk.locator(".turn.marked .text")).not_to_contain_text("moved maturities")


def test_a_mended_call_is_marked(story_ui: Inspector, view: View) -> None:
    """What Holdfast put into a conversation that was cut off between a call and its result is told, and marked where it stands."""
    page = view(story_ui).run("mended")
    talk = page.locator('[data-part="conversation"]')
    talk.scroll_into_view_if_needed()
    expect(talk.locator(".mended").last).to_contain_text("not run")
    marked = talk.locator(".turn", has=page.locator(".tag", has_text="mended"))
    expect(marked).to_have_count(2)
    expect(marked.nth(0)).to_contain_text('"found":"debt"')
    expect(marked.nth(1)).to_contain_text("not run")


def test_the_ledger_of_a_run_and_of_all_runs(story_ui: Inspector, view: View) -> None:
    """Each effect has a line from intent to outcome, with its key; unclaimed and doubtful ones say so."""
    page = view(story_ui).run("debt-cycles")
    ledger = page.locator('[data-part="effects"]')
    ledger.scroll_into_view_if_needed()
    expect(ledger.locator("tbody tr")).to_have_count(2)
    expect(ledger.locator("tbody tr").nth(1)).to_contain_text("once · in doubt")
    page = view(story_ui).go("/effects")
    table = page.locator("table.effects tbody")
    expect(table.locator("tr").filter(has_text="charge_card")).to_contain_text("r-7")
    expect(table.locator("tr").filter(has_text="upsert")).to_contain_text("idempotent · done")


def test_what_would_happen(story_ui: Inspector, view: View) -> None:
    """The resume plan says what is reused and what is in doubt; a finished run says that it is finished."""
    viewer = view(story_ui)
    page = viewer.run("debt-cycles")
    plan = page.locator('[data-part="plan"]')
    plan.scroll_into_view_if_needed()
    expect(plan).to_contain_text("Started again as attempt 5")
    expect(plan).to_contain_text("create_contact")
    page = viewer.run("report")
    plan = page.locator('[data-part="plan"]')
    plan.scroll_into_view_if_needed()
    expect(plan).to_contain_text("starting it again returns its result")


def test_files_with_preview_and_versions(story_ui: Inspector, view: View) -> None:
    """A file is shown as it was made, in each version; one that is no text says so."""
    page = view(story_ui).run("report")
    files = page.locator('[data-part="files"]')
    files.scroll_into_view_if_needed()
    files.get_by_role("link", name=re.compile(r"report\.md$")).click()
    expect(files.locator("pre.file")).to_contain_text("second words")
    files.get_by_role("link", name="version 1").click()
    expect(files.locator("pre.file")).to_contain_text("first words")
    files.get_by_role("link", name=re.compile(r"chart\.bin$")).click()
    expect(files).to_contain_text("256 bytes, no text")


def test_children_as_lanes(story_ui: Inspector, view: View) -> None:
    """Children are drawn beside the attempts, and lead to their own pages."""
    page = view(story_ui).run("team")
    lanes = page.locator(".lane.child")
    expect(lanes).to_have_count(3)
    lanes.get_by_role("link", name="france").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("team/france")


def test_the_journal_is_paged(story_ui: Inspector, view: View) -> None:
    """Every event has a line, in order."""
    page = view(story_ui).run("debt-cycles")
    log = page.locator('[data-part="log"]')
    log.scroll_into_view_if_needed()
    expect(log.locator("tbody tr").first).to_contain_text("run started")
    expect(log.locator("tbody tr").filter(has_text="attempt 1 crashed")).to_have_count(1)


def test_compare_two_points(story_ui: Inspector, view: View) -> None:
    """The difference: the loop sentence first, texts word by word, what each side did."""
    page = view(story_ui).go("/diff")
    expect(page.get_by_text("Name two places")).to_be_visible()
    page.get_by_label("From").fill("looping@3")
    page.get_by_label("to", exact=True).fill("looping")
    page.get_by_role("button", name="Compare").click()
    sentence = page.locator(".sentence").first
    expect(sentence).to_contain_text(re.compile("search ran|did not change"))
    words = page.locator(".words").first
    expect(words.locator("del")).to_have_count(1)
    expect(words.locator("ins")).to_have_count(1)
    expect(words).to_contain_text("the debt rose by")


def test_a_place_that_is_not_there(story_ui: Inspector, view: View) -> None:
    """A run, a point or a page that is not there says so, and what there is instead."""
    viewer = view(story_ui)
    viewer.allow("404|400")
    page = viewer.run("nobody")
    expect(page.get_by_role("alert").filter(has_text="nobody")).to_be_visible()
    expect(page.get_by_role("link", name="Back to the first page")).to_be_visible()
    page = viewer.go("/diff?a=debt-cycles@999&b=debt-cycles")
    expect(page.get_by_role("alert").filter(has_text="999")).to_be_visible()
    page = viewer.go("/runs?status=sleeping")
    expect(page.get_by_role("alert").filter(has_text="sleeping")).to_be_visible()


def test_memory(story_ui: Inspector, view: View) -> None:
    """Facts with the run that they came from, and a search."""
    page = view(story_ui).go("/memory")
    expect(page.locator(".facts li")).to_have_count(2)
    page.get_by_label("Recall").fill("Italy")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".facts li").first).to_contain_text("Italy reports in March.")
    page.locator(".facts li").first.get_by_role("link", name="report").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("report")


@pytest.mark.parametrize("width", [800, 400])
@pytest.mark.parametrize(
    "path", ["/", "/runs", "/effects", "/run/debt-cycles", "/run/asked", "/diff", "/memory"]
)
def test_a_page_is_as_wide_as_its_window(story_ui: Inspector, view: View, path: str, width: int) -> None:
    """At 800 pixels nothing makes the page scroll sideways, and on a telephone neither: an empty card of a run did."""
    viewer = view(story_ui, width=width)
    page = viewer.go(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_the_token_nothing_is_shown(story_ui: Inspector, view: View) -> None:
    """A browser that did not come with the token gets a sentence, and no store."""
    viewer = view(story_ui)
    viewer.allow("401")
    viewer.context.clear_cookies()
    page = viewer.go("/")
    expect(page.get_by_text("This page needs the token")).to_be_visible()
    assert "debt-cycles" not in page.content()
