"""Programs that are killed and edited: a hundred walks, some of them on SQLite. ``make edits`` walks two thousand."""

from pathlib import Path
from random import Random

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


@pytest.mark.parametrize("seed", SEEDS[::10])
def test_a_seed_gives_the_same_walk_each_time(seed: int, tmp_path: Path) -> None:
    """The same counts, and the same draws to the last: a seed that fails can be played again.

    Seen before: the threads of the store decided at which pause a program was killed. Planted: store calls in threads.
    """
    walks = []
    for url in ("", "", f"sqlite:///{tmp_path}/walk.db"):
        drawing = Random(seed)
        walks.append((walk(seed, url, drawing), drawing.getstate()))
    assert walks[0] == walks[1] == walks[2]
