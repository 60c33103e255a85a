"""Pruning never changes what is kept: random runs, crashes, forks, rewinds and policies, on both embedded stores.

The agent is a list of operations that grows. Each value that a step returns is new, so that a step which runs again, or
an answer that is another's, shows at once: whoever resumes must be given the very values that stand recorded, and must
not run anything that was recorded.

Planted once in a copy, with the engine's own comparison switched off, and caught here: a hollow checkpoint taken as the
latest state; counts dropped in the journal and not in the holder, and the other way round; those of effects, or of sites
that are called later; answers to explicit keys, to calls before the restore and to what is open, dropped; messages
lost, or dropped ones kept; packs freed that another run of the lineage needs, or that the holder's next state builds on;
labels, pins and forks that are no roots; a replaying run compacted.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

import holdfast
from holdfast import Keep, Retention
from holdfast.core.journal.fold import fold
from holdfast.core.journal.lineage import effective
from holdfast.core.lineage.reachable_points import is_kept
from holdfast.engine.prune.auto_prune import Pruner
from holdfast.engine.steps.call_options import treat
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.events import Event
from holdfast.model.store_rows import Lease

# Two journals are compared, of processes that die in the middle of a read: whether its intent is in them must not depend
# on how long that took.
pytestmark = pytest.mark.usefixtures("no_second_look")

serial = count(1)


class Kill(BaseException):
    """What a killed process looks like from inside."""


def kill(run: holdfast.Run) -> None:
    """The process is gone: nobody holds the lease, and nothing more can be written."""
    held = run._held
    assert held.journal is not None
    held.session.heartbeat.remove(held.journal)
    held.journal.lost = Lease(fence=held.journal.fence)
    held.store.release(held.run, fence=held.journal.fence)
    held.is_closed = True


class Agent:
    """A program of operations, resumed by restoring or by replaying. ``done`` is what it must not do again."""

    def __init__(self, store: holdfast.Store, name: str, *, restores: bool) -> None:
        self.store, self.name, self.restores = store, name, restores
        self.ops: list[tuple[Any, ...]] = []
        self.done: dict[int, tuple[int, Any]] = {}
        self.keyed: dict[str, tuple[int, str]] = {}
        self.prelude: tuple[int, Any] | None = None
        self.paid: set[str] = set()
        self.died: set[int] = set()
        self.state: dict[str, Any] = {}
        self.now = -1
        self._opening: Any = None
        self._run: holdfast.Run | None = None

    @property
    def run(self) -> holdfast.Run:
        assert self._run is not None
        return self._run

    @property
    def head(self) -> int:
        journal = self.run._held.journal
        assert journal is not None
        return journal.head

    # -- attempts ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        if self._run is not None:
            return
        self._opening = holdfast.run(self.name, store=self.store, retention=None)
        self._run = self._opening.open()
        before = [self.run.step("config", self.configure), self.run.uuid().hex]
        self.prelude = self.prelude or (self.head, before)
        assert self.prelude[1] == before, "what stands before the restore was made anew"
        fresh: dict[str, Any] = {"i": 0, "acc": [], "pad": "x" * 300}
        self.state = self.run.restore(fresh) if self.restores else fresh
        for i in range(self.state["i"], len(self.ops)):
            self.perform(i)

    def close(self, *, kills: bool) -> None:
        if self._run is None:
            return
        if kills:
            kill(self.run)
        else:
            self.run.close()
        self._opening._reset()
        self._run = None

    def do(self, *op: Any) -> None:
        self.open()
        self.ops.append(op)
        self.perform(len(self.ops) - 1)

    def perform(self, i: int) -> None:
        self.now = i
        kind, *rest = self.ops[i]
        try:
            value = getattr(self, f"op_{kind}")(*rest)
        except (Kill, holdfast.LeaseLost):
            self.close(kills=True)
            self.open()  # which comes to this operation again
            return
        known = self.done.setdefault(i, (self.head, value))
        assert known[1] == value, f"operation {i} {self.ops[i]} was given another value"
        if kind != "checkpoint":
            self.advance(value)

    def advance(self, value: Any) -> None:
        self.state["acc"].append(value)
        self.state["i"] = self.now + 1

    # -- what the steps do -------------------------------------------------------------------------------------

    def configure(self) -> int:
        assert self.prelude is None, "the configuration was read again"
        return next(serial)

    def fetch(self, arg: int) -> str:
        assert self.now not in self.done, f"operation {self.now} {self.ops[self.now]} ran again"
        value = f"{arg} {next(serial)}"
        if True in self.ops[self.now] and self.now not in self.died:
            self.died.add(self.now)
            kill(self.run)
            raise Kill
        return value

    def fetch_anew(self, arg: int) -> int:
        return arg

    def fetch_keyed(self) -> str:
        name = self.ops[self.now][1]
        assert name not in self.keyed, "an explicit key was made again"
        return f"{name} {next(serial)}"

    def outer(self, arg: int) -> list[str]:
        return [self.run.step("inner", self.fetch, arg), self.fetch(arg)]

    def pay(self, arg: int, *, idempotency_key: str = holdfast.KEY) -> str:
        assert self.now not in self.done, "paid twice"
        assert idempotency_key not in self.paid, "one key for two payments"
        self.paid.add(idempotency_key)
        if "saves" in self.ops[self.now]:
            self.run.checkpoint({**self.state, "acc": self.state["acc"][-3:]})
        self.fetch(arg)
        return f"paid by {idempotency_key}"

    def look(self, *, idempotency_key: str) -> holdfast.Done:
        assert idempotency_key in self.paid
        return holdfast.Done(f"paid by {idempotency_key}")

    def fail(self, arg: int) -> None:
        raise ValueError(self.fetch(arg))

    # -- operations --------------------------------------------------------------------------------------------

    def op_read(self, arg: int, _dies: bool) -> Any:
        return self.run.step("read", self.fetch, arg)

    def op_refetch(self, arg: int) -> Any:
        return self.run.options(refetchable=True).step("refetch", self.fetch_anew, arg)

    def op_key(self, name: str) -> Any:
        value = self.run.options(key=name).step("keyed", self.fetch_keyed)
        assert self.keyed.setdefault(name, (self.head, value))[1] == value
        return value

    def op_once(self, arg: int, *_: object) -> Any:
        call_options = treat("once", verify=self.look, settle_s=0)
        return drive(step(self.run._held, BLOCKING, call_options, "pay", self.pay, (arg,), {}))

    def op_fail(self, arg: int) -> Any:
        try:
            self.run.step("fail", self.fail, arg)
        except ValueError as error:
            self.run.discover("it failed, and the program goes on")
            return str(error)
        raise AssertionError("it did not fail")

    def op_nest(self, arg: int) -> Any:
        return self.run.step("nest", self.outer, arg)

    def op_think(self, text: int) -> Any:
        self.run.think(f"thought {text}" + "!" * 20_000 * text)
        self.run.plan([str(text)])
        return text

    def op_draw(self) -> Any:
        return self.run.random()

    def op_say(self, number: int) -> Any:
        self.run.messages.extend([f"{number}.{n}" * (9000 if number == 3 else 1) for n in range(number)])
        if len(self.run.messages) > 4:
            self.run.messages.drop(3)
        return [message[:8] for message in self.run.messages]

    def op_checkpoint(self, label: str | None, pad: int) -> Any:
        self.state["acc"] = self.state["acc"][-3:]
        self.state["pad"] = f"{pad}" * 300
        self.advance(None)
        return self.run.checkpoint(self.state, label=label)

    # -- lineage -----------------------------------------------------------------------------------------------

    def back_to(self, other: "Agent", seq: int) -> None:
        """Know only what was done up to there."""
        self.ops, self.paid, self.died = list(other.ops), set(other.paid), set(other.died)
        self.done = {i: done for i, done in other.done.items() if done[0] <= seq}
        self.keyed = {key: done for key, done in other.keyed.items() if done[0] <= seq}
        self.prelude = other.prelude if other.prelude and other.prelude[0] <= seq else None


class World:
    """One script, on one store."""

    def __init__(self, url: str, *, restores: bool) -> None:
        self.store = holdfast.store(url)
        self.agents = [Agent(self.store, "agent", restores=restores)]
        self.agents[0].open()
        self.pins: list[str] = []

    def act(self, action: tuple[Any, ...]) -> None:
        which, kind, *rest = action
        agent = self.agents[which % len(self.agents)]
        for other in self.agents:
            if other is not agent:
                other.close(kills=False)  # a run that is opened inside another's block would be its child
        if kind == "do":
            agent.do(*rest)
        elif kind == "close":
            agent.close(kills=rest[0])
        else:
            getattr(self, f"act_{kind}")(agent, *rest)

    def act_prune_live(self, agent: Agent, policy: Retention) -> None:
        agent.open()
        before = self.kept(agent)
        held = agent.run._held
        pruner = held.features["pruning"] = Pruner(held, policy)
        pruner.prune()
        assert held.features.get("pruning") is pruner, "the plan would have changed what is kept"
        held.put_to_sleep("pruning")
        self.check_kept(agent, before)

    def act_prune(self, agent: Agent, policy: Retention) -> None:
        for each in self.agents:
            each.close(kills=True)
        before = self.kept(agent)
        foreseen = self.store.prune(agent.name, policy=policy, dry_run=True)
        report = self.store.prune(agent.name, policy=policy)
        assert report.runs == foreseen.runs, "what is printed is what is done"
        assert report.runs[0].outcome in {"pruned", "kept"}, report.runs[0].why
        self.check_kept(agent, before)
        events = self.store.events(agent.name, whole=True)
        assert self.store.prune(agent.name, policy=policy).runs[0].goes == (), "twice is once"
        assert self.store.events(agent.name, whole=True) == events

    def act_fork(self, agent: Agent, place: int) -> None:
        seq = self.choose(agent, place)
        if seq is None or len(self.agents) == 4:
            return
        name = f"fork-{len(self.agents)}"
        self.store.fork(f"{agent.name}@#{seq}", as_=name, effects="again")
        child = Agent(self.store, name, restores=agent.restores)
        child.back_to(agent, seq)
        self.agents.append(child)

    def act_rewind(self, agent: Agent, place: int) -> None:
        agent.close(kills=False)
        seq = self.choose(agent, place)
        if seq is not None:
            self.store.rewind(f"{agent.name}@#{seq}", effects="again")
            agent.back_to(agent, seq)

    def act_pin(self, agent: Agent, place: int) -> None:
        seq = self.choose(agent, place)
        if seq is not None:
            self.pins.append(self.store.pin(f"{agent.name}@#{seq}").place)

    def choose(self, agent: Agent, place: int) -> int | None:
        if agent.prelude is None:
            return None
        raw = self.store.events(agent.name, whole=True)
        live = [event.seq for event in effective(raw) if event.seq > 2 and is_kept(raw, event.seq)]
        return live[place % len(live)] if live else None

    # -- what must not change ----------------------------------------------------------------------------------

    def kept(self, agent: Agent) -> dict[tuple[str, int], Any]:
        """Of every run: the states of its head and labels; and of every pin."""
        found: dict[tuple[str, int], Any] = {}
        for info in self.store.runs():
            raw = self.store.events(info.run, whole=True)
            live = effective(raw)
            labels = {label: event.seq for event in live if (label := self.label_of(event))}
            for seq in {info.head, *labels.values(), *self.pinned(info.run)}:
                found[info.run, seq] = self.state_at(raw, seq)
        return found

    def pinned(self, run: str) -> set[int]:
        return {int(pin.rpartition("#")[2]) for pin in self.pins if pin.startswith(f"{run}@")}

    def label_of(self, event: Event) -> str | None:
        return self.store.content(event).get("label") if event.kind == "checkpoint" else None

    def state_at(self, raw: Sequence[Event], seq: int) -> Any:
        checkpoint = fold(effective(event for event in raw if event.seq <= seq)).checkpoint
        return checkpoint and (checkpoint.seq, self.store.content(checkpoint))

    def check_kept(self, agent: Agent, before: dict[tuple[str, int], Any]) -> None:
        assert self.kept(agent) == before, f"pruning {agent.name} changed what is kept"

    def finish(self) -> Iterator[Any]:
        """Every run comes to its end; what it did, told so that two stores can be compared."""
        for agent in self.agents:
            agent.close(kills=False)
        for agent in self.agents:
            agent.open()
            agent.run.finish(agent.state["i"])
            agent.close(kills=False)
            assert agent.state["i"] == len(agent.ops)
            yield [(e.seq, e.kind, e.name) for e in self.store.events(agent.name, whole=True)]
        stats = self.store.stats()
        yield sorted((tool.name, tool.started, tool.finished, tool.failed) for tool in stats.tools)
        yield [(run.run, len(run.attempts), run.crashes) for run in stats.runs]
        assert not [f for f in self.store.examine() if f.verdict == "failure"]


few = st.integers(0, 1)
deaths = st.sampled_from([False, False, True])
checkpoints = st.tuples(st.just("checkpoint"), st.sampled_from([None, None, None, "a", "b"]), few)
operations = st.one_of(
    *[st.tuples(st.just("read"), few, deaths)] * 2,
    st.tuples(st.just("once"), few, deaths),
    st.tuples(st.just("once"), few, deaths, st.just("saves")),
    st.tuples(st.just("refetch"), few),
    st.tuples(st.just("key"), st.sampled_from(["k0", "k1"])),
    st.tuples(st.just("fail"), few),
    st.tuples(st.just("nest"), few),
    st.tuples(st.just("think"), few),
    st.tuples(st.just("draw")),
    st.tuples(st.just("say"), st.integers(1, 3)),
    *[checkpoints] * 4,
)
keeps = st.sampled_from([Keep(), Keep(), Keep(last=0), Keep(last=1), Keep(last=3)])
# Not st.builds: it would make up ages, too, and what is old enough would depend on when it is looked at.
policies = st.tuples(keeps, st.integers(0, 2), keeps, st.sampled_from([0, 0, 0, 5, None])).map(
    lambda drawn: Retention(
        reasoning=drawn[0],
        checkpoints=Keep(last=drawn[1]),
        refetchable=drawn[2],
        compact_events=drawn[3],
    )
)
events = st.one_of(
    *[st.tuples(st.just("close"), st.booleans())] * 2,
    *[st.tuples(st.sampled_from(["prune", "prune_live"]), policies)] * 3,
    *[st.tuples(st.sampled_from(["fork", "rewind", "pin"]), st.integers(0, 60))] * 2,
)
bursts = st.tuples(
    st.sampled_from([0, 0, 1, 2]), st.lists(operations.map(lambda op: ("do", *op)), max_size=6), events
)


def script_of(parts: Sequence[tuple[int, list[Any], Any]]) -> list[tuple[Any, ...]]:
    return [(which, *action) for which, ops, event in parts for action in (*ops, event)]


scripts = st.lists(bursts, max_size=9).map(script_of)


def play(url: str, script: Sequence[tuple[Any, ...]], *, restores: bool) -> list[Any]:
    world = World(url, restores=restores)
    try:
        for action in script:
            world.act(action)
        return list(world.finish())
    finally:
        for agent in world.agents:
            agent.close(kills=True)
        world.store.close()


ALL_BUT_NOTHING = Retention(checkpoints=Keep(last=0), compact_events=0)


@example(
    # Found: one event between a label and a fork's point was not worth compacting, and the base before both, from which
    # the fork went on, had dropped the counts that it needed.
    script=[
        (0, "do", "read", 1, False),
        (0, "do", "checkpoint", "a", 0),
        (0, "do", "once", 0, False, "saves"),
        (0, "fork", 12),
        (1, "do", "read", 1, False),
        (1, "close", False),
        (0, "prune", ALL_BUT_NOTHING),
    ],
    restores=True,
)
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts, restores=st.sampled_from([True, True, False]))
def test_pruning_changes_nothing_that_is_kept(script: list[tuple[Any, ...]], restores: bool) -> None:
    """Kept views, values, states and effects are as they were, whatever is pruned, crashed, forked and rewound."""
    play(f"memory://{uuid4().hex}", script, restores=restores)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts)
def test_both_stores_come_to_the_same(script: list[tuple[Any, ...]]) -> None:
    """The same script on memory and on SQLite: the same journals, and the same numbers."""
    with TemporaryDirectory() as directory:
        on_disk = play(f"sqlite:///{directory}/holdfast.db", script, restores=True)
    assert play(f"memory://{uuid4().hex}", script, restores=True) == on_disk
