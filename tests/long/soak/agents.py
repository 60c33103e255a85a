"""What the workers of the soak run. The world is two files: ``ledger`` (each payment a line) and ``calls`` (each read step one).

A line is one ``write`` to a file opened with O_APPEND, so that lines of many processes never mix, and one that was written
outlives its process.
"""

import asyncio
import json
import os
import time
from pathlib import Path
from random import Random
from typing import Any

import holdfast

PLACE = Path(os.environ.get("SOAK_PLACE", "."))
READS = 10
ENTRIES = ("first", "second")


def note(file: str, **fields: Any) -> None:
    line = json.dumps({**fields, "pid": os.getpid(), "at": time.time()}).encode() + b"\n"
    descriptor = os.open(PLACE / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        assert os.write(descriptor, line) == len(line)
    finally:
        os.close(descriptor)


def lines(file: str) -> list[dict[str, Any]]:
    path = PLACE / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def find_payment(entry: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    found = [line for line in lines("ledger") if line["key"] == idempotency_key]
    return holdfast.Done(entry) if found else holdfast.NotDone(f"there is no {entry} in the ledger")


@holdfast.tool(effect="once", verify=find_payment, settle_s=0.2)
def pay(entry: str, run: str, *, idempotency_key: str = holdfast.KEY) -> str:
    time.sleep(0.1)  # on its way
    note("ledger", run=run, entry=entry, key=idempotency_key)
    time.sleep(0.1)  # and back
    return entry


def read(run: str, number: int, attempt: int, seconds: float) -> int:
    note("calls", run=run, number=number, attempt=attempt)
    time.sleep(seconds)
    return number


@holdfast.agent("part")
def part(run: holdfast.Run, number: int) -> int:
    """A child: reads, sleeps, pays."""
    chance = Random(f"part {number}")
    me = f"soak-{number}/part"
    total = _read(run, me, 3, chance)
    run.sleep(chance.uniform(0.2, 2), wait_s=0)
    pay("part", me)
    return total + number


@holdfast.agent("soak")
def soak(run: holdfast.Run, number: int) -> dict[str, int]:
    """A parent: reads, pays, sleeps, waits for its child, reads, pays."""
    chance = Random(f"soak {number}")
    me = f"soak-{number}"
    total = _read(run, me, READS // 2, chance)
    pay("first", me)
    run.sleep(chance.uniform(0.5, 5), wait_s=0)
    child = run.child("part", part, number, queue=True)
    total += _read(run, me, READS - READS // 2, chance, READS // 2)
    with run.open(f"{run.id.replace('/', '_')}.txt", "w") as file:
        file.write(f"{me}: {total}")
    run.checkpoint({"total": total, "text": "kelp " * 3_000})
    pay("second", me)
    return {"total": total, "part": child}


def says(request: dict[str, Any]) -> dict[str, Any]:
    """A model that answers by the request alone."""
    note("calls", run="model", number=len(request["messages"]))
    text = f"You said: {request['messages'][-1]['content']}"
    return {"text": text, "usage": {"input_tokens": 9, "output_tokens": 5}}


@holdfast.agent("clerk")
async def clerk(run: holdfast.AsyncRun, number: int) -> dict[str, Any]:
    """Reads side by side, asks a model and a person, pays, keeps states."""
    chance = Random(f"clerk {number}")
    me, ephemeral = f"clerk-{number}", holdfast.ephemeral

    async def one(n: int) -> int:
        with run.scope(f"desk {n}"):
            pause_s = chance.uniform(0.05, 0.4)
            return await run.step(
                "read", read, ephemeral(run.id), n, ephemeral(run.attempt), ephemeral(pause_s)
            )

    found = await asyncio.gather(*map(one, range(4)))
    await run.checkpoint({"found": found, "text": "kelp " * 3_000})
    request = {"model": "m", "messages": [{"role": "user", "content": me}]}
    said = await run.model("chat", says, request, model="m", provider="p")
    await run.once("pay", pay.fn, "first", me)
    answer = await run.ask(f"Which one, {me}?", choices=["a", "b"])
    await run.checkpoint({"said": said["text"], "answer": answer, "text": "kelp " * 3_000})
    await run.once("pay", pay.fn, "second", me)
    return {"total": sum(found), "answer": answer}


def _read(run: holdfast.Run, me: str, count: int, chance: Random, first: int = 0) -> int:
    ephemeral = holdfast.ephemeral
    return sum(
        run.step("read", read, ephemeral(run.id), n, ephemeral(run.attempt), chance.uniform(0.1, 0.6))
        for n in range(first, first + count)
    )


def expected(run: str) -> dict[str, Any] | int | None:
    """What a run comes to; None for one that was forked, imported or kept by a rewind."""
    kind, _, rest = run.partition("-")
    number, _, child = rest.partition("/")
    if not number.isdecimal() or kind not in {"soak", "clerk"}:
        return None
    if kind == "clerk":
        return {"total": 6, "answer": "a"}
    return 3 + int(number) if child else {"total": sum(range(READS)), "part": 3 + int(number)}
