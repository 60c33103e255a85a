"""The clients of other providers, over real HTTP to the scripted provider. They live in an environment of their own: ``HOLDFAST_CLIENTS`` says so."""

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.support.model_server import Provider

collect_ignore_glob = [] if os.environ.get("HOLDFAST_CLIENTS") else ["test_*.py"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a ``driver`` runs with every client, unless it names them itself."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "driver" in metafunc.fixturenames and "driver" not in named:
        from tests.adapters.clients.table import DRIVERS

        metafunc.parametrize("driver", DRIVERS, ids=repr)


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test; its ``script`` says what it does."""
    with Provider() as started:
        yield started


@pytest.fixture
def url() -> str:
    """A store of this test alone."""
    return f"memory://{uuid4().hex}"
