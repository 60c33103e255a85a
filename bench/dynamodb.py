"""How many requests a store in DynamoDB makes: they are what the service charges for, and what an agent waits for.

Counted where the driver sends them, repeats included, against a server on this machine. Beats come by the clock and not
with the work, so they are left out.
"""

import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.aws.server import table_for, with_bucket

import holdfast
from bench.measuring import Figure
from bench.texts import prose, turns
from holdfast import limits
from holdfast.stores.dynamodb.store import DynamoStore

STEPS = 100
CHECKPOINTS = 20


class Again(Exception):
    """Ends an attempt without finishing the run."""


class Requests:
    """What a store's clients have sent, by operation."""

    def __init__(self, port: DynamoStore) -> None:
        self.seen: Counter[str] = Counter()
        table = port._table
        lines = [table.line]
        if table.target.blobs:
            lines.append(table.objects._line(table.target.blobs.split("/")[2]))
        for line in lines:
            line.client.meta.events.register("before-send", self._note)

    def _note(self, event_name: str, **_: Any) -> None:
        if threading.current_thread().name != "holdfast-heartbeat":
            self.seen[event_name.rpartition(".")[2]] += 1

    def of(self, work: Callable[[], object]) -> Counter[str]:
        before = self.seen.copy()
        work()
        return self.seen - before


def figures(place: Path) -> Iterator[Figure]:  # noqa: ARG001 - the server keeps everything in memory
    """A step of each kind, a checkpoint, entering and leaving, and a value that lies in a bucket."""
    port = DynamoStore(with_bucket(table_for(f"bench-{uuid.uuid4().hex}")))
    requests = Requests(port)
    store = holdfast.Store(port)
    try:
        yield from _entering(store, requests)
        yield from _recording(store, requests)
        yield _checkpoint(store, requests)
        yield _bucket(store, requests)
    finally:
        store.close()


def work(number: int) -> str:
    return f"a short result, as most tools give: {number}"


def _entering(store: holdfast.Store, requests: Requests) -> Iterator[Figure]:
    spent: dict[str, Counter[str]] = {}

    def attempt(name: str) -> None:
        entering = holdfast.run("long", store=store)
        runs: list[holdfast.Run] = []
        spent[f"entering {name}"] = requests.of(lambda: runs.append(entering.open()))
        for number in range(STEPS):
            runs[0].step("work", work, number)
        spent[f"leaving {name}"] = requests.of(runs[0].close)

    attempt("a new run")
    attempt(f"a run of {STEPS} steps")
    for name, counted in spent.items():
        yield _figure(name, counted, 1, 6.0 if name == "entering a new run" else None)


def _recording(store: holdfast.Store, requests: Requests) -> Iterator[Figure]:
    with suppress(Again), holdfast.run("steps", store=store) as run:
        for kind, record, bar in (("read", run.step, 1.0), ("once", run.once, None)):

            def steps(kind: str = kind, record: Callable[..., object] = record) -> None:
                for number in range(STEPS):
                    record(kind, work, number)

            yield _figure(f"a {kind} step", requests.of(steps), STEPS, bar)
        raise Again


def _checkpoint(store: holdfast.Store, requests: Requests) -> Figure:
    messages = [message for _, turn in zip(range(100), turns(prose()), strict=False) for message in turn]

    def checkpoints() -> None:
        for number in range(CHECKPOINTS):
            messages.append({"role": "user", "content": f"and then? {number}"})
            run.checkpoint({"messages": messages})

    with suppress(Again), holdfast.run("states", store=store) as run:
        run.checkpoint({"messages": messages})
        spent = requests.of(checkpoints)
        raise Again
    return _figure("a checkpoint that adds a message", spent, CHECKPOINTS)


def _bucket(store: holdfast.Store, requests: Requests) -> Figure:
    text = os.urandom(limits.OBJECT_SIZE_BYTES_MIN).hex()

    def large() -> str:
        return text[::-1]

    with suppress(Again), holdfast.run("large", store=store) as run:
        run.step("warm-up", work, 0)
        spent = requests.of(lambda: run.options(key="large").step("large", large))
        raise Again
    return _figure("a read step with a result for the bucket", spent, 1)


def _figure(what: str, spent: Counter[str], count: int, bar: float | None = None) -> Figure:
    facts = ", ".join(f"{number / count:g} {operation}" for operation, number in spent.most_common())
    return Figure(f"DynamoDB: {what}", spent.total() / count, bar, "requests", facts or "nothing")
