"""Processes contend for one run, are stopped and killed, and the checker judges: ``python -m tests.judges.leases --rounds 50``."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.judges.lease_history import NEVER, Call, order_of
from tests.judges.lease_worker import RUN, work
from tests.support import results
from tests.support.fork_server import Forked, fork_server

from holdfast.stores.port import StorePort
from holdfast.stores.url import open_store
from holdfast.testing.store_rules.builders import a_run

PROGRAM: Final = Path(__file__).with_name("lease_worker.py")
STORES: Final = ("sqlite", "postgresql", "dynamodb", "encrypted-sqlite")
DEADLINE_S: Final = 300.0


def history_of(lines: Sequence[str]) -> list[Call]:
    """The calls in a log. A last line that was cut off by a kill is none."""
    calls: dict[str, Call] = {}
    for line in lines:
        noted = json.loads(line)
        if "answered" in noted:
            calls[noted["id"]] = calls[noted["id"]]._replace(
                answer=tuple(noted["answer"]), answered=noted["answered"]
            )
        else:
            calls[noted["id"]] = Call(
                noted["who"], noted["verb"], _tuples(noted["arguments"]), None, noted["made"]
            )
    return list(calls.values())


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def judged(history: list[Call], store: StorePort) -> Counter[str]:
    """The counts of a history that has an order, and whose events are those of the journal. AssertionError otherwise."""
    row = store.find_run(RUN)
    assert row is not None
    lease = row.lease
    end = max((call.answered for call in history if call.answered < NEVER), default=0.0)
    last = Call("judge", "read", (), (lease.fence, lease.owner, lease.beat, row.head), end + 1, end + 2)
    order = order_of([*history, last])
    if order is None:
        told = "\n".join(f"{call}" for call in sorted(history, key=lambda call: call.made))
        raise AssertionError(f"no order explains these answers:\n{told}\n{last}")
    writers = [
        call.who
        for call in order
        if call.verb == "append" and (call.answer or ("appended",))[0] == "appended"
    ]
    events = store.read_events(RUN, limit=2000)
    assert [event.seq for event in events] == list(range(1, row.head + 1))
    known = [
        call.who for call in order if call.verb == "append" and call.answer and call.answer[0] == "appended"
    ]
    assert not Counter(known) - Counter(event.name for event in events), "an acknowledged event is missing"
    assert len(events) <= len(writers)
    counts = Counter(f"{call.answer[0]}" for call in history if call.answer and call.verb != "read")
    counts["calls"], counts["unanswered"] = len(history), sum(call.answer is None for call in history)
    return counts


def in_threads(store: StorePort, seed: int, *, calls: int = 40, threads: int = 4) -> Counter[str]:
    """Clients in threads of this process, judged."""
    assert store.create_run(a_run(RUN))
    lines: list[str] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that calls overlap
    try:
        work("t", store, seed, calls, threads, lambda line: lines.append(json.dumps(line)))
    finally:
        sys.setswitchinterval(interval)
    return judged(history_of(lines), store)


def in_processes(
    url: str, directory: Path, seed: int, *, calls: int = 40, processes: int = 3, troubles: int = 4
) -> Counter[str]:
    """Clients in processes of two threads each, some stopped for a while and some killed and replaced, judged."""
    random, store = Random(seed), open_store(url)
    assert store.create_run(a_run(RUN))
    logs, workers, started = [], dict[str, Forked](), 0

    def start() -> None:
        nonlocal started
        name = f"p{started}"
        started += 1
        logs.append(directory / f"{name}.log")
        workers[name] = _started([name, url, str(logs[-1]), str(seed), str(calls), "2"], directory)

    for _ in range(processes):
        start()
    done = Counter[str]()
    for _ in range(troubles):
        _until_more(logs, random.randint(5, calls))
        name = random.choice(sorted(workers))
        if workers[name].poll() is not None:
            continue
        if random.random() < 0.5:
            os.kill(workers[name].pid, signal.SIGSTOP)
            _until_more([log for log in logs if log.stem != name], random.randint(3, calls // 2))
            os.kill(workers[name].pid, signal.SIGCONT)
            done["stops"] += 1
        else:
            workers.pop(name).kill()
            done["kills"] += 1
            start()
    for worker in workers.values():
        code = worker.wait(DEADLINE_S)
        assert code == 0, (directory / "said").read_text()
    lines = [line for log in logs if log.exists() for line in log.read_text().split("\n")[:-1]]
    return judged(history_of(lines), store) + done


def _started(arguments: list[str], directory: Path) -> Forked:
    quiet = os.open(os.devnull, os.O_RDONLY)
    said = os.open(directory / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return fork_server().start(
            [str(PROGRAM), *arguments], cwd=directory, env=dict(os.environ), stdin=quiet, stdout=said
        )
    finally:
        os.close(quiet)
        os.close(said)


def _until_more(logs: Sequence[Path], calls: int) -> None:
    """Wait until so many more lines were noted, or nothing is noted any more."""
    before, still = _size(logs), 0
    deadline = time.monotonic() + DEADLINE_S
    last = before
    while last < before + 100 * calls and still < 100 and time.monotonic() < deadline:
        time.sleep(0.005)
        now = _size(logs)
        still = 0 if now > last else still + 1
        last = now


def _size(logs: Sequence[Path]) -> int:
    return sum(log.stat().st_size for log in logs if log.exists())


@contextmanager
def places(kind: str, directory: Path, postgres: str) -> Iterator[str]:
    """The URL of a new store of this kind."""
    if kind == "postgresql":
        from tests.support.postgres.sharing import drop_schema, new_schema

        schema = new_schema()
        yield f"{postgres}{'&' if '?' in postgres else '?'}schema={schema}"
        drop_schema(postgres, schema)
    elif kind == "dynamodb":
        from tests.support.aws.server import table_for

        yield table_for(directory).url
    else:
        yield f"sqlite:///{directory / 'x.db'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="for each store")
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    results.commit_now()  # that of the beginning
    from tests.support.postgres.sharing import shared_url

    begun, counts, kinds = time.monotonic(), Counter[str](), given.store or STORES
    with shared_url(f"judge-{os.getpid()}") as postgres:
        for kind in kinds:
            sums = Counter[str]()
            if kind.startswith("encrypted"):
                os.environ["HOLDFAST_KEY"] = "ab" * 32
            for number in range(given.rounds):
                with tempfile.TemporaryDirectory() as made, places(kind, Path(made), postgres) as url:
                    sums += in_processes(url, Path(made), given.seed + number, processes=3)
                    open_store(url).close()
            print(f"{kind}: {dict(sums)}", flush=True)
            counts += sums
            counts["histories"] += given.rounds
            counts[kind] = sums["calls"]
    if given.store is None:
        file, counted = results.RESULTS / "judge-leases.json", {**counts, "unexplained": 0}
        results.save(file, counted, seconds=time.monotonic() - begun, passed=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
