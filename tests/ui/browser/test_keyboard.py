"""The whole page without a mouse, and a focus that is seen and never lost."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from tests.ui.browser import library
from tests.ui.browser.inspector import Inspector, Viewer

import holdfast

View = Callable[..., Viewer]
Serve = Callable[..., Inspector]


def started(page: Page) -> None:
    """The page hears keys once its modules are loaded; the word beside the dot changes then."""
    expect(page.locator("[data-live-word]")).to_have_text(re.compile("live|ready"))


def outlined(page: Page) -> bool:
    """Whether what has the focus shows it."""
    return bool(
        page.evaluate(
            "() => { const style = getComputedStyle(document.activeElement);"
            " return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2; }"
        )
    )


def test_every_stop_of_tab_is_seen(story_ui: Inspector, view: View) -> None:
    """Tab goes from the skip link through the page; each stop has an outline, and the page never traps it."""
    page = view(story_ui).go("/")
    expect(page.get_by_role("article").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    seen = []
    for _ in range(40):
        assert outlined(page), page.evaluate("document.activeElement.outerHTML")
        seen.append(page.evaluate("document.activeElement.textContent.trim()"))
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
    assert "Runs" in seen
    assert "It happened…" in seen


def test_an_effect_is_settled_by_keys_alone(url: str, serve: Serve, view: View) -> None:
    """From the first page to the recorded resolution without a mouse; focus comes back to the page."""
    library.doubted(url)
    page = view(serve(url)).go("/")
    button = page.get_by_role("button", name="It did not")
    expect(button).to_be_visible()
    for _ in range(40):
        if button.evaluate("one => one === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    confirm = page.locator("#detail form[data-act-form]").get_by_role("button", name="Record it")
    expect(confirm).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text("resolved as retry")
    (doubt,) = holdfast.store(url).doubts("doubted")
    assert doubt.pending == "retry"


def test_the_keys(story_ui: Inspector, view: View) -> None:
    """Each key of the list that ? shows does what it says."""
    viewer = view(story_ui)
    page = viewer.go("/")
    started(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).not_to_be_visible()
    for key, heading in (
        ("r", "Runs"),
        ("e", "Effects"),
        ("d", "Compare"),
        ("m", "Memory"),
        ("n", "Needs you"),
    ):
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        started(page)
    page.keyboard.press("/")
    expect(page.get_by_label("Search everything")).to_be_focused()
    page.keyboard.type("refinancing r e d m n")
    expect(page.get_by_label("Search everything")).to_have_value("refinancing r e d m n")

    page = viewer.run("debt-cycles")
    rows = page.get_by_role("table", name="Steps").get_by_role("row")
    started(page)
    page.keyboard.press("j")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    assert outlined(page)
    page.keyboard.press("k")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_contain_text("survey")
    # A live event has the rows filled anew while the dialog is open.
    page.locator('[data-part="rows"]').evaluate("part => { part.innerHTML = part.innerHTML }")
    page.keyboard.press("Escape")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("b")
    expect(rows.filter(has_text="attempt 1 died")).to_be_focused()
    page.keyboard.press("b")
    expect(rows.filter(has_text="attempt 2 stopped")).to_be_focused()
    page.keyboard.press("[")
    expect(page.locator('[data-part="state"] h2')).to_contain_text("section-2")
    page.keyboard.press("]")
    expect(page.locator('[data-part="state"] h2')).to_contain_text("section-3")
    page.keyboard.press("G")
    expect(rows.last).to_be_focused()
    page.keyboard.press("g")
    expect(rows.first).to_be_focused()


def test_the_focus_survives_what_happens(url: str, serve: Serve, view: View) -> None:
    """A row, the scrubber and an open tree stay where they are while the run goes on beneath them."""
    library.points(url)
    viewer = view(serve(url))
    page = viewer.run("points")
    rows = page.get_by_role("table", name="Steps").get_by_role("row")
    expect(page.locator("[data-live-word]")).to_have_text("live")
    for _ in range(3):
        page.keyboard.press("j")
    expect(rows.nth(2)).to_be_focused()
    here = rows.nth(2).get_attribute("data-seq")
    before = rows.count()
    with holdfast.run("points", store=url, goal="go on") as run:
        run.restore()
        for n in range(4):
            run.step(f"more-{n}", len, "y" * n)
        run.finish(1)
    expect(page.locator(".run-head .pill")).to_have_text("finished")
    expect(rows).not_to_have_count(before)
    assert page.evaluate("document.activeElement.dataset.seq") == here
    page.keyboard.press("j")
    expect(rows.nth(3)).to_be_focused()


def test_a_need_that_is_settled_hands_its_focus_on(url: str, serve: Serve, view: View) -> None:
    """The focus goes to the next thing on the page, not to nowhere."""
    library.asked(url)
    library.asked(url, "asked-2", "And this?")
    page = view(serve(url)).go("/")
    expect(page.get_by_role("article")).to_have_count(2)
    page.get_by_role("button", name="Answer…").first.focus()
    page.keyboard.press("Enter")
    answer = page.locator("#detail").get_by_label("Answer (")
    expect(answer).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text(re.compile("answered, by ada"))
    expect(page.get_by_role("article")).to_have_count(1)
    expect(page.get_by_role("button", name="Answer…")).to_be_focused()
