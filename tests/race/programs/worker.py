"""What the workers do: ``worker.py MODE URL``. They tell JSON lines on stdout and are told words on stdin.

With ``CLOCK_OFF_S`` in its environment a worker's clock is wrong by so much; with ``NO_LOOK`` one that waits is woken by
letters only, and never looks into its inbox by itself.

A payment is a line in the file ``ledger``, with the pid of who made it.
"""

import asyncio
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from holdfast.clock import SystemClock
from holdfast.engine.people import waits

PATIENCE_S = 60.0


def tell(told: str, **fields: Any) -> None:
    # In one piece, since several threads tell; without a buffer, since a signal handler may tell in between.
    os.write(sys.stdout.fileno(), json.dumps({"told": told, **fields}).encode() + b"\n")


def hear(word: str) -> None:
    heard = b""
    while not heard.endswith(b"\n"):
        # In slices: Python handles a signal that comes just before a blocking read only when the read returns.
        if select.select([0], [], [], 0.1)[0]:
            piece = os.read(0, 1)
            if not piece:
                break
            heard += piece
    assert heard.decode().strip() == word, f"waited for {word!r}, heard {heard!r}"


def pay() -> dict[str, Any]:
    """The effect: waits for the word, then happens."""
    tell("inside", pid=os.getpid())
    hear("pay")
    with Path("ledger").open("a") as ledger:
        ledger.write(f"{os.getpid()}\n")
    tell("paid")
    return {"paid_by": os.getpid()}


def find_nothing() -> holdfast.NotDone:
    return holdfast.NotDone("the ledger is empty")


charge = holdfast.tool(effect="once", settle_s=0, name="charge")(pay)
charge_verified = holdfast.tool(effect="once", settle_s=0, name="charge", verify=find_nothing)(pay)


def first() -> str:
    return "first"


# -- modes ------------------------------------------------------------------------------------------------------


def contend(url: str, rounds: str) -> None:
    """Start the same run as everybody else, at the same moment, again and again."""
    for number in range(int(rounds)):
        tell("ready")
        hear("go")
        try:
            with holdfast.run(f"run-{number}", store=url) as run:
                tell("won", pid=os.getpid(), attempt=run.attempt)
                charge()
        except holdfast.RunHeld as held:
            tell("refused", owner=held.owner, fence=held.fence, since=held.since, text=str(held))


def die(url: str, *runs: str) -> None:
    """Leave runs behind that are held by a dead process."""
    for run in runs:
        holdfast.run(run, store=url).open().step("first", first)
    os.kill(os.getpid(), signal.SIGKILL)


def work(url: str, *options: str) -> None:
    """A step, a payment, a result. ``patient``: ask again while the run is held. ``pause``: wait before paying."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with holdfast.run("run", store=url) as run:
                tell("entered", pid=os.getpid(), attempt=run.attempt, status=run.status)
                run.step("first", first)
                if "pause" in options:
                    tell("paused")
                    hear("go")
                receipt = charge_verified() if "verified" in options else charge()
                run.finish(receipt)
                tell("finished", result=receipt)
                return
        except holdfast.RunHeld as held:
            if "patient" not in options or time.monotonic() > deadline:
                tell("refused", owner=held.owner, text=str(held))
                return
            time.sleep(0.02)


def read_late(url: str) -> None:
    """A read step that is begun after a pause in which anything may have happened to the lease."""
    with holdfast.run("run", store=url) as run:
        run.step("first", first)
        tell("paused")
        hear("go")
        run.step("slow", slow)
        tell("finished")


def interrupt(url: str, *options: str) -> None:
    """Told to stop in the middle of a step: of a read one, or (``once``) of a payment, or of a nested run's."""
    with holdfast.run("run", store=url, drain_s=drain_of(options)) as run:
        run.step("first", first)
        if "own" in options:
            signal.signal(signal.SIGTERM, lambda *_: tell("handled"))
        if "nested" in options:
            with holdfast.run("inner", drain_s=drain_of(options)):
                charge()
        elif "twice" in options:
            run.once("charge", pay)
            run.once("again", pay)
        elif "timed" in options:
            run.options(timeout_s=PATIENCE_S).once("charge", pay)
        elif "once" in options:
            charge()
        else:
            run.step("slow", slow)
        tell("finished")


def slow() -> str:
    tell("inside", pid=os.getpid())
    hear("go")
    return "slow"


def drain_of(options: tuple[str, ...]) -> float:
    return next((float(option.removeprefix("drain=")) for option in options if "drain=" in option), 60.0)


async def pay_async() -> dict[str, Any]:
    """The effect, awaited: a cancellation reaches it."""
    return await asyncio.shield(asyncio.to_thread(pay))


async def interrupt_async(url: str, *options: str) -> None:
    if "own" in options:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, tell, "handled")
    async with holdfast.run("run", store=url, drain_s=drain_of(options)) as run:
        await run.step("first", first)
        if "nested" in options:

            async def inner() -> None:
                async with holdfast.run("inner", drain_s=drain_of(options)) as run:
                    await run.once("charge", pay_async)

            await asyncio.gather(inner(), run.step("slow", asyncio.sleep, 1000))
        elif "beside" in options:
            async with asyncio.TaskGroup() as group:
                group.create_task(run.once("charge", pay_async))
                group.create_task(run.step("slow", asyncio.sleep, 1000))
        elif "twice" in options:
            await run.once("charge", pay_async)
            await run.once("again", pay_async)
        elif "awaited" in options:
            await run.once("charge", pay_async)
        elif "once" in options:
            try:
                # A plain function: it goes on in its thread when its task is cancelled.
                await run.once("charge", pay)
            except asyncio.CancelledError:
                tell("leaving")
                raise
        elif "group" in options:
            async with asyncio.TaskGroup() as group:
                group.create_task(run.step("slow", asyncio.sleep, 1000))
                group.create_task(run.step("slow", announced))
        else:
            await run.step("slow", announced)
        tell("finished")


async def interrupt_many(url: str, how: str) -> None:
    """Several runs in one loop, told to stop while each is in the middle of a step."""

    async def one(number: int) -> None:
        async with holdfast.run(f"run-{number}", store=url) as run:
            await run.step("slow", announced)

    async def paying() -> None:
        async with holdfast.run("run-paying", store=url) as run:
            try:
                await run.once("charge", pay)
            except asyncio.CancelledError:
                tell("leaving")
                raise

    if how == "gather":
        await asyncio.gather(*map(one, range(3)))
    elif how == "paying":
        async with asyncio.TaskGroup() as group:
            group.create_task(one(0))
            group.create_task(paying())
    else:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(one(number))


async def announced() -> None:
    tell("inside", pid=os.getpid())
    await asyncio.sleep(1000)


def thread(url: str, drain_s: str, *options: str) -> None:
    """Told to stop while another thread is in the middle of a call."""
    with holdfast.run("run", store=url, drain_s=float(drain_s)) as run:

        def elsewhere() -> None:
            if "once" in options:
                charge()
            else:
                run.step("slow", slow)

        try:
            threading.Thread(target=run.bind(elsewhere), daemon=True).start()
            threading.Event().wait()
        except BaseException:
            tell("leaving")
            raise


def fork(url: str, how: str) -> None:
    """Fork inside the run; the child tries everything it must not do, and leaves (``how``)."""
    store = holdfast.store(url)
    with holdfast.run("run", store=store) as run:
        run.step("first", first)
        if how == "inside":
            run.step("forks", lambda: fork_once(run, store, "leave"))
        else:
            fork_once(run, store, how)
        receipt = run.step("after", first)
        run.finish(receipt)
    tell("finished", result=receipt)


def fork_once(run: holdfast.Run, store: holdfast.Store, how: str) -> None:
    if os.fork() == 0:
        refusals = {}
        uses: dict[str, Callable[[], object]] = {
            "step": lambda: run.step("child", first),
            "tool": charge,
            "think": lambda: run.think("…"),
            "checkpoint": lambda: run.checkpoint({}),
            "finish": lambda: run.finish("child"),
            "get": lambda: store.get("run"),
            "runs": store.runs,
        }
        for name, use in uses.items():
            try:
                use()
                refusals[name] = "nothing"
            except BaseException as refused:
                refusals[name] = type(refused).__name__
        tell("child", refusals=refusals)
        if how == "exit":
            os._exit(0)
        sys.exit(7)  # through the run's own block, which is the parent's to leave
    _, status = os.wait()
    tell("reaped", code=os.waitstatus_to_exitcode(status))


def wait(url: str, how: str) -> None:
    """Wait in the process: for an answer, or for a time that nobody will see."""
    with holdfast.run("run", store=url) as run:
        tell("entered", pid=os.getpid())
        if how == "ask":
            run.finish(run.ask("Go on?", returns=bool, wait_s=None))
        else:
            run.sleep(100_000)
    tell("finished")


async def wait_async(url: str, how: str) -> None:
    async with holdfast.run("run", store=url) as run:
        tell("entered", pid=os.getpid())
        if how == "ask":
            await run.finish(await run.ask("Go on?", returns=bool, wait_s=None))
        else:
            await run.sleep(100_000)
    tell("finished")


def answer(url: str, name: str) -> None:
    """Answer when told to, at the same moment as everybody else."""
    store = holdfast.store(url)
    store.questions("run")
    tell("ready")
    hear("go")
    try:
        store.answer("run", name == "ada", by=name)
        tell("accepted")
    except holdfast.AlreadyAnswered as refused:
        tell("refused", text=str(refused))
    except holdfast.UnknownQuestion as refused:  # the run has gone on, and finished
        tell("refused", text=str(refused))


def main(mode: str, *arguments: str) -> None:
    modes: dict[str, Any] = {
        f.__name__: f for f in (contend, die, work, read_late, interrupt, thread, fork, wait, answer)
    }
    if off_s := float(os.environ.get("CLOCK_OFF_S", "0")):
        SystemClock.wall = staticmethod(lambda: time.time() + off_s)
    if "NO_LOOK" in os.environ:
        vars(waits)["WAIT_LOOK_S"] = 3_600.0
    try:
        if mode == "wait_async":
            asyncio.run(wait_async(*arguments))
        elif mode == "interrupt_async":
            asyncio.run(interrupt_async(*arguments))
        elif mode == "interrupt_many":
            asyncio.run(interrupt_many(*arguments))
        else:
            modes[mode](*arguments)
    except holdfast.StepInDoubt as stop:
        tell("in_doubt", step=stop.step, key=stop.key, reason=stop.reason)
        sys.exit(3)
    except holdfast.Cancelled as stop:
        tell("cancelled", by=stop.by)
        sys.exit(1)
    except holdfast.LeaseLost as stop:
        tell("lease_lost", fence=stop.fence, fence_now=stop.fence_now, owner=stop.owner)
        sys.exit(4)


if __name__ == "__main__":
    main(*sys.argv[1:])
