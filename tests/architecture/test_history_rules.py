"""Every feature says what forks, rewinds, compactions and moves do with what it records."""

from tests.crossings.programs import NOT_CROSSED, PROGRAMS

from holdfast.core.journal import folds
from holdfast.core.lineage.history_rules import RULES
from holdfast.engine.run import features
from holdfast.model.store_rows import RUN_SPACES

SPACES = {
    "snapshots": "state",
    "labels": "state",
    "pins": "pins",
    "pruning": "pins",
    "trusts": "queue",
    "settlements": "promises",
}
"""What the records under a run's name belong to."""


def test_every_feature_answers_and_every_answer_is_asked_for() -> None:
    """A row of either table names an answer; nothing is answered that no row, record or program has."""
    named = {row.history for row in (*folds.ROWS, *features.ROWS)} | {SPACES[space] for space in RUN_SPACES}
    assert named <= RULES.keys()
    assert RULES.keys() - named == {"steps", "facts", "reasoning"} - named


def test_every_answer_is_complete() -> None:
    """No field is empty."""
    assert [name for name, rules in RULES.items() if not all(rules)] == []


def test_every_answer_has_a_program_that_is_crossed() -> None:
    """Or a reason why it has none."""
    assert {program.what for program in PROGRAMS} | NOT_CROSSED.keys() == RULES.keys()
    assert {program.what for program in PROGRAMS} & NOT_CROSSED.keys() == set()
