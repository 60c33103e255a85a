"""The store model over every store: ``python -m tests.judges.stores --examples 1000``."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.judges.store_model import Model
from tests.support import results

from holdfast.model.events import Event
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.stores.sqlite import SqliteStore

STEPS: Final = 40
COSTS: Final = {
    "memory": 1,
    "sqlite": 4,
    "postgresql": 16,
    "dynamodb": 60,
    "encrypted-memory": 2,
    "encrypted-sqlite": 6,
    "encrypted-postgresql": 20,
    "encrypted-dynamodb": 80,
}
"""All stores, and how much longer an example takes than in memory: so many fewer are tried."""

Make = Callable[[Path], StorePort]


def drive(kind: str, examples: int, postgres_url: str = "") -> None:
    """So many programs over a store of this kind, each against the model. Raises AssertionError where they differ."""
    import tests.support.examples  # noqa: F401 - no example is timed

    make, event_bytes, blob_bytes = _made(kind, postgres_url)
    options = settings(
        max_examples=examples,
        deadline=None,
        stateful_step_count=STEPS,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    with _places(kind, postgres_url):
        judged: Any = lambda: Model(make, event_bytes, blob_bytes)  # noqa: E731 - a machine for each program
        run_state_machine_as_test(judged, settings=options)


def _made(kind: str, postgres_url: str) -> tuple[Make, Callable[[Event], int], Callable[[str, bytes], int]]:
    sealed, _, inner = kind.rpartition("-")
    make = _plain(inner, postgres_url)
    if not sealed:
        return make, lambda event: len(event.body), lambda _, data: len(data)
    from holdfast.stores.encrypted.keys import StoreKeys
    from holdfast.stores.encrypted.sealed_events import overhead_of
    from holdfast.stores.encrypted.store import EncryptedStore

    keys = StoreKeys([os.urandom(32)])
    return (
        lambda directory: EncryptedStore(make(directory), keys),
        lambda event: len(event.body) + overhead_of(event),
        lambda address, data: len(keys.seal_blob(address, data)),
    )


def _plain(kind: str, postgres_url: str) -> Make:
    if kind == "memory":
        return lambda directory: MemoryStore(str(directory))
    if kind == "sqlite":
        return lambda directory: SqliteStore(directory / "x.db")
    if kind == "dynamodb":
        from tests.support.aws.server import table_for

        from holdfast.stores.dynamodb.store import DynamoStore

        return lambda directory: DynamoStore(table_for(directory))
    from holdfast.stores.postgres import PostgresStore
    from holdfast.stores.url import place_of

    def make(directory: Path) -> StorePort:
        joint = "&" if "?" in postgres_url else "?"
        place = place_of(f"{postgres_url}{joint}schema={_SCHEMA}{directory.name.lower()}")
        return PostgresStore(place.name, place.password)

    return make


_SCHEMA: Final = "model_"


@contextmanager
def _places(kind: str, postgres_url: str) -> Iterator[None]:
    try:
        yield
    finally:
        if kind.endswith("postgresql"):
            from tests.support.postgres.sharing import drop_schema

            drop_schema(postgres_url, _SCHEMA)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2000, help="in memory; fewer where a store is slow")
    parser.add_argument("--store", choices=list(COSTS), action="append")
    given = parser.parse_args()
    results.commit_now()  # that of the beginning
    kinds = given.store or list(COSTS)
    from tests.support.postgres.sharing import shared_url

    begun, counts = time.monotonic(), dict[str, int]()
    with shared_url(f"judge-{os.getpid()}") as url:
        for kind in kinds:
            counts[kind] = max(5, given.examples // COSTS[kind])
            started = time.monotonic()
            drive(kind, counts[kind], url)
            print(
                f"{kind}: {counts[kind]} programs of {STEPS} steps in {time.monotonic() - started:.0f} s",
                flush=True,
            )
    if kinds == list(COSTS):
        counts = {"programs": sum(counts.values()), "differences": 0, **counts}
        file = results.RESULTS / "judge-stores.json"
        results.save(file, counts, seconds=time.monotonic() - begun, passed=True)
    return 0


if __name__ == "__main__":
    tempfile.tempdir = os.environ.get("TMPDIR") or ("/dev/shm" if Path("/dev/shm").is_dir() else None)
    sys.exit(main())
