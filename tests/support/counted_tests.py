"""Counts the tests of a run of pytest by folder, for ``docs/results``: where ``HOLDFAST_TEST_RESULTS`` names a file."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from tests.support import results

FILE: Final = "HOLDFAST_TEST_RESULTS"


def register(config: pytest.Config) -> None:
    """Count in the process that hears of every test, which is none of xdist's workers."""
    if os.environ.get(FILE) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Counter(Path(os.environ[FILE])))


class _Counter:
    def __init__(self, file: Path) -> None:
        self._file, self._began = file, time.monotonic()
        results.commit_now()
        self._ends: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test whose fixtures fail has failed, whatever its own end was."""
        is_an_end = report.when == "call" or report.outcome != "passed"
        if is_an_end and self._ends.get(report.nodeid) != "failed":
            self._ends[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        passed = Counter(_folder(name) for name, end in self._ends.items() if end == "passed")
        ends = Counter(self._ends.values())
        counts = {
            **{end: ends[end] for end in ("passed", "failed", "skipped")},
            "by folder": dict(sorted(passed.items())),
        }
        took_s = time.monotonic() - self._began
        results.save(self._file, counts, seconds=took_s, passed=exitstatus == pytest.ExitCode.OK)


def _folder(test: str) -> str:
    """``tests/crash`` of ``tests/crash/test_prune.py::test_…``; adapters are told apart."""
    parts = Path(test.partition("::")[0]).parent.parts
    return "/".join(parts[: 3 if "adapters" in parts else 2])
