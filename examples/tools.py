"""A payment must not happen twice. Here the line breaks in the middle, and nobody knows whether it happened.

The first tool can look it up (``verify``), and the run settles it alone. The second cannot: the run stops and asks,
a person looks and answers, and the run goes on.

    python examples/tools.py
"""

import json
from pathlib import Path

import holdfast

BANK = Path("bank.jsonl")


def book(what: str, cents: int, key: str) -> str:
    """The bank books the payment; then the line breaks before its answer arrives."""
    with BANK.open("a") as file:
        file.write(json.dumps({"what": what, "cents": cents, "key": key}) + "\n")
    raise ConnectionError("the line broke")


def find_payment(*, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    """Ask the bank for the payment with this key."""
    booked = [json.loads(line) for line in BANK.read_text().splitlines()] if BANK.exists() else []
    found = [entry for entry in booked if entry["key"] == idempotency_key]
    return holdfast.Done(f"receipt for {found[0]['what']}") if found else holdfast.NotDone()


@holdfast.tool(effect="once", verify=find_payment)
def pay(what: str, cents: int, *, idempotency_key: str = holdfast.KEY) -> str:
    return book(what, cents, idempotency_key)


@holdfast.tool(effect="once")  # this bank has no way to look a payment up
def pay_in_cash(what: str, cents: int) -> str:
    return book(what, cents, "")


def work() -> str:
    with holdfast.run("payments", stops="suppress") as run:
        print(pay("rent", 90_000))  # settled by verify
        print(pay_in_cash("milk", 129))  # stops here the first time
        run.finish("all paid")
    return run.status


print(f"the run is {work()}")

store = holdfast.store()
for doubt in store.doubts("payments"):
    print(f"in doubt: {doubt.step} {doubt.reason}")
    store.resolve("payments", doubt.step, "done", value="receipt for milk")  # the person has looked

print(f"the run is {work()}")
print(f"the bank has booked {len(BANK.read_text().splitlines())} payments")
