"""What the tests of faults below SQLite share: one laboratory for all of a worker's tests."""

from collections.abc import Iterator

import pytest
from tests.faults.laboratory import Laboratory, laboratory


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with laboratory(tmp_path_factory.mktemp("faults")) as made:
        yield made
