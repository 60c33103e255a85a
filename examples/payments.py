"""Five payments, each with a `verify`: kill it inside of one, and it asks the bank instead of paying again.

    python examples/payments.py              # kill it with -9 when it says "paying"
    python examples/payments.py              # it settles the payment that was cut off, and pays the rest

What to see: bank.txt has five lines, however often you kill it. A payment that reached the bank is found there
by its idempotency key; one that did not is made. Nobody guesses, and nobody is asked.
"""

import os
import time
from pathlib import Path

import holdfast

PACE_S = float(os.environ.get("PACE_S", "1"))  # how long each piece of work takes: time for you to kill it

BANK = Path("bank.txt")


def find_payment(who: str, cents: int, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    """Ask the bank for the payment with this key."""
    print(f"did {who} get it?", flush=True)
    booked = BANK.read_text().splitlines() if BANK.exists() else []
    if f"{who} {cents} {idempotency_key}" in booked:
        return holdfast.Done(f"receipt of {who}, found at the bank")
    return holdfast.NotDone()


# settle_s: how long a request may still be on its way to the bank. Ours is a file: no time at all.
@holdfast.tool(effect="once", verify=find_payment, settle_s=0)
def pay(who: str, cents: int, *, idempotency_key: str = holdfast.KEY) -> str:
    print(f"paying {who}", flush=True)
    time.sleep(PACE_S)  # killed here, the bank knows nothing of it
    with BANK.open("a") as bank:
        bank.write(f"{who} {cents} {idempotency_key}\n")
    time.sleep(PACE_S)  # killed here, only the bank knows of it
    return f"receipt of {who}"


with holdfast.run("march", goal="Pay everybody for March") as run:
    receipts = [pay(who, 100_00) for who in ("ada", "bob", "cleo", "dan", "eve")]
    run.finish(receipts)

print(f"{len(receipts)} receipts, in {run.attempt} attempt(s)")
