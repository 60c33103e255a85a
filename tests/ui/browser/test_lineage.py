"""The lineage as a graph in lanes: where runs parted, and two points that are chosen are compared."""

import re
from collections.abc import Callable

from playwright.sync_api import expect
from tests.ui.browser import library
from tests.ui.browser.inspector import Inspector, Viewer

import holdfast

View = Callable[..., Viewer]
Serve = Callable[..., Inspector]


def test_two_points_are_chosen_and_compared(url: str, serve: Serve, view: View) -> None:
    """Each run of the tree is a lane with its points; two of them, of two lanes, lead to their difference."""
    library.points(url)
    store = holdfast.store(url)
    store.fork("points@at-2", as_="points-a")
    store.fork("points@at-4", as_="points-b")
    page = view(serve(url)).run("points-a")
    lineage = page.locator('[data-part="lineage"]')
    lineage.scroll_into_view_if_needed()
    expect(lineage.locator(".lineage-names li")).to_have_text(
        [re.compile("^points"), re.compile("^points-[ab]"), re.compile("^points-[ab]")]
    )
    expect(lineage.locator("strong")).to_have_text("points-a")
    expect(lineage.get_by_role("group")).to_contain_text("from #")
    lineage.get_by_role("link", name="points, at-1").click()
    expect(lineage.locator("[data-pick-words]")).to_contain_text(
        "points, at-1: choose the point to compare it with"
    )
    lineage.get_by_role("link", name="points-b, head").click()
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    expect(page.get_by_label("From")).to_have_value(re.compile(r"^points@#\d+$"))
    expect(page.get_by_label("to", exact=True)).to_have_value("points-b")
    expect(page.locator(".change").filter(has_text="list")).not_to_have_count(0)


def test_a_run_without_forks_says_so(url: str, serve: Serve, view: View) -> None:
    """One lane alone is no graph."""
    library.points(url)
    page = view(serve(url)).run("points")
    lineage = page.locator('[data-part="lineage"]')
    lineage.scroll_into_view_if_needed()
    expect(lineage).to_contain_text("No forks.")
