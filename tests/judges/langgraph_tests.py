"""LangGraph's own judges over HoldfastSaver: ``.venv-langgraph/bin/python -m tests.judges.langgraph_tests``.

First the published conformance suite of checkpointers, over every store. Then the tests of LangGraph itself, from its source
distribution, of the version that is installed, with our checkpointer in the place of theirs that keeps everything in memory.
They are downloaded for each run and never kept here.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from tests.judges.leases import places
from tests.support import results

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver

PLUGIN: Final = '''
"""Puts our checkpointer where theirs in memory was, before the tests ask for it, and notes how those tests end that got it."""
import os
from contextlib import contextmanager
from uuid import uuid4
from tests import conftest_checkpointer
from holdfast.adapters.langgraph import HoldfastSaver

got_it = set()

@contextmanager
def ours():
    got_it.add(os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0])
    yield HoldfastSaver(URL.replace("NEW", uuid4().hex))

conftest_checkpointer._checkpointer_memory = ours

def pytest_runtest_logreport(report):
    if report.nodeid in got_it and (report.when == "call" or report.failed or report.skipped):
        with open("ends", "a") as file:
            print(report.outcome, report.nodeid, file=file)
'''
FILES: Final = (
    "tests/test_pregel.py", "tests/test_pregel_async.py", "tests/test_large_cases.py", "tests/test_large_cases_async.py",
    "tests/test_interruption.py", "tests/test_time_travel.py", "tests/test_time_travel_async.py", "tests/test_parent_command.py",
    "tests/test_parent_command_async.py", "tests/test_subgraph_persistence.py", "tests/test_subgraph_persistence_async.py",
    "tests/test_interrupt_migration.py", "tests/test_checkpoint_migration.py", "tests/test_managed_values.py",
)  # fmt: skip
"""The modules whose tests take a checkpointer; those that a version does not have are left out."""


def conformance(url: str) -> tuple[int, int]:
    """How many tests of the published suite pass and fail over this store."""
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    @checkpointer_test(name=f"HoldfastSaver {uuid4()}")
    async def saver() -> AsyncIterator[Any]:
        yield HoldfastSaver(url)

    report = asyncio.run(validate(saver))
    failures = [failure for result in report.results.values() for failure in result.failures or ()]
    for failure in failures:
        print(f"conformance over {url.partition('?')[0]}: {failure}")
    return sum(result.tests_passed for result in report.results.values()), len(failures)


def their_tests(directory: Path, url: str, chosen: str) -> tuple[dict[str, int], list[str]]:
    """How LangGraph's tests ended that got a checkpointer of this store, and which failed."""
    wanted = f"langgraph=={version('langgraph')}"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", directory, wanted],
        check=True,
    )  # fmt: skip
    (archive,) = directory.glob("langgraph-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    (root,) = (path for path in directory.iterdir() if path.is_dir())
    (root / "langgraph").rename(root / "langgraph-not-installed")  # the installed one is tested
    (root / "ours.py").write_text(PLUGIN.replace("URL", repr(url)))
    files = [name for name in FILES if (root / name).exists()]
    environment = {**os.environ, "NO_DOCKER": "true", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "ours", "-p", "no:randomly", "-p", "no:holdfast", "--tb=line",
         "--override-ini=addopts=", "-k", chosen, *files],
        cwd=root, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    noted = (root / "ends").read_text().splitlines() if (root / "ends").exists() else []
    ends = [(how, test) for how, _, test in (line.partition(" ") for line in noted)]
    failed = sorted({test for how, test in ends if how == "failed"})
    if not ends or failed:
        print(done.stdout[-6000:], done.stderr[-2000:])
    counts = Counter(how for how, _ in ends if how != "failed")
    return {"failed": len(failed), **counts}, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="memory", help="which of their tests, as pytest's -k takes it")
    given = parser.parse_args()
    results.commit_now()  # that of the beginning
    from tests.support.postgres.sharing import shared_url

    begun, counts = time.monotonic(), dict[str, int]()
    with shared_url(f"judge-{os.getpid()}") as postgres:
        for kind in ("memory", "sqlite", "postgresql", "dynamodb"):
            with tempfile.TemporaryDirectory() as made, places(kind, Path(made), postgres) as url:
                passed, failed = conformance(f"memory://{uuid4().hex}" if kind == "memory" else url)
                holdfast.store(url).close()
            counts[f"conformance {kind}"] = passed
            counts["conformance failed"] = counts.get("conformance failed", 0) + failed
            print(f"conformance over {kind}: {passed} passed, {failed} failed", flush=True)
    with tempfile.TemporaryDirectory() as made:
        theirs, names = their_tests(Path(made), "memory://NEW", given.only)
    for name in names:
        print(f"failed: {name}")
    counts |= {f"tests {how}": count for how, count in theirs.items()}
    print(counts)
    passed = not counts["conformance failed"] and not names and bool(theirs.get("passed"))
    file = results.RESULTS / "judge-langgraph.json"
    results.save(file, counts, seconds=time.monotonic() - begun, passed=passed)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
