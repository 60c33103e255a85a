"""Each kind of thing that needs a person stands on the first page, with what happened and what can be done."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import expect
from tests.ui.browser import library
from tests.ui.browser.inspector import Inspector, Viewer

import holdfast

View = Callable[..., Viewer]
Serve = Callable[..., Inspector]


def test_premises_budgets_and_failures(url: str, serve: Serve, view: View, tmp_path: Path) -> None:
    """A file that changed, a budget that is spent, a program that failed, a call that diverged: each in its words."""
    rates = tmp_path / "rates.csv"
    rates.write_text("DE,2\n")
    for _ in range(2):
        with suppress(library.Crash, holdfast.StopSignal), holdfast.run("premise", store=url) as run:
            run.depends_on(rates)
            run.step("count", len, "abc")
            rates.write_text("DE,3\n")
            raise library.Crash
    with holdfast.run("budget", store=url, stops="suppress", budget={"calls": 1}) as run:
        for n in range(2):
            run.model("ask", library.complete, {"model": "gpt-4o", "n": n})
    with suppress(ValueError), holdfast.run("failing", store=url) as run:
        raise ValueError("the feed is empty")
    for prompt in ("one", "two"):
        with suppress(library.Crash, holdfast.StopSignal), holdfast.run("drift", store=url) as run:
            run.model(
                "ask",
                library.complete,
                {"model": "gpt-4o", "messages": [{"role": "user", "content": prompt}]},
            )
            raise library.Crash
    page = view(serve(url)).go("/")
    expect(page.get_by_role("article", name="premise")).to_contain_text("rates.csv")
    expect(page.get_by_role("article", name="budget")).to_contain_text("budget")
    expect(page.get_by_role("article", name="failed").filter(has_text="failing")).to_contain_text(
        "the feed is empty"
    )
    expect(page.get_by_role("article", name="diverged")).to_contain_text("drift")
    for article in page.get_by_role("article").all():
        expect(article.get_by_role("button", name="Resume…")).to_be_visible()
    page.get_by_role("article", name="premise").get_by_role("link", name="premise").click()
    plan = page.locator('[data-part="plan"]')
    plan.scroll_into_view_if_needed()
    expect(plan).to_contain_text("rates.csv")
    expect(plan.locator(".tag").filter(has_text="changed")).to_be_visible()
