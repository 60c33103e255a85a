"""A swarm: a triage agent hands each ticket to the agent that knows about it, which may hand it on.

    python examples/swarm.py                 # kill it with -9 at any time
    python examples/swarm.py                 # the agents that had finished are not asked again
    holdfast show desk                       # the agents as children of the desk

What to see: each agent is a run of its own below `desk`. A handoff is the name that an agent returns. In
letters.txt each customer has one letter, however often the swarm is killed.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import holdfast

PACE_S = float(os.environ.get("PACE_S", "1"))  # how long each piece of work takes: time for you to kill it

TICKETS = {"ada": "my invoice is wrong", "bob": "the app crashes", "cleo": "I want my money back"}


def think(who: str, about: str) -> str:
    """The model of all agents. It answers with a text, or with the name of the agent to hand over to."""
    print(f"{who} thinks about: {about}", flush=True)
    time.sleep(PACE_S)
    if who == "triage":
        return "to:engineer" if "crash" in about else "to:billing"
    if who == "billing" and "money back" in about:
        return "to:boss"
    return f"{who} took care of it"


@holdfast.tool(effect="once")
def send_letter(customer: str, text: str) -> None:
    with Path("letters.txt").open("a") as letters:
        print(customer, "|", text, file=letters)


@holdfast.agent("colleague")
def colleague(run: holdfast.Run, who: str, customer: str, ticket: str) -> str:
    """Any agent of the swarm: it solves the ticket, or hands it over."""
    said = run.step("think", think, who, ticket)
    if not said.startswith("to:"):
        send_letter(customer, said)
    return said


@holdfast.agent("desk")
def desk(run: holdfast.Run, tickets: dict[str, str]) -> dict[str, str]:
    solved: dict[str, str] = {}
    ask: Callable[..., str] = run.child
    for customer, ticket in tickets.items():
        who = "triage"
        while (said := ask(f"{customer}-{who}", colleague, who=who, customer=customer, ticket=ticket))[
            :3
        ] == "to:":
            who = said.removeprefix("to:")  # the handoff: the next agent gets the ticket
        solved[customer] = said
    return solved


for customer, said in desk.run("desk", tickets=TICKETS).items():
    print(f"{customer}: {said}")
