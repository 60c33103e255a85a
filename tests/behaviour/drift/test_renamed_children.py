"""Children that are renamed, and effects that move between a run and its children: none happens twice without a person."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.engine.drift import guard, program
from holdfast.errors import EffectUnclaimed
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind
from holdfast.model.run_info import StoppedCall

Body = Callable[[holdfast.Run], Any]
Child = Callable[[holdfast.Run, str, Body], Any]
made: list[object] = []


class Kill(BaseException):
    """The program ends here, as if it was killed."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the next attempt another program."""
    modules = [{"__main__": "1"}]
    for place in (guard, program):
        monkeypatch.setattr(place, "modules", lambda: modules[-1])
    return lambda: modules.append({"__main__": str(len(modules) + 1)})


def pay(amount: int) -> str:
    made.append(amount)
    return f"paid {amount}"


def die(*_run: holdfast.Run) -> object:
    raise Kill


def attempt(url: str, body: Body) -> Any:
    """One process. It ends by itself, or where the body dies."""
    try:
        with holdfast.run("a", store=url) as run:
            return body(run)
    except Kill:
        return None


def by_step(run: holdfast.Run, name: str, body: Body) -> Any:
    """A child by ``run.child``."""

    @holdfast.agent("walker")
    def walker(run: holdfast.Run) -> Any:
        return body(run)

    return run.child(name, walker)


def by_block(run: holdfast.Run, name: str, body: Body) -> Any:
    """A child by a block inside its parent's."""
    with holdfast.run(name) as inner:
        return body(inner)


@pytest.fixture(params=[by_step, by_block], ids=["run.child", "with"])
def child(request: pytest.FixtureRequest) -> Any:
    return request.param


def once(amount: int = 1, name: str = "pay") -> Body:
    return lambda run: run.once(name, pay, amount)


def both(*bodies: Body) -> Body:
    """These, one after the other; the result of the last but the end."""
    return lambda run: [body(run) for body in bodies]


def stop_of(url: str, body: Body) -> EffectUnclaimed:
    before = list(made)
    with pytest.raises(EffectUnclaimed) as stop:
        attempt(url, body)
    assert made == before
    return stop.value


def only_stop(url: str, run: str) -> StoppedCall:
    (stopped,) = holdfast.store(url).stopped_calls(run)
    return stopped


def test_a_renamed_child_does_not_repeat_its_effect(url: str, edit: Callable[[], None], child: Child) -> None:
    """The stop names the effect with the run that has it. ``same``: its outcome answers, in every later attempt."""
    attempt(url, lambda run: child(run, "one", both(once(), die)))
    edit()

    def renamed(run: holdfast.Run) -> Any:
        return [child(run, "uno", once()), die(run)]

    stop = stop_of(url, renamed)
    assert stop.run == "a/uno"
    assert "a/one" in str(stop)
    stopped = only_stop(url, "a/uno")
    assert [(effect.run, effect.id) for effect in stopped.effects] == [("a/one", f"d{stop.seq}@a/one")]
    holdfast.store(url).resolve("a/uno", stopped.effects[0].id, "same")
    for _ in range(2):
        attempt(url, renamed)
    assert made == [1]
    edit()
    stop_of(url, lambda run: child(run, "tres", once()))  # what answered is an effect of its new run
    assert only_stop(url, "a/tres").effects[0].run == "a/uno"
    holdfast.store(url).resolve("a/tres", only_stop(url, "a/tres").effects[0].id, "same")
    assert attempt(url, lambda run: child(run, "tres", once())) == "paid 1"
    assert made == [1]


@pytest.mark.parametrize(
    "goes_on", [False, True], ids=["at once", "after an attempt that did not come there"]
)
@pytest.mark.parametrize("where", ["in a child", "in the parent"])
def test_an_answer_that_no_call_ever_uses(
    url: str, edit: Callable[[], None], child: Child, where: str, goes_on: bool
) -> None:
    """Because the program was edited again: the effect stops the call that it is now, and does not happen again.

    Seen before (``make edits``, seeds 3125 and 3579): the answer had abandoned it where it was made, and nothing guarded it.
    """
    attempt(
        url,
        both(once(), die) if where == "in the parent" else lambda run: child(run, "one", both(once(), die)),
    )
    edit()
    stop_of(url, lambda run: child(run, "uno", once()))
    store = holdfast.store(url)
    store.resolve("a/uno", only_stop(url, "a/uno").effects[0].id, "same", by="kim")
    if goes_on:
        attempt(url, die)
    edit()

    def other(run: holdfast.Run) -> Any:
        return child(run, "uno", lambda inner: child(inner, "deep", once()))

    stop_of(url, other)
    (effect,) = only_stop(url, "a/uno/deep").effects
    store.resolve("a/uno/deep", effect.id, "same", by="ada")
    given = []
    for _ in range(2):
        attempt(url, both(lambda run: given.append(other(run)), die))
    assert given == ["paid 1"] * 2
    assert made == [1]
    if where == "in the parent":  # which was told at once, and by whom
        (event,) = [one for one in store.events("a") if one.kind == Kind.STEP_ABANDONED]
        assert fields_of(event.body)["by"] == "ada"


def test_a_finished_child_that_is_renamed_counts_too(
    url: str, edit: Callable[[], None], child: Child
) -> None:
    """Its step has an outcome that the program does not ask for: its effects are unclaimed."""
    attempt(url, lambda run: [child(run, "one", once()), die(run)])
    edit()
    stop_of(url, lambda run: child(run, "uno", once()))


def test_a_child_of_a_renamed_child_counts_too(url: str, edit: Callable[[], None], child: Child) -> None:
    """What is below a child that nobody asks for is not asked for either."""
    attempt(url, lambda run: child(run, "one", lambda inner: child(inner, "deep", both(once(), die))))
    edit()
    stop = stop_of(url, lambda run: child(run, "uno", lambda inner: child(inner, "deep", once())))
    assert stop.run == "a/uno/deep"
    assert only_stop(url, "a/uno/deep").effects[0].run == "a/one/deep"


def test_an_effect_moves_into_a_child(url: str, edit: Callable[[], None], child: Child) -> None:
    """The run has recorded it and has not asked for it."""
    attempt(url, both(once(), die))
    edit()
    stop_of(url, lambda run: child(run, "one", once()))
    holdfast.store(url).resolve("a/one", only_stop(url, "a/one").effects[0].id, "same")
    assert attempt(url, lambda run: child(run, "one", once())) == "paid 1"
    assert made == [1]


def test_an_effect_moves_out_of_a_child(url: str, edit: Callable[[], None], child: Child) -> None:
    """The child is gone from the program: the run's own effect may be the child's."""
    attempt(url, lambda run: child(run, "one", both(once(), die)))
    edit()
    assert stop_of(url, once()).run == "a"
    holdfast.store(url).resolve("a", only_stop(url, "a").effects[0].id, "same")
    assert attempt(url, once()) == "paid 1"
    assert made == [1]


@pytest.mark.parametrize("dies_between", [False, True])
def test_an_effect_moves_out_of_a_child_that_stays(
    url: str, edit: Callable[[], None], child: Child, dies_between: bool
) -> None:
    """The child finishes without it, in this attempt or in an earlier one: the effect stays open."""
    attempt(url, lambda run: child(run, "one", both(once(1), once(2), die)))
    edit()
    if dies_between:
        attempt(url, lambda run: [child(run, "one", once(1)), die(run)])
    stop = stop_of(url, lambda run: [child(run, "one", once(1)), run.once("pay", pay, 2)])
    assert stop.run == "a"
    assert "amount=2" in str(stop)
    holdfast.store(url).resolve("a", only_stop(url, "a").effects[0].id, "same")
    for _ in range(2):
        attempt(url, lambda run: [child(run, "one", once(1)), run.once("pay", pay, 2), die(run)])
    assert made == [1, 2]


def test_an_effect_moves_between_children(url: str, edit: Callable[[], None], child: Child) -> None:
    """A sibling that runs in the same process is asked too."""
    attempt(url, lambda run: [child(run, "one", once(1)), child(run, "two", both(once(2), once(3), die))])
    edit()
    stop = stop_of(url, lambda run: [child(run, "one", once(1)), child(run, "more", once(3))])
    assert stop.run == "a/more"


def test_the_call_is_new(url: str, edit: Callable[[], None], child: Child) -> None:
    """``new``: it is made, once."""
    attempt(url, lambda run: child(run, "one", both(once(), die)))
    edit()
    stop_of(url, lambda run: child(run, "uno", once(2)))
    holdfast.store(url).resolve("a/uno", only_stop(url, "a/uno").effects[0].id, "new")
    for _ in range(2):
        attempt(url, lambda run: [child(run, "uno", once(2)), die(run)])
    assert made == [1, 2]


@pytest.mark.parametrize("is_over", [False, True])
def test_the_old_effect_is_abandoned(url: str, edit: Callable[[], None], child: Child, is_over: bool) -> None:
    """``abandon``: it counts no more, though its run is never entered again."""
    attempt(url, lambda run: [child(run, "one", once() if is_over else both(once(), die)), die(run)])
    edit()
    stop_of(url, lambda run: child(run, "uno", once(2)))
    holdfast.store(url).resolve("a/uno", only_stop(url, "a/uno").effects[0].id, "abandon")
    attempt(url, lambda run: [child(run, "uno", once(2)), child(run, "dos", once(3))])
    assert made == [1, 2, 3]


def test_an_effect_in_doubt_stays_in_doubt(url: str, edit: Callable[[], None], child: Child) -> None:
    """``same`` for an effect of which nobody knows whether it happened: the new call is in doubt, and not made."""

    def cut(_amount: int) -> None:
        made.append("cut")
        raise Kill

    attempt(url, lambda run: child(run, "one", lambda inner: inner.once("pay", cut, 1)))
    edit()
    assert "in doubt" in str(stop_of(url, lambda run: child(run, "uno", once())))
    store = holdfast.store(url)
    store.resolve("a/uno", only_stop(url, "a/uno").effects[0].id, "same")
    with pytest.raises(holdfast.StepInDoubt):
        attempt(url, lambda run: child(run, "uno", once()))
    (doubt,) = store.doubts("a/uno")
    store.resolve("a/uno", doubt.id, "done", value="paid")
    assert attempt(url, lambda run: child(run, "uno", once())) == "paid"
    assert made == ["cut"]


def test_data_that_names_a_child_differs(url: str) -> None:
    """The same program asks for another child where it asked for the first: that one was passed over."""
    attempt(url, lambda run: by_step(run, "one", both(once(), die)))
    stop_of(url, lambda run: by_step(run, "uno", once()))


def test_children_side_by_side_are_not_stopped(url: str, edit: Callable[[], None]) -> None:
    """Tasks of an unchanged program reach their children in any order."""

    async def main(order: list[int], kill_at: int) -> None:
        async def one(number: int, run: holdfast.AsyncRun) -> None:
            await asyncio.sleep(0.001 * order.index(number))
            async with holdfast.run(f"c{number}") as inner:
                await inner.once("first", pay, number)
                if len(made) >= kill_at:
                    raise Kill
                await inner.once("second", pay, number + 10)

        async with holdfast.run("a", store=url) as run:
            ends = await asyncio.gather(*(one(n, run) for n in range(3)), return_exceptions=True)
            for end in ends:
                if isinstance(end, BaseException):
                    raise end

    for order, kill_at in ([0, 1, 2], 2), ([2, 1, 0], 4), ([1, 0, 2], 99):
        try:
            asyncio.run(main(order, kill_at))
        except Kill:
            continue
    assert sorted(made, key=str) == sorted([0, 1, 2, 10, 11, 12], key=str)


def test_an_async_child_that_is_renamed_does_not_repeat_its_effect(
    url: str, edit: Callable[[], None]
) -> None:
    """The ledger is that of the tree, also where parent and child are tasks of an event loop."""

    @holdfast.agent("async walker")
    async def walker(run: holdfast.AsyncRun, dies: bool) -> Any:
        paid = await run.once("pay", pay, 1)
        if dies:
            raise Kill
        return paid

    async def main(name: str, *, dies: bool) -> Any:
        async with holdfast.run("a", store=url) as run:
            return await run.child(name, walker, dies)

    with pytest.raises(Kill):
        asyncio.run(main("one", dies=True))
    edit()
    with pytest.raises(EffectUnclaimed) as stop:
        asyncio.run(main("uno", dies=False))
    assert stop.value.run == "a/uno"
    assert made == [1]
    holdfast.store(url).resolve("a/uno", only_stop(url, "a/uno").effects[0].id, "same")
    assert asyncio.run(main("uno", dies=False)) == "paid 1"
    assert made == [1]


def test_a_child_in_a_thread_that_is_renamed_does_not_repeat_its_effect(
    url: str, edit: Callable[[], None]
) -> None:
    """A plain agent of an async parent runs in a thread, and asks its parent's ledger from there."""

    @holdfast.agent("thread walker")
    def walker(run: holdfast.Run, dies: bool) -> Any:
        paid = run.once("pay", pay, 1)
        if dies:
            raise Kill
        return paid

    async def main(name: str, *, dies: bool) -> Any:
        async with holdfast.run("a", store=url) as run:
            return await run.child(name, walker, dies)

    with pytest.raises(Kill):
        asyncio.run(main("one", dies=True))
    edit()
    with pytest.raises(EffectUnclaimed) as stop:
        asyncio.run(main("uno", dies=False))
    assert stop.value.run == "a/uno"
    assert made == [1]
    holdfast.store(url).resolve("a/uno", only_stop(url, "a/uno").effects[0].id, "same")
    assert asyncio.run(main("uno", dies=False)) == "paid 1"
    assert made == [1]
