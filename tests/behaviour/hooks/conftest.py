"""A receiver for each test, and no hook that another test declared."""

from collections.abc import Iterator

import pytest
from tests.support.receiver import Receiver, receiving

from holdfast.engine.hooks import run_hooks
from holdfast.engine.hooks.declared import forget_declared


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def _no_declared_hooks() -> Iterator[None]:
    yield
    forget_declared()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the thread that delivers may get its turn late."""
    monkeypatch.setattr(run_hooks, "HOOK_WAIT_S", 60.0)
