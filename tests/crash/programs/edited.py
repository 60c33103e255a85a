"""An agent whose author changes it between two starts: the file ``asks`` stands for the edit."""

import os
import signal
import sys
from pathlib import Path

import holdfast


def fetch(page: int) -> str:
    return f"page {page}"


@holdfast.tool(effect="once")
def post(page: int) -> str:
    with Path("posted").open("a") as posted:
        posted.write(f"{page}\n")
    return f"posted {page}"


def main(effect: str) -> None:
    asks = int(Path("asks").read_text())
    with holdfast.run("agent") as run:
        got = run.step("fetch", fetch, asks) if effect == "read" else post(asks)
        if Path("die").exists():
            Path("die").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        run.finish(got)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except holdfast.Diverged as stop:
        print(stop)
        sys.exit(4)
