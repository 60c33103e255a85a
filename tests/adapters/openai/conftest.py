"""What tests of adapters share: a scripted provider, and the real client of whichever version is installed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import openai
import pytest
from tests.support.model_server import Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test; its ``script`` says what it does."""
    with Provider() as started:
        yield started


@pytest.fixture
def client(provider: Provider) -> Iterator[openai.OpenAI]:
    """The plain client, which does not try again by itself."""
    with openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0, timeout=60) as opened:
        yield opened


@pytest.fixture
def connect(provider: Provider) -> Iterator[Callable[..., openai.OpenAI]]:
    """More plain clients of the provider, or of another one; all are closed in the end."""
    with ExitStack() as opened:

        def made(to: Provider | None = None, **options: Any) -> openai.OpenAI:
            given = {"base_url": (to or provider).base_url, "api_key": "none", "timeout": 10, **options}
            return opened.enter_context(openai.OpenAI(**given))

        yield made
