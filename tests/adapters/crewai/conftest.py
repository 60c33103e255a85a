"""These tests need CrewAI, which pins older versions of what the other frameworks use: ``make test`` runs them in an
environment of their own, and says so in ``HOLDFAST_CREWAI``.
"""

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator

import pytest

from holdfast.testing.crash_matrix import CrashMatrix

collect_ignore_glob = [] if os.environ.get("HOLDFAST_CREWAI") else ["test_*.py"]

if os.environ.get("HOLDFAST_CREWAI"):
    # Before it is imported, here and in every child: it calls home, asks on the terminal, and leaves files in home directories.
    os.environ |= {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_TRACKING": "true",
        "CREWAI_DISABLE_VERSION_CHECK": "true",
        "CREWAI_TESTING": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "OTEL_SDK_DISABLED": "true",
    }
    os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="holdfast-crewai-")
    atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, as it is imported
        import crewai  # noqa: F401


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashMatrix]:
    """One for all tests: CrewAI takes four seconds to import, and children are forked from the process that did."""
    with CrashMatrix(tmp_path_factory.mktemp("kills")) as matrix:
        yield matrix


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors, but for those that CrewAI gives itself."""
    for item in items:
        if "crewai" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:crewai"))
