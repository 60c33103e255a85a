"""A run that goes through the queue, with a child there, and the worker that runs both: all in this process. ``queued.py``.

The run reads, pays, sleeps (parked until it is due), waits for its child (parked until that ends) and asks (parked until
this very program, as a person would, answers). Started again, the program serves what it finds. A payment is a line in the file ``ledger``.
"""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import holdfast

IDLE_S = 30.0
ROUNDS_MAX = 10
SUBMITTED = Path("submitted")


def find_payment(whom: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    path = Path("ledger")
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return (
        holdfast.Done(whom) if any(line["key"] == idempotency_key for line in lines) else holdfast.NotDone()
    )


@holdfast.tool(effect="once", verify=find_payment, settle_s=0)
def pay(whom: str, *, idempotency_key: str = holdfast.KEY) -> str:
    with Path("ledger").open("a") as ledger:
        ledger.write(json.dumps({"key": idempotency_key, "whom": whom}) + "\n")
    return whom


def double(number: int) -> int:
    return 2 * number


@holdfast.agent("child")
def child(run: holdfast.Run, number: int) -> int:
    pay("bob")
    return run.step("double", double, number)


@holdfast.agent("parent")
def parent(run: holdfast.Run, number: int) -> dict[str, Any]:
    first = run.step("double", double, number)
    pay("ada")
    run.sleep(0.01, wait_s=0)
    second = run.child("part", child, first, queue=True)
    return {"number": second, "good": run.ask("Good enough?", returns=bool)}


def main() -> None:
    store = holdfast.store()
    if not SUBMITTED.exists():  # submitted again, it would be called up, whoever forgot to
        parent.submit("agent", 1)
        SUBMITTED.touch()
    for _ in range(ROUNDS_MAX):
        with holdfast.worker(concurrency=1) as worker:
            assert worker.wait_idle(IDLE_S), worker.runs
        row = store._port.find_run("agent")
        assert row is not None
        if row.status == "finished":
            return
        assert row.status == "parked", row
        if row.due_at is not None:
            time.sleep(max(0.0, row.due_at - time.time()))
        for asked in store.questions("agent"):
            # Killed before they heard that it was taken, people answer again.
            with suppress(holdfast.AlreadyAnswered):
                store.answer("agent", True, asked.id, by="ada")
    raise AssertionError("nobody calls the run up")


if __name__ == "__main__":
    main()
