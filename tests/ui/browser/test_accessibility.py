"""axe finds nothing on any page, in the light and in the dark, nor in the forms and dialogs."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from tests.ui.browser.inspector import Inspector, Viewer

View = Callable[..., Viewer]
PATHS = (
    "/", "/runs", "/runs?q=refinancing", "/effects", "/diff", "/diff?a=looping@3&b=looping", "/memory", "/run/debt-cycles",
    "/run/report", "/run/team", "/run/mended", "/run/stopped", "/run/points", "/run/asked", "/run/nobody",
)  # fmt: skip


def check(page: Page) -> None:
    found: Any = Axe().run(page)
    told = [
        f"{one['id']}: {one['help']} ({one['impact']}): {[node['html'][:160] for node in one['nodes'][:4]]}"
        for one in found.response["violations"]
    ]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page(story_ui: Inspector, view: View, scheme: str) -> None:
    """Roles, names, contrast and order, with all parts of the page loaded."""
    viewer = view(story_ui, scheme=scheme)
    viewer.allow("status of 404")
    for path in PATHS:
        page = viewer.go(path)
        for part in page.locator("[data-part]").all():
            part.scroll_into_view_if_needed()
        expect(page.locator('[data-load="later"]')).to_have_count(0)
        check(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_and_forms(story_ui: Inspector, view: View, scheme: str) -> None:
    """The list of keys, an event, and each kind of form."""
    page = view(story_ui, scheme=scheme).run("debt-cycles")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    check(page)
    page.keyboard.press("Escape")
    for name in ("Fork…", "Resume…", "It happened…", "More…"):
        page.get_by_role("button", name=name).click()
        expect(page.locator("#detail").get_by_role("heading")).to_be_visible()
        check(page)
        page.keyboard.press("Escape")
    page.locator('[data-part="notes"] a').first.click()
    expect(page.locator("#detail pre")).to_be_visible()
    check(page)
    page.keyboard.press("Escape")
    files = view(story_ui, scheme=scheme).run("report")
    files.locator('[data-part="files"]').scroll_into_view_if_needed()
    files.locator('[data-part="files"] a[data-fill]').last.click()
    expect(files.locator("pre.file")).to_be_visible()
    check(files)
