"""Agents that wait: for a person, for approval, for a time; and one that is cancelled. ``people.py NAME``.

Parked, the program answers what it asked and starts again, as a person and a supervisor would. A payment is a line in the file ``ledger``.
"""

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import holdfast


def pay(person: str, amount: int, *, idempotency_key: str = holdfast.KEY) -> dict[str, Any]:
    with Path("ledger").open("a") as ledger:
        ledger.write(json.dumps({"key": idempotency_key, "person": person, "amount": amount}) + "\n")
    return {"paid": person}


def find_payment(idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    path = Path("ledger")
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    found = [line for line in lines if line["key"] == idempotency_key]
    return holdfast.Done({"paid": found[0]["person"]}) if found else holdfast.NotDone()


charge = holdfast.tool(effect="once", verify=find_payment, settle_s=0, approve=True, name="charge")(pay)


def blocking() -> None:
    with holdfast.run("agent") as run:
        receipt = charge("ada", 5)
        run.sleep(0.01)
        run.finish(receipt)


async def awaiting() -> None:
    async with holdfast.run("agent") as run:
        which, many = await asyncio.gather(
            run.ask("Who is to be paid?", returns=["ada", "bob"]), run.ask("How much?", returns=int)
        )
        await run.sleep(0.01)
        await run.finish([which, many])


def cancelled() -> None:
    """Parks, and is cancelled by its own process."""
    try:
        with holdfast.run("agent", stops="suppress") as run:
            run.sleep(3600, wait_s=0)
    except holdfast.RunCancelled:
        Path("refused").touch()
    try:
        holdfast.store().cancel("agent", by="ada", reason="enough")
    except holdfast.RunOver:
        Path("refused").touch()


def answer_everything() -> None:
    """The person, in the same process, so that whoever answers is killed too."""
    store = holdfast.store()
    for asked in store.questions("agent"):
        if asked.pending_by:
            continue
        value = {"bool": True, "int": 5}.get(asked.wants.kind, "ada")
        store.answer("agent", value, asked.id, by="ada")


def main(name: str) -> None:
    while True:
        try:
            if name == "awaiting":
                asyncio.run(awaiting())
            else:
                {"blocking": blocking, "cancelled": cancelled}[name]()
        except holdfast.AwaitingAnswer:
            answer_everything()
        else:
            break
    # Its last call of the store is to be over before this process is: struck there, it could otherwise end by itself.
    for thread in threading.enumerate():
        if thread.name == "holdfast-doorbell":
            thread.join()


if __name__ == "__main__":
    main(sys.argv[1])
