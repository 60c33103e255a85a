"""What the agents of this directory share: a library, a desk that publishes, and a model that needs no network.

Each of them does the work of ``../research_agent.py``: the model asks for one page after the other, and then
publishes a report, which must not happen twice. The model is an OpenAI-compatible server in the same process;
where you have a key, give the framework your own model instead.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from holdfast.testing.model_server import ModelServer, Reply, ToolCall

PACE_S = float(os.environ.get("PACE_S", "1"))  # how long each piece of work takes: time for you to kill it

PROMPT = "Read what the library has about debt, and publish a report."
LIBRARY = {
    "debt": "Debt grows in cycles.",
    "rates": "Rates fell for forty years.",
    "trade": "Trade shrinks when debt is called.",
    "war": "Wars are paid for by debt.",
}
PUBLISHED = Path("published.txt")


def read_page(page: str) -> str:
    """Read a page of the library.

    Args:
        page: its name
    """
    print(f"reading {page}", flush=True)
    time.sleep(PACE_S)
    return LIBRARY[page]


def publish(report: str) -> str:
    """Publish the report: there is no way back.

    Args:
        report: its text
    """
    print("publishing", flush=True)
    with PUBLISHED.open("a", encoding="utf-8") as file:
        print(report, file=file)
    return "published"


def next_call(turn: int) -> tuple[str, dict[str, str]] | None:
    """What the model wants in this turn: page after page, then the report. None: it is done."""
    print(f"the model is asked, turn {turn + 1}", flush=True)
    pages = list(LIBRARY)
    if turn < len(pages):
        return "read_page", {"page": pages[turn]}
    return ("publish", {"report": " ".join(LIBRARY.values())}) if turn == len(pages) else None


def answer(asked: dict[str, Any]) -> Reply:
    """The model's answer, which depends on the conversation alone: what it has said so far is its turn."""
    call = next_call(sum(message["role"] == "assistant" for message in asked["messages"]))
    if call is not None:
        return ToolCall(*call)
    if "final_answer" in json.dumps(asked.get("tools", [])):  # smolagents ends by a tool of its own
        return ToolCall("final_answer", {"answer": "The report is out."})
    return "The report is out."


def model() -> ModelServer:
    """The model as a server: ``with model() as server:`` and then ``server.base_url``."""
    return ModelServer(otherwise=answer)
