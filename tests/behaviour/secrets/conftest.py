"""A secret of the environment, known to this process for one test."""

from collections.abc import Iterator

import pytest
from tests.support.known_secrets import NAME, VALUE, known_secrets


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The value of the one secret that this process knows, from its environment."""
    with known_secrets():
        monkeypatch.setenv(NAME, VALUE)
        yield VALUE
        monkeypatch.delenv(NAME, raising=False)


@pytest.fixture
def no_secret() -> Iterator[None]:
    """This process knows no secret."""
    with known_secrets():
        yield
