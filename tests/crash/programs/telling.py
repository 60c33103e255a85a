"""An agent that tells its model, at every turn, what its run has come to; each request is written to a file."""

from pathlib import Path
from typing import Any

import holdfast


def model(request: dict[str, Any]) -> dict[str, Any]:
    with Path("requests").open("a") as requests:
        requests.write(f"{request['turn']}\n")
    return {"choices": [{"message": {"role": "assistant", "content": f"turn {request['turn']} is done"}}]}


def search(turn: int) -> str:
    return f"result {turn}"


if __name__ == "__main__":
    with holdfast.run("agent", goal="Explain debt") as run:
        for turn in range(3):
            run.step("search", search, turn)
            told = run.context(700, style="full")
            run.model("think", model, {"turn": turn, "system": told}, model="m")
        run.finish("done")
