"""An agent that may ask its model six times, and does. ``sent`` in its directory has a line for each request."""

from pathlib import Path
from typing import Any

import holdfast

CALLS = 6
PRICES = {"m": {"input": 1000, "output": 0}}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    with Path("sent").open("a") as sent:
        sent.write(f"{request['n']}\n")
    return {"model": "m", "usage": {"prompt_tokens": request["n"], "completion_tokens": 1}}


def main() -> None:
    with holdfast.run("agent", budget=holdfast.Budget(calls=CALLS), prices=PRICES) as run:
        for n in range(1, CALLS + 1):
            run.model("ask", answer, {"model": "m", "n": n})
            run.step("use", str, n)
        run.finish([*run.spent])


if __name__ == "__main__":
    main()
