"""A client drives a run through crash and takeover: what it did happens once, and the journal says exactly what happened."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.mcp.client import WAIT_S, Client, Reply, over_stdio

import holdfast
from holdfast.model.events import Kind

GOAL = "Publish 1.4"
PACKAGE = {"version": "1.4"}


class World:
    """The outside world: what was published stands in a file."""

    def __init__(self, place: Path) -> None:
        self.store = place / "runs.db"
        self._ledger = place / "ledger"

    def publish(self, key: str = "") -> None:
        with self._ledger.open("a") as ledger:
            ledger.write(f"published {key}\n")

    @property
    def published(self) -> list[str]:
        return self._ledger.read_text().splitlines() if self._ledger.exists() else []

    def journal(self) -> list[tuple[str, str]]:
        return [(event.kind, event.name) for event in holdfast.store(self.store).events("release")]


async def begin(client: Client) -> Reply:
    return await client("begin_step", name="publish", arguments=PACKAGE)


async def killed_in_the_middle(world: World) -> None:
    async with over_stdio(world.store, "--all") as first:
        started = await first("start_run", run="release", goal=GOAL)
        assert started.facts == {"run": "release", "status": "started", "attempt": 1}
        await first("set_plan", steps=["run tests", "publish"])
        await first("record_step", name="run tests", arguments={"command": "pytest"}, result="3 passed")
        go = await begin(first)
        assert (go.facts["status"], go.facts["step"]) == ("go", 6)
        world.publish()
        first.kill()
        with pytest.raises(Exception, match=r"(?i)closed"):
            await first("finish_step", step=6, result="ok")

    async with over_stdio(world.store, "--all") as second:
        resumed = await second("start_run", run="release", goal="Release version 1.4")
        assert (resumed.facts["status"], resumed.facts["attempt"]) == ("resumed", 2)
        (doubt,) = resumed.facts["in_doubt"]
        assert (doubt["step"], doubt["name"], doubt["arguments"]) == (6, "publish", PACKAGE)
        assert doubt["idempotency_key"] == go.facts["idempotency_key"]
        assert "Its recorded goal stays: 'Publish 1.4'" in resumed.text
        assert "it is not known whether it happened" in resumed.text
        assert '"run tests"(command="pytest") returned "3 passed"' in resumed.text

        asked = await begin(second)
        assert (asked.facts["status"], asked.is_error) == ("in_doubt", False)
        early = await second("finish_run", result="done?")
        assert (early.is_error, early.facts["error"]) == (True, "Misuse")
        late = await second("finish_step", step=6, result="ok")
        assert "resolve_step(step=6" in late.text

        settled = await second(
            "resolve_step", step=6, outcome="done", evidence="it is in the index", result="ok"
        )
        assert settled.facts == {"status": "done", "step": 6}
        done = await begin(second)
        assert (done.facts["status"], done.facts["result"]) == ("already_done", "ok")
        await second("finish_run", result="1.4 is out")

    assert world.published == ["published "]
    assert world.journal() == [
        (Kind.RUN_STARTED, ""),
        (Kind.ATTEMPT_STARTED, ""),
        (Kind.MARK, "plan"),
        (Kind.STEP_STARTED, "run tests"),
        (Kind.STEP_FINISHED, "run tests"),
        (Kind.STEP_STARTED, "publish"),
        (Kind.ATTEMPT_CRASHED, ""),
        (Kind.ATTEMPT_STARTED, ""),
        (Kind.RESTORED, ""),
        (Kind.MARK, "decision"),
        (Kind.STEP_SETTLED, "publish"),
        (Kind.RUN_FINISHED, ""),
        (Kind.ATTEMPT_ENDED, ""),
    ]
    assert holdfast.store(world.store).get("release").status == "finished"


def test_a_server_killed_in_the_middle_of_an_effect(tmp_path: Path) -> None:
    """The next one takes the run over at once; the effect is in doubt, is not repeated, and is settled by evidence.

    Planted: the client told to go before the intent is in the journal; ``begin_step`` that passes over what is in doubt; a settled
    step whose number the next call gets; ``doubtful`` that takes every open call of a held run for running.
    """
    world = World(tmp_path)
    asyncio.run(killed_in_the_middle(world))


MOMENTS = ("before the act", "after the act", "after finish")


async def release(world: World, client: Client, run: str, die_at: str) -> bool:
    """Publish under the step's idempotency key; whether it came to its end before the server died at that moment."""

    def dies(moment: str) -> bool:
        if moment == die_at:
            client.kill()
        return moment == die_at

    await client("start_run", run=run, goal=GOAL)
    go = await client("begin_step", name="publish", arguments=PACKAGE, effect="idempotent")
    if go.facts["status"] == "go":
        if dies("before the act"):
            return False
        world.publish(f"{run} {go.facts['idempotency_key']}")
        if dies("after the act"):
            return False
        await client("finish_step", step=go.facts["step"], result="ok")
    if dies("after finish"):
        return False
    return not (await client("finish_run", result="1.4 is out")).is_error


async def walk(world: World) -> None:
    """Every server ends what the one before was killed in, and is killed in the next run at the next moment."""
    for number in range(len(MOMENTS) + 1):
        async with over_stdio(world.store, "--all") as client:
            if number > 0:
                assert await release(world, client, MOMENTS[number - 1], "never")
            if number < len(MOMENTS):
                assert not await release(world, client, MOMENTS[number], MOMENTS[number])


def test_wherever_the_server_dies_the_same_client_comes_to_the_same_end(tmp_path: Path) -> None:
    """An idempotent step is begun again under the same key, so that the service takes it once; one that is done is not."""
    world = World(tmp_path)
    asyncio.run(walk(world))
    store = holdfast.store(world.store)
    for moment in MOMENTS:
        published = [line for line in world.published if f"published {moment} " in line]
        assert len(set(published)) == 1, moment
        assert len(published) == (2 if moment == "after the act" else 1), moment
        assert store.get(moment).status == "finished", moment
        ends = [event for event in store.events(moment) if event.kind == Kind.STEP_FINISHED]
        assert len(ends) == 1, moment


async def _left_by(world: World, leave: Callable[[Client], Awaitable[None]]) -> None:
    async with over_stdio(world.store, "--all") as client:
        await client("start_run", run="release", goal=GOAL)
        await begin(client)
        await client("begin_step", name="build", arguments={}, effect="read")
        await leave(client)


async def _terminate(client: Client) -> None:
    pid = client.kill(signal.SIGTERM)
    until = time.monotonic() + WAIT_S
    while not has_ended(pid):
        assert time.monotonic() < until, "the server does not end"
        await asyncio.sleep(0.02)


def has_ended(pid: int) -> bool:
    """Whether the process is gone, or waits for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


async def _hang_up(_: Client) -> None:
    """By closing stdin."""


@pytest.mark.parametrize("leave", [_terminate, _hang_up])
def test_a_run_that_is_left_can_be_resumed(
    tmp_path: Path, leave: Callable[[Client], Awaitable[None]]
) -> None:
    """SIGTERM, or a client that goes away: the attempt has an end, the lease is free, an effect is in doubt.

    Planted: a server that ends without leaving its runs: the attempt has no end.
    """
    world = World(tmp_path)
    asyncio.run(_left_by(world, leave))
    store = holdfast.store(world.store)
    info = store.get("release")
    assert (info.status, info.holder) == ("in_doubt", None)
    assert world.journal()[-2:] == [(Kind.STEP_DOUBTED, "publish"), (Kind.ATTEMPT_ENDED, "")]
    (doubt,) = store.doubts("release")
    assert doubt.reason == "was cut off by SessionEnded"
