"""A Ray actor for each agent. Ray starts it again when its node dies; Holdfast knows what it has done by then.

The two share nothing: Ray calls ``work`` once more, on another node, and the run in it resumes from the store. The store is
one that all nodes reach; a SQLite file will do where all of them are one machine.

    pip install ray
    python examples/ray_actor.py                               # a cluster on this machine, runs in .holdfast
    python examples/ray_actor.py postgresql://me@db/agents     # on a node of a cluster that is there
"""

import json
import sys
import time
from pathlib import Path

import ray

import holdfast

PEOPLE = ("Ada", "Grace", "Barbara", "Frances", "Jean", "Kathleen")


def find_payment(ledger: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    """Ask the bank whether it has booked this: after a crash nobody else knows."""
    file = Path(ledger)
    booked = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return (
        holdfast.Done("paid")
        if any(line["key"] == idempotency_key for line in booked)
        else holdfast.NotDone()
    )


@holdfast.tool(effect="once", verify=find_payment, settle_s=1)
def pay(person: str, ledger: str, *, idempotency_key: str = holdfast.KEY) -> str:
    """The outside world: a bank that takes its time before it books a payment, and before it answers."""
    time.sleep(0.3)
    with Path(ledger).open("a") as file:
        file.write(json.dumps({"person": person, "key": idempotency_key}) + "\n")
    time.sleep(0.3)
    return "paid"


# An actor that is lost is made again, as often as it takes, and the call that it was at is made once more.
@ray.remote(max_restarts=-1, max_task_retries=-1)
class Payroll:
    """One agent. Its memory is the run, so there is nothing to hand over when it moves."""

    def __init__(self, store: str, ledger: str) -> None:
        self._store = store
        self._ledger = ledger

    def work(self, month: str) -> str:
        """Pay everybody, once. The same call starts the run, resumes it, or answers with its result."""
        while True:
            try:
                return self._pay_all(month)
            except holdfast.RunHeld:
                # The node that had the run cannot be asked whether it is dead. When it has been silent for its
                # lease (lease_s in the store's URL, 30 seconds by default) the run is free.
                time.sleep(1)

    def _pay_all(self, month: str) -> str:
        with holdfast.run(month, store=self._store) as run:
            for person in PEOPLE:
                pay(person, self._ledger)
            run.finish(f"{month}: {len(PEOPLE)} people paid in {run.attempt} attempt(s)")
        return str(run.result)


if __name__ == "__main__":
    store = sys.argv[1] if len(sys.argv) > 1 else holdfast.store().url  # an actor has another directory
    ray.init(log_to_driver=False)  # the cluster that is there, or a new one
    agent = Payroll.remote(store, str(Path("ledger.jsonl").absolute()))  # type: ignore[attr-defined]
    print(ray.get(agent.work.remote("march")))
