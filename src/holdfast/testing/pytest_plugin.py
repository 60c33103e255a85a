"""The pytest plugin: it has the fixtures ``crash_matrix`` and ``replay_run``.

Pytest imports this in every session where Holdfast is installed, so it imports nothing else until a test
asks.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.model.replay import Replayed
    from holdfast.testing.crash_matrix import CrashMatrix


@pytest.fixture
def crash_matrix(tmp_path: Path) -> "Iterator[CrashMatrix]":
    """A ``holdfast.testing.crash_matrix.CrashMatrix`` in this test's own directory.

    ``crash_matrix.walk(script)``.
    """
    from holdfast.testing.crash_matrix import CrashMatrix

    with CrashMatrix(tmp_path / "crash-matrix") as matrix:
        yield matrix


@pytest.fixture
def replay_run() -> "Callable[[str | os.PathLike[str], Callable[..., Any]], list[Replayed]]":
    """``holdfast.testing.replay.replay_run``: an exported run over today's program; fails where they differ.

    ``@pytest.mark.parametrize("export", exported_runs("tests/runs"))`` makes a regression suite.
    """
    from holdfast.testing.replay import replay_run

    return replay_run
