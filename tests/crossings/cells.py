"""One cell of the table: a program, an operation, an event. What must be true afterwards."""

import os
import random
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from tests.crossings.operations import SAMPLED, WHOLE, Branches, Operation
from tests.crossings.programs import Program
from tests.crossings.world import Body, Facade, World

import holdfast

WorldT = TypeVar("WorldT", bound=World)
ALL: Final = bool(os.environ.get("HOLDFAST_CROSSINGS_ALL"))
"""Whether every event and every kill is tried: in ``make crossings``."""
EVENTS: Final = 3
"""How many events of a cell of a later operation are tried otherwise."""
EVENTS_OF_FIRST: Final = 6
"""How many of one of the first operations, forks, rewinds and moves, which each program was written for."""


def cut(seqs: list[int], operation: str, cell: str) -> list[int]:
    """The events at which this cell is tried."""
    if operation in WHOLE:
        return seqs[-1:]
    return sampled(seqs, EVENTS if operation in SAMPLED else EVENTS_OF_FIRST, cell)


def sampled(places: list[Any], count: int, cell: str) -> list[Any]:
    """Some of these, the same ones each time; or all."""
    if ALL or len(places) <= count:
        return places
    return sorted(random.Random(cell).sample(places, count))


def restoring(body: Body) -> Body:
    """The program, after which a state is kept twice. It goes on from there, and its history is compacted."""

    async def restored(world: World, run: holdfast.AsyncRun) -> Any:
        state = await run.restore({})
        if "given" not in state:
            state = {"given": await body(world, run)}
            await run.checkpoint(state)
        if "looked" not in state:
            state = {**state, "looked": await run.step("look back", len, "x")}
            await run.checkpoint(state)
        return state["given"]

    return restored


def crossed_by(program: Program, operation: Operation) -> Program:
    """The program as this operation needs it."""
    if not operation.restores or program.restores:
        return program
    return program._replace(body=restoring(program.body))


def begun(program: Program, directory: Path, facade: Facade = "sync") -> World:
    """A new world in which the program has worked to its end, in run ``m``."""
    directory.mkdir(exist_ok=True)
    return begin(World(f"memory://{uuid4().hex}", directory), program, facade)


def begin(world: WorldT, program: Program, facade: Facade = "sync") -> WorldT:
    """The world, in which the program has worked to its end, in run ``m``."""
    world.body = program.body
    if program.before is not None:
        program.before(world)
    world.broken |= {*program.broken}
    world.enter("m", program.body, facade=facade)
    return world


def seqs_of(program: Program, directory: Path, facade: Facade = "sync") -> list[int]:
    """The events that the program makes."""
    world = begun(program, directory / "first", facade)
    seqs = [event.seq for event in world.store.events("m")]
    world.store.close()
    return seqs


def check_branches(
    world: World, program: Program, branches: Branches, expected: Any, works: Facade, cell: object
) -> None:
    """The program ends alike in every branch, twice; nothing happened twice; both ends agree; the stores are sound."""
    for _ in range(2):
        for store, run in branches:
            assert world.enter(run, program.body, store, works) == expected, (cell, run)
    assert {name: world.done[name] for name in program.once} == dict.fromkeys(program.once, 1), cell
    if program.agrees is not None:
        program.agrees(world, branches)
    for store in {id(one): one for one in [world.store, *(store for store, _ in branches)]}.values():
        assert [finding for finding in store.examine() if finding.verdict == "failure"] == [], cell
        store.close()
