"""The contract's own files: those of SQLite lie on a disk."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """For tests of SQLite's files on a disk, for the others wherever temporary files are."""
    if not request.path.name.startswith("test_sqlite_"):
        return tmp_path
    return Path(tempfile.mkdtemp(dir=request.getfixturevalue("disk_directory")))
