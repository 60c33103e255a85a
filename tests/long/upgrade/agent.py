"""A program that outlives its Python: tasks side by side, values of many types, defaults, closures, module data.

Each attempt is a process of its own: ``agent.py STORE LEDGER STAGE``. The first two end in the middle, as a kill ends
them, each behind one more payment. The third comes to the end: it pays the last one while those of the other tasks
have not been asked for yet, which only an unchanged program may.
"""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import holdfast

LIMIT = 3
RATE = Decimal("6.1")
NAMES = ("ada", "bob", "eve")


@dataclass(frozen=True)
class Offer:
    to: str
    amount: Decimal
    at: datetime


@holdfast.tool
def pay(offer: Offer, limit: int = LIMIT, *, idempotency_key: str = holdfast.KEY) -> str:
    """An effect: a line in a file."""
    with open(sys.argv[2], "a") as file:
        file.write(f"{offer.to} {idempotency_key}\n")
    return f"paid {offer.to} {offer.amount} by {RATE}, at most {limit}"


def look(number: int) -> list[object]:
    return [number, RATE, [one for one in range(LIMIT) if one], {name: len(name) for name in NAMES}]


async def one(run: holdfast.AsyncRun, name: str, before: asyncio.Event, after: asyncio.Event) -> list[object]:
    with run.scope(name):
        await before.wait()

        def offered(amount: str) -> Offer:
            return Offer(name, Decimal(amount), datetime(2026, 1, 2, tzinfo=UTC))

        offer = await run.step("offer", offered, "1.50")
        paid = await run.once("pay", pay.fn, offer)
        after.set()
        return [offer.to, paid]


async def main(url: str, stage: int) -> None:
    async with holdfast.run("upgrade", store=url, goal="outlive Python", inputs={"n": (1, 2)}) as run:
        found: list[object] = [await run.step("look", look, number) for number in range(3)]
        start, *gates = (asyncio.Event() for _ in range(4))
        order = (2, 0, 1) if stage == 3 else (0, 1, 2)  # at last, the one that is new comes first
        before = dict(zip(order, (start, *gates), strict=False))
        follow = dict(zip(order, gates, strict=True))
        start.set()

        async def stop() -> None:
            if stage < 3:
                await follow[stage - 1].wait()
                os._exit(9)

        stopping = asyncio.create_task(stop())
        found += await asyncio.gather(*(one(run, name, before[n], follow[n]) for n, name in enumerate(NAMES)))
        await stopping
        await run.checkpoint({"found": found})
        print(json.dumps(found, default=str))


asyncio.run(main(sys.argv[1], int(sys.argv[3])))
