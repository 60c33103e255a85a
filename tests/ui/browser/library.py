"""Stores to look at, made by real runs: one for every page and every act."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import holdfast

ARGUMENTS = [sys.executable, str(Path(__file__))]


class Crash(Exception):
    """The program ends here."""


def pay(who: str) -> str:
    return f"receipt for {who}"


def pay_and_die(who: str) -> str:
    os.kill(os.getpid(), 9)
    return who


@holdfast.tool(effect="read")
def look(query: str) -> dict[str, Any]:
    return {"found": query}


@holdfast.tool(effect="idempotent")
def upsert(row: int) -> int:
    return row


def complete(request: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": "gpt-4o",
        "choices": [{"message": {"role": "assistant", "content": "The debt is rising."}}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 8},
    }


def files(url: str, directory: Path) -> None:
    """A run with two files, one of them in two versions, and one that is no text."""
    with holdfast.run("report", goal="Write the report", store=url, workspace=str(directory)) as run:
        for version in ("first words", "second words"):
            with run.open(directory / "report.md", "w") as file:
                file.write(f"# Report\n\n{version}\n")
            run.checkpoint({"draft": version, "pages": len(version)}, label=version.split()[0])
        with run.open(directory / "chart.bin", "wb") as file:
            file.write(bytes(range(256)))
        run.think("the chart is the same as last year")
        upsert(4)
        run.remember("The ministry reads PDF only.", tags=["style"])
        run.remember("Italy reports in March.", tags=["calendar"])
        run.finish("report.md")


def small(run: holdfast.Run, name: str) -> int:
    return run.step("count", len, name)


@holdfast.agent("analyst")
def child(run: holdfast.Run, name: str = "") -> int:
    return small(run, name)


def children(url: str) -> None:
    """A run with three children."""
    with holdfast.run("team", goal="Ask three analysts", store=url) as run:
        for name in ("germany", "france", "italy"):
            run.child(name, child, name=name)
        run.finish("done")


def mended(url: str) -> None:
    """A run whose conversation was cut off between a call and its result, and was mended before it was sent."""
    asked = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"query": "debt"}'}}
    other = {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"query": "yield"}'}}

    def begin(run: holdfast.Run) -> None:
        run.messages.extend(
            [
                {"role": "user", "content": "How high is the debt?"},
                {"role": "assistant", "content": None, "tool_calls": [asked, other]},
            ]
        )
        run.checkpoint({"turn": 1})
        look("debt")

    with suppress(Crash), holdfast.run("mended", store=url) as run:
        begin(run)
        raise Crash
    with holdfast.run("mended", store=url) as run:
        run.restore()
        run.model("chat", complete, {"model": "gpt-4o", "messages": run.messages.ready()})
        run.finish("ok")


def stopped(url: str, run: str = "stopped") -> None:
    """A run that stopped before a call that may be an effect which is recorded already."""
    with suppress(Crash), holdfast.run(run, store=url) as first:
        first.once("pay", pay, "Ada")
        raise Crash
    with suppress(holdfast.StopSignal), holdfast.run(run, store=url) as second:
        second.once("pay", pay, "Zoe")


def doubted(url: str, run: str = "doubted") -> None:
    """A run whose process was killed inside an effect."""
    subprocess.run([*ARGUMENTS, url, run], check=False, stderr=subprocess.DEVNULL)


def asked(url: str, run: str = "asked", question: str = "Send it?", **more: Any) -> None:
    """A run that waits for a person."""
    with suppress(holdfast.StopSignal), holdfast.run(run, store=url, goal="ask a person") as opened:
        opened.step("draft", str.upper, "dear minister")
        opened.ask(question, **{"returns": bool, **more})


def looping(url: str) -> None:
    """A run whose thought did not change while the same search ran three times."""
    with holdfast.run("looping", store=url) as run:
        for turn in range(3):
            run.think("I should search for the debt")
            run.step("search", len, "debt")
            run.checkpoint({"turn": turn, "text": f"the debt rose by {turn} per cent last year"})
        run.finish(3)


def points(url: str, run: str = "points", number: int = 6) -> None:
    """A run with states to travel through, that can be forked and rewound."""
    with suppress(Crash), holdfast.run(run, store=url, goal="go on") as opened:
        for n in range(number):
            opened.step(f"count-{n}", len, "x" * n)
            opened.checkpoint({"n": n, "list": [*range(n)]}, label=f"at-{n}")
        opened.once("pay", pay, "Ada")
        raise Crash


def long(url: str, steps: int, run: str = "long") -> None:
    """A run of so many steps, written without a sync for each of them."""
    if url.startswith("sqlite"):
        subprocess.run([*ARGUMENTS, url, run, str(steps)], check=True, env={**os.environ, "TMPDIR": "/tmp"})
    else:
        _steps(url, run, steps)


def _steps(url: str, run: str, steps: int) -> None:
    with holdfast.run(run, store=url, goal=f"{steps} steps") as opened:
        for n in range(steps):
            opened.step("count", len, str(n))
            if n % (steps // 20 or 1) == 0:
                opened.checkpoint({"n": n})
        opened.finish(steps)


if __name__ == "__main__":
    url_, run_ = sys.argv[1:3]
    if len(sys.argv) > 3:
        _steps(url_, run_, int(sys.argv[3]))
    else:
        with holdfast.run(run_, store=url_, goal="pay Ada") as dying:
            dying.once("pay", pay_and_die, "Ada")
