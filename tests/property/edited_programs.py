"""A walk over programs that are edited between kills. No effect happens twice, none is skipped, none is stopped in vain.

A program is a tree of operations: reads, once effects, scopes, steps with calls inside, children, tasks side by side. It
runs as a real async run over a store, is killed at random places, edited (renamed, inserted, removed, moved, wrapped, other
types, other defaults, a child renamed, dissolved or made of a part, an effect moved out of a child) and run again, until it
ends. A person answers every stop truthfully. What has finished, a step or a child, is answered as a whole: no effect moves out
of it. ``python -m tests.property.edited_programs --seeds 0:2000 --store sqlite`` walks many.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from tests.support import results

import holdfast
from holdfast.engine import store_threads
from holdfast.engine.drift import guard, program
from holdfast.errors import EffectUnclaimed
from holdfast.model.event_fields import contents_of
from holdfast.model.store_rows import Lease

ATTEMPTS_MAX = 80
KILLS_MAX = 6


class Kill(BaseException):
    """What a killed process looks like from inside."""


@dataclass(frozen=True)
class Op:
    """One operation. ``uid`` is what it does in the world, whatever the program calls it."""

    kind: str
    uid: int
    name: str
    arg: Any = None
    body: "tuple[Op, ...]" = ()
    is_wider: bool = False
    """Whether the function of the effect has one more parameter, with a default."""


Program = tuple[Op, ...]


@dataclass
class World:
    """What really happened, by the effect's own number; and who made it, by idempotency key."""

    done: Counter[int] = field(default_factory=Counter)
    keys: dict[str, int] = field(default_factory=dict)
    in_flight: int = 0
    finished_steps: set[int] = field(default_factory=set)
    finished_runs: set[str] = field(default_factory=set)


# -- programs and edits --------------------------------------------------------------------------------------------------


class Maker:
    """Makes programs and edits of them from a seed."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._uids = 0
        self._finished: Container[int] = ()

    def uid(self) -> int:
        self._uids += 1
        return self._uids

    def leaf(self) -> Op:
        uid, random = self.uid(), self.random
        if random.random() < 0.55:
            return Op("once", uid, random.choice(["pay", "send", "post"]), uid)
        # Reads may be equal: tasks that share a first step are ordinary.
        return Op("read", uid, random.choice(["look", "login"]), random.choice([0, 1, uid]))

    def ops(self, depth: int) -> Program:
        return tuple(self.op(depth) for _ in range(self.random.randint(2, 5)))

    def op(self, depth: int) -> Op:
        draw = self.random.random()
        if depth == 0 or draw < 0.65:
            return self.leaf()
        if draw < 0.73:
            return Op("scope", self.uid(), self.random.choice("st"), body=self.ops(depth - 1))
        if draw < 0.79:
            uid = self.uid()
            return Op("step", uid, "work", uid, body=self.ops(depth - 1))
        if draw < 0.89:
            uid = self.uid()
            return Op("child", uid, f"c{uid}", body=self.ops(depth - 1))
        branches = tuple(
            Op("scope", self.uid(), f"b{number}", body=self.ops(depth - 1))
            if self.random.random() < 0.4
            else Op("task", self.uid(), "", body=self.ops(depth - 1))
            for number in range(self.random.randint(2, 3))
        )
        return Op("gather", self.uid(), "", body=branches)

    def edit(self, ops: Program, finished: Container[int]) -> Program:
        """The program with one change at a random place. No effect moves out of what is ``finished``."""
        self._finished = finished
        places = list(_places(ops))
        return self._edited(ops, self.random.choice(places)) if places else (self.leaf(),)

    def _edited(self, ops: Program, at: tuple[int, ...]) -> Program:
        if len(at) > 1:
            op = ops[at[0]]
            inner = replace(op, body=self._edited(op.body, at[1:]))
            return (*ops[: at[0]], inner, *ops[at[0] + 1 :])
        i = at[0] if at else 0
        before, op, after = ops[:i], ops[i], ops[i + 1 :]
        if op.kind == "task":
            return ops
        change = self.random.choice(
            ["rename", "insert", "remove", "swap", "wrap", "type", "argument", "default", "child"]
        )
        if change == "child" and op.kind != "child":
            return (*before, self._child((op,)), *after)
        if op.kind == "child" and change in {"child", "rename", "type", "argument", "default"}:
            return (*before, *self._other_child(op), *after)
        if change == "insert":
            return (*before, self.leaf(), op, *after)
        if change == "remove" and len(ops) > 1:
            return (*before, *after)
        if change == "swap" and after and after[0].kind != "task":
            return (*before, after[0], op, *after[1:])
        if change == "wrap":
            return (*before, Op("scope", self.uid(), "wrapped", body=(op,)), *after)
        if op.kind in {"once", "read"}:
            if change == "default":
                return (*before, replace(op, is_wider=not op.is_wider), *after)
            if change == "rename":
                return (*before, replace(op, name=f"{op.name}x"), *after)
            if change == "type" and isinstance(op.arg, int):
                return (*before, replace(op, arg=float(op.arg)), *after)
            if change == "argument":
                return (*before, replace(op, arg=f"a{op.arg}"), *after)
        return ops

    def _child(self, body: Program) -> Op:
        uid = self.uid()
        return Op("child", uid, f"c{uid}", body=body)

    def _other_child(self, op: Op) -> Program:
        """A child under another name, its body without it, or with one of its parts behind it."""
        change = self.random.choice(["rename", "dissolve", "move out"])
        if change == "dissolve" and all(one.kind != "task" for one in op.body):
            return op.body
        if change == "move out" and len(op.body) > 1 and op.uid not in self._finished:
            i = self.random.randrange(len(op.body))
            return replace(op, body=(*op.body[:i], *op.body[i + 1 :])), op.body[i]
        return (self._child(op.body),)


def _places(ops: Program, at: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    for i, op in enumerate(ops):
        yield (*at, i)
        if op.body:
            yield from _places(op.body, (*at, i))


def effects_of(ops: Program, finished_steps: set[int]) -> Iterator[int]:
    """The effects that a program must have made.

    A finished step or child is answered as a whole, whatever is edited in it.
    """
    for op in ops:
        if op.kind == "once":
            yield op.uid
        if op.uid not in finished_steps:
            yield from effects_of(op.body, finished_steps)


class InOrder(ThreadPoolExecutor):
    """Runs what it is given at once, in the thread of the loop: so a seed gives the same walk each time.

    What happens side by side is drawn by the walk itself, in its pauses.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """The outcome, which is there already."""
        done = Future[Any]()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


class StoreInOrder(store_threads.StoreThreads):
    """The same for calls of the store."""

    def begin(self, fn: Callable[..., object], *args: Any) -> None:
        fn(*args)


# -- running -------------------------------------------------------------------------------------------------------------


class Attempt:
    """One process: the program from its beginning, until it ends, is stopped or is killed."""

    def __init__(self, store: holdfast.Store, ops: Program, world: World, random: Random, lives: int) -> None:
        self.store, self.ops, self.world, self.random, self.lives = store, ops, world, random, lives

    async def run(self) -> str:
        asyncio.get_running_loop().set_default_executor(InOrder())
        try:
            await self._entered("r", self.ops)
        except Kill:
            return "killed"
        except EffectUnclaimed:
            return "stopped"
        return "finished"

    async def _entered(self, name: str, ops: Program) -> None:
        """The program of one run. By hand, because a killed process leaves no block."""
        entering = holdfast.run(name, store=self.store, retention=None)
        run = await entering.__aenter__()
        try:
            await self._all(run, ops)
        except Kill:
            _kill(run)
            raise
        except BaseException as error:
            await entering.__aexit__(type(error), error, error.__traceback__)
            raise
        await entering.__aexit__(None, None, None)

    async def _all(self, run: holdfast.AsyncRun, ops: Program) -> None:
        for op in ops:
            await self._pause()
            await self._one(run, op)

    async def _pause(self) -> None:
        """Let other tasks run; die here, once in a while, if no effect is under way that would be in doubt."""
        for _ in range(self.random.randint(0, 3)):
            await asyncio.sleep(0)
        if self.lives >= 0 and self.world.in_flight == 0:
            self.lives -= 1
            if self.lives < 0:
                raise Kill

    async def _one(self, run: holdfast.AsyncRun, op: Op) -> None:
        if op.kind == "read":
            await run.step(op.name, _echo, op.arg)
        elif op.kind == "once":
            await self._effect(run, op)
        elif op.kind == "scope":
            with run.scope(op.name):
                await self._all(run, op.body)
        elif op.kind == "step":

            async def work(_uid: int) -> None:
                await self._all(run, op.body)
                self.world.finished_steps.add(op.uid)

            await run.options(ignore=("self", "run", "op")).step(op.name, work, op.arg)
        elif op.kind == "child":
            await run.child(op.name, Walker(self, op))
        elif op.kind == "task":
            await self._all(run, op.body)
        else:
            tasks = [asyncio.create_task(_within(self._all(run, (branch,)))) for branch in op.body]
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            for end in ends:
                if isinstance(end, BaseException):
                    raise end

    async def _effect(self, run: holdfast.AsyncRun, op: Op) -> None:
        def act(_value: Any, idempotency_key: str = holdfast.KEY) -> None:
            self.world.done[op.uid] += 1
            self.world.keys[idempotency_key] = op.uid

        def wider(_value: Any, _urgent: bool = False, idempotency_key: str = holdfast.KEY) -> None:
            self.world.done[op.uid] += 1
            self.world.keys[idempotency_key] = op.uid

        self.world.in_flight += 1
        try:
            made = wider if op.is_wider else act
            await run.options(ignore=("self", "op")).once(op.name, made, op.arg)
        finally:
            self.world.in_flight -= 1


@dataclass
class Walker:
    """The agent of a child: a part of the program."""

    attempt: Attempt
    op: Op
    name: str = "walker"
    is_async: bool = True

    async def run(self, id: str, /, *_args: Any, **_kwargs: Any) -> None:  # noqa: A002 - what agents have
        """Start or resume the child; one that has ended is not run again."""
        world = self.attempt.world
        if id not in world.finished_runs:
            await self.attempt._entered(id, self.op.body)
            world.finished_runs.add(id)
            world.finished_steps.add(self.op.uid)

    def inputs_of(self, _args: tuple[Any, ...], _kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """It has none: an edit of its body is no other input."""
        return {}


async def _within(work: Awaitable[None]) -> None:
    await work


def _kill(run: holdfast.AsyncRun) -> None:
    """The process is gone: nobody holds the lease, and nothing more can be written."""
    held = run._held
    assert held.journal is not None
    held.session.heartbeat.remove(held.journal)
    held.journal.lost = Lease(fence=held.journal.fence)
    held.store.release(held.run, fence=held.journal.fence)
    held.is_closed = True


def _echo(value: Any) -> Any:
    return value


def _answer(store: holdfast.Store, ops: Program, world: World) -> bool:
    """A person says what each stopped call is, in the run and its children. Whether there was one."""
    runs = [info.run for info in store.runs(limit=1_000)]
    stopped_calls = [one for run in runs for one in store.stopped_calls(run) if one.pending is None]
    used: set[tuple[str, str]] = set()
    uids = {(name, arg): uid for uid, name, arg in reversed([*_calls_of(ops)])}
    asked = [one for one in stopped_calls if (one.step, one.arguments["_value"]) in uids]
    # Others were stopped beside a call that was killed, and edited away before anybody could answer.
    for stopped in asked:
        run = stopped.run
        if (
            not stopped.effects
        ):  # a task beside it has taken over what it was stopped for: it is asked for again
            continue
        uid = uids[stopped.step, stopped.arguments["_value"]]
        for effect in stopped.effects:
            whose = effect.run or run
            key = contents_of(store.view(whose).calls[effect.key].body or b"{}")["idempotency_key"]
            if world.keys.get(key) == uid and (whose, effect.key) not in used:
                used.add((whose, effect.key))
                store.resolve(run, effect.id, "same", asked=stopped.key)
                break
        else:
            store.resolve(run, stopped.effects[0].id, "new", asked=stopped.key)
    return bool(asked)


def _calls_of(ops: Program) -> Iterator[tuple[int, str, Any]]:
    for op in ops:
        if op.kind == "once":
            yield op.uid, op.name, op.arg
        yield from _calls_of(op.body)


# -- the walk ------------------------------------------------------------------------------------------------------------


def walk(seed: int, url: str = "", drawing: Random | None = None) -> Counter[str]:
    """One program, killed, edited and run to its end. AssertionError where an invariant does not hold.

    ``url`` is a new store; without one, it is a store in memory. ``drawing`` draws what the seed decides, for who wants to
    compare two walks.
    """
    random = drawing or Random(seed)
    maker, world, counts = Maker(random), World(), Counter[str]()
    ops, version, kills = maker.ops(2), 1, random.randint(1, KILLS_MAX)
    edits = random.random() < 0.7
    store = holdfast.store(url or f"memory://{uuid4().hex}")
    modules = {"__main__": "1"}
    with (
        patch.object(guard, "modules", lambda: modules),
        patch.object(program, "modules", lambda: modules),
        patch.object(store_threads, "_pool", StoreInOrder()),
    ):
        for _ in range(ATTEMPTS_MAX):
            attempt = Attempt(store, ops, world, random, random.randint(0, 9) if kills > 0 else -1)
            end = asyncio.run(attempt.run())
            counts[end] += 1
            double = [uid for uid, times in world.done.items() if times > 1]
            assert not double, f"seed {seed}: effects {double} happened twice\n{ops}"
            if end == "finished":
                skipped = [uid for uid in effects_of(ops, world.finished_steps) if not world.done[uid]]
                assert not skipped, f"seed {seed}: effects {skipped} never happened\n{ops}"
                counts["effects"] += len(world.done)
                counts["children"] += len(store.runs(limit=1_000)) - 1
                store.close()
                return counts
            if end == "stopped":
                assert version > 1, f"seed {seed}: an unchanged program was stopped\n{ops}"
                assert _answer(store, ops, world), f"seed {seed}: a stop that nobody can answer\n{ops}"
                continue
            kills -= 1
            if edits and random.random() < 0.8:
                ops = maker.edit(ops, world.finished_steps)
                version += 1
                modules = {"__main__": str(version)}
                counts["edits"] += 1
    raise AssertionError(f"seed {seed}: it does not come to an end\n{ops}")


def main() -> int:
    """Walk these seeds; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000", help="first:last, or one seed")
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    results.add_option(parser)
    given = parser.parse_args()
    first, _, last = given.seeds.partition(":")
    seeds = range(int(first), int(last or int(first) + 1))
    began, total, failed = time.monotonic(), Counter[str](), list[int]()
    with TemporaryDirectory() as place:
        for seed in seeds:
            try:
                total += walk(seed, f"sqlite:///{place}/{seed}.db" if given.store == "sqlite" else "")
            except Exception as error:
                failed.append(seed)
                print(f"seed {seed}: {error!r}", flush=True)
    print(", ".join(f"{count:,} {what}" for what, count in sorted(total.items())))
    print(f"{len(seeds):,} programs; failed: {failed or 'none'}")
    counts = {"programs": len(seeds), "failed programs": len(failed), **dict(sorted(total.items()))}
    results.save(given.results, counts, seconds=time.monotonic() - began, passed=not failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
