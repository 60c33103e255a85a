"""The clients of other providers, over real HTTP to the scripted provider.

They live in an environment of their own, and ``make test-clients`` says so in ``HOLDFAST_CLIENTS``. Bedrock's is there for every
change: ``boto3`` brings it, which the tests of DynamoDB need as well.
"""

import os
from collections.abc import Iterator, Sequence
from uuid import uuid4

import pytest
from tests.adapters.clients.drivers import Driver
from tests.support.model_server import Provider

ALL = "HOLDFAST_CLIENTS" in os.environ
OTHERS = ("anthropic", "docs_page", "fault_catalogue", "genai", "litellm", "mistral", "ollama")
"""What tests one of the others by itself."""
collect_ignore = [] if ALL else [f"test_{name}.py" for name in OTHERS]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a ``driver`` runs with every client that is here, unless it names them itself."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "driver" in metafunc.fixturenames and "driver" not in named:
        metafunc.parametrize("driver", _drivers(), ids=repr)


def _drivers() -> Sequence[Driver]:
    if ALL:
        from tests.adapters.clients.table import DRIVERS

        return DRIVERS
    from tests.adapters.clients.bedrock_drivers import Bedrock

    return [Bedrock()]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test; its ``script`` says what it does."""
    with Provider() as started:
        yield started


@pytest.fixture
def url() -> str:
    """A store of this test alone."""
    return f"memory://{uuid4().hex}"
