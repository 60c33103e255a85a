"""Every feature crossed with every operation, at every event: nothing is done twice, nothing is lost, both ends agree.

Every cell runs its program, stops it, applies the operation at one event, and lets the program work in every branch, twice.
"""

from pathlib import Path
from uuid import uuid4

import pytest
from tests.crossings.operations import CANNOT_BE, OPERATIONS, WHOLE
from tests.crossings.programs import PROGRAMS, Program
from tests.crossings.world import World

CELLS = [
    pytest.param(program, name, id=f"{program.what}-{name}")
    for program in PROGRAMS
    for name in OPERATIONS
    if (program.what, name) not in CANNOT_BE
]


def begun(program: Program, url: str, directory: Path) -> World:
    """A world in which the program has worked to its end, in run ``m``."""
    world = World(url, directory)
    if program.before is not None:
        program.before(world)
    world.broken |= {*program.broken}
    world.enter("m", program.body)
    return world


@pytest.mark.parametrize(("program", "operation"), CELLS)
def test_a_program_in_every_branch_of_its_history(program: Program, operation: str, tmp_path: Path) -> None:
    """The first branch works on from where the operation leaves it; the others are complete, and only replay."""
    first = begun(program, f"memory://{uuid4().hex}", tmp_path)
    seqs = [event.seq for event in first.store.events("m")]
    for seq in seqs[-1:] if operation in WHOLE else seqs:
        directory = tmp_path / str(seq)
        directory.mkdir()
        url = f"memory://{uuid4().hex}"
        world = begun(program, url, directory)
        expected = world.enter("m", program.body)
        before = dict(world.done)
        branches = OPERATIONS[operation](world, seq)
        for _ in range(2):
            for store, run in branches:
                assert world.enter(run, program.body, store) == expected, (operation, seq, run)
        assert {name: world.done[name] for name in program.once} == dict.fromkeys(program.once, 1), (
            operation,
            seq,
        )
        if operation in WHOLE:
            assert world.done == before, (operation, seq)
        if program.agrees is not None:
            program.agrees(world, branches)
        for store in {id(one): one for one, _ in branches}.values():
            assert [finding for finding in store.examine() if finding.verdict == "failure"] == []
            store.close()
