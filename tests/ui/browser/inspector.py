"""``holdfast ui`` as a process of its own, and a browser that looks at it: what the tests of the page share.

A ``Viewer`` notes everything that must not happen while it looks: an error on the console, an exception, a
dialog, a request that leaves loopback. ``at_ease`` says at the end whether it did.
"""

import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Playwright

CHROMIUM = os.environ.get("HOLDFAST_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
AGENT = Path(__file__).parents[1] / "debt_agent.py"
TOKEN = "a-token-for-the-tests"
DEADLINE_MS = int(os.environ.get("HOLDFAST_UI_DEADLINE_MS", "30000"))
LOCAL = {"127.0.0.1", "localhost"}


def launch(playwright: Playwright) -> Browser:
    """Debian's Chromium. Without it nothing here can be tested, which is a failure."""
    assert Path(CHROMIUM).exists(), f"{CHROMIUM} is missing: apt-get install chromium"
    return playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Inspector:
    """One ``holdfast ui`` over a store."""

    def __init__(self, store: str, *options: str, port: int = 0, token: str = TOKEN) -> None:
        self.store, self.options, self.port, self.token = store, options, port, token
        self.process: subprocess.Popen[str] | None = None
        self.output = io.StringIO()
        self.start()

    def start(self) -> None:
        """Start it, on the same port as before; the first line that it prints is its address."""
        command = [
            sys.executable, "-m", "holdfast.cli", "ui", "--no-open", "--port", str(self.port),
            "--token", self.token, "--as", "ada", "--store", self.store, *self.options,
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline().strip()
        assert first.startswith("http://127.0.0.1:"), first + self.process.stdout.read()
        self.url = first
        self.port = urlsplit(first).port or 0
        self.base = f"http://127.0.0.1:{self.port}"
        self.told = threading.Thread(
            target=shutil.copyfileobj, args=(self.process.stdout, self.output), daemon=True
        )
        self.told.start()

    def stop(self) -> None:
        """Stop it. What it has printed is shown beside a test that failed."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
            self.told.join()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None
            print(self.output.getvalue()[-20_000:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Viewer:
    """A person with a browser: one context, which has entered with the token."""

    def __init__(
        self, browser: Browser, inspector: Inspector, *, scheme: Any = "light", width: int = 1280
    ) -> None:
        self.inspector = inspector
        self.context: BrowserContext = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, timezone_id="UTC"
        )
        self.context.set_default_timeout(DEADLINE_MS)
        self.faults: list[str] = []
        self.allowed: list[str] = []
        self.requests: list[str] = []
        self.context.on("request", lambda request: self._asked(request.url))
        self.context.on("console", self._said)
        self.context.on("weberror", lambda error: self.faults.append(f"exception: {error.error}"))
        self.context.on("dialog", self._asked_back)
        self.page: Page = self.context.new_page()
        self.page.goto(inspector.url)

    def _asked(self, url: str) -> None:
        self.requests.append(url)
        parts = urlsplit(url)
        if parts.scheme != "data" and parts.hostname not in LOCAL:
            self.faults.append(f"a request left the machine: {url[:200]}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.faults.append(f"console: {message.text[:300]} {message.location.get('url', '')[:200]}")

    def _asked_back(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def allow(self, pattern: str) -> None:
        """What this test provokes on purpose, as a pattern of the console's words."""
        self.allowed.append(pattern)

    def go(self, path: str) -> Page:
        self.page.goto(self.inspector.base + path)
        return self.page

    def run(self, run: str) -> Page:
        return self.go(f"/run/{quote(run)}")

    def at_ease(self) -> None:
        """Nothing happened that must not."""
        left = [fault for fault in self.faults if not any(re.search(one, fault) for one in self.allowed)]
        assert not left, "\n".join(left[:20])
        assert self.requests, "nothing was asked for"

    def close(self) -> None:
        self.context.close()


@contextmanager
def agent(store: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The sample agent as a process, killed at the end if it still works."""
    started = subprocess.Popen(
        [sys.executable, str(AGENT), store],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(store.removeprefix("sqlite:///")).parent
        if "://" not in store or store.startswith("sqlite")
        else None,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait()


def run_agent(store: str, **environment: str) -> int:
    """The sample agent, from its start to its end or death; the exit code."""
    with agent(store, **environment) as started:
        return started.wait(120)
