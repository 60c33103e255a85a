"""A store that is damaged, locked or gone, and a run that is erased, while the page is open: it says so, and what to do."""

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
from playwright.sync_api import expect
from tests.ui.browser import library
from tests.ui.browser.inspector import Inspector, Viewer

import holdfast

View = Callable[..., Viewer]
Serve = Callable[..., Inspector]


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def test_a_run_that_is_erased_under_the_page(url: str, serve: Serve, view: View) -> None:
    """What was shown stays to be read; the page says that the run is gone, and acts on it are refused."""
    library.points(url)
    library.asked(url)
    viewer = view(serve(url))
    viewer.allow("status of 404")
    page = viewer.run("points")
    expect(page.locator("[data-live-word]")).to_have_text("live")
    holdfast.store(url).erase("points")
    expect(page.locator("#trouble")).to_contain_text("points")
    expect(page.locator("[data-live-word]")).to_have_text("not connected")
    expect(page.get_by_role("table", name="Steps").get_by_role("row").first).to_be_visible()
    page.get_by_role("button", name="Fork…").click()
    expect(page.locator("#detail").get_by_role("alert")).to_contain_text("points")


def test_a_store_that_is_gone(url: str, serve: Serve, view: View) -> None:
    """The file is deleted while the page is open: the page names it."""
    library.points(url)
    viewer = view(serve(url))
    viewer.allow("status of 4|status of 5")
    page = viewer.run("points")
    expect(page.locator("[data-live-word]")).to_have_text("live")
    for file in file_of(url).parent.glob("store.db*"):
        file.unlink()
    expect(page.locator("#trouble")).to_contain_text("store.db")
    page.reload()
    expect(page.get_by_role("alert").filter(has_text="store.db").first).to_be_visible()


def test_a_store_that_is_damaged(url: str, serve: Serve, view: View) -> None:
    """An event whose bytes have changed on disk is not shown as if it was right."""
    library.points(url)
    library.asked(url)
    viewer = view(serve(url))
    viewer.allow("status of 5|status of 4")
    page = viewer.run("points")
    expect(page.locator("[data-live-word]")).to_have_text("live")
    db = apsw.Connection(str(file_of(url)))
    db.execute(
        "UPDATE events SET body = zeroblob(length(body)) WHERE kind = 'step.finished' AND name = 'count-2'"
    )
    assert db.changes() == 1
    db.close()
    page.reload()
    expect(page.get_by_role("alert").filter(has_text="points").first).to_be_visible()
    expect(page.get_by_role("alert").first).to_contain_text("holdfast doctor")
    page = viewer.go("/")
    expect(page.get_by_role("article", name="question")).to_be_visible()


def test_a_store_that_is_locked(url: str, serve: Serve, view: View) -> None:
    """Somebody else holds SQLite's lock: reading goes on, an act says what is in its way, and works afterwards."""
    library.asked(url)
    viewer = view(serve(url))
    viewer.allow("status of 4|status of 5")
    page = viewer.go("/")
    db = apsw.Connection(str(file_of(url)))
    db.execute("BEGIN EXCLUSIVE")
    page.get_by_role("button", name="Answer…").click()
    form = page.locator("#detail form[data-act-form]")
    form.get_by_label("Answer (").select_option("yes")
    form.get_by_role("button", name="Answer", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("lock", timeout=90_000)
    db.execute("ROLLBACK")
    db.close()
    form.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("answered, by ada")
    assert holdfast.store(url).questions("asked")[0].pending_by == "ada"


def test_a_server_that_is_gone_when_somebody_acts(url: str, serve: Serve, view: View) -> None:
    """Neither the form nor a dialog stays empty: they say that nobody answers."""
    library.asked(url)
    inspector = serve(url)
    viewer = view(inspector)
    viewer.allow("ERR_")
    page = viewer.go("/")
    page.get_by_role("button", name="Answer…").click()
    form = page.locator("#detail form[data-act-form]")
    expect(form).to_be_visible()
    inspector.stop()
    form.get_by_label("Answer (").select_option("yes")
    form.get_by_role("button", name="Answer", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("The server does not answer")
    assert not holdfast.store(url).questions("asked")[0].pending_by
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Answer…").click()
    expect(page.locator("#detail").get_by_role("alert")).to_contain_text("The server does not answer")


def test_a_store_that_comes_back(url: str, serve: Serve, view: View, tmp_path: Path) -> None:
    """A store that was away for a moment is shown again, without a reload."""
    library.points(url)
    viewer = view(serve(url))
    viewer.allow("status of 4|status of 5")
    page = viewer.go("/runs")
    expect(page.locator("[data-live-word]")).to_have_text("live")
    away = tmp_path / "away"
    away.mkdir()
    for file in file_of(url).parent.glob("store.db*"):
        shutil.move(file, away / file.name)
    expect(page.locator("#trouble")).to_contain_text("store.db")
    for file in away.iterdir():
        shutil.move(file, file_of(url).parent / file.name)
    expect(page.locator("#trouble")).not_to_be_visible()
    expect(page.locator("[data-live-word]")).to_have_text("live")
