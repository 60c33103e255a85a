"""Agents that are pruned while they are killed: ``pruned.py live | store [sealed]``; ``sealed`` in an encrypted store.

``live``: the holder prunes its own run after every second checkpoint. ``store``: somebody prunes the whole store after
the run, its fork and a finished one. What they did to the world stands in ``ledger``, a line a payment.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import holdfast
from holdfast.engine.prune import auto_prune, prune_run

POLICY = holdfast.Retention(
    reasoning=holdfast.Keep(last=1), checkpoints=holdfast.Keep(last=1), compact_events=4
)


def look(*, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    paid = {line["key"]: line["amount"] for line in read("ledger")}
    return holdfast.Done(paid[idempotency_key]) if idempotency_key in paid else holdfast.NotDone()


@holdfast.tool(effect="once", verify=look, settle_s=0)
def pay(amount: int, *, idempotency_key: str = holdfast.KEY) -> int:
    tell("ledger", key=idempotency_key, amount=amount)
    return amount


def fetch(page: int) -> str:
    tell("fetched", page=page)
    return f"page {page}" * 100


def read(file: str) -> list[dict[str, Any]]:
    path = Path(file)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tell(file: str, **line: Any) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


def work(name: str, rounds: int, retention: holdfast.Retention | None) -> None:
    with holdfast.run(name, retention=retention) as run:
        config = run.step("config", fetch, 0)
        state = run.restore({"i": 0, "notes": [], "sum": 0})
        for i in range(state["i"], rounds):
            note = run.step("fetch", fetch, i % 2)
            run.think(f"round {i}")
            state["sum"] += pay(i % 2)
            state["notes"] = [*state["notes"], f"{note} in round {i}"][-2:]
            state["i"] = i + 1
            run.checkpoint(state, label="second" if i == 1 else None)
        run.finish([config, state["sum"], state["notes"]])


def main(how: str, *seals: str) -> None:
    if seals:
        os.environ["HOLDFAST_KEY"] = "00" * 32
    if how == "live":
        vars(auto_prune)["PRUNE_CHECKPOINTS"] = 1  # after every second
        vars(prune_run)["PRUNE_PAGE_EVENTS"] = 5  # so that a stretch takes several writes
        vars(prune_run)["VALUE_INLINE_BYTES_MAX"] = 200  # and its view lies beside it
        work("agent", 4, POLICY)
        return
    store = holdfast.store()
    work("agent", 3, None)
    if not any(info.run == "other" for info in store.runs()):
        store.fork("agent@second", as_="other")
    work("other", 3, None)
    store.prune(policy=POLICY._replace(finished=holdfast.Keep(days=1)))


if __name__ == "__main__":
    main(*sys.argv[1:])
