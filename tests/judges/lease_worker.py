"""A client of one run's lease: ``lease_worker.py NAME URL LOG SEED CALLS THREADS``. It does what it likes and notes every call.

A line before each call and a line behind it, each in one write, with the time of the machine's monotonic clock: what was called
when the process was killed stands there without an answer.
"""

import json
import os
import sys
import threading
import time
from random import Random
from typing import Any

from holdfast.errors import StoreError
from holdfast.model.events import Event, Kind, checksum
from holdfast.model.store_rows import Append, Appended, Lease
from holdfast.stores.port import StorePort
from holdfast.stores.url import open_store

RUN = "contended"


def an_append(fence: int, after: int, who: str) -> Append:
    """One event, in the name of who writes it."""
    body = b"{}"
    crc = checksum(RUN, after + 1, 1.0, Kind.MARK, who, "", fence, body)
    return Append(RUN, fence, after, (Event(after + 1, 1.0, Kind.MARK, who, "", fence, body, crc),))


def ask(store: StorePort, verb: str, arguments: tuple[Any, ...], who: str) -> tuple[Any, ...]:
    """The answer of the store, in the words of ``lease_history``."""
    if verb == "acquire":
        over = arguments[1]
        seen = None if over is None else Lease(over[0], "x", over[1])
        granted, lease, _ = store.acquire(RUN, at=1.0, lease_s=9.0, over=seen)
        return ("granted" if granted else "refused", lease.fence, lease.owner, lease.beat)
    if verb == "renew":
        return ("lost" if RUN in store.renew({RUN: arguments[0]}, at=2.0) else "kept",)
    if verb == "release":
        return ("released" if store.release(RUN, fence=arguments[0]) else "lost",)
    if verb == "append":
        (outcome,) = store.append([an_append(arguments[0], arguments[1], who)])
        if isinstance(outcome, Appended):
            return ("appended", outcome.head)
        return (outcome.reason, outcome.head, outcome.lease.fence)
    row = store.find_run(RUN)
    assert row is not None
    return (row.lease.fence, row.lease.owner, row.lease.beat, row.head)


class Client:
    """One thread's view: what it was told last, which others have made stale since."""

    def __init__(self, who: str, store: StorePort, seed: str, note: Any) -> None:
        self.who, self.store, self.random, self.note = who, store, Random(seed), note
        self.lease, self.mine, self.head = (0, 0), 0, 0

    def call(self, number: int) -> None:
        """One call, noted before and after; what the store refuses to answer stays without an answer."""
        verb, arguments = self._choose()
        identity = f"{self.who}:{number}"
        call = {"id": identity, "who": self.who, "verb": verb, "arguments": arguments}
        self.note({**call, "made": time.monotonic_ns()})
        try:
            answer = ask(self.store, verb, arguments, self.who)
        except StoreError:  # it may have happened, or not
            return
        self.note({"id": identity, "answered": time.monotonic_ns(), "answer": answer})
        self._learn(verb, answer)

    def _choose(self) -> tuple[str, tuple[Any, ...]]:
        verb = self.random.choice(
            ("acquire", "acquire", "renew", "release", "append", "append", "append", "read")
        )
        fence = self.random.choice((self.mine, self.mine, self.mine, self.lease[0], max(0, self.mine - 1)))
        if verb == "acquire":
            return verb, (self.store.owner, self.random.choice((None, self.lease, self.lease)))
        if verb == "append":
            return verb, (fence, self.head)
        return verb, () if verb == "read" else (fence,)

    def _learn(self, verb: str, answer: tuple[Any, ...]) -> None:
        if verb in {"acquire", "read"}:
            fence, _, beat = answer[-3:] if verb == "acquire" else answer[:3]
            self.lease = (fence, beat)
            self.mine = fence if answer[0] == "granted" else self.mine
        if verb == "read":
            self.head = answer[3]
        if verb == "append":
            self.head = answer[1]


def work(name: str, store: StorePort, seed: int, calls: int, threads: int, note: Any) -> None:
    """So many clients at once, each with so many calls."""
    clients = [
        Client(f"{name}.{number}", store, f"{seed} {name} {number}", note) for number in range(threads)
    ]

    def all_calls(client: Client) -> None:
        for number in range(calls):
            client.call(number)

    running = [threading.Thread(target=all_calls, args=(client,)) for client in clients]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def main(name: str, url: str, log: str, seed: str, calls: str, threads: str) -> None:
    """Work, and note it in the file ``log``."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(line: dict[str, Any]) -> None:
        os.write(descriptor, json.dumps(line).encode() + b"\n")

    store = open_store(url)
    work(name, store, int(seed), int(calls), int(threads), note)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
