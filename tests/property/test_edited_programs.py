"""Programs that are killed and edited: a hundred walks. ``make edits`` walks two thousand."""

import pytest
from tests.property.edited_programs import walk
from tests.support.examples import examples

SEEDS = range(examples(100))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_effect_is_doubled_skipped_or_stopped_in_vain(seed: int) -> None:
    """Nothing happens twice without a person, nothing is left out, and no unchanged program is ever stopped."""
    walk(seed)
