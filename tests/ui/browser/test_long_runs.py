"""A run of 100,000 events: its first rows are there at once, it is scrolled to its end and back, and the page stays small."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.ui.browser import library
from tests.ui.browser.inspector import Inspector, Viewer

View = Callable[..., Viewer]
STEPS = 50_000
"""Each is two events."""
ELEMENTS_MAX = 12_000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('long') / 'store.db'}"
    library.long(url, STEPS)
    return url


def elements(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def test_scrolled_to_the_end_and_back(long: str, serve: Callable[..., Inspector], view: View) -> None:
    """Every place has its rows when it is looked at; the number of elements never grows with the way."""
    page = view(serve(long)).run("long")
    rows = page.get_by_role("table", name="Steps")
    expect(rows.get_by_role("row").first).to_contain_text("count")
    expect(page.locator('[data-part="head"]')).to_contain_text("50,000")
    expect(rows).to_have_attribute("aria-rowcount", re.compile(r"^50,?\d{3}$"))
    total = int(rows.get_attribute("data-total") or 0)
    assert total >= STEPS
    for share in (0.1, 0.35, 0.6, 0.85, 1.0, 0.5, 0.0):
        rows.evaluate("(box, share) => { box.scrollTop = share * box.scrollHeight; }", share)
        at = rows.evaluate(
            "box => Math.min(Number(box.dataset.total) - 1, Math.ceil(box.scrollTop / 28) + 3)"
        )
        expect(rows.locator(f'.wrow[data-place="{at}"]')).to_be_visible()
        assert elements(page) < ELEMENTS_MAX
    expect(rows.locator('.wrow[data-place="0"]')).to_be_visible()


def test_jumps(long: str, serve: Callable[..., Inspector], view: View) -> None:
    """The latest row and the first one are a key away, and have the focus then."""
    page = view(serve(long)).run("long")
    rows = page.get_by_role("table", name="Steps")
    expect(page.locator('[data-part="head"]')).to_contain_text("50,000")
    page.keyboard.press("G")
    total = int(rows.get_attribute("data-total") or 0)
    expect(rows.locator(f'.wrow[data-place="{total - 1}"]')).to_be_focused()
    page.keyboard.press("k")
    expect(rows.locator(f'.wrow[data-place="{total - 2}"]')).to_be_focused()
    page.keyboard.press("g")
    expect(rows.locator('.wrow[data-place="0"]')).to_be_focused()
