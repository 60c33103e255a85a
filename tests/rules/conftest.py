"""What the rule tests share: a store of each embedded kind, and a fresh place for each test."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh store of each embedded kind; every rule holds on both."""
    place = f"memory://{uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path}/holdfast.db"
    yield place
    holdfast.store(place).close()


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    monkeypatch.delenv("HOLDFAST_RUN", raising=False)


class Counter:
    """A function that counts its calls, for telling a replay from a run."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def __call__(self, value: object = None) -> object:
        self.calls.append(value)
        return value


@pytest.fixture
def counter() -> Counter:
    return Counter()
