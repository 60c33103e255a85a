"""An agent to look at: it plans, asks a model, pays once, asks a person, and dies where its environment says.

``python debt_agent.py STORE``, with ``DIE=charged|stream|contact`` for a SIGKILL at that place, ``STOP=draft``
for a SIGTERM, ``PACE`` for seconds a model call takes.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import holdfast

PACE = float(os.environ.get("PACE", "0"))
ANSWERS = {
    "DE": "The German cycle is rising: issuance grew by nine per cent, and the ten-year yield followed in June.",
    "FR": "The French cycle has been rising since the refinancing round in 2012, which moved maturities to 2027.",
    "IT": "The Italian cycle is flat: the share of long bonds has not moved for six quarters.",
}


def die_at(place: str) -> None:
    if os.environ.get("DIE") == place:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("STOP") == place:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)


@holdfast.tool(effect="once")
def charge_card(customer: int, eur: int) -> dict[str, Any]:
    time.sleep(PACE / 4)
    return {"receipt": f"r-{customer}", "eur": eur}


@holdfast.tool(effect="once")
def create_contact(name: str) -> dict[str, Any]:
    die_at("contact")
    return {"name": name}


@holdfast.tool(effect="read")
def read_series(country: str) -> list[int]:
    time.sleep(PACE / 3)
    return [len(country) * n for n in range(4)]


def complete(request: dict[str, Any]) -> dict[str, Any]:
    time.sleep(PACE)
    said = request["messages"][-1]["content"]
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "read_series", "arguments": '{"country": "DE"}'},
    }
    return {
        "model": "gpt-4o",
        "choices": [
            {"message": {"role": "assistant", "content": f"Plan for: {said[:60]}", "tool_calls": [call]}}
        ],
        "usage": {"prompt_tokens": 9_200, "completion_tokens": 1_400},
    }


def wait_until_kept(text: str) -> None:
    """Pieces are written a moment after they come; the death is to find them written."""
    store, deadline = holdfast.store(sys.argv[1]), time.monotonic() + 60
    while time.monotonic() < deadline:
        events = store.events("debt-cycles")
        if any(event.kind == "stream.chunk" and text in event.body.decode() for event in events):
            return
        time.sleep(0.02)
    raise TimeoutError(f"{text} was not written")


def words_of(request: dict[str, Any]) -> Iterator[str]:
    country = request["messages"][-1]["content"][-2:]
    for word in ANSWERS[country].split(" "):
        time.sleep(PACE / 12)
        if word == "which" and country == "FR":
            if os.environ.get("DIE") == "stream":
                wait_until_kept("2012")
            die_at("stream")
        yield word + " "


def work(run: holdfast.Run) -> None:
    run.plan(["survey", "compare", "charge_card", "draft"])
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You explain debt cycles."}]
    messages.append({"role": "user", "content": "Survey the sovereign debt of Germany, France and Italy."})
    run.model("survey", complete, {"model": "gpt-4o", "messages": messages})
    run.think("The IMF feed timed out three times; the ECB series has the same column.")
    run.decide("skip the IMF feed", because="it was rate limited three times")
    facts: dict[str, str] = {}
    for country in ("DE", "FR", "IT"):
        run.step("compare", read_series, country)
        if country == "FR":
            charge_card(7, 120)
            die_at("charged")
        asked = {
            "model": "gpt-4o",
            "messages": [*messages, {"role": "user", "content": f"Explain {country}"}],
        }
        facts[country] = "".join(run.stream("ask", words_of, asked, model="gpt-4o")).strip()
        run.discover(f"{country}: {facts[country][:48]}")
        run.checkpoint(
            {
                "facts": dict(facts),
                "section": len(facts),
                "sources": [f"{country} {n}" for n in range(len(facts) * 4)],
            },
            label=f"section-{len(facts)}",
        )
    die_at("draft")
    create_contact("Ada Lovelace")
    approved = run.ask(
        "May the briefing be sent to the ministry?", returns=bool, about={"to": "ministry", "pages": 12}
    )
    run.finish({"sent": approved, "sections": len(facts)})


if __name__ == "__main__":
    with holdfast.run(
        "debt-cycles", goal="Explain sovereign debt cycles for the April briefing", store=sys.argv[1]
    ) as run:
        work(run)
