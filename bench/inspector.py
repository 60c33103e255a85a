"""The inspector in a real browser: the first row of a long run, a live event on the screen, memory, and what it adds to programs
that do not use it. Needs ``.venv-ui``: ``make bench-ui``.
"""

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page, sync_playwright

import holdfast
from bench.measuring import Figure

EVENTS = 10_000
ROUNDS = 7
LIVE_STEPS = 30
CLIENTS = 10
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
WATCH = """() => {
  window.seen = {};
  const note = () => {
    for (const row of document.querySelectorAll(".wrow.done .name")) window.seen[row.title] ??= Date.now();
  };
  new MutationObserver(note).observe(document.body, { childList: true, subtree: true });
}"""
UNUSED = """
import sys, holdfast
with holdfast.run("r", store=sys.argv[1]) as run:
    run.step("s", len, "x")
print(sum(name.split(".")[0] in {"starlette", "jinja2", "uvicorn"} or name.startswith("holdfast.ui") for name in sys.modules))
"""


def figures(place: Path) -> list[Figure]:
    long = place / "long.db"
    write(long, "long", EVENTS // 2)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        page = browser.new_page()
        found = [first_row(page, long), live(page, place / "live.db")]
        browser.close()
    return [*found, memory(place / "stream.db"), unused(place / "unused.db")]


def write(store: Path, run_id: str, steps: int) -> None:
    with holdfast.run(run_id, store=store) as run:
        for number in range(steps):
            run.step("work", str, number % 100)


@contextmanager
def inspector(store: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A server of its own: the address without its token, after a first visit has brought the cookie."""
    command = [sys.executable, "-m", "holdfast.cli", "ui", "--no-open", "--store", str(store)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip(), server
    finally:
        server.terminate()
        server.communicate()


def first_row(page: Page, store: Path) -> Figure:
    """How long until the first row is visible, of a run that this server has never read, beside an empty page."""
    rows: list[float] = []
    empty: list[float] = []
    first: list[float] = []
    for _ in range(ROUNDS):
        with inspector(store) as (address, _server):
            base = address.partition("?")[0]
            page.goto(address)
            for path, selector, taken in (
                ("diff", "h1", first),  # so that both find the browser as warm
                ("diff", "h1", empty),
                ("run/long", ".wrow", rows),
            ):
                began = time.perf_counter()
                page.goto(f"{base}{path}", wait_until="commit")
                page.locator(selector).first.wait_for(state="visible")
                taken.append(time.perf_counter() - began)
            page.goto("about:blank")
    ratio = statistics.median(rows) / statistics.median(empty)
    facts = f"{1000 * statistics.median(rows):.0f} and {1000 * statistics.median(empty):.0f} ms, {EVENTS:,} events, a new server"
    return Figure("first row of a long run / an empty page", ratio, 2.0, "x", facts)


def live(page: Page, store: Path) -> Figure:
    """From the commit of an event in another process to its row on the screen."""
    write(store, "live", 20)
    committed: dict[str, float] = {}
    with inspector(store) as (address, _server):
        page.goto(address)
        page.goto(f"{address.partition('?')[0]}run/live")
        page.locator("[data-live-word]", has_text="live").wait_for()
        page.evaluate(WATCH)
        with holdfast.run("live", store=store, if_finished="reopen") as run:
            for number in range(LIVE_STEPS):
                run.step(f"live-{number}", len, "x")
                committed[f"live-{number}"] = 1000 * time.time()
                page.locator(f".wrow.done .name[title='live-{number}']").wait_for()
        seen: dict[str, Any] = page.evaluate("window.seen")
    late = sorted(seen[name] - at for name, at in committed.items())
    facts = f"of {LIVE_STEPS} events, slowest {late[-1]:.0f} ms"
    return Figure("a live event on the screen after its commit", statistics.median(late), 300.0, "ms", facts)


def memory(store: Path) -> Figure:
    """The server's memory while it streams a growing journal to ten clients, after a tenth of it and after all."""
    write(store, "stream", 1)
    with inspector(store) as (address, server):
        token = address.partition("token=")[2]
        base = address.partition("?")[0]
        counts = [0] * CLIENTS
        done = threading.Event()
        readers = [
            threading.Thread(target=_read, args=(base, token, counts, n, done)) for n in range(CLIENTS)
        ]
        for reader in readers:
            reader.start()
        with holdfast.run("stream", store=store, if_finished="reopen") as run:
            for number in range(EVENTS // 20):
                run.step("work", str, number)
            _until(lambda: min(counts) >= EVENTS // 10)
            early = _rss(server.pid)
            for number in range(EVENTS // 2 - EVENTS // 20):
                run.step("more", str, number)
            _until(lambda: min(counts) >= EVENTS)
            late = _rss(server.pid)
        done.set()
        for reader in readers:
            reader.join()
    facts = f"{early / 1e6:.0f} and {late / 1e6:.0f} MB, {CLIENTS} clients, {min(counts):,} events each"
    return Figure("server memory, 10,000 / 1,000 events streamed", late / early, 1.1, "x", facts)


def _read(base: str, token: str, counts: list[int], place: int, done: threading.Event) -> None:
    with (
        httpx.Client(headers={"authorization": f"Bearer {token}"}, timeout=60) as client,
        client.stream("GET", f"{base}live?run=stream") as answer,
    ):
        for line in answer.iter_lines():
            counts[place] += line == "event: event"
            if done.is_set():
                return


def _until(is_so: Any) -> None:
    deadline = time.monotonic() + 600
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _rss(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def unused(store: Path) -> Figure:
    """How many modules of the inspector a program loads that does not use it."""
    done = subprocess.run(
        [sys.executable, "-c", UNUSED, str(store)], check=True, capture_output=True, text=True
    )
    return Figure(
        "modules of the inspector in a program without it", float(done.stdout), 0.0, "", "entering a run"
    )
