"""What the workers of the soak run. The world is two files: ``ledger`` (each payment a line) and ``calls`` (each read step one).

A line is one ``write`` to a file opened with O_APPEND, so that lines of many processes never mix, and one that was written
outlives its process.
"""

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
    pay("second", me)
    return {"total": total, "part": child}


def _read(run: holdfast.Run, me: str, count: int, chance: Random, first: int = 0) -> int:
    ephemeral = holdfast.ephemeral
    return sum(
        run.step("read", read, me, n, ephemeral(run.attempt), chance.uniform(0.1, 0.6))
        for n in range(first, first + count)
    )


def expected(number: int) -> dict[str, dict[str, int] | int]:
    """What each run comes to."""
    return {
        f"soak-{number}": {"total": sum(range(READS)), "part": 3 + number},
        f"soak-{number}/part": 3 + number,
    }
