"""Makes the pictures of the inspector in docs/images, from a run that is really killed: ``make picture``.

The sample agent of the tests is killed in the middle of an answer, stopped by a deploy, and killed inside an
effect. Each time it is started again. What the page shows then, Chromium photographs, in the light and in the dark.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, expect, sync_playwright

ROOT: Final = Path(__file__).parents[1]
AGENT: Final = ROOT / "tests" / "ui" / "debt_agent.py"
IMAGES: Final = ROOT / "docs" / "images"
CHROMIUM: Final = os.environ.get("HOLDFAST_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
LIVES: Final[tuple[dict[str, str], ...]] = ({"DIE": "stream"}, {"STOP": "draft"}, {"DIE": "contact"}, {})
"""What each attempt of the agent is told: where to die, or where to be stopped."""
PACE_S: Final = "0.8"
BYTES_MAX: Final = 200_000


def killed_run(store: str) -> None:
    """The run to photograph. The first and the third attempt must have been killed."""
    codes = []
    for life in LIVES:
        made = subprocess.run(  # noqa: S603 - our own agent
            [sys.executable, str(AGENT), store],
            env={**os.environ, "PACE": PACE_S, **life},
            stderr=subprocess.DEVNULL,
            check=False,
        )
        codes.append(made.returncode)
    assert (codes[0], codes[2]) == (-signal.SIGKILL, -signal.SIGKILL), codes


def photograph(browser: Browser, url: str, scheme: str) -> Path:
    """One picture of the page of the run."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 1000},
        color_scheme="dark" if scheme == "dark" else "light",
        timezone_id="UTC",
    )
    page = context.new_page()
    page.goto(url)
    page.goto(url.partition("?")[0] + "run/debt-cycles")
    expect(page.locator("[data-live-word]")).to_have_text("live")
    expect(page.get_by_role("table", name="Steps")).to_contain_text("stopped in doubt")
    path = IMAGES / f"inspector-{scheme}.png"
    page.screenshot(path=path)
    context.close()
    assert path.stat().st_size < BYTES_MAX, f"{path.name} has {path.stat().st_size} bytes"
    return path


def main() -> None:
    """Run the agent, serve its store, take both pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="briefing-") as directory:
        store = str(Path(directory) / "holdfast.db")
        killed_run(store)
        command = [sys.executable, "-m", "holdfast.cli", "ui", "--no-open", "--as", "ada", "--store", store]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own command
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            try:
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])
                    for scheme in ("light", "dark"):
                        made = photograph(browser, url, scheme)
                        sys.stdout.write(f"{made.relative_to(ROOT)}: {made.stat().st_size // 1000} kB\n")
                    browser.close()
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
