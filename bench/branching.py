"""What a fork costs, far into a run and near its beginning, and what it adds to the file."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import holdfast
from bench.measuring import Figure, interleaved_us, size_on_disk

LATE = 10_000
EARLY = 10
FORKS = 100


def work(number: int) -> dict[str, object]:
    return {"number": number, "text": "a short result, as most tools give"}


def figures(place: Path) -> Iterator[Figure]:
    """Forks of a run of 10,000 events: at its end, and at its tenth event."""
    url = place / "holdfast.db"
    with holdfast.run("trunk", store=url) as run:
        for number in range(LATE // 2):
            run.step("work", work, number)
    holdfast.store(url).close()
    before = size_on_disk(url)
    names = count()
    store = holdfast.store(url)
    early, late = interleaved_us(
        [
            lambda: store.fork(f"trunk@#{EARLY}", as_=f"fork-{next(names)}"),
            lambda: store.fork(f"trunk@#{LATE}", as_=f"fork-{next(names)}"),
        ],
        rounds=FORKS,
        block=1,
    )
    store.close()
    added = (size_on_disk(url) - before) / (2 * FORKS)
    facts = f"p50 {early:.0f} µs at event {EARLY}, {late:.0f} µs at event {LATE:,}"
    yield Figure(f"fork at {LATE:,} events / at {EARLY}", late / early, 1.5, "×", facts)
    yield Figure("a fork adds to the file", added, 4096, "bytes", f"on average over {2 * FORKS} forks")
