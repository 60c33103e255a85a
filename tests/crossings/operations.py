"""What is done to a run at one of its events. Each returns the branches that may work afterwards."""

from collections.abc import Callable
from typing import Final

from tests.crossings.world import World

import holdfast
from holdfast import Retention

Branches = list[tuple[holdfast.Store, str]]
"""Runs that may work: the store, and the name there. The one that the program is about comes first."""


def fork(world: World, seq: int) -> Branches:
    world.store.fork(f"m@#{seq}", as_="f")
    return [(world.store, "f"), (world.store, "m")]


def fork_of_fork(world: World, seq: int) -> Branches:
    world.store.fork(f"m@#{seq}", as_="f")
    world.store.fork("f", as_="g")
    return [(world.store, "g"), (world.store, "f"), (world.store, "m")]


def rewind(world: World, seq: int) -> Branches:
    kept = world.store.rewind(f"m@#{seq}").kept
    return [(world.store, "m"), (world.store, kept)]


def rewind_twice(world: World, seq: int) -> Branches:
    first = world.store.rewind(f"m@#{seq}").kept
    second = world.store.rewind(f"m@#{max(1, seq - 1)}").kept
    return [(world.store, "m"), (world.store, second), (world.store, first)]


def prune(world: World, seq: int) -> Branches:
    del seq  # it takes the whole run
    world.store.prune("m", policy=Retention(compact_events=1))
    return [(world.store, "m")]


def fork_flattened(world: World, seq: int) -> Branches:
    """The origin is erased: the fork has what it borrowed."""
    world.store.fork(f"m@#{seq}", as_="f")
    world.store.erase("m", flatten=True)
    return [(world.store, "f")]


def move(world: World, seq: int) -> Branches:
    del seq
    path = world.file()
    world.store.export("m", path, move=True)
    other = world.other_store()
    other.import_(path)
    return [(other, "m")]


def fork_and_move(world: World, seq: int) -> Branches:
    world.store.fork(f"m@#{seq}", as_="f")
    path = world.file()
    world.store.export("f", path, move=True)
    other = world.other_store()
    other.import_(path, as_="z")
    return [(other, "z"), (world.store, "m")]


def copy(world: World, seq: int) -> Branches:
    del seq
    other = world.other_store()
    world.store.copy(other, move=True)
    return [(other, "m")]


Operation = Callable[[World, int], Branches]
OPERATIONS: Final[dict[str, Operation]] = {
    made.__name__: made
    for made in (fork, fork_of_fork, rewind, rewind_twice, prune, fork_flattened, move, fork_and_move, copy)
}
WHOLE: Final = frozenset({"prune", "move", "copy"})
"""Operations that take the whole run, wherever its events are."""
CANNOT_BE: Final[dict[tuple[str, str], str]] = {
    (
        "messages",
        "move",
    ): "the sender's receiver stays in the other store: it cannot be sent to, and the error says so",
    ("messages", "fork_and_move"): "the same",
    (
        "messages",
        "copy",
    ): "the receiver moves along, and both ends are then in the other store: tests/behaviour/transfer",
    ("promises", "copy"): "the same",
}
"""Cells that cannot be, and why."""
