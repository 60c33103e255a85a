"""Recall among 100,000 facts, beside the bare scan of their vectors plus the bare FTS query; and what keeping a fact takes."""

import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import numpy as np

import holdfast
from bench.measuring import Figure, compiled_once, fresh_interpreter_ms, interleaved_us, size_on_disk
from holdfast.core.memory.terms import query_of
from holdfast.embedding.embedders import embed, find_embedder, quantise
from holdfast.engine.memory.fact_search import CANDIDATES
from holdfast.engine.memory.facts import body_of, fact_of
from holdfast.stores.sqlite.search.vector_packs import SLOTS

FACTS = 100_000
_WHO = (
    "Ada Bela Carl Dora Emil Fay Gus Hana Ivo Jana Karl Lena Milo Nora Otto Pia Quin Rosa Sven Tara".split()
)
_WHAT = (
    "prefers {0} over {1};pays for the {0} with the {1} card;broke the {0} while moving the {1};keeps the {0} beside the {1};"
    "ordered {2} units of {0} for the {1};asked why the {0} is slower than the {1};owns the {0} in the {1};"
    "moved the {0} to the {1} on day {2};measured {2} ms between {0} and {1};wants no {0} near the {1}"
).split(";")
_THINGS = (
    "cache queue table lamp kitchen garden router ledger invoice bicycle printer sensor engine boiler archive folder window "
    "server cluster database harbour bridge ticket train kettle piano violin camera battery cable mirror carpet"
).split()
_QUERIES = 40


def figures(place: Path) -> list[Figure]:
    """The ratio that matters, and what is behind it."""
    store = _filled(place / "facts.db")
    chance = random.Random(7)
    asked = [f"{text} and {chance.choice(_THINGS)}" for text in _texts(chance, _QUERIES)]
    scan, words = _bare(place / "facts.db-search", asked)
    recall_us, scan_us, words_us = interleaved_us(
        [
            _turns(lambda query: store.memory.recall(query, 5), asked),
            _turns(scan, range(_QUERIES)),
            _turns(words, asked),
        ],
        rounds=10,
        block=4,
    )
    remember_us = interleaved_us([_turns(store.memory.remember, _texts(chance, 50))], rounds=10, block=5)[0]
    embedder = find_embedder()
    assert embedder is not None
    embed_us = interleaved_us([lambda: embed(embedder, [asked[0]])], rounds=50, block=4)[0]
    (cold_ms,) = fresh_interpreter_ms(
        [f"import holdfast; holdfast.store({str(place / 'facts.db')!r}).memory.recall({asked[0]!r})"],
        rounds=5,
    )
    first_ms, second_ms, numpy_ms, memory_mb = _in_fresh_processes(place / "facts.db", *asked[:2])
    return [
        Figure(
            "recall of 5 among 100,000 facts, over the bare vector scan plus the bare FTS query",
            recall_us / (scan_us + words_us),
            2.0,
            "x",
            f"recall {recall_us / 1000:.1f} ms, scan {scan_us / 1000:.1f} ms, FTS {words_us / 1000:.1f} ms",
        ),
        Figure(
            "keeping a fact among 100,000",
            remember_us / 1000,
            None,
            "ms",
            "looked for repeats, indexed, synced twice",
        ),
        Figure("a text embedded by the shipped table", embed_us / 1000, None, "ms", embedder.model),
        Figure(
            "the first recall of a fresh process, over loading numpy and a later recall (CPU)",
            first_ms / (numpy_ms + second_ms),
            2.0,
            "x",
            f"first {first_ms:.0f} ms, second {second_ms:.0f} ms, numpy {numpy_ms:.0f} ms; "
            f"{first_ms / second_ms:.1f} x the second",
        ),
        Figure("a process that recalls once", cold_ms, None, "ms", "import, open, load numpy, recall"),
        Figure("its memory", memory_mb, None, "MB", "the most that it held"),
        Figure(
            "index and store on disk",
            size_on_disk(place / "facts.db") / 1e6,
            None,
            "MB",
            f"{(place / 'facts.db-search').stat().st_size / 1e6:.0f} MB of it the index",
        ),
    ]


def _in_fresh_processes(path: Path, first: str, second: str) -> list[float]:
    """Medians of the first recall, the second, and loading numpy, in ms of CPU time; and the memory, in MB."""
    begin = (
        f"import holdfast, time; memory = holdfast.store({str(path)!r}).memory; t = [time.process_time()];"
        "took = lambda: t.append(time.process_time());"
    )
    recalls = (
        f"memory.recall({first!r}, 5); took(); status = open('/proc/self/status').read();"
        f"memory.recall({second!r}, 5); took(); print(1000 * (t[1] - t[0]), 1000 * (t[2] - t[1]),"
        "int(status.partition('VmHWM:')[2].split()[0]) / 1024)"
    )
    loads = "import numpy; took(); print(1000 * (t[1] - t[0]))"
    found: list[list[float]] = []
    with compiled_once() as environment:
        environment["OPENBLAS_NUM_THREADS"] = (
            "1"  # a second one does nothing here but wait, and its waiting is CPU time
        )
        for _ in range(6):
            values = list[float]()
            for code in (recalls, loads):
                told = subprocess.run(
                    [sys.executable, "-c", begin + code],
                    check=True,
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                values += map(float, told.stdout.split())
            found.append(values)
    first_ms, second_ms, memory_mb, numpy_ms = map(statistics.median, zip(*found[1:], strict=True))
    return [first_ms, second_ms, numpy_ms, memory_mb]  # without the first round, which compiled


def _texts(chance: random.Random, count: int) -> list[str]:
    return [
        f"{chance.choice(_WHO)} {chance.choice(_WHAT).format(*chance.sample(_THINGS, 2), chance.randrange(10_000))}"
        for _ in range(count)
    ]


def _filled(path: Path) -> holdfast.Store:
    """A store with that many facts, written as quickly as can be, and its index made at once."""
    store = holdfast.store(path)
    port = store._port
    for number, text in enumerate(_texts(random.Random(1), FACTS)):
        fact = fact_of(text, key=f"fact-{number}")._replace(created_at=store.now(), changed_at=store.now())
        port.put_record("facts", f"\x1f{fact.id}", body_of(fact), revision=0, synced=False)
    store.rebuild_index()
    return store


def _bare(index: Path, asked: list[str]) -> tuple[Any, Any]:
    """The two queries by themselves: a product of a matrix and its largest, and FTS5 with the same words."""
    connection = apsw.Connection(str(index))
    packs: Any = connection.execute("SELECT vectors FROM packs WHERE space = 'facts' AND free = 0").fetchall()
    matrix = _unit_rows(b"".join(vectors for (vectors,) in packs), len(packs) * SLOTS)
    embedder = find_embedder()
    assert embedder is not None
    vectors = [_unit_rows(quantise(row), 1)[0] for row in embed(embedder, asked)]

    def scan(number: int) -> Any:
        cosines = matrix @ vectors[number]
        return np.argpartition(-cosines, CANDIDATES)[:CANDIDATES]

    def words(query: str) -> Any:
        terms = " OR ".join(f'"{term}"' for term in query_of(query).terms)
        found = "SELECT rowid, rank FROM facts_words WHERE facts_words MATCH ? ORDER BY rank LIMIT ?"
        return connection.execute(found, (terms, CANDIDATES)).fetchall()

    return scan, words


def _unit_rows(vectors: bytes, count: int) -> Any:
    rows = np.frombuffer(vectors, np.int8).reshape(count, -1).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _turns(work: Any, given: Any) -> Any:
    """The work with each of these in turn."""
    turns = iter(range(1_000_000))
    some = [*given]
    return lambda: work(some[next(turns) % len(some)])
