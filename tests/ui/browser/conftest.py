"""These tests need a browser, and an environment of their own: ``make test-ui`` says so in ``HOLDFAST_UI``."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = [] if os.environ.get("HOLDFAST_UI") else ["test_*.py"]

if os.environ.get("HOLDFAST_UI"):
    from playwright.sync_api import Browser, expect, sync_playwright
    from tests.ui.browser.inspector import DEADLINE_MS, Inspector, Viewer, launch

    expect.set_options(timeout=DEADLINE_MS)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store of this test alone."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def serve() -> "Iterator[Callable[..., Inspector]]":
    """Starts ``holdfast ui`` over a store."""
    started: list[Inspector] = []

    def start(store: str, *options: str, **more: Any) -> Inspector:
        started.append(Inspector(store, *options, **more))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def view(browser: "Browser") -> "Iterator[Callable[..., Viewer]]":
    """Opens a browser of a person; at the end, nothing may have happened in any that must not."""
    opened: list[Viewer] = []

    def look(inspector: "Inspector", **more: Any) -> Viewer:
        opened.append(Viewer(browser, inspector, **more))
        return opened[-1]

    yield look
    for one in opened:
        one.close()
    for one in opened:
        one.at_ease()


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The sample agent, killed in an answer, stopped by a deploy, killed in an effect; and a run for every page. Not to be changed."""
    from tests.ui.browser import library
    from tests.ui.browser.inspector import run_agent

    directory = tmp_path_factory.mktemp("story")
    url = f"sqlite:///{directory / 'store.db'}"
    for environment in ({"DIE": "stream"}, {"STOP": "draft"}, {"DIE": "contact"}, {}):
        run_agent(url, PACE="0.4", **environment)
    library.files(url, directory)
    library.children(url)
    library.mended(url)
    library.stopped(url)
    library.looping(url)
    library.points(url)
    library.asked(url)
    return url


@pytest.fixture(scope="session")
def story_ui(story: str) -> "Iterator[Inspector]":
    """One inspector over it, for all tests that only look."""
    with Inspector(story) as started:
        yield started
