"""LangGraph's own judges over HoldfastSaver: ``.venv-langgraph/bin/python -m tests.judges.langgraph_tests``.

First the published conformance suite of checkpointers, over every store. Then the tests of LangGraph itself, from its source
distribution, of the version that is installed, with our checkpointer in the place of theirs that keeps everything in memory.
They are downloaded for each run and never kept here.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
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
"""Puts our checkpointer where theirs in memory was, before the tests ask for it."""
from contextlib import contextmanager
from uuid import uuid4
from tests import conftest_checkpointer
from holdfast.adapters.langgraph import HoldfastSaver

@contextmanager
def ours():
    yield HoldfastSaver(URL.replace("NEW", uuid4().hex))

conftest_checkpointer._checkpointer_memory = ours
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
    """What LangGraph's tests with the checkpointer of this store came to, and which failed."""
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
    counts = {
        how: int(count)
        for count, how in re.findall(r"(\d+) (passed|failed|error|skipped|xfailed)", done.stdout[-400:])
    }
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if not counts:
        print(done.stdout[-3000:], done.stderr[-2000:])
    return counts, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="memory", help="which of their tests, as pytest's -k takes it")
    given = parser.parse_args()
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
    passed = not counts["conformance failed"] and bool(theirs.get("passed"))
    file = results.RESULTS / "judge-langgraph.json"
    results.save(file, counts, seconds=time.monotonic() - begun, passed=passed)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
