"""Work that is handed over, with promises and messages: ``handing.py together|apart|awaited``.

Each start goes on with whatever an earlier one has left. A payment is a line in the file ``ledger``. ``together``: giver, taker and
friend share a store, and the giver seals itself. ``apart``: the giver is sealed from outside, and the taker has a store of its own.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import holdfast


def pay(amount: int, *, idempotency_key: str = holdfast.KEY) -> int:
    with Path("ledger").open("a") as ledger:
        ledger.write(json.dumps({"key": idempotency_key, "amount": amount}) + "\n")
    return amount


def find_payment(idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    path = Path("ledger")
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    found = [line for line in lines if line["key"] == idempotency_key]
    return holdfast.Done(found[0]["amount"]) if found else holdfast.NotDone()


charge = holdfast.tool(effect="once", verify=find_payment, settle_s=0, name="charge")(pay)


def friend() -> None:
    """Receives two messages, and knows what became of the promise."""
    with holdfast.run("friend", stops="suppress") as run:
        values = [run.receive().value for _ in range(2)]
        run.finish([values, [promise.state for promise in run.promises.received]])


def together() -> None:
    friend()
    try:
        with holdfast.run("giver") as run:
            charge(5)
            run.promise("send the figures", to="friend")
            run.send("friend", {"part": 1})
            run.handoff(to="taker", seal=True)
    except holdfast.RunSealed:
        pass
    store = holdfast.store()
    store.accept(store.handoff("giver", to="taker", seal=True), as_="taker")
    with holdfast.run("taker") as run:
        paid = [charge(5), charge(6)]
        run.keep(run.promises.made[0].id)
        run.send("friend", {"part": 2})
        run.finish(paid)
    friend()


def apart() -> None:
    try:
        with holdfast.run("giver") as run:
            charge(5)
            run.promise("send the figures", to="Ada")
            raise KeyError
    except (KeyError, holdfast.RunSealed):
        pass
    document = json.loads(json.dumps(holdfast.store().handoff("giver", to="taker", seal=True)))
    other = holdfast.store("other.db")
    other.accept(document, as_="taker", from_=holdfast.store())
    with holdfast.run("taker", store=other) as run:
        run.finish([charge(5), charge(6), [promise.text for promise in run.promises.made]])


async def awaited() -> None:
    async with holdfast.run("friend", stops="suppress") as run:
        values = [(await run.receive()).value for _ in range(2)]
        await run.finish([values, [promise.state for promise in run.promises.received]])
    async with holdfast.run("sender") as run:
        promise = await run.promise("send the figures", to="friend")
        await run.send("friend", {"part": 1})
        await run.break_promise(promise, because="enough")
        await run.send("friend", {"part": 2})
    async with holdfast.run("friend", stops="suppress") as run:
        values = [(await run.receive()).value for _ in range(2)]
        await run.finish([values, [promise.state for promise in run.promises.received]])


if __name__ == "__main__":
    ways: dict[str, Any] = {"together": together, "apart": apart}
    if sys.argv[1] == "awaited":
        asyncio.run(awaited())
    else:
        ways[sys.argv[1]]()
