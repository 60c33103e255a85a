"""Workers in one process: what they take, what they leave alone, and what becomes of it.

Planted once in a copy, and caught here: the claim that does not enter under its own lease; a letter that does not call up
its run; a parked run that is due at once; inputs compared without the agent's defaults; an ended child that tells nobody; the
flag of a drain that the next call does not look at; a run that was refused and stays due.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from tests.behaviour.conftest import SetClock

import holdfast
from holdfast.api.worker import Report, Worker
from holdfast.engine.queue.agent_registry import agents
from holdfast.engine.queue.claim import Claims
from holdfast.engine.run.store_session import session_of
from holdfast.errors import StoreUnavailable
from holdfast.model.store_rows import RunRow
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay
from holdfast.testing.store_rules.builders import a_run

IDLE_S = 120.0


@pytest.fixture(autouse=True)
def _own_agents() -> Iterator[None]:
    """Agents that a test declares are forgotten with it."""
    before = dict(agents)
    agents.clear()
    yield
    agents.clear()
    agents.update(before)


@pytest.fixture
def store(url: str) -> holdfast.Store:
    return holdfast.store(url)


Serve = Callable[..., list[Report]]


@pytest.fixture
def serve(url: str) -> Serve:
    """Let a worker do all that is due; what it told, without the banner."""

    def until_idle(*serving: Any, **options: Any) -> list[Report]:
        told: list[Report] = []
        with holdfast.worker(*serving, store=url, tell=told.append, **options) as worker:
            assert worker.wait_idle(IDLE_S), told
        return [report for report in told if report.what not in {"started", "draining"}]

    return until_idle


def ends(told: list[Report]) -> dict[str, str]:
    """How each run ended, last."""
    return {report.run: report.what for report in told if report.what != "took"}


def test_a_submitted_run_is_run_once_with_its_inputs(url: str, store: holdfast.Store, serve: Serve) -> None:
    """As the values that they were; submitted again it stays as it is."""
    calls: list[Any] = []

    @holdfast.agent("adder")
    def adder(run: holdfast.Run, numbers: tuple[int, ...], *, times: int = 2) -> int:
        calls.append(numbers)
        return run.step("sum", sum, numbers) * times

    assert adder.submit("a", (1, 2, 3), store=url)
    assert store.get("a").status == "queued"
    assert not adder.submit("a", (1, 2, 3), store=url)
    assert ends(serve(adder)) == {"a": "finished"}
    assert calls == [(1, 2, 3)]
    assert adder.run("a", (1, 2, 3), store=url) == 12
    assert not adder.submit("a", (1, 2, 3), store=url)
    assert serve(adder) == []
    assert calls == [(1, 2, 3)]


def test_whoever_submits_by_name_need_not_know_the_defaults(
    url: str, store: holdfast.Store, serve: Serve
) -> None:
    """The agent's own call, which has them, is about the same run."""

    @holdfast.agent("greeter")
    def greeter(name: str, greeting: str = "hello") -> str:
        return f"{greeting} {name}"

    assert store.submit("greeter", "g", {"name": "Ada"})
    with pytest.raises(holdfast.InputsChanged):
        store.submit("greeter", "g", {"name": "Bob"})
    with pytest.raises(holdfast.InputsChanged):
        store.submit("other", "g")
    with pytest.raises(holdfast.InputsChanged):
        greeter.run("g", "Ada", greeting="bye", store=url)
    assert ends(serve()) == {"g": "finished"}
    assert greeter.run("g", "Ada", store=url) == "hello Ada"


def test_a_fork_an_import_and_a_handoff_of_a_workers_run_can_be_submitted(
    url: str, store: holdfast.Store, serve: Serve, tmp_path: Path
) -> None:
    """They wait for a program or for ``submit``, which says that it queues them; a worker ends them as themselves.

    Errors name the run that was asked for.
    """

    @holdfast.agent("auditor")
    def auditor(run: holdfast.Run, n: int) -> int:
        run.checkpoint({"n": n}, label="half")
        if run.id == "job" and not run.replaying:
            raise KeyError
        return run.step("add", lambda: n + 1)

    auditor.submit("job", 5, store=url)
    assert ends(serve(auditor)) == {"job": "failed"}
    store.fork("job@half", as_="fork")
    store.export("job", tmp_path / "x")
    store.import_(tmp_path / "x", as_="import")
    store.accept(store.handoff("job"), as_="taker")
    waiting = ("fork", "import", "taker")
    assert serve(auditor) == [], "no worker takes them by itself"
    for run in waiting:
        with pytest.raises(holdfast.InputsChanged, match=f"run {run} was"):
            store.submit("auditor", run, {"n": 6})
        assert store.submit("auditor", run), run
        assert not store.submit("auditor", run), "it is queued already"
    assert ends(serve(auditor)) == dict.fromkeys(waiting, "finished")
    assert [store.get(run).status for run in ("job", *waiting)] == ["failed", *["finished"] * 3]


def test_a_handoff_of_a_workers_run_is_for_the_agent_that_it_names(
    store: holdfast.Store, serve: Serve
) -> None:
    """Else a letter to the taker would give it to a worker of the giver. A program's handoff is for no worker."""

    @holdfast.agent("auditor")
    def auditor(run: holdfast.Run) -> None:
        raise KeyError

    store.submit("auditor", "job")
    serve(auditor)
    store.accept(store.handoff("job", to="writer"), as_="writing")
    with pytest.raises(holdfast.InputsChanged, match="writer"):
        store.submit("auditor", "writing")
    assert store.submit("writer", "writing")
    with holdfast.run("plain", store=store):
        pass
    store.accept(store.handoff("plain", to="writer"), as_="second")
    with pytest.raises(holdfast.InputsChanged, match="agent"):
        store.submit("writer", "second")


def test_large_inputs_are_the_same_inputs_when_they_come_back(url: str, serve: Serve) -> None:
    """They lie beside the journal, and are compared and given all the same."""

    @holdfast.agent("reader")
    def reader(text: str) -> int:
        return len(text)

    text = uuid4().hex * 20_000
    assert reader.submit("r", text, store=url)
    assert not reader.submit("r", text, store=url)
    assert ends(serve()) == {"r": "finished"}
    assert reader.run("r", text, store=url) == len(text)


def test_other_agents_and_plain_runs_are_left_alone(url: str, store: holdfast.Store, serve: Serve) -> None:
    """Also a plain run that was interrupted: no worker knows its program."""

    @holdfast.agent("mine")
    def mine() -> None: ...

    @holdfast.agent("theirs")
    def theirs() -> None: ...

    theirs.submit("t", store=url)
    with pytest.raises(KeyboardInterrupt), holdfast.run("plain", store=url):
        raise KeyboardInterrupt
    assert serve(mine) == []
    assert store.get("t").status == "queued"
    assert ends(serve(mine, theirs)) == {"t": "finished"}


def test_a_failure_stays_until_it_is_submitted_again(url: str, store: holdfast.Store, serve: Serve) -> None:
    """Then the run goes on where it was: what had been recorded is not done again."""
    done: list[str] = []
    broken = [True]

    @holdfast.agent("fragile")
    def fragile(run: holdfast.Run) -> str:
        run.step("first", done.append, "first")
        if broken:
            raise ValueError("no way")
        return "through"

    fragile.submit("f", store=url)
    (_, failed) = serve()
    assert (failed.what, failed.text) == ("failed", "ValueError: no way")
    assert serve() == []
    broken.clear()
    assert fragile.submit("f", store=url)
    assert ends(serve()) == {"f": "finished"}
    assert done == ["first"]
    assert len(store.view("f").attempts) == 2


def test_a_run_that_sleeps_comes_back_in_time(url: str, serve: Serve) -> None:
    """And holds no place in the worker meanwhile."""

    @holdfast.agent("sleeper")
    def sleeper(run: holdfast.Run) -> str:
        run.sleep(0.2, wait_s=0)
        return "rested"

    sleeper.submit("s", store=url)
    told: list[Report] = []
    rested = Event()

    def tell(report: Report) -> None:
        told.append(report)
        if report.what == "finished":
            rested.set()

    with holdfast.worker(store=url, tell=tell):
        assert rested.wait(IDLE_S)
    assert [report.what for report in told if report.run] == ["took", "parked", "took", "finished"]


@pytest.mark.parametrize("answered", ["before it parks", "after"])
def test_an_answer_wakes_the_run(url: str, store: holdfast.Store, serve: Serve, answered: str) -> None:
    """Whenever it comes: also in the moment between the last look into the inbox and the end of the attempt."""

    @holdfast.agent("asker")
    def asker(run: holdfast.Run) -> bool:
        try:
            return run.ask("Go on?", returns=bool)
        except holdfast.AwaitingAnswer:
            if answered == "before it parks":
                store.answer("q", True)
            raise

    asker.submit("q", store=url)
    told = serve()
    if answered == "after":
        assert ends(told) == {"q": "parked"}
        assert serve() == []
        store.answer("q", True)
        told = serve()
    assert ends(told) == {"q": "finished"}
    assert asker.run("q", store=url) is True


def test_what_was_in_doubt_goes_on_when_it_is_settled(url: str, store: holdfast.Store, serve: Serve) -> None:
    """Nobody has to start anything."""

    @holdfast.agent("payer")
    def payer(run: holdfast.Run) -> str:
        def pay() -> str:
            raise ConnectionError

        return run.once("pay", pay)

    payer.submit("p", store=url)
    assert ends(serve()) == {"p": "in_doubt"}
    assert serve() == []
    store.resolve("p", "pay", "done", value="receipt")
    assert ends(serve()) == {"p": "finished"}
    assert payer.run("p", store=url) == "receipt"


def test_a_cancelled_run_leaves_the_queue(url: str, store: holdfast.Store, serve: Serve) -> None:
    """It is not run, and nobody is told of it again."""

    @holdfast.agent("never")
    def never() -> None:
        raise AssertionError("it was cancelled")

    never.submit("n", store=url)
    store.cancel("n")
    assert serve() == []
    row = open_store(url).find_run("n")
    assert row is not None
    assert (row.status, row.due_at, row.lease.owner) == ("cancelled", None, "")


def test_a_run_that_cannot_be_entered_is_not_tried_for_ever(
    url: str, store: holdfast.Store, serve: Serve
) -> None:
    """Inputs that the agent does not take are told, and it waits until somebody calls it up."""

    @holdfast.agent("strict")
    def strict(wanted: int) -> int:
        return wanted

    store.submit("strict", "x", {"wanted": 1, "other": 1})
    told = serve()
    assert [report.what for report in told] == ["took", "refused"]
    assert "other" in told[-1].text
    assert serve() == []
    assert store.get("x").status == "failed"


@pytest.mark.parametrize(("error", "is_due"), [(holdfast.Corrupt, True), (holdfast.RunSealed, False)])
def test_a_run_that_cannot_be_entered_is_put_off(
    url: str, store: holdfast.Store, serve: Serve, monkeypatch: pytest.MonkeyPatch, error: Any, is_due: bool
) -> None:
    """For a while, if the store was the reason; else until somebody calls it up. It is held by nobody meanwhile."""

    @holdfast.agent("any")
    def any_() -> None: ...

    any_.submit("x", store=url)

    def refuse(*_: Any) -> Any:
        raise error(store="s", problem="p", run="x", where="w", advice="")

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.engine.run.open.load", refuse)
        patched.setattr(
            "holdfast.api.worker._PUT_OFF_S", 3600.0
        )  # on a busy machine the usual ten seconds passed before the next look
        assert len(serve()) == 2
        assert serve() == []
    row = open_store(url).find_run("x")
    assert row is not None
    assert (row.due_at is not None, row.status, row.lease.owner) == (is_due, "queued", "")
    assert row.due_at is None or row.due_at > store.now()
    store.submit("any", "x")
    assert ends(serve()) == {"x": "finished"}


def test_a_run_is_not_begun_again_before_it_is_put_off(
    url: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entering it failed and gave the lease back: the worker claims it once more before it is put off."""

    @holdfast.agent("any")
    def any_() -> None: ...

    any_.submit("x", store=url)
    claimed, put_off, take = [], Worker._put_off, Claims.take
    is_claimed_again = Event()

    def refuse(*_: Any) -> Any:
        raise holdfast.RunSealed(store="s", problem="p", run="x", where="w", advice="")

    def noted_take(self: Claims, *args: Any) -> Any:
        rows = take(self, *args)
        claimed.extend(rows)
        if len(claimed) > 1:
            is_claimed_again.set()
        return rows

    def late_put_off(self: Worker, *args: Any) -> None:
        assert is_claimed_again.wait(60)
        put_off(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.engine.run.open.load", refuse)
        patched.setattr(Claims, "take", noted_take)
        patched.setattr(Worker, "_put_off", late_put_off)
        assert [report.what for report in serve(concurrency=2)] == ["took", "refused"]
    row = open_store(url).find_run("x")
    assert row is not None
    assert (row.due_at, row.lease.owner) == (None, "")


def test_a_run_is_put_off_also_in_the_middle_of_a_claim(
    url: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has given the run to this worker again, and the worker does not know that yet.

    Seen before: it took that for another worker's claim, did not put the run off, and tried it once more.
    """

    @holdfast.agent("any")
    def any_() -> None: ...

    any_.submit("x", store=url)
    claims: list[Any] = []
    put_off, take, done = Worker._put_off, Claims.take, Worker._done
    is_claimed_again, is_over = Event(), Event()

    def refuse(*_: Any) -> Any:
        raise holdfast.RunSealed(store="s", problem="p", run="x", where="w", advice="")

    def slow_take(self: Claims, *args: Any) -> Any:
        rows = take(self, *args)
        claims.extend(rows)
        if rows and len(claims) > 1:
            is_claimed_again.set()
            is_over.wait(0.3)  # the first attempt must not end meanwhile: it waits until this claim is known
        return rows

    def late_put_off(self: Worker, *args: Any) -> None:
        assert is_claimed_again.wait(60)
        put_off(self, *args)

    def noted_done(self: Worker, *args: Any, **kwargs: Any) -> None:
        done(self, *args, **kwargs)
        is_over.set()

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.engine.run.open.load", refuse)
        patched.setattr(Claims, "take", slow_take)
        patched.setattr(Worker, "_put_off", late_put_off)
        patched.setattr(Worker, "_done", noted_done)
        assert [report.what for report in serve(concurrency=2)] == ["took", "refused"]


@pytest.mark.parametrize("mode", ["blocking", "awaiting"])
def test_children_run_in_the_queue(url: str, store: holdfast.Store, serve: Serve, mode: str) -> None:
    """The parent parks meanwhile, so one place is enough for both; each child runs once."""
    ran: list[str] = []

    @holdfast.agent("child")
    def child(name: str) -> str:
        ran.append(name)
        return name.upper()

    if mode == "blocking":

        @holdfast.agent("parent")
        def parent(run: holdfast.Run) -> str:
            first = run.child("one", child, "a", queue=True)
            return str(first + run.child("two", "child", name="b", queue=True))
    else:

        @holdfast.agent("parent")
        async def parent(run: holdfast.AsyncRun) -> str:
            first = await run.child("one", child, "a", queue=True)
            return str(first + await run.child("two", "child", name="b", queue=True))

    store.submit("parent", "p")
    told = serve(concurrency=1)
    assert ends(told) == {"p": "finished", "p/one": "finished", "p/two": "finished"}
    assert ran == ["a", "b"]
    with holdfast.run("p", store=url) as run:
        assert run.result == "AB"
    assert open_store(url).scan_records("inbox/p", limit=5) == []


def test_a_child_that_fails_is_told_and_tried_again_with_its_parent(
    url: str, store: holdfast.Store, serve: Serve
) -> None:
    """An ordinary error in the parent; when that is tried again, so is the child."""
    broken = [True]

    @holdfast.agent("child")
    def child() -> str:
        if broken:
            raise ValueError("not today")
        return "done"

    @holdfast.agent("parent")
    def parent(run: holdfast.Run) -> str:
        return str(run.child("one", child, queue=True))

    parent.submit("p", store=url)
    told = serve()
    assert ends(told) == {"p": "failed", "p/one": "failed"}
    assert "ValueError: not today" in told[-1].text
    broken.clear()
    assert parent.submit("p", store=url)
    assert ends(serve()) == {"p": "finished", "p/one": "finished"}
    with pytest.raises(holdfast.Misuse, match="by name"), holdfast.run("q", store=url) as run:
        run.child("c", "child", 1, queue=True)


def test_a_drained_run_stops_at_its_next_call_and_goes_on_elsewhere(
    url: str, store: holdfast.Store, serve: Serve
) -> None:
    """What had begun is recorded; it is due at once, for another worker."""
    inside, go_on = Event(), Event()
    done: list[str] = []

    def slow(name: str) -> str:
        if not done:
            inside.set()
            assert go_on.wait(IDLE_S)
        done.append(name)
        return name

    @holdfast.agent("long")
    def long(run: holdfast.Run) -> str:
        first = run.options(key="one").step("slow", slow, "one")
        return str(first + run.options(key="two").step("slow", slow, "two"))

    long.submit("l", store=url)
    told: list[Report] = []
    with holdfast.worker(store=url, tell=told.append) as worker:
        assert inside.wait(IDLE_S)
        worker.drain()
        go_on.set()
    assert told[-1].what == "interrupted"
    assert done == ["one"]
    assert store.get("l").status == "interrupted"
    assert ends(serve()) == {"l": "finished"}
    assert done == ["one", "two"]


def test_a_worker_embeds_in_a_service(url: str) -> None:
    """Async agents run in the service's own loop, several at a time."""
    at_once, most = [0], [0]
    all_there: list[asyncio.Event] = []

    @holdfast.agent("polite")
    async def polite(run: holdfast.AsyncRun, n: int) -> int:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        if most[0] == 3:
            all_there[0].set()
        await all_there[0].wait()  # there come as many as there may be; the worker waits for IDLE_S
        at_once[0] -= 1
        assert asyncio.get_running_loop() is loop[0]
        return await run.step("double", lambda: n * 2)

    loop: list[Any] = []

    async def service() -> None:
        loop.append(asyncio.get_running_loop())
        all_there.append(asyncio.Event())
        for n in range(6):
            polite.submit(f"r{n}", n, store=url)
        async with holdfast.worker(polite, store=url, concurrency=3) as worker:
            assert await asyncio.to_thread(worker.wait_idle, IDLE_S)

    asyncio.run(service())
    assert most == [3]
    assert [polite_result(url, n) for n in range(6)] == [n * 2 for n in range(6)]


def polite_result(url: str, n: int) -> Any:
    with holdfast.run(f"r{n}", store=url) as run:
        return run.result


def test_misuse_is_told_before_anything_is_claimed(url: str) -> None:
    """No agents, unknown ones, no room, started twice."""
    with pytest.raises(holdfast.Misuse, match="none is declared"):
        holdfast.worker(store=url)

    @holdfast.agent("one")
    def one() -> None: ...

    with pytest.raises(holdfast.Misuse, match="no agent 'two'"):
        holdfast.worker("two", store=url)
    with pytest.raises(holdfast.Misuse, match="concurrency=0"):
        holdfast.worker(store=url, concurrency=0)
    with holdfast.worker(store=url) as worker, pytest.raises(holdfast.Misuse, match="started before"):
        worker.start()


def test_silence_is_measured_by_the_watchers_own_clock(url: str, clock: Any, store: holdfast.Store) -> None:
    """A lease is taken over when its beat has stood still for ``lease_s``, whatever the wall clocks say; a beat begins anew."""
    port = open_store(url)
    port.create_run(a_run("r", agent="auditor"))
    held = port.acquire("r", at=clock.wall() - 1e6, lease_s=30.0).lease
    claims = Claims(store._session, ["auditor"])
    clock.jump(1e6)
    assert claims.take(5, lambda: ()) == []
    clock.sleep(20)
    assert port.renew({"r": held.fence}, at=0.0) == frozenset()
    assert claims.take(5, lambda: ()) == []
    clock.sleep(29)
    assert claims.take(5, lambda: ()) == []
    clock.sleep(31)
    assert claims.take(5, lambda: ("r",)) == [], "it is this worker's own"
    clock.sleep(31)
    assert claims.take(5, lambda: ()) == []
    clock.sleep(31)
    (taken,) = claims.take(5, lambda: ())
    assert (taken.run, taken.lease.fence) == ("r", held.fence + 1)


class Failing(Relay):
    """A store of which one call fails."""

    at = 0

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.at -= 1
        if self.at == 0:
            raise StoreUnavailable(store=self.url, problem=f"{verb.__name__} failed")
        return super().pass_on(verb, *args, **kwargs)


def test_no_run_is_held_and_forgotten_when_the_store_fails_between_two_takeovers() -> None:
    """At each call of a claim: what was taken by then is returned or released, and the rest is left to the next."""
    names, at = {"r0", "r1", "r2"}, 0
    partly = False
    failed = True
    while failed:
        at += 1
        port, clock = Failing(MemoryStore(uuid4().hex)), SetClock()
        for name in names:
            port.create_run(a_run(name, agent="auditor"))
            port.acquire(name, at=0.0, lease_s=30.0)
        claims = Claims(session_of(port, clock=clock), ["auditor"])
        assert claims.take(5, lambda: ()) == []
        clock.sleep(31)
        port.at = at
        taken: list[RunRow] = []
        with contextlib.suppress(StoreUnavailable):
            taken = claims.take(5, lambda: ())
        failed, port.at = port.at <= 0, 0
        rows = [port.find_run(name) for name in names]
        held = {row.run for row in rows if row is not None and row.lease.fence > 1 and row.lease.owner}
        assert held == {row.run for row in taken}
        partly = partly or 0 < len(taken) < len(names)
    assert held == names
    assert partly


def test_a_worker_outlives_its_own_listener(url: str) -> None:
    """What ``tell=`` raises is logged, and the worker goes on: it ended the thread that claims."""

    @holdfast.agent("echo")
    def echo(word: str) -> str:
        return word

    def tell(_: Report) -> None:
        raise ZeroDivisionError

    for number in range(2):
        assert echo.submit(f"r{number}", "hi", store=url)
    with holdfast.worker(echo, store=url, tell=tell) as worker:
        assert worker.wait_idle(IDLE_S)
    rows = [open_store(url).find_run(f"r{number}") for number in range(2)]
    assert [row.status for row in rows if row is not None] == ["finished", "finished"]


def test_a_run_that_cannot_be_begun_is_given_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a thread for it, a claimed run is let go, and the worker lives: the next one takes it."""

    @holdfast.agent("echo")
    def echo(word: str) -> str:
        return word

    assert echo.submit("r", "hi", store=url)
    tried = Event()

    def refuse(*_: object) -> None:
        tried.set()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(holdfast.Worker, "_launch", refuse)
    with holdfast.worker(echo, store=url) as worker:
        assert tried.wait(IDLE_S)
        assert worker.wait_idle(IDLE_S)
        assert worker._thread is not None
        assert worker._thread.is_alive()
    row = open_store(url).find_run("r")
    assert row is not None
    assert (row.lease.owner, row.due_at is None) == ("", False)
