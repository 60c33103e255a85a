"""These tests need Agent Framework, which has an environment of its own: ``make test-agent-framework`` says so in ``HOLDFAST_AGENT_FRAMEWORK``."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.model_server import Provider

from holdfast.testing.crash_matrix import CrashMatrix

collect_ignore_glob = [] if os.environ.get("HOLDFAST_AGENT_FRAMEWORK") else ["test_*.py"]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test; its ``script`` says what it does."""
    with Provider() as started:
        yield started


@pytest.fixture
def url() -> str:
    """A store of this test alone."""
    return f"memory://{uuid4().hex}"


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashMatrix]:
    """Children fork from a process that has imported Agent Framework, which takes seconds."""
    with CrashMatrix(tmp_path_factory.mktemp("matrix")) as made:
        yield made


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools write to a ledger in the working directory."""
    monkeypatch.chdir(tmp_path)
