"""A random walk: operations are chained over a program that uses five features at once.

``python -m tests.crossings.walk --seeds 0:5000`` walks them all; a seed that fails is named and walks the same way again.

The oracle knows which outside effects each branch has heard of: what its history did, and what was listed when it was forked
or rewound. None of those may happen again in it. A fork may do what its origin had not done when it was made: that is another
history.
"""

import argparse
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crossings.programs import _WORLDS, _child, once
from tests.crossings.world import Body, World, check_provenance, new_url

import holdfast
from holdfast import Retention

Segment = Body
OPERATIONS_MAX = 6
Place = tuple[holdfast.Store, str]


async def _paid(world: World, run: holdfast.AsyncRun) -> Any:
    return once(world, "payment")()


async def _mailed(world: World, run: holdfast.AsyncRun) -> Any:
    await run.step("look", len, "mail")
    return once(world, "mail")()


async def _asked(world: World, run: holdfast.AsyncRun) -> Any:
    return (
        once(world, "approved payment")()
        if await run.ask("May I?", choices=["yes", "no"]) == "yes"
        else "refused"
    )


async def _remembered(world: World, run: holdfast.AsyncRun) -> Any:
    return (await run.remember("The sky is blue today.")).text


async def _promised(world: World, run: holdfast.AsyncRun) -> Any:
    promise = await run.promise("the figures", to="receiver")
    once(world, "figures")()
    return (await run.keep(promise)).state


async def _sent(world: World, run: holdfast.AsyncRun) -> Any:
    await run.send("receiver", {"n": 1})
    return "sent"


async def _delegated(world: World, run: holdfast.AsyncRun) -> Any:
    _WORLDS[run.id] = world
    return await run.child("one", _child, "letter of one")


async def _thought(world: World, run: holdfast.AsyncRun) -> Any:
    await run.discover("The feed is in UTC.")
    return await run.model("ask", len, "who?", model="m")


async def _written(world: World, run: holdfast.AsyncRun) -> Any:
    async with run.open(world.directory / "report.md", "w") as file:
        file.write("one")
    return "written"


SEGMENTS: tuple[Segment, ...] = (
    _paid, _mailed, _asked, _remembered, _promised, _sent, _delegated, _thought, _written,
)  # fmt: skip


class Walker(World):
    """The world of one walk; it knows what each branch has heard of."""

    def __init__(self, seed: int, directory: Path, kind: str) -> None:
        super().__init__(new_url(kind, directory / "store"), directory)
        self.chance = random.Random(seed)
        moves = self.chance.random() < 0.4
        # A message cannot be sent to a run that stayed in another store.
        segments = [one for one in SEGMENTS if not moves or one is not _sent]
        self.segments = self.chance.sample(segments, 5)
        self.moves = moves
        self.restores = self.chance.random() < 0.3
        self.known: dict[Place, set[str]] = {}
        self.at: Place = (self.store, "m")
        self.known[self.at] = set()
        self.story: list[str] = []
        self.again: list[str] = []
        self.counts: Counter[str] = Counter()

    def happen(self, what: str) -> str:
        """The effect happens; it must be new to the branch that makes it."""
        if what in self.known[self.at]:  # to raise here would only put the effect in doubt
            self.again.append(f"{what} in {self.at[1]}")
        self.known[self.at].add(what)
        self.counts["effects"] += 1
        if self.chance.random() < 0.25:
            raise ConnectionError(f"the line broke at {what}")
        return f"{what} is done"

    def program(self, upto: int) -> Body:
        """The program, which is cut off after some segments."""

        async def work(world: World, run: holdfast.AsyncRun) -> Any:
            state: dict[str, Any] = (
                await run.restore({"n": 0, "given": []}) if self.restores else {"n": 0, "given": []}
            )
            given = [*state["given"]]
            for number in range(state["n"], upto):
                await run.step(f"begin {number}", len, "x")
                given.append(await self.segments[number](world, run))
                if self.restores:
                    await run.checkpoint({"n": number + 1, "given": given})
            return given

        return work

    def work(self, place: Place, upto: int) -> Any:
        """Let the program work in a branch."""
        self.at = place
        return self.enter(place[1], self.program(upto), place[0])


def walk(seed: int, directory: Path, kind: str = "memory") -> Counter[str]:
    """One walk; what it did. An assertion names the seed and the way."""
    world = Walker(seed, directory, kind)
    try:
        _walk(world)
    except BaseException as error:
        error.add_note(
            f"seed {seed}: {', '.join(one.__name__ for one in world.segments)}; {'; '.join(world.story)}"
        )
        raise
    finally:
        for store in {id(place[0]): place[0] for place in world.known}.values():
            store.close()
    world.counts["walks"] += 1
    return world.counts


def _walk(world: Walker) -> None:
    chance = world.chance
    world.enter("receiver", lambda _, run: run.receive())
    world.story.append("work m")
    _work(world, world.at)
    for _ in range(chance.randint(2, OPERATIONS_MAX)):
        place = chance.choice([*world.known])
        acts = ["work", "work", "fork", "rewind", "prune", *(["move"] if world.moves else [])]
        act = chance.choice(acts)
        world.counts["operations"] += 1
        world.story.append(f"{act} {place[1]}")
        try:
            _ACTS[act](world, place)
        except holdfast.PointPruned:  # refused, by name: it changes nothing
            world.story[-1] += " (pruned)"
    whole = len(world.segments)
    results = {place: world.work(place, whole) for place in [*world.known]}
    for place in [*world.known]:
        assert world.work(place, whole) == results[place], f"{place[1]} replays another result"
    assert world.again == [], "it happened again"
    assert len({repr(result) for result in results.values()}) == 1, results
    _ends_agree(world)


def _work(world: Walker, place: Place) -> None:
    upto = world.chance.randint(1, len(world.segments))
    world.story[-1] += f" upto {upto}"
    world.work(place, upto)


def _point(world: Walker, place: Place) -> int:
    """An event of this run, any of them; 0 if it has none."""
    seqs = [event.seq for event in place[0].events(place[1])]
    found = world.chance.choice(seqs) if seqs else 0
    world.story[-1] += f"@#{found}"
    return found


def _fork(world: Walker, place: Place) -> None:
    store, run = place
    seq = _point(world, place)
    if seq:
        name = f"f{len(world.known)}"
        store.fork(f"{run}@#{seq}", as_=name)
        world.known[store, name] = {*world.known[place]}


def _rewind(world: Walker, place: Place) -> None:
    store, run = place
    seq = _point(world, place)
    if seq:
        kept = store.rewind(f"{run}@#{seq}").kept
        world.known[store, kept] = {*world.known[place]}


def _prune(world: Walker, place: Place) -> None:
    place[0].prune(place[1], policy=Retention(compact_events=1))


def _move(world: Walker, place: Place) -> None:
    store, run = place
    if store.get(run).head == 0:
        return
    path = world.file()
    try:
        store.export(run, path, move=True)
    except holdfast.HoldfastError as refused:
        world.story[-1] += f" ({type(refused).__name__})"
        return
    other = world.other_store()
    other.import_(path)
    world.known[other, run] = world.known.pop(place)


def _ends_agree(world: Walker) -> None:
    """The receiver has heard what the branches in its store say; facts are there once, and name events that are there."""
    world.enter("receiver", lambda _, run: run.receive())
    heard = {one.id: one.state for one in world.store.promises("receiver").received}
    for store, run in world.known:
        if store is world.store:
            for made in store.promises(run).made:
                assert heard.get(made.id, made.state) == made.state, made
        check_provenance(store)
        texts = [fact.text for fact in store.memory.list()]
        assert len(texts) == len({*texts}), texts
        assert [one for one in store.examine() if one.verdict == "failure"] == []


_ACTS: dict[str, Callable[[Walker, Place], None]] = {
    "work": _work, "fork": _fork, "rewind": _rewind, "prune": _prune, "move": _move,
}  # fmt: skip


def main() -> int:
    """Walk the seeds of the command line; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="FIRST:BEHIND_LAST")
    parser.add_argument("--store", default="memory", choices=["memory", "sqlite"])
    given = parser.parse_args()
    first, _, last = given.seeds.partition(":")
    warnings.simplefilter("ignore")
    total: Counter[str] = Counter()
    failed = []
    for seed in range(int(first), int(last)):
        with tempfile.TemporaryDirectory() as made:
            try:
                total += walk(seed, Path(made), given.store)
            except Exception as error:
                failed.append(seed)
                print(f"seed {seed}: {error!r}\n  {getattr(error, '__notes__', [''])[-1]}", flush=True)
    counted = ", ".join(f"{number:,} {what}" for what, number in sorted(total.items()))
    print(f"{counted}; failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
