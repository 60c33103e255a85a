"""These tests need LlamaIndex, which has an environment of its own: ``make test-llamaindex`` says so in ``HOLDFAST_LLAMAINDEX``."""

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.support.model_server import Provider

from holdfast.testing.crash_matrix import CrashMatrix

collect_ignore_glob = [] if os.environ.get("HOLDFAST_LLAMAINDEX") else ["test_*.py"]


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
    """Children fork from a process that has imported LlamaIndex, which takes seconds."""
    with CrashMatrix(tmp_path_factory.mktemp("matrix")) as made:
        yield made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors, but for those that LlamaIndex gives itself, through pydantic."""
    for item in items:
        if "llama_index" in item.path.parts:
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning"))
