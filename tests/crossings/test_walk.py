"""200 random walks over programs that use five features at once; ``make crossings`` walks 5,000.

Planted once, and caught by the 180 seeds in memory: a rewind that deletes the letters waiting in the inbox (13 seeds fail), an
effect in doubt that is settled by the key of its call instead of its own idempotency key (2), a promise settled in one branch
that may end otherwise in another (3).
"""

from pathlib import Path

import pytest
from tests.crossings.walk import walk

EACH = 20


@pytest.mark.parametrize("first", range(0, 180, EACH))
def test_operations_are_chained_in_memory(first: int, tmp_path: Path) -> None:
    """No effect happens again in a branch that knows of it, none is lost, and both ends of a promise agree."""
    for seed in range(first, first + EACH):
        directory = tmp_path / str(seed)
        directory.mkdir()
        assert walk(seed, directory)["walks"] == 1


def test_operations_are_chained_on_a_disk(tmp_path: Path) -> None:
    """The same on SQLite."""
    for seed in range(180, 200):
        directory = tmp_path / str(seed)
        directory.mkdir()
        assert walk(seed, directory, "sqlite")["walks"] == 1
