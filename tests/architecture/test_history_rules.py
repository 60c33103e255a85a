"""Every feature says what forks, rewinds, compactions and moves do with what it records."""

from tests.crossings.operations import CANNOT_BE, COLUMNS, OPERATIONS
from tests.crossings.programs import NOT_CROSSED, PROGRAMS

from holdfast.core.journal import folds
from holdfast.core.lineage.history_rules import RULES, Rules
from holdfast.engine.run import features
from holdfast.model.store_rows import RUN_SPACES

SPACES = {
    "snapshots": "state",
    "labels": "state",
    "pins": "pins",
    "pruning": "pins",
    "trusts": "queue",
    "settlements": "promises",
    "noticed": "hooks",
    "deliveries": "hooks",
    "delivered": "hooks",
    "acts": "acts",
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


def test_every_column_is_asked_for_by_an_operation() -> None:
    """Each operation of the matrix asks for a column, and each column is asked for."""
    assert COLUMNS.keys() == {*Rules._fields}
    assert {name for names in COLUMNS.values() for name in names} <= OPERATIONS.keys()


def test_every_column_is_asked_for_with_every_program() -> None:
    """At least one of its operations can be with each program."""
    unasked = [
        (program.what, column)
        for program in PROGRAMS
        for column, names in COLUMNS.items()
        if all((program.what, name) in CANNOT_BE for name in names)
    ]
    assert unasked == []


def test_every_cell_that_cannot_be_is_one() -> None:
    """Its program and its operation exist, and it has a reason."""
    whats = {program.what for program in PROGRAMS}
    assert all(what in whats and name in OPERATIONS and why for (what, name), why in CANNOT_BE.items())
