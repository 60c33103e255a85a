"""Effects survive changes of the program: none happens twice without a person, none of an unchanged one is stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import holdfast
from holdfast.engine.drift import guard, program
from holdfast.errors import EffectUnclaimed

calls: list[object] = []
Body = Callable[[holdfast.Run], Any]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


class Crash(Exception):
    """The program ends here, as if it was killed."""


def note(value: object) -> object:
    calls.append(value)
    return value


def note_to(to: str) -> object:
    return note(to)


def pay(amount: float, currency: str = "EUR") -> str:
    calls.append(("pay", amount))
    return f"{amount} {currency}"


def card(amount: float) -> None:
    if not calls:
        raise ValueError("refused")
    calls.append(("card", amount))


class Deploys:
    """The versions of one program: ``edit`` makes the next attempt another program."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._modules = {"__main__": "1"}
        for place in (guard, program):
            monkeypatch.setattr(place, "modules", lambda: self._modules)

    def edit(self) -> None:
        self._modules = {"__main__": self._modules["__main__"] + "1"}


@pytest.fixture
def deploys(monkeypatch: pytest.MonkeyPatch) -> Deploys:
    return Deploys(monkeypatch)


def attempt(url: str, body: Body) -> Any:
    out = None
    try:
        with holdfast.run("a", store=url) as run:
            out = body(run)
            raise Crash
    except Crash:
        pass
    return out


def stop_of(url: str, body: Body) -> EffectUnclaimed:
    before = list(calls)
    with pytest.raises(EffectUnclaimed) as stop:
        attempt(url, body)
    assert [call for call in calls if call not in before] == []
    return stop.value


# -- edits -----------------------------------------------------------------------------------------------------------


def test_a_read_before_it_is_renamed_and_its_argument_is_equal(url: str, deploys: Deploys) -> None:
    """``1`` became ``1.0``, and the read before it has another name: the recorded payment answers."""
    attempt(url, lambda run: [run.step("look", note, 1), run.once("pay", pay, 1)])
    deploys.edit()
    for _ in range(2):
        assert attempt(url, lambda run: [run.step("fetch", note, 1), run.once("pay", pay, 1.0)])[1] == "1 EUR"
    assert calls.count(("pay", 1)) == 1


def test_true_is_not_one(url: str, deploys: Deploys) -> None:
    """``True`` equals ``1`` in Python, and is another argument: a person is asked."""
    attempt(url, lambda run: run.once("pay", pay, 1))
    deploys.edit()
    stop_of(url, lambda run: run.once("pay", pay, True))


def test_a_parameter_with_a_default_is_added(url: str, deploys: Deploys) -> None:
    """The recorded call has no such parameter; with its default it is the same call."""
    attempt(url, lambda run: run.once("send", note_to, "Ada"))
    deploys.edit()

    def new(to: str, urgent: bool = False) -> object:
        return note((to, urgent))

    assert attempt(url, lambda run: run.once("send", new, "Ada")) == "Ada"
    assert calls == ["Ada"]
    with pytest.raises(EffectUnclaimed):  # with another value it may be another effect
        attempt(url, lambda run: run.once("send", new, "Ada", urgent=True))


@pytest.mark.parametrize("edited", [
    lambda run: run.once("pay_bill", pay, 1),
    lambda run: run.once("pay", pay, 2),
    lambda run: _in_scope(run, lambda: run.once("pay", pay, 1)),
    lambda run: run.options(key="bill-7").once("pay", pay, 1),
], ids=["renamed", "other amount", "in a scope", "given a key"])  # fmt: skip
@pytest.mark.parametrize("is_edit", [True, False], ids=["another program", "the same program"])
def test_an_effect_under_another_identity_is_a_question(
    url: str, deploys: Deploys, edited: Body, is_edit: bool
) -> None:
    """The stop names the recorded effect; ``same`` lets that one answer, in every attempt from then on."""
    attempt(url, lambda run: [run.step("look", note, 0), run.once("pay", pay, 1)][1])
    if is_edit:
        deploys.edit()

    def body(run: holdfast.Run) -> Any:
        run.step("look", note, 0)
        return edited(run)

    stop = stop_of(url, body)
    store = holdfast.store(url)
    (stopped,) = store.stopped_calls("a")
    assert [effect.id for effect in stopped.effects] == [f"d{stop.seq}"]
    assert stopped.effects[0].arguments == {"amount": 1, "currency": "EUR"}
    store.resolve("a", stopped.effects[0].id, "same")
    assert store.stopped_calls("a")[0].pending == "same"
    for _ in range(2):
        assert attempt(url, body) == "1 EUR"
    assert calls.count(("pay", 1)) == 1
    assert store.stopped_calls("a") == []


def _in_scope(run: holdfast.Run, call: Callable[[], Any]) -> Any:
    with run.scope("billing"):
        return call()


def test_the_old_effect_is_set_aside(url: str, deploys: Deploys) -> None:
    """``abandon``: the recorded one counts no more, and stops nothing."""
    attempt(url, lambda run: run.once("pay", pay, 1))
    deploys.edit()
    stop = stop_of(url, lambda run: run.once("pay_bill", pay, 2))
    holdfast.store(url).resolve("a", f"d{stop.seq}", "abandon")
    assert attempt(url, lambda run: run.once("pay_bill", pay, 2)) == "2 EUR"


def test_the_same_effect_answers_one_call_only(url: str, deploys: Deploys) -> None:
    """A second call with the same new identity is another effect, in this attempt and in the next."""
    attempt(url, lambda run: run.once("pay", pay, 1))
    deploys.edit()

    def body(run: holdfast.Run) -> Any:
        return [run.once("bill", pay, 1), run.once("bill", pay, 1)]

    stop = stop_of(url, body)
    holdfast.store(url).resolve("a", f"d{stop.seq}", "same")
    for _ in range(3):
        assert attempt(url, body) == ["1 EUR", "1 EUR"]
    assert calls.count(("pay", 1)) == 2


def test_an_effect_in_doubt_is_a_question_too(url: str, deploys: Deploys) -> None:
    """Nobody knows whether it happened: the renamed call does not make it again, and stays in doubt when it is it."""

    def cut(_amount: float) -> None:
        calls.append("cut")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), holdfast.run("a", store=url) as run:
        run.once("pay", cut, 1)
    deploys.edit()
    stop = stop_of(url, lambda run: run.once("bill", pay, 1))
    assert "in doubt" in str(stop)
    store = holdfast.store(url)
    store.resolve("a", f"d{stop.seq}", "same")
    with pytest.raises(holdfast.StepInDoubt):
        attempt(url, lambda run: run.once("bill", pay, 1))
    store.resolve("a", f"d{stop.seq}", "done", value="paid")
    assert attempt(url, lambda run: run.once("bill", pay, 1)) == "paid"
    assert calls == ["cut"]


def test_a_failure_that_did_nothing_stops_nothing(url: str, deploys: Deploys) -> None:
    """A declared harmless failure is no effect: the corrected call is made."""

    def refuse(_amount: float) -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"), holdfast.run("a", store=url) as run:
        run.options(harmless=ValueError).once("pay", refuse, 1)
    deploys.edit()
    assert attempt(url, lambda run: run.once("bill", pay, 1)) == "1 EUR"


def test_effects_before_a_restored_state_are_claimed(url: str, deploys: Deploys) -> None:
    """The program begins behind them: it will never ask, and they stop nothing."""

    def first(run: holdfast.Run) -> None:
        run.restore(0)
        run.once("pay", pay, 1)
        run.checkpoint(1)

    attempt(url, first)
    deploys.edit()

    def edited(run: holdfast.Run) -> Any:
        assert run.restore(0) == 1
        return run.once("bill", pay, 2)

    assert attempt(url, edited) == "2 EUR"


def test_an_effect_that_moved_out_of_a_step_is_a_question(url: str, deploys: Deploys) -> None:
    """The step was cut off behind the effect, and is executed again without it. Seen before: paid twice, silently."""

    def order(run: holdfast.Run) -> int:
        run.once("pay", pay, 1)
        raise KeyboardInterrupt  # killed behind it

    def edited(run: holdfast.Run) -> Any:
        run.step("order", lambda run: 1, holdfast.ephemeral(run))
        return run.once("pay", pay, 1)

    with pytest.raises(KeyboardInterrupt):
        attempt(url, lambda run: run.step("order", order, holdfast.ephemeral(run)))
    deploys.edit()
    stopped = stop_of(url, edited)
    assert "pay(amount=1" in str(stopped)
    assert calls.count(("pay", 1)) == 1


def test_effects_inside_an_answered_step_are_claimed(url: str, deploys: Deploys) -> None:
    """The step around them is answered as a whole."""

    def order(run: holdfast.Run) -> Any:
        return run.once("pay", pay, 1)

    attempt(url, lambda run: run.step("order", order, holdfast.ephemeral(run)))
    deploys.edit()

    def edited(run: holdfast.Run) -> Any:
        run.step("order", order, holdfast.ephemeral(run))
        return run.once("bill", pay, 2)

    assert attempt(url, edited) == "2 EUR"


def test_more_work_at_the_end_is_no_question(url: str, deploys: Deploys) -> None:
    """Everything recorded is asked for before the new effect: an edit at the end never stops."""
    attempt(url, lambda run: [run.once("pay", pay, n) for n in range(3)])
    deploys.edit()
    assert len(attempt(url, lambda run: [run.once("pay", pay, n) for n in range(6)])) == 6


def test_several_stops_are_decided_one_by_one(url: str, deploys: Deploys) -> None:
    """A tool that was called three times is renamed: each call asks, and the most likely effect is first."""
    attempt(url, lambda run: [run.once("pay", pay, n) for n in range(3)])
    deploys.edit()
    store = holdfast.store(url)

    def edited(run: holdfast.Run) -> Any:
        return [run.once("bill", pay, n) for n in range(3)]

    for amount in range(3):
        stop_of(url, edited)
        stopped = [one for one in store.stopped_calls("a") if one.pending is None]
        assert [one.effects[0].arguments["amount"] for one in stopped] == [amount]
        store.resolve("a", stopped[0].effects[0].id, "same")
    assert attempt(url, edited) == ["0 EUR", "1 EUR", "2 EUR"]
    assert len(calls) == 3


def test_a_way_that_an_earlier_attempt_took_passes_over_effects_too(url: str, deploys: Deploys) -> None:
    """The second attempt went another way and made nothing; the third follows it: the first one's payment is unclaimed."""
    attempt(url, lambda run: [run.step("look", note, 0), run.once("pay", pay, 1)])
    attempt(url, lambda run: run.step("fetch", note, 0))
    stop_of(url, lambda run: [run.step("fetch", note, 0), run.once("pay", pay, 2)])


def test_a_new_call_does_not_hide_what_it_passed_over(url: str, deploys: Deploys) -> None:
    """One call was called new. In the next attempt its record answers it, and the call after it is a question still."""
    attempt(url, lambda run: run.once("pay", pay, 1))
    stop = stop_of(url, lambda run: run.once("pay", pay, 2))
    holdfast.store(url).resolve("a", f"d{stop.seq}", "new")
    attempt(url, lambda run: run.once("pay", pay, 2))
    stop_of(url, lambda run: [run.once("pay", pay, 2), run.once("pay", pay, 3)])


def test_a_failed_effect_that_is_asked_for_again_is_judged(url: str, deploys: Deploys) -> None:
    """Its record is a harmless failure that the program got already: making it now is a live call like any other."""

    def charge(run: holdfast.Run) -> None:
        run.options(harmless=ValueError).once("card", card, 1)

    def first(run: holdfast.Run) -> None:
        with pytest.raises(ValueError, match="refused"):
            charge(run)
        run.once("pay", pay, 1)

    def edited(run: holdfast.Run) -> None:
        with pytest.raises(ValueError, match="refused"):
            charge(run)
        charge(run)

    attempt(url, first)
    deploys.edit()
    stop_of(url, edited)


# -- unchanged programs ------------------------------------------------------------------------------------------------


def attempt_async(url: str, body: Callable[[holdfast.AsyncRun], Awaitable[Any]]) -> None:
    async def main() -> None:
        async with holdfast.run("a", store=url) as run:
            await body(run)
            raise Crash

    with pytest.raises(Crash):
        asyncio.run(main())


def test_tasks_that_share_a_first_step_are_not_stopped(url: str, deploys: Deploys) -> None:
    """Equal first steps swap their counts between attempts, whichever task comes first: nothing is stopped."""
    orders = [("x", "y", "z"), ("z", "x", "y"), ("y", "z", "x"), ("z", "y", "x")]

    for number, order in enumerate(orders):

        async def body(run: holdfast.AsyncRun, order: tuple[str, ...] = order, upto: int = number) -> None:
            async def worker(name: str) -> None:
                await run.step("login", note, "shared")
                if order.index(name) <= upto:
                    await run.once("pay", note, name)

            await asyncio.gather(*(worker(name) for name in order))

        attempt_async(url, body)
    assert sorted(map(str, (call for call in calls if call != "shared"))) == ["x", "y", "z"]


def test_threads_that_share_a_first_step_are_not_stopped(url: str, deploys: Deploys) -> None:
    """The same for a pool of threads, with and without the run's place."""
    for binds in (True, False):
        for names in ("xy", "yxz", "zyxw"):

            def body(run: holdfast.Run, names: str = names, binds: bool = binds) -> None:
                def worker(name: str) -> None:
                    run.step("login", note, "shared")
                    run.once(f"pay-{binds}", note, name)

                with ThreadPoolExecutor(2) as pool:
                    list(pool.map(run.bind(worker) if binds else worker, names))

            attempt(url, body)
    paid = [call for call in calls if call != "shared"]
    assert sorted(map(str, paid)) == sorted("wxyz" * 2)


def test_a_background_task_that_is_late_stops_nothing(url: str, deploys: Deploys) -> None:
    """Its recorded effect waits while the root task makes a new one: it will still be asked for."""

    async def body(run: holdfast.AsyncRun, is_late: bool) -> None:
        gate = asyncio.Event()

        async def background() -> None:
            if is_late:
                await gate.wait()
            await run.once("report", note, "report")

        task = asyncio.create_task(background())
        if not is_late:
            await task
            raise Crash
        await run.once("pay", note, "pay")
        gate.set()
        await task

    with pytest.raises(Crash):
        asyncio.run(_entered(url, lambda run: body(run, is_late=False)))
    asyncio.run(_entered(url, lambda run: body(run, is_late=True)))
    assert calls == ["report", "pay"]


async def _entered(url: str, body: Callable[[holdfast.AsyncRun], Awaitable[None]]) -> None:
    async with holdfast.run("a", store=url) as run:
        await body(run)


def test_equal_effects_of_two_tasks_are_two_effects(url: str, deploys: Deploys) -> None:
    """One pays ``1``, the other ``1.0``: the record of the first does not answer the second, which comes before it."""

    async def body(run: holdfast.AsyncRun, *, is_first: bool) -> None:
        gate = asyncio.Event()

        async def late() -> None:
            await gate.wait()
            await run.once("pay", pay, 1)

        if is_first:
            gate.set()
            await asyncio.create_task(late())
            raise Crash
        task = asyncio.create_task(late())
        await asyncio.create_task(_call(run.once("pay", pay, 1.0)))
        gate.set()
        await task

    with pytest.raises(Crash):
        asyncio.run(_entered(url, lambda run: body(run, is_first=True)))
    asyncio.run(_entered(url, lambda run: body(run, is_first=False)))
    assert list(map(repr, calls)) == ["('pay', 1)", "('pay', 1.0)"]


async def _call(call: Awaitable[Any]) -> None:
    await call


def test_an_effect_that_may_have_happened_stays_in_the_ledger(url: str, deploys: Deploys) -> None:
    """The program was told that nobody knows, and went on. Edited, it may not make the effect under other arguments.

    Planted: ``EffectUnknown`` counts as a failure that did nothing. No other test of edited programs noticed.
    """

    def pay_and_die(amount: float) -> str:
        calls.append(("pay", amount))
        raise KeyboardInterrupt

    def call(run: holdfast.Run) -> object:
        return run.options(in_doubt="tell").once("pay", pay_and_die, 1)

    def told(run: holdfast.Run) -> None:
        with pytest.raises(holdfast.EffectUnknown):
            call(run)

    with pytest.raises(KeyboardInterrupt):
        attempt(url, call)
    attempt(url, told)
    deploys.edit()
    stop_of(url, lambda run: run.once("pay", pay, True))
    assert calls == [("pay", 1)]
