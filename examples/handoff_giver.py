"""The day shift: pays one of two bills, promises something, and hands over. Its last payment breaks off: nobody knows about it.

    python examples/handoff_giver.py          # writes day.handoff.json
    python examples/handoff_taker.py          # another program, with a store of its own, goes on

What the bank has booked stands in bank.txt: look at it after both.
"""

import json
from pathlib import Path

import holdfast

BANK = Path("bank.txt")


@holdfast.tool
def pay(whom: str, cents: int, *, idempotency_key: str = holdfast.KEY) -> str:
    with BANK.open("a") as bank:
        bank.write(f"{whom} {cents} {idempotency_key}\n")
    if whom == "baker":
        raise ConnectionError("the line broke")  # it is booked, and we do not know it
    return f"receipt of {whom}"


with holdfast.run("day", goal="Pay the rent, the baker and the gas", store="day.db", stops="suppress") as run:
    run.promise("tell the baker when it is paid", to="baker")
    run.decide("the rent first", because="it is due today")
    print(pay("rent", 90_000))
    print(pay("baker", 1_290))

print(f"the day shift is {run.status}, and hands over")
document = holdfast.store("day.db").handoff("day", to="night", seal=True)
Path("day.handoff.json").write_text(json.dumps(document))
