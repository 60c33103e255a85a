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
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from tests.crossings.programs import _WORLDS, _child, once
from tests.crossings.world import LEFT, Body, Facade, World, check_provenance, new_url
from tests.support import results

import holdfast
from holdfast import Retention
from holdfast.errors import Misuse
from holdfast.model.event_fields import fields_of
from holdfast.model.run_info import Rewound

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
    assert isinstance(world, Walker)
    promise = await run.promise("the figures", to="receiver")
    once(world, "figures")()
    keeps = await run.step("toss", world.toss)
    with suppress(Misuse):  # it ended otherwise in another branch, and that is how it ended
        await (run.keep(promise) if keeps else run.break_promise(promise, because="no figures"))
    return "settled"


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


async def _read_all(world: World, run: holdfast.AsyncRun) -> Any:
    while True:
        await run.receive()


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
        self.unread: dict[Place, dict[str, int]] = {}
        """By run, children included: the calls that people have spoken about since it was entered, and their events."""
        self.resolved: set[str] = set()
        """The idempotency keys of effects in doubt that a person has resolved."""
        self.cut_off: set[str] = set()
        """The idempotency keys of effects that broke off: only a person can say how they ended."""
        self.is_last = False
        """Whether the walk is at its end: then people are waited for."""
        self.names = 0
        self.story: list[str] = []
        self.again: list[str] = []
        self.counts: Counter[str] = Counter()

    def happen(self, what: str, key: str = "") -> str:
        """The effect happens; it must be new to the branch that makes it."""
        if what in self.known[self.at]:  # to raise here would only put the effect in doubt
            self.again.append(f"{what} in {self.at[1]}")
        self.known[self.at].add(what)
        self.counts["effects"] += 1
        if self.chance.random() < 0.25:
            self.cut_off.add(key)
            raise ConnectionError(f"the line broke at {what}")
        return f"{what} is done"

    def toss(self) -> bool:
        """Whether a promise is kept; each branch that comes here decides for itself."""
        return self.chance.random() < 0.5

    def hear(self, place: holdfast.Store, run: str, key: str, seq: int) -> bool:
        """A person is asked. They have not been asked the same before, unless their words were read."""
        if key in self.unread.get((place, run), {}):
            self.again.append(f"a question of {run}")
        starts = [one for one in place.events(run) if one.key == key and one.kind == "step.started"]
        for one in [one for one in self.unread if _is_of((place, run), one)]:
            del self.unread[one]  # this attempt has read what waited for the run and its parents
        if not self.is_last and self.chance.random() < 0.4:
            return False
        self.unread[place, run] = {key: seq or starts[-1].seq}
        self.resolved |= {fields_of(one.body)["idempotency_key"] for one in starts if not seq}
        self.counts["words"] += 1
        return True

    def goes_on(self) -> bool:
        return self.is_last or self.chance.random() < 0.5

    def new_name(self) -> str:
        """A name that no run has had."""
        self.names += 1
        return f"f{self.names}"

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
        facade: Facade = "async" if self.chance.random() < 0.3 else "sync"
        given = self.enter(place[1], self.program(upto), place[0], facade)
        if given != LEFT:
            self.unread = {one: words for one, words in self.unread.items() if not _is_of(one, place)}
        return given


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


def _is_of(one: Place, place: Place) -> bool:
    """Whether it is this run or one of its children."""
    return one[0] is place[0] and (one[1] == place[1] or one[1].startswith(f"{place[1]}/"))


def _walk(world: Walker) -> None:
    chance = world.chance
    world.enter("receiver", _read_all)
    world.story.append("work m")
    _work(world, world.at)
    for _ in range(chance.randint(2, OPERATIONS_MAX)):
        place = chance.choice([*world.known])
        act = chance.choice([*_ACTS])
        world.counts["operations"] += 1
        world.story.append(f"{act.__name__.strip('_')} {place[1]}")
        try:
            act(world, place)
        except (holdfast.PointPruned, Misuse) as refused:  # by name: it changes nothing
            world.story[-1] += f" ({type(refused).__name__})"
    world.is_last = True
    whole = len(world.segments)
    results = {place: world.work(place, whole) for place in [*world.known]}
    for place in [*world.known]:
        assert world.work(place, whole) == results[place], f"{place[1]} replays another result"
    assert world.again == [], f"again: {', '.join(world.again)}"
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


def _repeats(world: Walker, place: Place, seq: int) -> tuple[Literal["answer", "again"], set[str]]:
    """What becomes of the effects behind this event, and those that may happen again: they are listed before."""
    store, run = place
    if world.chance.random() < 0.75:
        return "answer", set()
    world.story[-1] += " again"
    world.counts["again"] += 1
    return "again", {one.step for one in store.effects_behind(f"{run}@#{seq}")}


def _fork(world: Walker, place: Place) -> None:
    store, run = place
    if seq := _point(world, place):
        effects, listed = _repeats(world, place, seq)
        name = world.new_name()
        store.fork(f"{run}@#{seq}", as_=name, effects=effects)
        world.known[store, name] = world.known[place] - listed


def _rewind(world: Walker, place: Place) -> None:
    store, run = place
    if seq := _point(world, place):
        effects, listed = _repeats(world, place, seq)
        rewound = store.rewind(f"{run}@#{seq}", effects=effects)
        world.known[store, rewound.kept] = {*world.known[place]}
        world.known[place] -= listed
        _follow(world, place, rewound)


def _follow(world: Walker, place: Place, rewound: Rewound) -> None:
    """Words that wait unread are with the branch that has their question, and with its children."""
    store, run = place
    for one, words in [*world.unread.items()]:
        if not _is_of(one, place):
            continue
        kept = (store, f"{rewound.kept}{one[1].removeprefix(run)}")
        if one == place:
            world.unread[kept] = {key: seq for key, seq in words.items() if seq > rewound.to_seq}
            world.unread[one] = {key: seq for key, seq in words.items() if seq <= rewound.to_seq}
        elif one[1] in rewound.later_children:
            world.unread[kept] = world.unread.pop(one)


def _prune(world: Walker, place: Place) -> None:
    place[0].prune(place[1], policy=Retention(compact_events=1))


def _move(world: Walker, place: Place) -> None:
    store, run = place
    if store.get(run).head == 0 or not world.moves:
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
    for one in [one for one in world.unread if _is_of(one, place)]:
        world.unread[other, one[1]] = world.unread.pop(one)


def _hand_over(world: Walker, place: Place) -> None:
    """Another run goes on with the work. Its questions are listed as losses, and asked again."""
    store, run = place
    if store.get(run).head == 0:
        return
    name = world.new_name()
    away = world.moves and world.chance.random() < 0.5
    taker = world.other_store() if away else store
    taker.accept(store.handoff(run, to=name, seal=True), as_=name, from_=store)
    world.known[taker, name] = world.known.pop(place)
    world.unread = {one: words for one, words in world.unread.items() if not _is_of(one, place)}
    world.counts["handoffs"] += 1


def _erase(world: Walker, place: Place) -> None:
    """Refused while others borrow from it, unless they get their own copies; the last one stays."""
    store, run = place
    if len(world.known) == 1:
        return
    try:
        store.erase(run, flatten=world.chance.random() < 0.5)
    except holdfast.RunHasForks:
        world.story[-1] += " (RunHasForks)"
        return
    del world.known[place]
    world.unread = {one: words for one, words in world.unread.items() if not _is_of(one, place)}
    world.counts["erased"] += 1


def _receive(world: Walker, place: Place) -> None:
    """The receiver reads what it was sent; or it is rewound, and what it had read waits again."""
    del place
    if world.chance.random() < 0.5:
        world.enter("receiver", _read_all)
    else:
        seqs = [event.seq for event in world.store.events("receiver")]
        world.store.rewind(f"receiver@#{world.chance.choice(seqs)}")
        world.counts["receiver rewound"] += 1


def _ends_agree(world: Walker) -> None:
    """The receiver has heard what the branches in its store say; facts are there once, and name events that are there."""
    world.enter("receiver", _read_all)
    heard = {one.id: one.state for one in world.store.promises("receiver").received}
    got = [event for event in world.store.events("receiver") if event.kind == "message.received"]
    for store, run in world.known:
        for made in store.promises(run).made if store is world.store else ():
            assert heard[made.id] == made.state, made
        assert got or not any(event.name == "send" for event in store.events(run))
        _check_doubts(world, store, run)
        check_provenance(store)
        texts = [fact.text for fact in store.memory.list()]
        assert len(texts) == len({*texts}), texts
        assert [one for one in store.examine() if one.verdict == "failure"] == []


def _check_doubts(world: Walker, store: holdfast.Store, run: str) -> None:
    """An effect that broke off has an outcome only if a person has resolved it, under its own key."""
    keys: dict[str, str] = {}
    for event in store.events(run):
        if event.kind == "step.started":
            keys[event.key] = fields_of(event.body).get("idempotency_key", "")
        elif event.kind in {"step.settled", "step.finished"} and keys.get(event.key) in world.cut_off:
            assert keys[event.key] in world.resolved, f"{event.name} of {run} was settled by nobody"


_ACTS: tuple[Callable[[Walker, Place], None], ...] = (
    _work, _work, _work, _fork, _fork, _rewind, _rewind, _prune, _move, _hand_over, _erase, _receive,
)  # fmt: skip


def main() -> int:
    """Walk the seeds of the command line; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="FIRST:BEHIND_LAST")
    parser.add_argument("--store", default="memory", choices=["memory", "sqlite"])
    results.add_option(parser)
    given = parser.parse_args()
    first, _, last = given.seeds.partition(":")
    warnings.simplefilter("ignore")
    total: Counter[str] = Counter()
    failed, began = [], time.monotonic()
    for seed in range(int(first), int(last)):
        with tempfile.TemporaryDirectory() as made:
            try:
                total += walk(seed, Path(made), given.store)
            except Exception as error:
                failed.append(seed)
                print(f"seed {seed}: {error!r}\n  {getattr(error, '__notes__', [''])[-1]}", flush=True)
    counted = ", ".join(f"{number:,} {what}" for what, number in sorted(total.items()))
    print(f"{counted}; failed: {failed or 'none'}")
    counts = {"failed seeds": len(failed), **dict(sorted(total.items()))}
    results.save(given.results, counts, seconds=time.monotonic() - began, passed=not failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
