"""These tests need the Strands Agents SDK, which has an environment of its own: ``make test-strands`` says so in
``HOLDFAST_STRANDS``.
"""

import os
from collections.abc import Iterator

import pytest

from holdfast.testing.crash_matrix import CrashMatrix

collect_ignore_glob = [] if os.environ.get("HOLDFAST_STRANDS") else ["test_*.py"]

if os.environ.get("HOLDFAST_STRANDS"):
    os.environ["OTEL_SDK_DISABLED"] = "true"


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashMatrix]:
    """One for all tests: children fork from a process that has imported the SDK."""
    with CrashMatrix(tmp_path_factory.mktemp("kills")) as matrix:
        yield matrix
