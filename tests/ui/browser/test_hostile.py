"""What a model or a user wrote is text: nothing of it runs, breaks the page, or leaves the machine.

Planted once: ``{{ turn.text|safe }}`` in the conversation, which the first test found: the policy stopped its image, and said so on the console.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.ui.browser.inspector import Inspector, Viewer

import holdfast

View = Callable[..., Viewer]
Serve = Callable[..., Inspector]

SCRIPT = "<script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)><a href='javascript:alert(3)'>x</a>"
BREAKOUT = "\"'></textarea></pre></title><svg onload=alert(4)>{{7*7}}${7*7}<!--"
ESCAPES = "\x1b[31mred\x1b[0m\x1b]8;;https://evil.example\x07link\x07 \x00 \x08\x7f"
MARKS = "\u202eevil\u202c \u2066rtl\u2069 \ufeff e\u0301\u0301\u0301\u0301 \U000e0041 مرحبا"
LINE = "w" * 1_000_000
TEXTS = {"script": SCRIPT, "breakout": BREAKOUT, "escapes": ESCAPES, "marks": MARKS, "line": LINE}
PARTS = ("conversation", "effects", "plan", "files", "lineage", "log")


class Crash(Exception):
    """The program ends here."""


def fill(url: str, text: str, directory: Path) -> None:
    """A run with this text in every field that a user or a model can fill."""
    short = text.replace("\x00", "")[:200]
    name = "".join(one for one in short if one.isprintable()).strip()[:200]  # a step's may have no others

    def complete(request: dict[str, Any]) -> dict[str, Any]:
        call = {"id": short, "type": "function", "function": {"name": short, "arguments": text}}
        message = {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls": [call]}
        return {
            "model": short,
            "choices": [{"message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1},
        }

    def refuse(given: str) -> str:
        raise ValueError(text)

    with (
        suppress(Crash),
        holdfast.run(
            "hostile",
            goal=text[:3000],
            inputs={"text": text},
            store=url,
            workspace=str(directory),
            stops="suppress",
        ) as run,
    ):
        run.plan([text[:2000], short])
        run.step(name, str.strip, text)
        with suppress(ValueError):
            run.step("refuse", refuse, text)
        messages = [
            {"role": "system", "content": text},
            {"role": short, "content": text},
            {"role": "user", "content": text},
        ]
        run.model("chat", complete, {"model": short, "messages": messages})
        run.think(text)
        run.decide(text, because=text)
        run.discover(text)
        run.say(text, to=short)
        run.remember(text[:5000], tags=[name[:50]])
        run.checkpoint({short: text, "list": [text, {"deep": text}]}, label=_label(short))
        file_name = re.sub(r"[/\x00]", "_", short)[:60].strip() or "x"
        with suppress(holdfast.HoldfastError, OSError), run.open(directory / file_name, "w") as file:
            file.write(text)
        run.once("pay", str.strip, text)
        run.ask(text[:5000], returns=str, about={"text": text[:5000]})
        raise Crash


def _label(text: str) -> str:
    return re.sub(r"[^\w -]", "", text)[:40].strip() or "label"


def look_everywhere(viewer: Viewer) -> None:
    """Every page and part, the dialog of an event, and each form."""
    page = viewer.run("hostile")
    expect(page.get_by_role("table", name="Steps").get_by_role("row").first).to_be_visible()
    for name in PARTS:
        part = page.locator(f'[data-part="{name}"]')
        part.scroll_into_view_if_needed()
        expect(part.locator(".card")).to_be_visible()
    _fits(page)
    for link in page.locator('[data-part="notes"] a').all()[:3]:
        link.click()
        expect(page.locator("#detail pre")).to_be_visible()
        _fits(page)
        page.keyboard.press("Escape")
    files = page.locator('[data-part="files"] a[data-fill]')
    if files.count():
        files.first.click()
        expect(page.locator('[data-part="files"]')).to_contain_text("version 1")
        _fits(page)
    for name in ("Fork…", "Answer…"):
        page.get_by_role("button", name=name).click()
        expect(page.locator("#detail form[data-act-form]")).to_be_visible()
        _fits(page)
        page.keyboard.press("Escape")
    for path in ("/", "/runs", "/effects", "/memory", "/runs?q=evil", "/diff?a=hostile@1&b=hostile"):
        page = viewer.go(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        _fits(page)


def _fits(page: Page) -> None:
    width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1], (page.url, width)


@pytest.mark.parametrize("kind", TEXTS)
def test_hostile_text_in_every_field(url: str, serve: Serve, view: View, tmp_path: Path, kind: str) -> None:
    """Nothing runs, no request leaves, the layout holds at both widths, the console is silent: the fixture looks at that."""
    fill(url, TEXTS[kind], tmp_path)
    inspector = serve(url)
    for width in (1280, 800):
        viewer = view(inspector, width=width)
        viewer.allow("status of 404")  # hostile@1 may not be a point
        look_everywhere(viewer)


def test_hostile_text_is_shown_as_it_is(url: str, serve: Serve, view: View, tmp_path: Path) -> None:
    """Escaping is no loss: the text is on the page, letter by letter."""
    fill(url, SCRIPT, tmp_path)
    page = view(serve(url)).run("hostile")
    expect(page.locator('[data-part="notes"]')).to_contain_text("<script>alert(1)</script>")
    assert page.locator("main script, main img, main a[href^='javascript']").count() == 0


def test_a_run_id_is_quoted_in_every_address(url: str, serve: Serve, view: View) -> None:
    """Whatever an id may have, its page is found by its link, and its parts by theirs."""
    ids = ["a b%20c", "x?part=event&seq=1", "h#sh", "ünï✓", "a+b&c=d", "q\"'<b>"]
    made = []
    for one in ids:
        with suppress(holdfast.HoldfastError), holdfast.run(one, store=url) as run:
            run.step("count", len, one)
            made.append(one)
    with holdfast.run("plain", store=url) as run:
        run.step("count", len, "x")
    viewer = view(serve(url))
    for one in [*made, "plain"]:
        page = viewer.go("/runs")
        page.get_by_role("link", name=one, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(one)
        expect(page.locator("[data-live-word]")).to_have_text("live")
        log = page.locator('[data-part="log"]')
        log.scroll_into_view_if_needed()
        expect(log.locator("tbody tr").first).to_contain_text("run started")


def test_a_value_of_20_megabytes(url: str, serve: Serve, view: View) -> None:
    """A huge argument, result and state: the page is there, bounded, and says how to see the whole."""
    huge = os.urandom(10_000_000).hex()
    with holdfast.run("huge", store=url) as run:
        run.step("strip", str.strip, huge)
        run.checkpoint({"huge": huge, "small": 1})
        run.finish(huge)
    viewer = view(serve(url))
    page = viewer.run("huge")
    expect(page.get_by_role("table", name="Steps")).to_contain_text("strip")
    expect(page.locator('[data-part="state"]')).to_contain_text("small")
    for name in PARTS:
        part = page.locator(f'[data-part="{name}"]')
        part.scroll_into_view_if_needed()
        expect(part.locator(".card")).to_be_visible()
    page.get_by_role("table", name="Steps").get_by_role("row").first.get_by_role("link").click()
    expect(page.locator("#detail")).to_contain_text("prints the whole")
    assert len(page.content()) < 2_000_000
