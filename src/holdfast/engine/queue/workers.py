"""Which workers serve which agents: one record for each worker, to say when a queued run has no worker.

A worker announces itself when it starts and withdraws when it stops. Crash window: the record of a killed
worker stays until another process finds that its owner is dead.
"""

import os
from collections.abc import Iterable
from typing import Final

from orjson import dumps, loads

from holdfast.limits import RECORD_PAGE_MAX
from holdfast.stores.port import StorePort

_SPACE: Final = "workers"


def announce(store: StorePort, agents: Iterable[str]) -> str:
    """Record that this process takes runs of these agents. Returns the key to withdraw it by."""
    key = os.urandom(8).hex()
    body = dumps({"owner": store.owner, "agents": sorted(agents)})
    store.put_record(_SPACE, key, body, revision=0, synced=False)
    return key


def withdraw(store: StorePort, key: str) -> None:
    """Remove the record."""
    record = store.get_record(_SPACE, key)
    if record is not None:
        store.delete_record(_SPACE, key, revision=record.revision)


def is_served(store: StorePort, agent: str) -> bool:
    """Whether a worker that is not known to be dead takes runs of this agent."""
    found = False
    after = ""
    while page := store.scan_records(_SPACE, after=after, limit=RECORD_PAGE_MAX):
        for record in page:
            worker = loads(record.body)
            if store.probe(worker["owner"]) == "dead":
                store.delete_record(_SPACE, record.key, revision=record.revision)
            else:
                found = found or agent in worker["agents"]
        after = page[-1].key
    return found
