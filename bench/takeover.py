"""A machine dies with a thousand runs in the middle of their work, and four workers take them over.

The workers are processes, the server is a real one. A fence counts how often a run was claimed: submitted, begun and taken
over make three, and whatever is above that was claimed twice.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.support.postgres.server import Server

import holdfast
from bench.measuring import Figure
from holdfast.api.worker import Report
from holdfast.stores.url import open_store

RUNS: Final = 1_000
WORKERS: Final = 4
CONCURRENCY: Final = 50
CLAIMS: Final = 3
ROOT: Final = Path(__file__).parents[1]
_DEADLINE_S: Final = 300.0
_dies: Final = os.environ.get("BENCH_DIES") == "1"
_inside: list[str] = []


@holdfast.agent("orphan")
async def orphan(run: holdfast.AsyncRun, number: int) -> int:
    """Two steps; the process that is to die stays between them."""
    first = await run.step("first", lambda: number)
    if _dies:
        _inside.append(str(number))
        await asyncio.sleep(_DEADLINE_S)
    return first + await run.step("second", lambda: number)


def figures(place: Path) -> Iterator[Figure]:
    """How long it takes until all are finished, from the moment at which all four workers are ready."""
    server = Server.started(within="/var/tmp", settings={})
    try:
        yield _taken_over(server.url(), place)
    finally:
        server.remove()


def _taken_over(url: str, place: Path) -> Figure:
    with closing(holdfast.store(url)) as store:
        for number in range(RUNS):
            store.submit("orphan", f"run-{number}", {"number": number})
        _leave_orphans(url)
        gate = place / "go"
        workers = [_process("serve", url, str(gate)) for _ in range(WORKERS)]
        try:
            for worker in workers:
                _hear(worker, "ready")
            gate.touch()
            began = time.monotonic()
            while (left := _unfinished(store)) and time.monotonic() - began < _DEADLINE_S:
                time.sleep(0.05)
            took_s = time.monotonic() - began
        finally:
            for worker in workers:
                worker.terminate()
            shares = [_share(worker) for worker in workers]
    assert not left, f"{left} of {RUNS} runs were not finished within {_DEADLINE_S:.0f} s"
    twice = _claimed_twice(url)
    facts = (
        f"{took_s:.1f} s, {RUNS / took_s:,.0f} runs/s; by each worker: {', '.join(map(str, sorted(shares)))}"
    )
    return Figure(f"{RUNS:,} orphans, {WORKERS} workers: runs claimed twice", twice, 0, "runs", facts)


def _leave_orphans(url: str) -> None:
    dying = _process("die", url, dies=True)
    _hear(dying, "inside")
    dying.kill()
    dying.wait()
    assert dying.stdout is not None
    dying.stdout.close()


def _unfinished(store: holdfast.Store) -> int:
    return sum(info.status != "finished" for info in store.runs(limit=RUNS))


def _claimed_twice(url: str) -> int:
    port = open_store(url)
    try:
        return sum(row.lease.fence > CLAIMS for row in port.list_runs(limit=RUNS))
    finally:
        port.close()


# -- the processes ----------------------------------------------------------------------------------------------


def _process(what: str, *arguments: str, dies: bool = False) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "bench.takeover", what, *arguments],
        cwd=ROOT,
        env={**os.environ, "BENCH_DIES": "1" if dies else "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _hear(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout is not None
    heard = process.stdout.readline().strip()
    assert heard == word, f"waited for {word!r}, heard {heard!r}"


def _share(worker: "subprocess.Popen[str]") -> int:
    told, _ = worker.communicate(timeout=60)
    return int(told or 0)


def _serve(url: str, gate: str, concurrency: int) -> None:
    """Serve from the moment that the gate opens until told to end; then tell how many runs were finished here."""
    ended: list[int] = []
    finished: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    store = holdfast.store(url)
    agent = sys.modules["__main__"].orphan

    def tell(report: Report) -> None:
        if report.what == "finished":
            finished.append(report.run)

    print("ready", flush=True)
    while not Path(gate).exists():
        time.sleep(0.005)
    with holdfast.worker(agent, store=store, concurrency=concurrency, tell=tell):
        while not ended:
            time.sleep(0.02)
    print(len(finished), flush=True)


def _die(url: str) -> None:
    """Begin all runs, say so, and wait for the end."""
    with holdfast.worker(orphan, store=url, concurrency=RUNS):
        while len(_inside) < RUNS:
            time.sleep(0.05)
        print("inside", flush=True)
        time.sleep(_DEADLINE_S)


if __name__ == "__main__":
    if sys.argv[1] == "die":
        _die(sys.argv[2])
    else:
        _serve(sys.argv[2], sys.argv[3], CONCURRENCY)
