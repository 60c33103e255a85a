"""What encryption at rest adds to a step: CPU of this thread, the least of many rounds' medians, in turns.

Beside it the floor: what the ciphers alone take for the very bytes, at the same place of a step. It is the cheapest way
that ``cryptography`` has: one ``AESGCM.encrypt`` for each event, with a nonce of its own, drawn in one call, and its place
as associated data. And what grows with the content, apart from what each step costs.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import holdfast
from bench.measuring import Figure, rounds_us
from bench.places import in_memory
from holdfast.model.store_rows import Append, AppendOutcome
from holdfast.stores.sqlite import SqliteStore

ROUNDS: Final = 36
BLOCK: Final = 50
KB: Final = 1_024
SIZES: Final = (4 * KB, 15 * KB, 64 * KB)
"""The second is nearly the most that an event has in itself; a larger result is a content of its own, compressed."""
KINDS: Final = ("sealed", "plain", "ciphers alone")
_NONCE_BYTES: Final = 12
_PLACE: Final = bytes(90)
_INSIDE: Final = bytes(40)
"""As long as the associated data of an event, and as what is sealed besides its body."""
RESULTS: Final = {size: random.Random(size).randbytes(size // 2).hex() for size in SIZES}


def work(number: int, size: int) -> str:
    del number
    return RESULTS[size]


class _Ciphers(SqliteStore):
    """A plain store that also encrypts what it appends, and throws that away."""

    _encrypt = AESGCM(bytes(32)).encrypt

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        for item in items:
            contents = [_INSIDE + event.body for event in item.events]
            contents += [blob.data for blob in item.blobs if blob.data is not None]
            nonces = os.urandom(_NONCE_BYTES * len(contents))
            for number, content in enumerate(contents):
                self._encrypt(nonces[number * _NONCE_BYTES :][:_NONCE_BYTES], content, _PLACE)
        return super().append(items)


def figures(place: Path) -> Iterator[Figure]:
    """On the disk, where the bar is, and in memory, where no wait for a sync cools the caches."""
    yield from _figures(place, "on this disk")
    with in_memory() as memory:
        if memory is not None:
            yield from _figures(memory, "in memory")


def _figures(place: Path, where: str) -> Iterator[Figure]:
    taken = _taken(place)
    added = {size: taken["sealed", size] - taken["plain", size] for size in SIZES}
    floor = {size: taken["ciphers alone", size] - taken["plain", size] for size in SIZES}
    small, inline, large = SIZES
    facts = f"{taken['sealed', small]:.1f} and {taken['plain', small]:.1f} µs of CPU, the least of {ROUNDS} rounds; two events"
    title = f"encryption at rest, {where}"
    unit = "µs above a plain store"
    yield Figure(f"{title}: a step with a result of 4 KB", added[small], 10.0, unit, facts)
    yield Figure(
        f"{title}: the ciphers alone (floor)",
        floor[small],
        None,
        unit,
        "AESGCM.encrypt twice, nonces, nothing else",
    )
    grows, floor_grows = ((one[inline] - one[small]) / (inline - small) * 4 * KB for one in (added, floor))
    facts = f"between 4 and 15 KB; the ciphers alone {floor_grows:.1f} µs"
    yield Figure(f"{title}: each 4 KB more", grows, None, "µs", facts)
    facts = f"what a step without content adds, halved; the ciphers alone {(floor[small] - floor_grows) / 2:.1f} µs"
    yield Figure(f"{title}: each event", (added[small] - grows) / 2, None, "µs", facts)
    facts = f"{added[large]:.1f} µs for a result of 64 KB, which is a content of its own, compressed to 32 KB; the ciphers alone {floor[large]:.1f} µs"
    yield Figure(f"{title}: a large result, each 4 KB", added[large] / (large / (4 * KB)), None, "µs", facts)


def _taken(place: Path) -> dict[tuple[str, int], float]:
    """CPU of a step, in µs, by kind of store and size of its result. What is above the least is others' work."""
    stores = {
        "sealed": holdfast.store(place / "sealed.db", key=os.urandom(32)),
        "plain": holdfast.store(place / "plain.db"),
        "ciphers alone": holdfast.Store(_Ciphers(place / "ciphers.db")),
    }
    runs = {
        (kind, size): holdfast.run(f"r{size}", store=stores[kind], loops=None).open()
        for size, kind in product(SIZES, KINDS)
    }
    numbers = count()
    steps = [
        partial(lambda run, size: run.step("work", work, next(numbers), size), run, size)
        for (_, size), run in runs.items()
    ]
    taken = rounds_us(steps, rounds=ROUNDS, block=BLOCK, clock=time.thread_time)
    for run in runs.values():
        run.close()
    for store in stores.values():
        store.close()
    return {one: min(us) for one, us in zip(runs, taken, strict=True)}
