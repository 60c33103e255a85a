"""Budgets: warned near a limit, parked at it before anything is sent, and counted over attempts, forks and rewinds.

Planted once in a copy, and caught here: an answered call counted again when it is replayed; the sum begun anew with each
attempt; the check after the call; a warning in every attempt; a fork that begins with nothing spent; a rewind that gives
the money back; calls side by side that all pass the check; an unknown cost taken as zero.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from threading import Barrier
from typing import Any

import pytest

import holdfast
from holdfast import Budget, Spent
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.journal.fold import fold
from holdfast.engine.budget.budget import check_before_model_call, note, note_failure
from holdfast.engine.run.store_session import session_of
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind
from holdfast.model.store_rows import Lease
from holdfast.model.usage import Usage

PRICES = {"m": {"input": 1000, "output": 0}}
"""A thousandth of a dollar for each token that is sent."""
sent: list[int] = []


class Crash(Exception):
    pass


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    sent.clear()
    monkeypatch.delenv("HOLDFAST_PRICES", raising=False)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Each answer takes 100 tokens and 10 for itself."""
    sent.append(request["n"])
    return {"model": request["model"], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}


def ask(run: holdfast.Run, n: int, call: Callable[..., Any] = answer, model: str = "m") -> Any:
    return run.model("ask", call, {"model": model, "n": n})


def attempt(url: str, calls: int, *, model: str = "m", name: str = "a", **options: Any) -> Spent:
    """A run that asks so often and then crashes; what it had spent."""
    spent = Spent()
    options = {"prices": PRICES, "loops": False, **options}
    with suppress(Crash), holdfast.run(name, store=url, **options) as run:
        for n in range(calls):
            ask(run, n, model=model)
        spent = run.spent
        raise Crash
    return spent


def warnings(url: str, name: str = "a") -> list[str]:
    return [event.name for event in events(url, name) if event.kind == Kind.BUDGET_WARNED]


def events(url: str, name: str = "a") -> list[Event]:
    return holdfast.store(url).events(name)


def test_parked_before_the_call(url: str) -> None:
    """At the limit nothing is sent and nothing recorded; the run is parked, and tells which limit it was."""
    with pytest.raises(holdfast.BudgetExceeded) as stopped:
        attempt(url, 5, budget=Budget(calls=3))
    assert sent == [0, 1, 2]
    assert holdfast.store(url).get("a").status == "parked"
    stop = stopped.value
    assert (stop.limit, stop.spent, stop.allowed, stop.run) == ("calls", 3, 3, "a")
    assert stop.fields["until"] is None
    assert str(stop) == "run a is parked: its budget is spent: 3 of 3 calls"
    assert "raise budget=" in stop.hint
    assert isinstance(stop, holdfast.Parked)
    assert sum(event.kind == Kind.STEP_STARTED for event in events(url)) == 3


def test_raised_and_run_again_it_goes_on(url: str) -> None:
    """The new budget holds from then on; what was spent is not spent again, and what is recorded needs no budget."""
    with pytest.raises(holdfast.BudgetExceeded):
        attempt(url, 5, budget=Budget(calls=3))
    with pytest.raises(holdfast.BudgetExceeded):
        attempt(url, 5, budget=Budget(calls=3))
    assert attempt(url, 3, budget=Budget(calls=0)).calls == 3
    assert attempt(url, 5, budget=Budget(calls=5)).calls == 5
    assert sent == [0, 1, 2, 3, 4]


def test_a_smaller_budget_holds_too(url: str) -> None:
    """Lowered below what is spent already, the next call is not made."""
    attempt(url, 3, budget=Budget(calls=30))
    with pytest.raises(holdfast.BudgetExceeded, match="3 of 2 calls"):
        attempt(url, 4, budget=Budget(calls=2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "calls"),
    [(Budget(tokens=330), 3), (Budget(tokens=331), 4), (Budget(cost=0.3), 3), (Budget(cost=0.31), 4)],
)
def test_counted_across_attempts(url: str, budget: Budget, calls: int) -> None:
    """One call an attempt: each is counted once, however often it is replayed."""
    with pytest.raises(holdfast.BudgetExceeded):
        for n in range(1, 10):
            assert attempt(url, n, budget=budget).calls == n
    assert sent == list(range(calls))


def test_the_journal_and_the_live_count_agree(url: str) -> None:
    """What an attempt has counted is what the next one finds."""
    spent = attempt(url, 4)
    assert spent == Spent(4, 400, 40, 0, sum([0.1] * 4), 0, 0)
    assert attempt(url, 4) == spent == BUDGET.of(holdfast.store(url).view("a")).spent


def test_warned_once_in_the_log_and_the_journal(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Four fifths spent: once per limit and run, not per call or attempt; again if the limit is another."""
    with caplog.at_level(logging.WARNING, "holdfast"):
        for calls in (9, 10, 10):
            attempt(url, calls, budget=Budget(calls=10, tokens=10_000))
        assert warnings(url) == ["calls"]
        assert caplog.messages == ["run a has spent 8 of 10 calls; at the limit it is parked"]
        attempt(url, 11, budget=Budget(calls=12, tokens=10_000))
    (first, second) = [contents_of(e.body) for e in events(url) if e.kind == Kind.BUDGET_WARNED]
    assert first["words"] == "8 of 10 calls"
    assert (second["spent"], second["allowed"]) == (10, 12)


def test_an_unknown_cost_is_no_zero(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A budget of dollars cannot be kept without prices: that is said once; or nothing more is sent."""
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert attempt(url, 3, model="local", budget=Budget(cost=1)).unknown_cost_calls == 3
    assert warnings(url) == ["unknown cost"]
    assert caplog.messages == [
        "run a cannot keep its budget: the cost of 1 model call is not known, and not in the $0.00 counted"
    ]
    with pytest.raises(holdfast.BudgetExceeded, match="cannot be kept: the cost of 3 model calls") as stopped:
        attempt(url, 4, model="local", budget=Budget(cost=1, unknown="stop"))
    assert stopped.value.limit == "unknown cost"
    assert sent == [0, 1, 2]


def test_a_local_model_can_be_free(url: str) -> None:
    """The user says so: then zero is known."""
    spent = attempt(url, 2, model="local", prices={"loc*": {"input": 0, "output": 0}}, budget=Budget(cost=1))
    assert (spent.cost, spent.unknown_cost_calls) == (0.0, 0)
    assert warnings(url) == []


def test_the_cost_is_recorded_as_it_was(url: str) -> None:
    """Priced when it was recorded: another table changes nothing of it."""
    attempt(url, 1)
    spent = attempt(url, 2, prices={"m": {"input": 2000, "output": 0}})
    assert spent.cost == pytest.approx(0.1 + 0.2)
    assert attempt(url, 2, prices={}) == spent


def test_a_failed_call_is_not_counted(url: str) -> None:
    """Nobody knows whether it is to be paid for; it takes no place of another either."""

    def fail(_: object) -> None:
        raise LookupError("no such model")

    with holdfast.run("a", store=url, budget=Budget(calls=2), prices=PRICES, loops=False) as run:
        for n in range(4):
            with pytest.raises(LookupError):
                ask(run, n, fail)
        ask(run, 5)
        assert run.spent.calls == 1
        ask(run, 6)
        with pytest.raises(holdfast.BudgetExceeded):
            ask(run, 7)


def test_a_stream_is_a_call(url: str) -> None:
    """Under way from its beginning, counted when it is whole; what its provider does not tell is not known."""

    def texts(request: dict[str, Any]) -> list[str]:
        sent.append(request["n"])
        return ["a", "b"]

    with holdfast.run("a", store=url, budget=Budget(calls=2), loops=False) as run:
        assert "".join(run.stream("ask", texts, {"n": 1})) == "ab"
        assert (run.spent.calls, run.spent.unknown_token_calls) == (1, 1)
        begun = run.stream("ask", texts, {"n": 2})
        with pytest.raises(holdfast.BudgetExceeded):
            run.stream("ask", texts, {"n": 3})
        assert "".join(begun) == "ab"
        with pytest.raises(holdfast.BudgetExceeded):
            ask(run, 4)
    assert sent == [1, 2]


def test_calls_side_by_side_do_not_overrun_it(url: str) -> None:
    """Ten at once and three allowed: three are sent."""
    ready = Barrier(10)
    stopped = 0

    async def slow(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return answer(request)

    def in_thread(run: holdfast.Run, n: int) -> bool:
        ready.wait()
        try:
            ask(run, n)
        except holdfast.BudgetExceeded:
            return False
        return True

    with (
        holdfast.run("a", store=url, budget=Budget(calls=3), loops=False) as run,
        ThreadPoolExecutor(10) as pool,
    ):
        assert sum(pool.map(run.bind(in_thread), [run] * 10, range(10))) == 3
    assert len(sent) == 3

    async def in_loop() -> None:
        nonlocal stopped
        async with holdfast.run("b", store=url, budget=Budget(calls=3), loops=False) as run:

            async def one(n: int) -> None:
                nonlocal stopped
                try:
                    await run.model("ask", slow, {"model": "m", "n": n})
                except holdfast.BudgetExceeded:
                    stopped += 1

            await asyncio.gather(*(one(n) for n in range(10)))

    asyncio.run(in_loop())
    assert (len(sent), stopped) == (6, 7)


def test_a_fork_begins_with_what_its_history_has_spent(url: str) -> None:
    """Up to its point, and not what its origin spent after it; what it borrows is not paid for a second time."""
    attempt(url, 5)
    store = holdfast.store(url)
    store.fork("a@3", as_="b")
    assert BUDGET.of(store.view("b")).spent.calls == 3
    with pytest.raises(holdfast.BudgetExceeded, match="4 of 4 calls"):
        attempt(url, 5, name="b", budget=Budget(calls=4))
    assert sent == [0, 1, 2, 3, 4, 3]
    assert BUDGET.of(store.view("a")).spent.calls == 5
    own = {run.run: sum(m.spent.calls for m in run.models) for run in store.stats().runs}
    assert own == {"a": 5, "b": 1}


def test_a_rewind_does_not_give_the_money_back(url: str) -> None:
    """What it has left behind was paid for; also through a second rewind, and not by the branch that keeps it twice."""
    attempt(url, 5)
    store = holdfast.store(url)
    store.rewind("a@2")
    assert BUDGET.of(store.view("a")).spent.calls == 5
    assert attempt(url, 4).calls == 7
    store.rewind("a@1")
    assert BUDGET.of(store.view("a")).spent.calls == 7
    assert BUDGET.of(store.view("a~1")).spent.calls == 5
    with pytest.raises(holdfast.BudgetExceeded, match="7 of 7"):
        attempt(url, 4, budget=Budget(calls=7))


def kill(run: holdfast.Run) -> None:
    """The process is gone: nobody holds the lease, and nothing more can be written."""
    held = run._held
    assert held.journal is not None
    held.session.heartbeat.remove(held.journal)
    held.journal.lost = Lease(fence=held.journal.fence)
    held.store.release(held.run, fence=held.journal.fence)
    held.is_closed = True


class SetClock:
    """A clock that goes where it is put; both of its times together, unless the wall clock jumps."""

    def __init__(self) -> None:
        self.at, self.jumped = 1000.0, 0.0

    def wall(self) -> float:
        return self.at + self.jumped

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def test_time_is_that_of_attempts(tmp_path: Any) -> None:
    """Pauses between them do not count, and a clock of people that jumps neither."""
    clock = SetClock()
    url = f"sqlite:///{tmp_path}/clocked.db"
    store = holdfast.store(url)
    session_of(store._port).clock = clock

    def work(calls: int, each_s: float) -> None:
        run = holdfast.run("a", store=store, budget=Budget(wall_s=100), loops=False).open()
        try:
            for n in range(calls):
                clock.at += each_s
                ask(run, n)
                clock.jumped += 777
        finally:
            run.close()

    def begin(calls: int, each_s: float) -> None:
        copy_context().run(work, calls, each_s)

    begin(3, 10)  # 30 s
    clock.at += 5000
    begin(5, 10)  # 50 s
    clock.at += 5000
    begin(6, 3)  # 18 s
    assert store.view("a").worked_s == pytest.approx(98)
    with pytest.raises(holdfast.BudgetExceeded, match="1 min 42 s of 1 min 40 s"):
        begin(7, 0.5)
    assert sent == [0, 1, 2, 3, 4, 5]
    store.close()


def test_a_crashed_attempt_counts_to_its_last_sign_of_life(tmp_path: Any) -> None:
    """Not to when somebody found out, days later. Planted: the time of the record."""
    clock = SetClock()
    store = holdfast.store(f"sqlite:///{tmp_path}/clocked.db")
    session_of(store._port).clock = clock
    work = copy_context().run
    run = work(holdfast.run("a", store=store, loops=False).open)
    clock.at += 40
    work(ask, run, 0)
    kill(run)
    clock.at += 100_000
    again = work(holdfast.run("a", store=store, loops=False).open)
    clock.at += 2
    again.close()
    assert store.view("a").worked_s == pytest.approx(42)
    store.fork("a@1", as_="b")
    assert store.view("b").worked_upto_last_s == pytest.approx(40)
    store.close()


def test_the_two_calls_of_the_seam(url: str) -> None:
    """``check_before_model_call`` and ``note`` by hand: a usage gets its cost, a provider's own goes before the table."""
    with holdfast.run("a", store=url, prices=PRICES, budget={"calls": 2}) as run:
        held = run._held
        drive(check_before_model_call(held, BLOCKING))
        assert note(held, Usage("m", "", 10, 1)).cost == pytest.approx(0.01)
        drive(check_before_model_call(held, BLOCKING))
        note_failure(held)
        drive(check_before_model_call(held, BLOCKING))
        assert note(held, Usage("m", "", 10, 1, cost=7.0)).cost == 7.0
        assert run.spent == Spent(2, 20, 2, 0, 0.01 + 7.0, 0, 0)
        with pytest.raises(holdfast.BudgetExceeded):
            drive(check_before_model_call(held, BLOCKING))


def test_a_table_that_cannot_be_read_is_refused_before_anything_is_written(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither given nor named by the environment."""
    with pytest.raises(holdfast.BadPrices, match="entry 'm' is 3"):
        attempt(url, 1, prices={"m": 3})
    monkeypatch.setenv("HOLDFAST_PRICES", "/nowhere/prices.json")
    with pytest.raises(holdfast.BadPrices, match="nowhere"):
        attempt(url, 1, prices=None)
    assert holdfast.store(url).runs() == []


def test_an_agent_has_a_budget_too(url: str) -> None:
    """Of each of its runs."""

    @holdfast.agent("thrifty", budget={"calls": 1}, prices=PRICES)
    def thrifty(run: holdfast.Run) -> None:
        ask(run, 0)
        ask(run, 1)

    with pytest.raises(holdfast.BudgetExceeded):
        thrifty.run("a", store=url)
    assert BUDGET.of(holdfast.store(url).view("a")).spent.cost == pytest.approx(0.1)


def test_what_was_spent_survives_a_snapshot(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cached view has it. Planted: left out of the snapshot."""
    monkeypatch.setattr("holdfast.engine.journal.load_view.SNAPSHOT_EVENTS_MIN", 5)
    attempt(url, 5, budget=Budget(calls=5))
    attempt(url, 5, budget=Budget(calls=5))
    view = holdfast.store(url).view("a")
    fresh = fold(events(url))
    assert (BUDGET.of(view).spent, view.worked_s, BUDGET.of(view).warned) == (
        BUDGET.of(fresh).spent,
        fresh.worked_s,
        {"calls": 5},
    )
    with pytest.raises(holdfast.BudgetExceeded):
        attempt(url, 6, budget=Budget(calls=5))


def test_what_was_spent_survives_compaction(url: str) -> None:
    """One event stands for all that led to a state, and for what it cost. Planted: left out of what is kept."""
    retention = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=0)

    def work(upto: int) -> None:
        with suppress(Crash), holdfast.run("a", store=url, prices=PRICES, loops=False, retention=None) as run:
            begin = run.restore({"n": 0})["n"]
            for n in range(begin, upto):
                ask(run, n)
                run.checkpoint({"n": n + 1})
            raise Crash

    work(4)
    work(8)
    store = holdfast.store(url)
    before, counted = store.view("a"), store.stats("a")
    store.prune("a", policy=retention)
    assert any(event.kind == Kind.COMPACTED for event in events(url))
    after = store.view("a")
    assert (BUDGET.of(after).spent, BUDGET.of(after).spent.calls) == (BUDGET.of(before).spent, 8)
    assert after.worked_s == pytest.approx(before.worked_s)
    assert store.stats("a").models == counted.models
    assert store.stats("a").runs[0].saved_spent == counted.runs[0].saved_spent
    work(9)
    assert BUDGET.of(store.view("a")).spent.calls == 9 == len(sent)


def test_a_settled_call_is_paid_for_where_it_happened(url: str) -> None:
    """An outcome that came late counts; one that the origin of a fork has is the origin's."""
    attempt(url, 1)
    started = next(event for event in events(url) if event.kind == Kind.STEP_STARTED)
    for via, calls in (("late", 2), ("origin", 1)):
        view = fold(events(url))
        body = b'{"how":"done","via":"%b","usage":{"input_tokens":5,"output_tokens":1}}' % via.encode()
        view.add(started._replace(seq=view.head + 1))
        view.add(started._replace(seq=view.head + 1, kind=Kind.STEP_SETTLED, body=body))
        assert BUDGET.of(view).spent.calls == calls, via
