"""What is done to a run at one of its events. Each returns the branches that may work afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.crossings.world import Facade, World

import holdfast
from holdfast import Retention
from holdfast.errors import Misuse, PointPruned

Branches = list[tuple[holdfast.Store, str]]
"""Runs that may work: the store, and the name there. The one that the program is about comes first."""


def _fork(world: World, seq: int, name: str = "f") -> None:
    with world.unless_done(holdfast.RunExists):
        world.store.fork(f"m@#{seq}", as_=name)


def _rewind(world: World, seq: int) -> Branches:
    """The kept branch. A run that was handed over or rewound further since cannot be rewound again."""
    kept: Branches = []
    with world.unless_done(holdfast.RunSealed, Misuse):
        kept.append((world.store, world.store.rewind(f"m@#{seq}").kept))
    return kept


def fork(world: World, seq: int) -> Branches:
    world.listed = [one.step for one in world.store.effects_behind(f"m@#{seq}")]
    with world.unless_done(holdfast.RunExists):
        assert [one.step for one in world.store.fork(f"m@#{seq}", as_="f").behind] == world.listed
    return [(world.store, "f"), (world.store, "m")]


def fork_of_fork(world: World, seq: int) -> Branches:
    _fork(world, seq)
    with world.unless_done(holdfast.RunExists):
        world.store.fork("f", as_="g")
    return [(world.store, "g"), (world.store, "f"), (world.store, "m")]


def rewind(world: World, seq: int) -> Branches:
    listed = [one.idempotency_key for one in world.store.effects_behind(f"m@#{seq}")]
    world.listed = [one.step for one in world.store.effects_behind(f"m@#{seq}")]
    rewound = world.store.rewind(f"m@#{seq}")
    assert [one.idempotency_key for one in rewound.behind] == listed
    return [(world.store, "m"), (world.store, rewound.kept)]


def rewind_twice(world: World, seq: int) -> Branches:
    first = _rewind(world, seq)
    return [(world.store, "m"), *_rewind(world, max(1, seq - 1)), *first]


def prune(world: World, seq: int) -> Branches:
    del seq  # it takes the whole run
    world.store.prune("m", policy=Retention(compact_events=1))
    return [(world.store, "m")]


def prune_and_fork(world: World, seq: int) -> Branches:
    """A fork at an event that the compaction left; at any other it is refused, by name."""
    world.store.prune("m", policy=Retention(compact_events=1))
    try:
        _fork(world, seq)
    except PointPruned:
        return [(world.store, "m")]
    return [(world.store, "f"), (world.store, "m")]


def fork_flattened(world: World, seq: int) -> Branches:
    """The origin is erased: the fork has what it borrowed."""
    with world.unless_done(holdfast.UnknownRun):
        _fork(world, seq)
        world.store.erase("m", flatten=True)
    return [(world.store, "f")]


def move(world: World, seq: int) -> Branches:
    del seq
    path = world.file()
    _move(world, "m", path)
    other = world.other_store()
    with world.unless_done(holdfast.ExportTaken):
        other.import_(path)
    return [(other, "m")]


def _move(world: World, run: str, path: Path) -> None:
    if not (world.repeats and path.exists()):
        world.store.export(run, path, move=True)


def fork_and_move(world: World, seq: int) -> Branches:
    _fork(world, seq)
    path = world.file()
    _move(world, "f", path)
    other = world.other_store()
    with world.unless_done(holdfast.ExportTaken):
        other.import_(path, as_="z")
    return [(other, "z"), (world.store, "m")]


def import_(world: World, seq: int) -> Branches:
    """A plain export becomes a fork; the run may go on."""
    _fork(world, seq)
    path = world.file()
    world.store.export("f", path)
    with world.unless_done(holdfast.RunExists):
        world.store.import_(path, as_="z")
    return [(world.store, "z"), (world.store, "f"), (world.store, "m")]


def copy(world: World, seq: int) -> Branches:
    del seq
    other = world.other_store()
    world.store.copy(other, move=True)
    return [(other, "m")]


def handoff(world: World, seq: int) -> Branches:
    """Another run of the store takes over what the run had done, and what it had listed."""
    kept = _rewind(world, seq)
    document = world.store.handoff("m", to="t", seal=True)
    world.store.accept(document, as_="t")
    return [(world.store, "t"), *kept]


def prune_and_handoff(world: World, seq: int) -> Branches:
    """The taker asks about what was compacted, and does none of it again."""
    del seq
    world.store.prune("m", policy=Retention(compact_events=1))
    world.store.accept(world.store.handoff("m", to="t", seal=True), as_="t")
    return [(world.store, "t")]


def handoff_of_erased(world: World, seq: int) -> Branches:
    """The branch that made the effects is gone; the rewind has listed them."""
    for store, kept in _rewind(world, seq):
        store.erase(kept)
    world.store.accept(world.store.handoff("m", to="t", seal=True), as_="t")
    return [(world.store, "t")]


def handoff_away(world: World, seq: int) -> Branches:
    """The taker is in another store. What it has not got is listed."""
    kept = _rewind(world, seq)
    document = world.store.handoff("m", to="t", seal=True)
    other = world.other_store()
    world.losses = other.accept(document, as_="t", from_=world.store).losses
    return [(other, "t"), *kept]


def erase(world: World, seq: int) -> Branches:
    """Nothing of the run is left, and no other run can tell."""
    del seq
    with world.unless_done(holdfast.UnknownRun):
        world.store.erase("m")
    assert world.traces("m") == []
    with pytest.raises(holdfast.UnknownRun):
        world.store.get("m")
    return []


def erase_fork(world: World, seq: int) -> Branches:
    """A fork that has worked is erased: the store is as it was, and so is its origin."""
    before = world.contents() if not world.repeats else set()
    _fork(world, seq)
    world.enter("f", world.body)
    world.store.erase("f")
    assert world.traces("f") == []
    assert before.difference(world.contents()) == set()
    return [(world.store, "m")]


def erase_origin(world: World, seq: int) -> Branches:
    """Refused while a fork borrows from it, and nothing is changed."""
    _fork(world, seq)
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
    restores: bool = False
    """Whether the program restores a state at its end: the history before it can be compacted."""


OPERATIONS: Final[dict[str, Operation]] = {
    **{
        made.__name__: Operation(made)
        for made in (
            fork, fork_of_fork, rewind, rewind_twice, fork_flattened, move, fork_and_move, import_, copy,
            handoff, handoff_away, handoff_of_erased, erase, erase_fork, erase_origin,
        )
    },
    "prune": Operation(prune, restores=True),
    "prune_and_fork": Operation(prune_and_fork, restores=True),
    "prune_and_handoff": Operation(prune_and_handoff, restores=True),
    "async_after_sync": Operation(rewind, "sync", "async"),
    "sync_after_async": Operation(rewind, "async", "sync"),
    "worker_of_fork": Operation(fork, "agent", "worker"),
    "worker_of_rewound": Operation(rewind, "agent", "worker"),
    "worker_of_import": Operation(import_, "agent", "worker"),
}  # fmt: skip
WHOLE: Final = frozenset({"prune", "prune_and_handoff", "move", "copy", "erase"})
"""Operations that take the whole run, wherever its events are."""
SAMPLED: Final = frozenset(OPERATIONS) - {
    "fork", "fork_of_fork", "rewind", "rewind_twice", "fork_flattened", "fork_and_move", "handoff_away", *WHOLE,
}  # fmt: skip
"""Operations of which ``make test`` takes some events."""
LISTS: Final = frozenset({"fork", "rewind"})
"""Operations that list before what could happen again, and are compared with it."""
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "fork": ("fork", "fork_of_fork", "fork_flattened", "erase_origin", "worker_of_fork"),
    "rewind": ("rewind", "rewind_twice", "async_after_sync", "sync_after_async", "worker_of_rewound"),
    "compaction": ("prune", "prune_and_fork"),
    "transfer": ("move", "fork_and_move", "import_", "copy", "worker_of_import"),
    "handoff": ("handoff", "handoff_away", "prune_and_handoff", "handoff_of_erased"),
    "listed": tuple(sorted(LISTS)),
    "known_by": ("fork_flattened", "import_", "rewind_twice", "handoff"),
}
"""The answers of ``core/lineage/history_rules.py``, and the operations that ask for them."""
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
