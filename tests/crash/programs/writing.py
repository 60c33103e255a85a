"""An agent that writes a file twice and declares another: killed wherever, each version is there whole, and recorded once."""

import asyncio
import logging
import sys
from pathlib import Path

import holdfast

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.crash.programs import file_kills

logging.basicConfig(format="%(message)s")
file_kills.install()

FIRST, SECOND = "first\n" * 3, "second\n" * 2_000


def draft(name: str) -> int:
    return Path("out", name).write_text("plain\n")


def blocking() -> None:
    with holdfast.run("agent") as run:  # without a workspace: a file that somebody has changed pauses it
        with run.open("out/sub/report.md") as file:
            file.write(FIRST)
        run.step("between", len, FIRST)
        with run.open("out/sub/report.md") as file:
            file.write(SECOND)
        run.step("draft", draft, "plain.md")
        run.artifact("out/plain.md")
        run.finish("done")


async def awaited() -> None:
    async with holdfast.run("agent", workspace="out") as run:
        async with run.open("sub/report.md", "wb") as file:
            file.write(FIRST.encode())
        async with run.open("sub/report.md", "wb") as file:
            file.write(SECOND.encode())
        await run.finish("done")


if sys.argv[1:] == ["async"]:
    asyncio.run(awaited())
else:
    blocking()
