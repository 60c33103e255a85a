"""These tests need the Claude Agent SDK, which has an environment of its own: ``make test-claude-agent-sdk`` says so in
``HOLDFAST_CLAUDE_AGENT_SDK``.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.model_server import Provider

from holdfast.testing.crash_matrix import CrashMatrix

collect_ignore_glob = [] if os.environ.get("HOLDFAST_CLAUDE_AGENT_SDK") else ["test_*.py"]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    """A provider in a thread of this test, to which the CLI is led; the CLI's files are this test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "s3cret-key")
    with Provider() as started:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", started.url)
        yield started


@pytest.fixture
def url() -> str:
    """A store of this test alone."""
    return f"memory://{uuid4().hex}"


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashMatrix]:
    """Children fork from a process that has imported the SDK, which takes a second."""
    with CrashMatrix(tmp_path_factory.mktemp("matrix")) as made:
        yield made
