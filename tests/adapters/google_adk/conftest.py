"""These tests need Google ADK, which has an environment of its own: ``make test-googleadk`` says so in ``HOLDFAST_GOOGLEADK``."""

import gc
import os
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.support.model_server import Provider

from holdfast.testing.crash_matrix import CrashMatrix

collect_ignore_glob = [] if os.environ.get("HOLDFAST_GOOGLEADK") else ["test_*.py"]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test; its ``script`` says what it does."""
    with Provider() as started:
        yield started


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Connections that ADK left are collected in the test that made them."""
    yield
    gc.collect()


@pytest.fixture
def url() -> str:
    """A store of this test alone."""
    return f"memory://{uuid4().hex}"


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashMatrix]:
    """Children fork from a process that has imported Google ADK, which takes a second."""
    with CrashMatrix(tmp_path_factory.mktemp("matrix")) as made:
        yield made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors, but for those of ADK's own: about its experimental and deprecated parts, and about the
    connections of its clients, which it leaves to the garbage collector."""
    for item in items:
        if "google_adk" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore:.*is deprecated in favor of Workflow:DeprecationWarning")
            )
            item.add_marker(
                pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
            )
