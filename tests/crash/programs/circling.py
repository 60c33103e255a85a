"""An agent whose model goes in circles until it is nudged: ``circling.py MODE``. ``die`` in its directory is where it dies.

``nudged`` searches until there is a nudge, hands it to its model and finishes; ``stubborn`` searches for ever.
"""

import os
import signal
import sys
from pathlib import Path

import holdfast


@holdfast.tool(effect="read")
def search(query: str) -> str:
    with Path("searches").open("a") as searches:
        searches.write(f"{query}\n")
    return "nothing found"


def model(nudge: str) -> str:
    return f"told: {nudge}"


def die_after(searches: int) -> None:
    if Path("die").exists() and int(Path("die").read_text()) == searches:
        os.kill(os.getpid(), signal.SIGKILL)


def main(mode: str) -> None:
    with holdfast.run("agent") as run:
        for number in range(1, 12):
            search("debt")
            die_after(number)
            if mode == "nudged" and run.nudge:
                break
        answers = [run.step("model", model, run.nudge or "nothing")]
        search("debt")
        answers.append(run.step("model", model, run.nudge or "nothing"))
        run.finish(answers)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except holdfast.Parked:
        sys.exit(3)
