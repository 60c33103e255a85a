"""A research agent on a plain loop: the model chooses what to read next, and the agent writes a report.

    python examples/research_agent.py        # kill it with -9 while it reads
    python examples/research_agent.py        # the same line goes on

What to see: no page is read twice, no answer of the model is asked for twice (each prints a line), and the
report is the same as without a kill. The model here is a function; put your client in its place.
"""

import os
import time

import holdfast

PACE_S = float(os.environ.get("PACE_S", "1"))  # how long each piece of work takes: time for you to kill it

LIBRARY = {
    "debt": "Debt grows in cycles. See: rates, trade.",
    "rates": "Rates fell for forty years. See: war.",
    "trade": "Trade shrinks when debt is called. See: war.",
    "war": "Wars are paid for by debt.",
}


def think(notes: dict[str, str]) -> str:
    """The model: which page next? It follows what the notes mention, and stops when all of it is read."""
    print(f"thinking about {len(notes)} notes", flush=True)
    time.sleep(PACE_S)
    mentioned = " ".join(notes.values()).partition("See: ")[2] if notes else "debt"
    wanted = [page for page in LIBRARY if page in mentioned or page in " ".join(notes.values())]
    return next((page for page in wanted or ["debt"] if page not in notes), "")


def read(page: str) -> str:
    """A tool that only reads: safe to repeat if it is cut off."""
    print(f"reading {page}", flush=True)
    time.sleep(PACE_S)
    return LIBRARY[page]


with holdfast.run("research", goal="Explain debt cycles") as run:
    notes: dict[str, str] = {}
    while page := run.step("think", think, notes):
        run.decide(f"read {page}", because="it is mentioned and not read yet")
        notes = {**notes, page: run.step("read", read, page)}
    run.finish("\n".join(f"{page}: {text}" for page, text in notes.items()))

print(f"report of {len(run.result.splitlines())} pages, in {run.attempt} attempt(s)")
