"""The clients of other providers, over real HTTP to the scripted provider. They live in an environment of their own: ``HOLDFAST_CLIENTS`` says so."""

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.support.model_server import Provider

collect_ignore_glob = [] if os.environ.get("HOLDFAST_CLIENTS") else ["test_*.py"]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test; its ``script`` says what it does."""
    with Provider() as started:
        yield started


@pytest.fixture
def url() -> str:
    """A store of this test alone."""
    return f"memory://{uuid4().hex}"
