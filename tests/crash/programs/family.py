"""A run with children, of which one has a child: ``family.py fork|rewind|move|erase|handoff [sealed]``.

``sealed``: in an encrypted store. Each start goes on with whatever an earlier one has left. A payment is a line in the file ``ledger``.
"""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import holdfast


def pay(whom: str, *, idempotency_key: str = holdfast.KEY) -> str:
    with Path("ledger").open("a") as ledger:
        ledger.write(json.dumps({"key": idempotency_key, "whom": whom}) + "\n")
    return whom


def find_payment(whom: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    path = Path("ledger")
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return (
        holdfast.Done(whom) if any(line["key"] == idempotency_key for line in lines) else holdfast.NotDone()
    )


charge = holdfast.tool(effect="once", verify=find_payment, settle_s=0, name="charge")(pay)


class Unfinished(Exception):
    """Ends an attempt in the middle of the work."""


def team(name: str, store: Any = None, *, upto: str = "") -> None:
    """The work of one run. ``upto``: it ends unfinished after this part."""
    with contextlib.suppress(Unfinished), holdfast.run(name, store=store) as run:
        run.step("plan", len, "a paper")
        with holdfast.run("first", inputs={"topic": "a"}) as kid:
            kid.finish(charge("first"))
        run.step("between", len, "b")
        with holdfast.run("second") as kid:
            with holdfast.run("deep") as deep:
                deep.finish(charge("deep"))
            if upto == "deep":
                raise Unfinished
            kid.finish(charge("second"))
        if upto:
            raise Unfinished
        run.finish("done")


def fork() -> None:
    """A fork before the second child, and one of the head while that is unfinished: both are run to their ends."""
    store = holdfast.store()
    if not has(store, "late"):
        team("talk", upto="deep")
        with contextlib.suppress(holdfast.RunExists):
            store.fork("talk@2", as_="early")
        store.fork("talk", as_="late")
    for name in ("early", "late"):
        team(name)


def rewind() -> None:
    """The second child moves to the kept branch, and is asked for again; then the kept branches are erased."""
    store = holdfast.store()
    if not is_rewound(store):
        team("talk", upto="second")
        store.rewind("talk@2")
    team("talk")
    for info in store.runs(prefix="talk~"):
        with contextlib.suppress(holdfast.UnknownRun):
            store.erase(info.run)


def move() -> None:
    """Moved with its children while the second is unfinished, and finished in the other store."""
    store, other = holdfast.store(), holdfast.store("other.db")
    with contextlib.suppress(holdfast.RunSealed):
        team("talk", upto="deep")
    if not has(other, "talk"):
        store.export("talk", "out.holdfast", move=True)
    with contextlib.suppress(holdfast.ImportClash):  # imported, and gone on since
        other.import_("out.holdfast")
    team("talk", other)


def erase() -> None:
    store = holdfast.store()
    if not has(store, "paid"):
        team("talk")
    with holdfast.run("paid") as run:
        run.finish(None)
    with contextlib.suppress(holdfast.UnknownRun):
        store.erase("talk")


def handoff() -> None:
    """Handed over while the second child is unfinished; the taker's children do the rest."""
    store = holdfast.store()
    with contextlib.suppress(holdfast.RunSealed):
        team("giver", upto="deep")
    store.accept(store.handoff("giver", to="taker", seal=True), as_="taker")
    for name in ("giver/second", "giver/new"):
        with contextlib.suppress(holdfast.RunSealed), holdfast.run(name) as kid:
            kid.step("work", charge.fn, "by a sealed child")
    team("taker")


def has(store: holdfast.Store, run: str) -> bool:
    return any(info.run == run and info.status != "importing" for info in store.runs(prefix=run))


def is_rewound(store: holdfast.Store) -> bool:
    return has(store, "talk") and any(e.kind == "run.rewound" for e in store.events("talk", whole=True))


if __name__ == "__main__":
    if "sealed" in sys.argv[2:]:
        os.environ["HOLDFAST_KEY"] = "00" * 32
    globals()[sys.argv[1]]()
