"""Programs that are killed and edited: a hundred walks, some of them on SQLite. ``make edits`` walks two thousand."""

from pathlib import Path

import pytest
from tests.property.edited_programs import walk
from tests.support.examples import examples

SEEDS = range(examples(100))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_effect_is_doubled_skipped_or_stopped_in_vain(seed: int) -> None:
    """Nothing happens twice without a person, nothing is left out, and no unchanged program is ever stopped."""
    walk(seed)


@pytest.mark.parametrize("seed", SEEDS[::10])
def test_the_same_holds_on_sqlite(seed: int, tmp_path: Path) -> None:
    """A share of the programs over a store that keeps its data in a file."""
    walk(seed, f"sqlite:///{tmp_path}/walk.db")
