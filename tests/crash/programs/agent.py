"""The agents that are killed: ``agent.py replay | restore | autosave | gather | threads | many | unverified [snapshots] [sealed]``.

``sealed``: in an encrypted store.

What they do to the outside world, they do to files in the working directory, one JSON line each, so that a test can
tell afterwards what really happened: ``ledger`` (once effects), ``uploads`` (idempotent ones), ``executions`` (every
function that ran) and ``acks`` (every recording call that returned). A line that was written survives SIGKILL.

A file ``die`` names a place in the tools' own code at which the process kills itself, once.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import holdfast

attempts: dict[str, int] = {}
"""The attempt of each run in this process."""


# -- the outside world ------------------------------------------------------------------------------------------


def tell(file: str, **line: Any) -> None:
    """Add a line to a file of the outside world: what, and by which process, run and attempt."""
    run = holdfast.current().id
    told = {"run": run, "attempt": attempts[run], "pid": os.getpid(), **line}
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, json.dumps(told).encode() + b"\n")
    os.close(fd)


def lines(file: str) -> list[dict[str, Any]]:
    path = Path(file)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ack(name: str, value: Any) -> Any:
    """A recording call has returned: from here on, its record must never be lost."""
    tell("acks", name=name, value=value)
    return value


def execute(name: str, *args: Any) -> None:
    """A function has begun to run."""
    tell("executions", name=name, args=args)


def place(name: str) -> None:
    """A place in the tools' own code; the test may have asked to die here."""
    order = Path("die")
    if order.exists() and order.read_text() == name:
        order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


# -- functions and tools ----------------------------------------------------------------------------------------


def survey(size: int) -> list[str]:
    execute("survey", size)
    return ["ada", "bob", "eve"][:size]


def look_up(person: str) -> str:
    execute("look_up", person)
    place(f"look_up:{person}")
    return f"{person} is owed 5"


def outline(person: str) -> str:
    """A step with steps inside: a read one and an idempotent tool."""
    execute("outline", person)
    run = holdfast.current()
    assert isinstance(run, holdfast.Run)
    fact = ack("look_up", run.step("look_up", look_up, person))
    upload(f"{fact}.")
    return f"# {fact}"


async def outline_async(person: str) -> str:
    execute("outline", person)
    run = holdfast.current()
    assert isinstance(run, holdfast.AsyncRun)
    fact = ack("look_up", await run.step("look_up", look_up, person))
    await upload_async(f"{fact}.")
    return f"# {fact}"


def flaky() -> None:
    execute("flaky")
    raise ValueError("the feed is down")


def big() -> str:
    """More than stands in an event: it goes into a blob."""
    execute("big")
    return "x" * 40_000


def keep(text: str, key: str) -> int:
    execute("upload", text)
    place("upload:before")
    tell("uploads", key=key, text=text)
    place("upload:after")
    return len(text)


def report(text: str, *, idempotency_key: str = holdfast.KEY) -> int:
    execute("report", text)
    tell("uploads", key=idempotency_key, text=text)
    return len(text)


@holdfast.tool(effect="idempotent")
def upload(text: str, *, idempotency_key: str = holdfast.KEY) -> int:
    return keep(text, idempotency_key)


@holdfast.tool(effect="idempotent", name="upload")
async def upload_async(text: str, *, idempotency_key: str = holdfast.KEY) -> int:
    await asyncio.sleep(0)
    return keep(text, idempotency_key)


def pay(person: str, amount: int, key: str) -> dict[str, Any]:
    """The effect that must not happen twice."""
    execute("charge", person)
    place(f"charge:{person}:before")
    tell("ledger", key=key, person=person, amount=amount)
    place(f"charge:{person}:after")
    return {"paid": person, "amount": amount}


def find_charge(idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    place("verify")
    for line in lines("ledger"):
        if line["key"] == idempotency_key:
            return holdfast.Done({"paid": line["person"], "amount": line["amount"]})
    return holdfast.NotDone()


@holdfast.tool(effect="once", verify=find_charge, settle_s=0)
def charge(person: str, amount: int, *, idempotency_key: str = holdfast.KEY) -> dict[str, Any]:
    return pay(person, amount, idempotency_key)


@holdfast.tool(effect="once", verify=find_charge, settle_s=0, name="charge")
async def charge_async(person: str, amount: int, *, idempotency_key: str = holdfast.KEY) -> dict[str, Any]:
    await asyncio.sleep(0)
    receipt = pay(person, amount, idempotency_key)
    await asyncio.sleep(0)
    return receipt


@holdfast.tool(effect="once", settle_s=0, name="charge")
def charge_unverified(person: str, amount: int, *, idempotency_key: str = holdfast.KEY) -> dict[str, Any]:
    return pay(person, amount, idempotency_key)


# -- the agents -------------------------------------------------------------------------------------------------


def enter(run: holdfast.Run | holdfast.AsyncRun) -> None:
    # A finished run only replays, without an attempt of its own: nothing may run under this number.
    attempts[run.id] = run.attempt + (run.status == "finished")
    ack("attempt", run.attempt)


def replay() -> None:
    """Straight code: it runs from the top each time, and recorded calls answer at once."""
    with holdfast.run("agent", goal="pay everyone", inputs={"size": 2}) as run:
        enter(run)
        run.plan(["survey", "pay", "report"])
        ack("plan", {"steps": ["survey", "pay", "report"]})
        ack("now", run.now().isoformat())
        ack("random", run.random())
        people = ack("survey", run.step("survey", survey, 2))
        receipts = []
        for person in people:
            note = ack("outline", run.step("outline", outline, person))
            run.think(note)
            ack("thought", {"text": note})
            receipts.append(ack("charge", charge(person, 5)))
        with run.scope("again"):
            receipts.append(ack("charge", charge("ada", 5)))
        size = ack("big", len(run.step("big", big)))
        try:
            run.step("flaky", flaky)
        except ValueError as error:
            ack("flaky", str(error))
            run.decide("go without the feed", because=str(error))
            ack("decision", {"text": "go without the feed", "because": str(error)})
        run.checkpoint({"receipts": receipts}, label="paid")
        ack("checkpoint", {"receipts": receipts})
        kept = ack("report", run.options(key="the-report", idempotent=True).step("report", report, "done"))
        run.finish({"receipts": receipts, "size": size, "kept": kept})
        ack("", {"receipts": receipts, "size": size, "kept": kept})


def restore() -> None:
    """A loop that checkpoints its state, and goes on from the latest one."""
    with holdfast.run("agent") as run:
        enter(run)
        state = run.restore({"next": 0, "receipts": []})
        people = ["ada", "bob", "eve"]
        while state["next"] < len(people):
            person = people[state["next"]]
            fact = ack("look_up", run.step("look_up", look_up, person))
            receipt = ack("charge", charge(person, 7))
            # The same call in every round: its number must go on from the checkpoint, not from 1.
            total = ack("survey", run.step("survey", survey, 1))
            state = {
                "next": state["next"] + 1,
                "receipts": [*state["receipts"], receipt, fact, *total],
            }
            run.checkpoint(state)
            ack("checkpoint", state)
        run.finish(state)
        ack("", state)


def autosave() -> None:
    """A loop whose state is saved by itself, before every step; the journal keeps its conversation."""
    with holdfast.run("agent") as run:
        enter(run)
        state: dict[str, Any] = run.restore({"next": 0, "receipts": []})
        run.autosave(lambda: state, every_steps=1)
        people = ["ada", "bob", "eve"]
        while state["next"] < len(people):
            person = people[state["next"]]
            if len(run.messages) < 2 * state["next"] + 1:
                run.messages.append({"pay": person})
                ack("messages", [{"pay": person}])
            receipt = ack("charge", charge(person, 7))
            if len(run.messages) < 2 * state["next"] + 2:
                run.messages.append({"paid": person})
                ack("messages", [{"paid": person}])
            total = ack("survey", run.step("survey", survey, 1))
            state = {"next": state["next"] + 1, "receipts": [*state["receipts"], receipt, *total]}
        result = {"receipts": state["receipts"], "messages": list(run.messages)}
        run.finish(result)
        ack("", result)


async def gather() -> None:
    """Steps side by side: nested ones, once effects, plain functions in threads."""
    async with holdfast.run("agent", inputs={"size": 3}) as run:
        enter(run)
        await run.plan(["survey", "pay"])
        ack("plan", {"steps": ["survey", "pay"]})
        people = ack("survey", await run.step("survey", survey, 3))

        async def noted(person: str) -> str:
            note: str = ack("outline", await run.step("outline", outline_async, person))
            await run.think(note)
            ack("thought", {"text": note})
            return note

        async def paid(person: str) -> dict[str, Any]:
            receipt: dict[str, Any] = ack("charge", await charge_async(person, 5))
            return receipt

        notes = await asyncio.gather(*map(noted, people))
        receipts = await asyncio.gather(*map(paid, people))
        async with asyncio.TaskGroup() as group:
            bigs = [group.create_task(run.step("big", big)), group.create_task(run.step("survey", survey, 1))]
        await run.checkpoint({"receipts": receipts}, label="paid")
        ack("checkpoint", {"receipts": receipts})
        result = {"notes": notes, "receipts": receipts, "sizes": [len(task.result()) for task in bigs]}
        await run.finish(result)
        ack("", result)


def threads() -> None:
    """Steps from threads: plain ones that share the run's place, each with a name of its own to be told apart by."""
    with holdfast.run("agent") as run:
        enter(run)

        def work(person: str) -> list[Any]:
            return [ack("look_up", run.step("look_up", look_up, person)), ack("charge", charge(person, 5))]

        with ThreadPoolExecutor(3) as pool:
            done = list(pool.map(run.bind(work), ["ada", "bob", "eve"]))
        run.finish(done)
        ack("", done)


async def many() -> None:
    """Several runs in one process and one loop: they share commits."""

    async def one(number: int) -> None:
        async with holdfast.run(f"agent-{number}") as run:
            enter(run)
            fact = ack("look_up", await run.step("look_up", look_up, f"person {number}"))
            receipt = ack("charge", await charge_async(f"person {number}", number))
            await run.think(fact)
            ack("thought", {"text": fact})
            await run.finish([fact, receipt])
            ack("", [fact, receipt])

    await asyncio.gather(*map(one, range(3)))


def unverified() -> None:
    """Once tools that nobody can ask: cut off, they wait for a person."""
    with holdfast.run("agent") as run:
        enter(run)
        receipts = [ack("charge", charge_unverified(person, 5)) for person in ("ada", "bob")]
        fact = ack("look_up", run.step("look_up", look_up, "ada"))
        run.finish({"receipts": receipts, "fact": fact})
        ack("", {"receipts": receipts, "fact": fact})


def main(name: str) -> None:
    agents: dict[str, Callable[[], Any]] = {
        agent.__name__: agent for agent in (replay, restore, autosave, gather, threads, many, unverified)
    }
    agent = agents[name]
    if asyncio.iscoroutinefunction(agent):
        asyncio.run(agent())
    else:
        agent()


def snapshot_often() -> None:
    """Leave a snapshot after every few events, in many chunks, and page bodies in by twos."""
    from holdfast.engine.journal import load_view

    for name, value in {"SNAPSHOT_EVENTS_MIN": 3, "SNAPSHOT_CHUNK_BYTES": 300, "PAGE_EVENTS": 2}.items():
        assert hasattr(load_view, name)
        setattr(load_view, name, value)


if __name__ == "__main__":
    if "snapshots" in sys.argv[2:]:
        snapshot_often()
    if "sealed" in sys.argv[2:]:
        os.environ["HOLDFAST_KEY"] = "00" * 32
    try:
        main(sys.argv[1])
    except holdfast.StepInDoubt as stop:
        Path("stop").write_text(stop.key)
        sys.exit(3)
