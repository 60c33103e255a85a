"""The world outside of the runs that are crossed: what really happened there, and people who answer and resolve.

A program is written once, as an ``async def``. It works through the blocking facade, the async one, an agent, or a worker.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, chdir, contextmanager
from pathlib import Path
from typing import Any, Literal, cast
from uuid import uuid4

import holdfast
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.engine.sync_async import drive
from holdfast.model.events import COVERING, covers_from
from holdfast.model.handoff import Loss
from holdfast.model.store_rows import RUN_SPACES
from holdfast.stores.in_memory_rows import memory_tables

Body = Callable[["World", holdfast.AsyncRun], Coroutine[Any, Any, Any]]
Facade = Literal["sync", "async", "agent", "worker"]
ANSWER = "yes"
IDLE_S = 120.0
ROUNDS_MAX = 9
LEFT = "left"
"""What a program returned that stopped for a person, and did not go on."""


class Stop(Exception):
    """Ends an attempt in the middle, as far as the journal knows."""


async def _nothing(world: "World", run: holdfast.AsyncRun) -> None:
    """A program that does nothing."""


class _Awaitable:
    """A blocking handle whose methods can be awaited: they are done when they return."""

    def __init__(self, blocking: Any) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blocking, name)
        if name == "messages":
            return _Awaitable(found)
        if name == "options":
            return lambda **options: _Awaitable(found(**options))
        if name == "open":
            return lambda *args, **kwargs: _opened(found, *args, **kwargs)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            return _is(found(*args, **kwargs))

        return call

    def __iter__(self) -> Any:
        return iter(self._blocking)


async def _is(value: Any) -> Any:
    return value


@asynccontextmanager
async def _opened(opens: Callable[..., Any], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    with opens(*args, **kwargs) as file:
        yield file


def awaitable(run: holdfast.Run) -> holdfast.AsyncRun:
    """The blocking run, for a program that awaits."""
    return cast("holdfast.AsyncRun", _Awaitable(run))


def new_url(kind: str, directory: Path) -> str:
    """The URL of a new store: ``memory``, or ``sqlite`` in this directory."""
    if kind == "memory":
        return f"memory://{uuid4().hex}"
    directory.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{directory}/holdfast.db"


@holdfast.agent(name="crossed")
def crossed(run: holdfast.Run, key: str) -> Any:
    """The program of a world, as an agent: a worker knows it by name, and its input names the world."""
    world, body, stops = _WORKED[key]
    result = drive(body(world, awaitable(run)))
    if stops:
        raise Stop
    return result


_WORKED: dict[str, tuple["World", Body, bool]] = {}
"""By key: a world, its program, and whether an attempt ends before the run is finished."""


def check_provenance(store: holdfast.Store) -> None:
    """Every fact of a run of this store names an event that is there, or that is known to be compacted."""
    names = {info.run for info in store.runs(limit=1_000)}
    for fact in store.memory.list():
        if fact.run in names and fact.event:
            shown = store.events(store.run_with(fact.run, fact.event), whole=True)
            ranges = [(covers_from(one) if one.kind in COVERING else one.seq, one.seq) for one in shown]
            assert any(first <= fact.event <= last for first, last in ranges), fact


class World:
    """The stores of one case, and what happened outside of them."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.store = self.open(url)
        self.directory = directory
        self.done: Counter[str] = Counter()
        """How often each outside thing was done: effects, paid calls, files."""
        self.broken: set[str] = set()
        """Effects that break off in the middle, once."""
        self.files = 0
        self.body: Body = _nothing
        """The program of this world."""
        self.repeats = False
        """Whether the operation was killed before, and is repeated."""
        self.listed: list[str] = []
        """What the last fork or rewind listed as effects behind its point."""
        self.losses: tuple[Loss, ...] = ()
        """What the last handoff could not carry over."""

    def open(self, url: str) -> holdfast.Store:
        """The store at this URL."""
        return holdfast.store(url)

    @contextmanager
    def unless_done(self, *refused: type[Exception]) -> Iterator[None]:
        """A repeated operation may find that a part of it is done; then it is refused, by name."""
        try:
            yield
        except refused:
            if not self.repeats:
                raise

    def other_store(self) -> holdfast.Store:
        """Another new store, of the same kind."""
        self.files += 1
        kind = self.url.partition(":")[0]
        directory = self.directory / f"store {self.files}"
        return self.open(f"{self.url}-{self.files}" if kind == "memory" else new_url(kind, directory))

    def file(self) -> Path:
        """A new name for an export."""
        self.files += 1
        return self.directory / f"{self.files}.holdfast"

    def happen(self, what: str, key: str = "") -> str:
        """Do something outside under this key, and say so."""
        del key
        self.done[what] += 1
        if what in self.broken:
            self.broken.discard(what)
            raise ConnectionError(f"the line broke at {what}")
        return f"{what} is done"

    def enter(
        self, run: str, body: Body, store: holdfast.Store | None = None, facade: Facade = "sync"
    ) -> Any:
        """Let the program work in this run until it stops for nobody; what it returned. People do what they are asked.

        The run stays unfinished, unless a worker works on it.
        """
        place = store or self.store
        for _ in range(ROUNDS_MAX):
            given: list[Any] = []
            try:
                if facade == "worker":
                    if self._serve(run, body, place):
                        return crossed.run(run, self.url, store=place)
                    self.answer_all(run, place)
                else:
                    self._attempt(run, body, place, facade, given)
            except Stop:
                return given[0]
            except holdfast.StepInDoubt as doubt:
                if not self.hear(place, doubt.run, doubt.key, 0):
                    return LEFT
                place.resolve(doubt.run, doubt.key, "done", value=f"{doubt.step} is done")
                if not self.goes_on():
                    return LEFT
            except holdfast.AwaitingAnswer as waiting:
                asked = place.find_question(waiting.run, waiting.question)
                if not self.hear(place, waiting.run, asked.key, asked.seq):
                    return LEFT
                place.answer(waiting.run, ANSWER)
                if not self.goes_on():
                    return LEFT
            except holdfast.AwaitingMessage:
                return "waits for a message"
        raise AssertionError(f"run {run} is asked about without end")

    def _attempt(self, run: str, body: Body, place: holdfast.Store, facade: Facade, given: list[Any]) -> None:
        async def attempt() -> None:
            async with holdfast.run(run, store=place, workspace=self.directory) as entered:
                given.append(await body(self, entered))
                raise Stop

        async def noted(world: World, entered: holdfast.AsyncRun) -> None:
            given.append(await body(world, entered))

        if facade == "async":
            asyncio.run(attempt())
        elif facade == "agent":
            _WORKED[self.url] = (self, noted, True)
            with chdir(self.directory):
                crossed.run(run, self.url, store=place)
        else:
            with holdfast.run(run, store=place, workspace=self.directory) as entered:
                given.append(drive(body(self, awaitable(entered))))
                raise Stop

    def _serve(self, run: str, body: Body, place: holdfast.Store) -> bool:
        """Submit the run to a worker, and let it do all that is due; whether the run is finished."""
        _WORKED[self.url] = (self, body, False)
        place.submit("crossed", run)
        with chdir(self.directory), holdfast.worker(crossed, store=place) as worker:
            assert worker.wait_idle(IDLE_S)
        return place.get(run).status == "finished"

    def hear(self, place: holdfast.Store, run: str, key: str, seq: int) -> bool:
        """A person is asked about this call of this run, by this event if it is a question; whether they speak."""
        return True

    def goes_on(self) -> bool:
        """Whether the run is entered again as soon as people have spoken; or their words wait unread."""
        return True

    def answer_all(self, run: str, place: holdfast.Store) -> None:
        """People do what this run and its children ask them."""
        for each in (info.run for info in place.runs() if info.run.partition("/")[0] == run):
            for doubt in place.doubts(each):
                if doubt.pending is None:
                    place.resolve(each, doubt.key, "done", value=f"{doubt.step} is done")
            for asked in place.questions(each):
                if asked.pending is None:
                    place.answer(each, ANSWER)
            for premise in PREMISES.of(
                place.view(each)
            ):  # an agent has no workspace, where a change is a warning
                place.accept_premise(each, premise)

    def traces(self, run: str) -> list[str]:
        """What the bare tables of the first store still have of this run and its children."""
        tables = memory_tables(self.url.partition("://")[2])
        names = [*tables.runs, *tables.events, *(space.partition("/")[2] for space in tables.records)]
        for space in RUN_SPACES:
            names += [key.partition("@")[0] for key in tables.records.get(space, ())]
        return [name for name in names if name == run or name.startswith(f"{run}/")]

    def contents(self) -> set[str]:
        """Names of all that the first store has: runs, events, contents, records."""
        tables = memory_tables(self.url.partition("://")[2])
        return {
            *(f"run {run}" for run in tables.runs),
            *(f"{run}@#{event.seq}" for run, events in tables.events.items() for event in events),
            *tables.blobs,
            *(f"{space} {key}" for space, records in tables.records.items() for key in records),
        }
