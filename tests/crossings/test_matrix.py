"""Every feature crossed with every operation, at every event: nothing is done twice, nothing is lost, both ends agree.

Every cell runs its program, stops it, applies the operation at one event, and lets the program work in every branch, twice.
``make test`` takes some events, the same ones each time, ``make crossings`` all of them.
"""

from pathlib import Path

import pytest
from tests.crossings.cells import begun, check_branches, crossed_by, cut, seqs_of
from tests.crossings.operations import CANNOT_BE, LISTS, OPERATIONS, WHOLE
from tests.crossings.programs import PROGRAMS, Program
from tests.crossings.world import World

CELLS = [
    pytest.param(program, name, id=f"{program.what}-{name}")
    for program in PROGRAMS
    for name in OPERATIONS
    if (program.what, name) not in CANNOT_BE
]


@pytest.mark.parametrize(("program", "operation"), CELLS)
def test_a_program_in_every_branch_of_its_history(program: Program, operation: str, tmp_path: Path) -> None:
    """The first branch works on from where the operation leaves it; the others are complete, and only replay.

    What could happen again is listed before. What a handoff to another store does not carry is listed as a loss.
    """
    apply, begins, works, _ = OPERATIONS[operation]
    program = crossed_by(program, OPERATIONS[operation])
    seqs = seqs_of(program, tmp_path, begins)
    lost: set[str] = set()
    for seq in cut(seqs, operation, f"{program.what}-{operation}"):
        world = begun(program, tmp_path / str(seq), begins)
        expected = world.enter("m", program.body, facade=begins)
        behind = names_behind(world, program, seq)
        before = dict(world.done)
        branches = apply(world, seq)
        check_branches(world, program, branches, expected, works, (operation, seq))
        if operation in LISTS:
            assert behind <= {*world.listed}, (operation, seq)
            assert seq > seqs[0] or {*world.listed} == {*program.once, *program.sends}
        if operation in WHOLE - {"prune_and_handoff"}:  # a taker makes the model calls itself
            assert world.done == before, (operation, seq)
        lost |= {loss.what for loss in world.losses}
    if operation == "handoff_away":
        assert lost >= {*program.lost}


def names_behind(world: World, program: Program, seq: int) -> set[str]:
    """What the run itself began after this event, and what must not happen again."""
    return {
        event.name
        for event in world.store.events("m", after_seq=seq)
        if event.kind == "step.started" and event.name in {*program.once, *program.sends}
    }
