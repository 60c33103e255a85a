"""Every operation of the matrix, killed at each of its writes and repeated: the same must be true of every branch.

``make test`` takes one kill of every cell, ``make crossings`` all of them at every event.
"""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.crossings.cells import begin, check_branches, crossed_by, cut, sampled, seqs_of
from tests.crossings.kills import MortalWorld
from tests.crossings.operations import CANNOT_BE, OPERATIONS
from tests.crossings.programs import PROGRAMS, Program

KILLS = 1
CELLS = [
    pytest.param(program, name, id=f"{program.what}-{name}")
    for program in PROGRAMS
    for name, operation in OPERATIONS.items()
    if (program.what, name) not in CANNOT_BE and operation.works == operation.begins == "sync"
]
"""Operations that differ by their facade only write the same."""


@pytest.mark.parametrize(("program", "operation"), CELLS)
def test_an_operation_is_killed_and_repeated(program: Program, operation: str, tmp_path: Path) -> None:
    """Before or after any of its writes: what the kill left, and what the repetition makes of it, is whole."""
    apply = OPERATIONS[operation].apply
    program = crossed_by(program, OPERATIONS[operation])
    cell = f"{program.what}-{operation} killed"
    for seq in sampled(cut(seqs_of(program, tmp_path), operation, cell), 1, cell):
        world, _ = _stopped(program, tmp_path / f"{seq}")
        assert world.killed(apply, seq, None, "before") is not None
        kills = [(at, when) for at in range(world.life.writes) for when in ("before", "after")]
        assert kills, operation
        for at, when in sampled(kills, KILLS, cell):
            world, expected = _stopped(program, tmp_path / f"{seq} {at} {when}")
            assert world.killed(apply, seq, at, when) is None, (operation, seq, at)
            branches = world.repeat(apply, seq)
            check_branches(world, program, branches, expected, "sync", (operation, seq, at, when))


def _stopped(program: Program, directory: Path) -> tuple[MortalWorld, Any]:
    directory.mkdir(exist_ok=True)
    world = begin(MortalWorld(f"memory://{uuid4().hex}", directory), program)
    return world, world.enter("m", program.body)
