"""The night shift: another program with a store of its own takes the day's work over, and pays nothing twice.

python examples/handoff_giver.py
python examples/handoff_taker.py
"""

import json
from pathlib import Path

import holdfast

BANK = Path("bank.txt")


def find_payment(whom: str, cents: int, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    """Ask the bank for the payment with this key: of one in doubt, it is the day shift's."""
    booked = BANK.read_text().splitlines()
    is_there = f"{whom} {cents} {idempotency_key}" in booked
    return holdfast.Done(f"receipt of {whom}, found at the bank") if is_there else holdfast.NotDone()


@holdfast.tool(effect="once", verify=find_payment, settle_s=0)
def pay(whom: str, cents: int, *, idempotency_key: str = holdfast.KEY) -> str:
    with BANK.open("a") as bank:
        bank.write(f"{whom} {cents} {idempotency_key}\n")
    return f"receipt of {whom}"


document = json.loads(Path("day.handoff.json").read_text())
accepted = holdfast.store("night.db").accept(document, as_="night")
for loss in accepted.losses:
    print(f"not carried over: {loss.what} {loss.name}: {loss.why}")

with holdfast.run("night", store="night.db") as run:
    for whom, cents in (("rent", 90_000), ("baker", 1_290), ("gas", 4_500)):
        print(pay(whom, cents))  # rent is answered, baker is looked up, gas is paid
    for promise in run.promises.made:
        run.keep(promise, note="called")
        print(f"kept: {promise.text}")

print(f"the bank has booked {len(BANK.read_text().splitlines())} payments")
