"""A run that a server holds for a client who acts: it goes on at the end of the journal, and steps are looked up."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.api.served_run import find_step, go_on, steps_left_open, take_in
from holdfast.model.events import Kind
from holdfast.model.markers import AwaitedAct
from holdfast.model.retention import Keep, Retention

Visit = Callable[[holdfast.AsyncRun], Awaitable[Any]]


def visit(store: holdfast.Store, act: Visit) -> Any:
    """One session of the client with the run; it ends without finishing it."""

    async def session() -> Any:
        async with holdfast.run("r", goal="serve", store=store) as run:
            await go_on(run)
            came_to = await act(run)
            await run.close()
            return came_to

    return asyncio.run(session())


async def returns(value: Any) -> Any:
    return value


def act(value: Any) -> AwaitedAct:
    return AwaitedAct(lambda: returns(value))


class Cut(BaseException):
    """The end of a process, as far as a step can tell."""


async def begin(run: holdfast.AsyncRun, name: str, **arguments: Any) -> None:
    """A once step that is cut off."""

    async def never() -> None:
        raise Cut

    with pytest.raises(Cut):
        await run.once(name, AwaitedAct(never), **arguments)


def test_what_is_said_again_is_said_again(tmp_path: Path) -> None:
    """Nothing is replayed: the same note, step and checkpoint of a later session stand in the journal a second time.

    Planted: a session that does not move its cursor to the end swallows all of them.
    """
    store = holdfast.store(tmp_path / "a.db")

    async def work(run: holdfast.AsyncRun) -> None:
        await run.think("tests first")
        await run.step("look", act(1), path="x")
        await run.checkpoint({"n": 1})

    visit(store, work)
    visit(store, work)
    kinds = [event.kind for event in store.events("r")]
    assert [kinds.count(kind) for kind in (Kind.MARK, Kind.STEP_FINISHED, Kind.CHECKPOINT)] == [2, 2, 2]


def test_nothing_is_drift(tmp_path: Path) -> None:
    """Where a step was cut off, another of its name may be made. Planted: judged as a program's, it stops with Diverged."""
    store = holdfast.store(tmp_path / "a.db")
    visit(store, lambda run: begin(run, "send", to="Ada"))

    async def other(run: holdfast.AsyncRun) -> list[str]:
        await run.once("send", act("sent"), to="Bob")
        return [step.standing for step in steps_left_open(run)]

    assert visit(store, other) == ["in_doubt"]
    assert Kind.DRIFTED not in {event.kind for event in store.events("r")}


def test_a_step_is_found_by_name_and_arguments(tmp_path: Path) -> None:
    """Done, failed, in doubt and settled, of this session and of earlier ones."""
    store = holdfast.store(tmp_path / "a.db")

    async def standing(run: holdfast.AsyncRun) -> list[Any]:
        found = [find_step(run, "send", {"to": to}) for to in ("Ada", "Bob", "Cid")]
        return [None if one is None else (one.standing, one.value, one.arguments) for one in found]

    async def fails() -> None:
        raise ValueError("refused")

    async def first(run: holdfast.AsyncRun) -> Any:
        await run.once("send", act("sent"), to="Ada")
        with pytest.raises(ValueError, match="refused"):
            await run.options(harmless=ValueError).once("send", AwaitedAct(fails), to="Bob")
        await begin(run, "send", to="Cid")
        return await standing(run)

    known = [("done", "sent", {"to": "Ada"}), None, ("in_doubt", None, {"to": "Cid"})]
    assert visit(store, first) == known

    async def second(run: holdfast.AsyncRun) -> Any:
        assert await standing(run) == known
        store.resolve("r", "send", "done", value="was sent")  # while the run is held
        await take_in(run)
        settled = await standing(run)
        await run.once("send", act("once more"), to="Cid")
        return settled, await standing(run)

    settled, again = visit(store, second)
    assert settled[2] == ("done", "was sent", {"to": "Cid"})
    assert again[2] == ("done", "once more", {"to": "Cid"})
    assert visit(store, standing) == again


def test_what_is_done_stays_done_when_it_is_pruned(tmp_path: Path) -> None:
    """What an effect came to may go; that it happened may not."""
    store = holdfast.store(tmp_path / "a.db")

    async def work(run: holdfast.AsyncRun) -> None:
        await run.once("send", act("sent"), to="Ada")
        for number in range(5):
            await run.checkpoint({"n": number})

    visit(store, work)
    visit(store, work)
    store.prune("r", policy=Retention(checkpoints=Keep(last=1), compact_events=0))
    assert Kind.COMPACTED in {event.kind for event in store.events("r")}

    async def look(run: holdfast.AsyncRun) -> Any:
        found = find_step(run, "send", {"to": "Ada"})
        return found and (found.standing, found.is_pruned)

    assert visit(store, look) == ("done", True)


def test_a_number_that_turned_out_to_be_used_is_not_given_again(tmp_path: Path) -> None:
    """Below and above what was counted, and among those that are free."""
    store = holdfast.store(tmp_path / "a.db")

    async def numbers(run: holdfast.AsyncRun) -> list[int]:
        held = run._held
        held.take_number("site", 3)
        held.take_number("site", 1)
        return [held.latest_number("site"), *(held.claim("site") for _ in range(3))]

    assert visit(store, numbers) == [3, 2, 4, 5]
