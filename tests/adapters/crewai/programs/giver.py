"""A CrewAI agent that pays two people and writes to them; it dies in the middle of the first letter. The giver of a handoff."""

import os
import signal
from pathlib import Path
from typing import Any

from crewai import Crew, Task
from crewai.tools import tool
from tests.adapters.crewai.scripted import Scripted, agent, called

import holdfast
from holdfast.adapters.crewai import durable


def note(line: str) -> None:
    """Write down, in the ledger that giver and taker share, that something really happened."""
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(line + "\n")


@tool("pay")
def pay(person: str, amount: int) -> str:
    """Pay somebody."""
    note(f"pay {person} {amount}")
    return f"paid {amount} to {person}"


@tool("mail")
@holdfast.tool(effect="once")
def mail(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
    """Write to somebody."""
    note(f"mail {to} {idempotency_key}")
    os.kill(os.getpid(), signal.SIGKILL)
    return f"wrote to {to}"


def script(role: str, seen: int, text: str) -> Any:
    del role, text
    if seen == 0:
        return called("pay", {"person": "ada", "amount": 5}, {"person": "bob", "amount": 7})
    return called("mail", {"to": "ada"}) if seen == 2 else "all is done"


if __name__ == "__main__":
    clerk = agent("Clerk", Scripted(model="scripted", script=script), pay, mail)
    task = Task(
        name="settle", description="Pay ada and bob, and write to both", expected_output="ok", agent=clerk
    )
    with holdfast.run("settling", goal="Pay ada and bob, and write to both") as run:
        run.promise("send the figures", to="Ada")
        run.decide("pay before writing", because="letters name the sums")
        Path("figures.csv").write_text("ada,5\nbob,7\n")
        run.artifact("figures.csv")
        durable(Crew(agents=[clerk], tasks=[task])).kickoff()
