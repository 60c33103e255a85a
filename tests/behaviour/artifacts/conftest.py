"""What the tests of artifacts share: a directory of their own, and a fresh store."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdfast


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOLDFAST_URL", "HOLDFAST_RUN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store() -> Any:
    made = holdfast.store(f"memory://{uuid4().hex}")
    yield made
    made.close()
