"""What the tests of faults share: files on a disk, and one laboratory for all of a worker's tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.laboratory import Laboratory, laboratory


@pytest.fixture
def tmp_path(disk_directory: Path) -> Path:
    """On a disk: what a file system does when it fails is what is tested."""
    return Path(tempfile.mkdtemp(dir=disk_directory))


@pytest.fixture(scope="session")
def lab(disk_directory: Path) -> Iterator[Laboratory]:
    with laboratory(Path(tempfile.mkdtemp(dir=disk_directory))) as made:
        yield made
