"""What is done to a run at one of its events. Each returns the branches that may work afterwards."""

from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from tests.crossings.world import Facade, World

import holdfast
from holdfast import Retention

Branches = list[tuple[holdfast.Store, str]]
"""Runs that may work: the store, and the name there. The one that the program is about comes first."""


def fork(world: World, seq: int) -> Branches:
    listed = world.store.effects_behind(f"m@#{seq}")
    assert world.store.fork(f"m@#{seq}", as_="f").behind == listed
    world.listed = [one.step for one in listed]
    return [(world.store, "f"), (world.store, "m")]


def fork_of_fork(world: World, seq: int) -> Branches:
    world.store.fork(f"m@#{seq}", as_="f")
    world.store.fork("f", as_="g")
    return [(world.store, "g"), (world.store, "f"), (world.store, "m")]


def rewind(world: World, seq: int) -> Branches:
    listed = world.store.effects_behind(f"m@#{seq}")
    rewound = world.store.rewind(f"m@#{seq}")
    assert [one.idempotency_key for one in rewound.behind] == [one.idempotency_key for one in listed]
    world.listed = [one.step for one in listed]
    return [(world.store, "m"), (world.store, rewound.kept)]


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


def import_(world: World, seq: int) -> Branches:
    """A plain export becomes a fork in the other store; the run may go on."""
    world.store.fork(f"m@#{seq}", as_="f")
    path = world.file()
    world.store.export("f", path)
    world.store.import_(path, as_="z")
    return [(world.store, "z"), (world.store, "f"), (world.store, "m")]


def copy(world: World, seq: int) -> Branches:
    del seq
    other = world.other_store()
    world.store.copy(other, move=True)
    return [(other, "m")]


def handoff(world: World, seq: int) -> Branches:
    """Another run of the store takes over what the run had done, and what it had listed."""
    kept = world.store.rewind(f"m@#{seq}").kept
    document = world.store.handoff("m", to="t", seal=True)
    world.store.accept(document, as_="t")
    return [(world.store, "t"), (world.store, kept)]


def handoff_away(world: World, seq: int) -> Branches:
    """The taker is in another store. What it has not got is listed."""
    kept = world.store.rewind(f"m@#{seq}").kept
    document = world.store.handoff("m", to="t", seal=True)
    other = world.other_store()
    world.losses = other.accept(document, as_="t", from_=world.store).losses
    return [(other, "t"), (world.store, kept)]


def erase(world: World, seq: int) -> Branches:
    """Nothing of the run is left, and no other run can tell."""
    del seq
    world.store.erase("m")
    assert world.traces("m") == []
    with pytest.raises(holdfast.UnknownRun):
        world.store.get("m")
    return []


def erase_fork(world: World, seq: int) -> Branches:
    """A fork that has worked is erased: the store is as it was, and so is its origin."""
    before = world.contents()
    world.store.fork(f"m@#{seq}", as_="f")
    world.enter("f", world.body)
    world.store.erase("f")
    assert world.traces("f") == []
    assert before.difference(world.contents()) == set()
    return [(world.store, "m")]


def erase_origin(world: World, seq: int) -> Branches:
    """Refused while a fork borrows from it, and nothing is changed."""
    world.store.fork(f"m@#{seq}", as_="f")
    before = world.contents()
    with pytest.raises(holdfast.RunHasForks):
        world.store.erase("m")
    assert before.difference(world.contents()) == set()
    return [(world.store, "f"), (world.store, "m")]


class Operation(NamedTuple):
    """What is done, and through which facade the program works before and after it."""

    apply: Callable[[World, int], Branches]
    begins: Facade = "sync"
    works: Facade = "sync"


OPERATIONS: Final[dict[str, Operation]] = {
    **{
        made.__name__: Operation(made)
        for made in (
            fork, fork_of_fork, rewind, rewind_twice, prune, fork_flattened, move, fork_and_move, import_, copy,
            handoff, handoff_away, erase, erase_fork, erase_origin,
        )
    },
    "async_after_sync": Operation(rewind, "sync", "async"),
    "sync_after_async": Operation(rewind, "async", "sync"),
    "worker_of_fork": Operation(fork, "agent", "worker"),
    "worker_of_rewound": Operation(rewind, "agent", "worker"),
    "worker_of_import": Operation(import_, "agent", "worker"),
}  # fmt: skip
WHOLE: Final = frozenset({"prune", "move", "copy", "erase"})
"""Operations that take the whole run, wherever its events are."""
SAMPLED: Final = frozenset(OPERATIONS) - {
    "fork", "fork_of_fork", "rewind", "rewind_twice", "fork_flattened", "fork_and_move", "handoff_away", *WHOLE,
}  # fmt: skip
"""Operations of which ``make test`` takes some events."""
LISTS: Final = frozenset({"fork", "rewind"})
"""Operations that list before what could happen again, and are compared with it."""
CANNOT_BE: Final[dict[tuple[str, str], str]] = {
    (
        "messages",
        "move",
    ): "the sender's receiver stays in the other store: it cannot be sent to, and the error says so",
    ("messages", "fork_and_move"): "the same",
    ("messages", "handoff_away"): "the same",
    (
        "messages",
        "copy",
    ): "the receiver moves along, and both ends are then in the other store: tests/behaviour/transfer",
    ("promises", "copy"): "the same",
}
"""Cells that cannot be, and why."""
