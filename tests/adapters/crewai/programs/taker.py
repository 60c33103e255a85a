"""A plain loop, without any framework, that finishes what a CrewAI agent has handed over. It prints what it knew and did."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast

LEDGER = Path(os.environ["LEDGER"])


def note(line: str) -> None:
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\n")


@holdfast.tool
def pay(person: str, amount: int) -> str:
    note(f"pay {person} {amount}")
    return f"paid {amount} to {person}"


def is_written(to: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    is_there = f"mail {to} {idempotency_key}" in LEDGER.read_text().splitlines()
    return holdfast.Done(f"found the letter to {to}") if is_there else holdfast.NotDone()


@holdfast.tool(effect="once", verify=is_written, settle_s=0)
def mail(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
    note(f"mail {to} {idempotency_key}")
    return f"wrote to {to}"


TOOLS: dict[str, Callable[..., Any]] = {"pay": pay, "mail": mail}
TODO: list[tuple[str, dict[str, Any]]] = [
    ("pay", {"person": "ada", "amount": 5}),
    ("pay", {"person": "bob", "amount": 7}),
    ("mail", {"to": "ada"}),
    ("mail", {"to": "bob"}),
]

if __name__ == "__main__":
    with holdfast.run("finishing") as run:
        assert run.handed is not None
        knew = {
            "losses": [f"{loss.what} {loss.name}" for loss in run.handed.losses],
            "promises": [f"{one.text}: {one.state}" for one in run.promises.made],
            "in_doubt": [one["step"] for one in run.handed.document["in_doubt"]],
            "context": run.context(),
        }
        done = [TOOLS[name](**arguments) for name, arguments in TODO]
        run.keep(run.promises.made[0].id, note="in the letters")
        run.finish(done)
    print(
        json.dumps({**knew, "done": done, "frameworks": [name for name in sys.modules if name == "crewai"]})
    )
