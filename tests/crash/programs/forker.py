"""Pays in run ``m``, forks it before the payment, forks the fork, hands the last one over, and works in all of them."""

from contextlib import suppress
from pathlib import Path

import holdfast

LEDGER = Path("ledger.txt")


def has_paid(*, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    paid = LEDGER.read_text().split() if LEDGER.exists() else []
    return holdfast.Done("paid") if idempotency_key in paid else holdfast.NotDone()


@holdfast.tool(effect="once", verify=has_paid, settle_s=0)
def pay(*, idempotency_key: str = holdfast.KEY) -> str:
    with LEDGER.open("a") as file:
        file.write(f"{idempotency_key}\n")
    return "paid"


def work(name: str) -> None:
    with holdfast.run(name) as run:
        run.step("plan", len, "a payment")
        run.finish(pay())


store = holdfast.store()
work("m")
for place, name in (("m@#3", "f"), ("f", "g")):
    with suppress(holdfast.RunExists):
        store.fork(place, as_=name)
document = store.handoff("g", to="t", seal=True)
store.accept(document, as_="t")
for name in ("t", "f", "m"):
    work(name)
