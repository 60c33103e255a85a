"""The pytest plugin: it has the fixture ``crash_matrix``.

Pytest imports this in every session where Holdfast is installed, so it imports nothing else until a test
asks.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing.crash_matrix import CrashMatrix


@pytest.fixture
def crash_matrix(tmp_path: Path) -> "Iterator[CrashMatrix]":
    """A ``holdfast.testing.crash_matrix.CrashMatrix`` in this test's own directory.

    ``crash_matrix.walk(script)``.
    """
    from holdfast.testing.crash_matrix import CrashMatrix

    with CrashMatrix(tmp_path / "crash-matrix") as matrix:
        yield matrix
