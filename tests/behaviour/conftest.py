"""What the behaviour tests share: a fresh store for each test, of each kind that this run tests, and a clock to set."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.loop_watch import watch
from tests.support.stores import behaviour_stores, is_of_another_third

import holdfast
from holdfast.engine.journal.group_commit import Committer, Ticket
from holdfast.engine.run.store_session import session_of
from holdfast.engine.sync_async import AsyncRuntime, BlockingRuntime, drive
from holdfast.model.event_fields import contents_of, lines_of
from holdfast.model.event_schema import problems_in, schema_of
from holdfast.model.store_rows import Append
from holdfast.stores.url import find_open, open_store


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On the persistent store, a third of the tests; ``make crash`` has all of them on each."""
    left_out = []
    for item in items:
        store = (
            item.callspec.params.get("url")
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else None
        )
        if (
            isinstance(store, str)
            and "tests/behaviour/" in item.nodeid
            and is_of_another_third(item.nodeid, store)
        ):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {*left_out}
        items[:] = [item for item in items if item not in gone]


@pytest.fixture(params=behaviour_stores())
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh store of each kind that this run tests; every rule holds on all."""
    if request.param == "postgres":
        place = request.getfixturevalue("postgres_url")
    elif request.param == "dynamodb":
        from tests.support.aws.server import table_for

        place = table_for(f"behaviour-{uuid4().hex}").url
    elif request.param == "sqlite":
        place = f"sqlite:///{tmp_path}/holdfast.db"
    else:
        place = f"memory://{uuid4().hex}"
    if request.param == "encrypted":
        request.getfixturevalue("monkeypatch").setenv("HOLDFAST_KEY", "5e" * 32)
    yield place
    if find_open(place):  # before its schema is dropped
        holdfast.store(place).close()


@pytest.fixture(autouse=True)
def _schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a rule test lets a run record is as the schema of its kind says, our fields apart from the user's data."""
    submit = Committer.submit

    def checked(self: Committer, item: Append, *, is_alone: bool = False, epoch: int = 0) -> Ticket:
        for event in item.events:
            assert lines_of(event.body) is not None, event
            assert problems_in(event) == [], event
            schema = schema_of(event)
            assert schema is not None, event
            known = {*schema.fields, *schema.parts}
            known |= {f"{name}_{end}" for name in schema.parts for end in ("blob", "bytes")}
            assert contents_of(event.body).keys() <= known, event
        return submit(self, item, is_alone=is_alone, epoch=epoch)

    monkeypatch.setattr(Committer, "submit", checked)


@pytest.fixture(scope="module", autouse=True)
def _watched_loops() -> Iterator[list[str]]:
    """Once for a module: it wraps each verb of two stores, which takes longer than many a test."""
    with pytest.MonkeyPatch.context() as patch:
        yield watch(patch)


@pytest.fixture(autouse=True)
def _free_loops(_watched_loops: list[str]) -> Iterator[None]:
    """Whatever a behaviour test lets an async run do, no verb of a store holds its event loop."""
    _watched_loops.clear()
    yield
    assert _watched_loops == []


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    monkeypatch.delenv("HOLDFAST_RUN", raising=False)


class Counter:
    """A function that counts its calls, for telling a replay from a run."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def __call__(self, value: object = None) -> object:
        self.calls.append(value)
        return value


@pytest.fixture
def counter() -> Counter:
    return Counter()


class SetClock:
    """A clock that moves only when somebody waits on it, or sets it. ``jump`` moves the wall clock alone."""

    def __init__(self) -> None:
        self.at = 1_000_000.0
        self.passed = 0.0
        self.naps: list[float] = []
        self.on_nap: Callable[[], object] | None = None
        """Called in the middle of each wait, before its time has passed."""

    def wall(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.passed += seconds

    def jump(self, seconds: float) -> None:
        self.at += seconds

    async def listen(self, *waiting: Any) -> None:
        """In place of the hands' own: time passes at once."""
        seconds = waiting[-1]
        self.naps.append(seconds)
        if self.on_nap is not None:
            self.on_nap()
        self.sleep(seconds)


@pytest.fixture
def clock(url: str, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """The clock of this test's store; nobody really waits."""
    made = SetClock()
    session_of(open_store(url), clock=made)
    for runtime in (BlockingRuntime, AsyncRuntime):
        monkeypatch.setattr(runtime, "listen", staticmethod(made.listen))
    return made


class Awaited:
    """A ``Run`` whose methods are awaited: one body of a test for both handles."""

    def __init__(self, run: holdfast.Run) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._run, name)
        if name in {"id", "status", "attempt"}:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return found(*args, **kwargs)

        return (lambda **kw: Awaited(found(**kw))) if name == "options" else call


Body = Callable[[Any], Coroutine[Any, Any, Any]]
Play = Callable[..., Any]


@pytest.fixture(params=["blocking", "awaiting"])
def mode(request: pytest.FixtureRequest) -> str:
    """How the run of this test is entered."""
    return str(request.param)


@pytest.fixture
def play(mode: str, url: str) -> Play:
    """Enter run ``r`` and run the body in it, with each of the two handles; what the body returned."""

    def blocking(body: Body, **options: Any) -> Any:
        with holdfast.run("r", store=url, **options) as run:
            return drive(body(Awaited(run)))

    async def awaiting(body: Body, **options: Any) -> Any:
        async with holdfast.run("r", store=url, **options) as run:
            return await body(run)

    def play_one(body: Body, **options: Any) -> Any:
        if mode == "blocking":
            return blocking(body, **options)
        return asyncio.run(awaiting(body, **options))

    return play_one
