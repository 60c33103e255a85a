"""The pytest plugin: it has the fixtures ``crash_matrix`` and ``replay_run``, and checks arguments.

In tests every step is checked for arguments that it changes. Each one found is a ``ChangedArgumentWarning``
of its test, which pytest lists at its end; ``-W error`` makes it an error.

Pytest imports this in every session where Holdfast is installed, so it imports nothing else until a test
asks.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from logging import Handler, LogRecord, getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.model.replay import Replayed
    from holdfast.testing.child_process import KeptChildren
    from holdfast.testing.crash_matrix import CrashMatrix


class ChangedArgumentWarning(UserWarning):
    """A step has changed what it was given, and a replay will not."""


class _Warner(Handler):
    """Makes a warning of the test from what the library logs about changed arguments."""

    def emit(self, record: LogRecord) -> None:
        if getattr(record, "holdfast", "") == "argument_changed":
            warnings.warn(record.getMessage(), ChangedArgumentWarning, stacklevel=2)


_warner = _Warner()


def pytest_configure() -> None:
    """Check every call, also in the processes that tests start."""
    os.environ["HOLDFAST_CHECK_ARGUMENTS"] = "always"
    getLogger("holdfast").addHandler(_warner)


def pytest_unconfigure() -> None:
    """Leave the process as it was."""
    os.environ.pop("HOLDFAST_CHECK_ARGUMENTS", None)
    getLogger("holdfast").removeHandler(_warner)


@pytest.fixture(scope="session")
def crash_children() -> "Iterator[KeptChildren]":
    """The fork servers of this session, one for each ``preload``. All crash matrices share them."""
    from holdfast.testing.child_process import KeptChildren

    kept = KeptChildren()
    yield kept
    kept.close()


@pytest.fixture
def crash_matrix(tmp_path: Path, crash_children: "KeptChildren") -> "Iterator[CrashMatrix]":
    """A ``holdfast.testing.crash_matrix.CrashMatrix`` in this test's own directory.

    ``crash_matrix.walk(script)``.
    """
    from holdfast.testing.crash_matrix import CrashMatrix

    with CrashMatrix(tmp_path / "crash-matrix", children=crash_children) as matrix:
        yield matrix


@pytest.fixture
def replay_run() -> "Callable[[str | os.PathLike[str], Callable[..., Any]], list[Replayed]]":
    """``holdfast.testing.replay.replay_run``: an exported run over today's program; fails where they differ.

    ``@pytest.mark.parametrize("export", exported_runs("tests/runs"))`` makes a regression suite.
    """
    from holdfast.testing.replay import replay_run

    return replay_run
