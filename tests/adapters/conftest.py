"""What tests of adapters share: a scripted provider, and the real client of whichever version is installed."""

from collections.abc import Iterator

import openai
import pytest
from tests.provider import Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test; its ``script`` says what it does."""
    with Provider() as started:
        yield started


@pytest.fixture
def client(provider: Provider) -> Iterator[openai.OpenAI]:
    """The plain client, which does not try again by itself."""
    with openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0, timeout=10) as opened:
        yield opened
