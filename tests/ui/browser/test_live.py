"""What happens is seen as it happens, in a page that is never loaded again."""

import os
import signal
import subprocess
from collections.abc import Callable

from playwright.sync_api import Page, expect
from tests.support.postgres.sharing import drop_schema  # noqa: F401 - the fixture of PostgreSQL uses it
from tests.ui.browser import library
from tests.ui.browser.inspector import Inspector, Viewer, agent, run_agent

import holdfast

View = Callable[..., Viewer]
Serve = Callable[..., Inspector]


def mark(page: Page) -> None:
    """A page that is loaded again has lost this."""
    page.evaluate("window.stillHere = true")


def is_marked(page: Page) -> bool:
    return bool(page.evaluate("window.stillHere === true"))


def start(url: str) -> None:
    """A run to look at before the agent has begun."""
    with holdfast.run("other", store=url) as run:
        run.step("count", len, "abc")


def test_a_crash_and_its_resume_are_watched(url: str, serve: Serve, view: View) -> None:
    """A page is open while the agent is killed and started again: it shows the break, the replay, and the end."""
    start(url)
    viewer = view(serve(url))
    page = viewer.go("/runs")
    mark(page)
    with agent(url, PACE="1") as working:
        row = page.locator("table.runs tr", has_text="debt-cycles")
        expect(row.locator(".pill")).to_have_text("running")
        assert is_marked(page)
        page = viewer.run("debt-cycles")
        mark(page)
        expect(page.get_by_label("Thoughts and decisions")).to_contain_text("skip the IMF feed")
        talk = page.locator('[data-part="conversation"]')
        talk.scroll_into_view_if_needed()
        expect(talk.locator(".turn.marked")).to_contain_text("being written")
        working.send_signal(signal.SIGKILL)
        working.wait()
    expect(page.locator(".run-head .pill")).to_have_text("crashed")
    rows = page.get_by_role("table", name="Steps").get_by_role("row")
    expect(rows.last).to_contain_text("attempt 1 died")
    with agent(url, PACE="1"):
        expect(
            rows.filter(has_text="steps replayed").or_(rows.filter(has_text="step replayed"))
        ).to_have_count(1)
        expect(page.locator(".run-head .pill")).to_have_text("running")
        expect(page.get_by_role("article", name="question")).to_contain_text("May the briefing be sent")
    expect(page.locator(".run-head .pill")).to_have_text("parked")
    expect(page.locator("[data-needs-count]")).to_have_text("1")
    assert is_marked(page)


def test_an_answer_appears_as_it_streams(url: str, serve: Serve, view: View) -> None:
    """The text grows on the page while the model writes it."""
    start(url)
    viewer = view(serve(url))
    with agent(url, PACE="6"):
        page = viewer.go("/runs")
        expect(page.locator("table.runs tr", has_text="debt-cycles")).to_be_visible()
        page = viewer.run("debt-cycles")
        talk = page.locator('[data-part="conversation"]')
        talk.scroll_into_view_if_needed()
        text = talk.locator("[data-stream]")
        expect(text).to_contain_text("The German")
        first = text.inner_text()
        expect(text).to_contain_text("nine per cent")
        assert len(text.inner_text()) > len(first)
        assert text.inner_text().startswith(first.strip())
        expect(talk.locator(".turn.marked")).to_contain_text("being written")


def test_the_page_rejoins_a_server_that_was_restarted(url: str, serve: Serve, view: View) -> None:
    """While the server was gone, the agent was killed and resumed: the page says that it is cut off, and is right afterwards."""
    run_agent(url, DIE="stream")
    inspector = serve(url)
    viewer = view(inspector)
    viewer.allow("ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to fetch")
    page = viewer.run("debt-cycles")
    mark(page)
    expect(page.locator("[data-live-word]")).to_have_text("live")
    run_agent(url, STOP="draft")
    expect(page.locator(".run-head .pill")).to_have_text("interrupted")
    inspector.stop()
    expect(page.locator("[data-live-word]")).to_have_text("not connected")
    expect(page.locator("#trouble")).to_contain_text("the page goes on by itself")
    run_agent(url)
    watch = viewer.context.new_cdp_session(page)
    sent: list[str] = []
    watch.on(
        "Network.requestWillBeSentExtraInfo",
        lambda told: sent.append(told["headers"].get("Last-Event-ID", "")),
    )
    watch.send("Network.enable")
    inspector.start()
    expect(page.locator("[data-live-word]")).to_have_text("live")
    assert any(one.partition("-")[2].isdecimal() for one in sent), sent
    expect(page.locator("#trouble")).not_to_be_visible()
    expect(page.locator(".run-head .pill")).to_have_text("parked")
    rows = page.get_by_role("table", name="Steps").get_by_role("row")
    shown = rows.all_inner_texts()
    assert is_marked(page)
    fresh = viewer.run("debt-cycles")
    expect(fresh.get_by_role("table", name="Steps").get_by_role("row")).to_have_count(len(shown))
    assert fresh.get_by_role("table", name="Steps").get_by_role("row").all_inner_texts() == shown


def test_a_server_with_another_token_says_what_to_do(url: str, serve: Serve, view: View) -> None:
    """A page of an old server does not stay silent: it needs the new address."""
    run_agent(url, DIE="stream")
    inspector = serve(url)
    viewer = view(inspector)
    viewer.allow("ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|401|MIME type")
    page = viewer.run("debt-cycles")
    expect(page.locator("[data-live-word]")).to_have_text("live")
    inspector.stop()
    inspector.token = "quite-another-token-then"
    inspector.start()
    expect(page.locator("#trouble")).to_contain_text("needs the token")


def test_the_table_of_runs_is_right_after_a_restart(url: str, serve: Serve, view: View) -> None:
    """A page about all runs, too, has what happened while the server was gone."""
    start(url)
    inspector = serve(url)
    viewer = view(inspector)
    viewer.allow("ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY")
    page = viewer.go("/runs")
    expect(page.locator("[data-live-word]")).to_have_text("live")
    inspector.stop()
    expect(page.locator("[data-live-word]")).to_have_text("not connected")
    library.points(url)
    inspector.start()
    expect(page.locator("table.runs tr", has_text="points")).to_be_visible()


def test_with_postgresql(postgres_url: str, serve: Serve, view: View) -> None:
    """The same page over PostgreSQL: a crash is seen, a question is answered, the agent finishes with the answer."""
    run_agent(postgres_url, DIE="stream")
    viewer = view(serve(postgres_url))
    page = viewer.run("debt-cycles")
    expect(page.locator(".run-head .pill")).to_have_text("crashed")
    mark(page)
    with agent(postgres_url):
        expect(page.get_by_role("article", name="question")).to_contain_text("May the briefing be sent")
    page.get_by_role("button", name="Answer…").click()
    page.locator("#detail").get_by_label("Answer (").select_option("no")
    page.locator("#detail").get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("answered, by ada")
    assert run_agent(postgres_url) == 0
    expect(page.locator(".run-head .pill")).to_have_text("finished")
    assert is_marked(page)
    assert holdfast.store(postgres_url).get("debt-cycles").status == "finished"
    page = viewer.go("/runs?q=refinancing")
    expect(page.get_by_role("region", name="Found")).to_contain_text("refinancing")


def test_a_stopped_process_is_no_dead_one(url: str, serve: Serve, view: View) -> None:
    """A process that is only slow keeps its run: the page says that it works, and shows its next step."""
    start(url)
    viewer = view(serve(url))
    with agent(url, PACE="0.5") as working:
        page = viewer.go("/runs")
        expect(page.locator("table.runs tr", has_text="debt-cycles").locator(".pill")).to_have_text("running")
        page = viewer.run("debt-cycles")
        os.kill(working.pid, signal.SIGSTOP)
        expect(page.locator(".run-head .pill")).to_have_text("running")
        os.kill(working.pid, signal.SIGCONT)
        expect(page.get_by_role("article", name="question")).to_be_visible()
    assert isinstance(working, subprocess.Popen)
