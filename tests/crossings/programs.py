"""A small program for each kind of record, with what must be true of the world afterwards."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.crossings.world import Body, World, check_provenance

import holdfast

NOT_CROSSED: Final = {
    "threads": "LangGraph's own: tests/adapters/langgraph crosses its checkpoints with forks and kills",
    "queue": "a queued run is executed by a worker in a process of its own: tests/behaviour/queue, tests/crash",
    "replay": "it records nothing",
    "lineage": "what forks and rewinds record is there in every other program's cells",
    "spending": "tests/behaviour/budget: forks, rewinds, children and compaction have no outside effect",
    "hooks": "what a process receives is checked there: tests/behaviour/hooks/test_history.py, with every operation",
    "acts": "no program makes them: tests/behaviour/people/test_acts.py, with every operation",
    "mirror": "it records nothing: tests/behaviour/mirror",
    "loops": "tests/behaviour/loops: a loop ends in a stop that a person has to allow",
    "waits": "a sleep has no outside effect: tests/behaviour/people/test_waits.py",
}
"""Kinds of records without a program here, and why."""


class Program(NamedTuple):
    """What a program uses, the program, and how many times each outside thing may have happened."""

    what: str
    body: Body
    once: tuple[str, ...] = ()
    """What must have happened exactly once after every branch has run to its end."""
    sends: tuple[str, ...] = ()
    """Other calls that could happen again: letters to other runs."""
    restores: bool = False
    """Whether it restores its own states."""
    broken: tuple[str, ...] = ()
    """Which of them break off in the middle."""
    lost: tuple[str, ...] = ()
    """What a handoff to another store must list as a loss at one of the events."""
    before: Callable[[World], Any] | None = None
    """What other runs do first."""
    agrees: Callable[[World, list[tuple[holdfast.Store, str]]], None] | None = None
    """What must be true of the branches, after all of them have run."""


def once(world: World, what: str) -> Callable[[], str]:
    """A tool without arguments that has an outside effect."""

    @holdfast.tool(effect="once", name=what, settle_s=0, ignore=("world",))
    def act(*, idempotency_key: str = holdfast.KEY) -> str:
        return world.happen(what, idempotency_key)

    return act


async def _steps(world: World, run: holdfast.AsyncRun) -> Any:
    return [await run.step(f"read {name}", len, name) for name in ("a", "bb", "ccc")]


async def _effects(world: World, run: holdfast.AsyncRun) -> Any:
    await run.step("plan", len, "two letters")
    first = once(world, "letter to ada")()
    await run.step("look", len, "again")
    return [first, once(world, "letter to bob")()]


async def _doubts(world: World, run: holdfast.AsyncRun) -> Any:
    await run.step("plan", len, "a payment")
    paid = once(world, "payment")()
    await run.step("look", len, "again")
    return paid


async def _state(world: World, run: holdfast.AsyncRun) -> Any:
    state = await run.restore({"n": 0})
    while state["n"] < 4:
        once(world, f"letter {state['n']}")()
        state = {"n": state["n"] + 1}
        await run.checkpoint(state)
    return state


async def _conversation(world: World, run: holdfast.AsyncRun) -> Any:
    for text in ("hello", "how are you?", "bye"):
        await run.messages.append({"role": "user", "content": text})
        await run.step(f"answer {text}", len, text)
    return [message["content"] for message in run.messages]


async def _model(world: World, run: holdfast.AsyncRun) -> Any:
    return [
        await run.model("ask", lambda request: world.happen(f"call {request}"), question, model="m")
        for question in ("who", "why")
    ]


async def _questions(world: World, run: holdfast.AsyncRun) -> Any:
    await run.step("plan", len, "ask first")
    answer = await run.ask("May I pay?", choices=["yes", "no"])
    return once(world, "payment")() if answer == "yes" else answer


def _receiver(world: World) -> None:
    world.enter("receiver", lambda _, run: run.receive())


async def _promises(world: World, run: holdfast.AsyncRun) -> Any:
    await run.step("plan", len, "a promise")
    promise = await run.promise("the figures", to="receiver")
    once(world, "figures")()
    return (await run.keep(promise, note="sent")).state


def _promises_agree(world: World, branches: list[tuple[holdfast.Store, str]]) -> None:
    """Both ends say the same of every promise that the receiver has heard of."""
    world.enter("receiver", lambda _, run: run.receive())
    heard = {one.id: one.state for one in world.store.promises("receiver").received}
    for store, run in branches:
        for made in store.promises(run).made:
            if store is world.store and made.id in heard:
                assert heard[made.id] == made.state, made


async def _messages(world: World, run: holdfast.AsyncRun) -> Any:
    await run.step("plan", len, "two messages")
    for number in (1, 2):
        await run.send("receiver", {"n": number})
        await run.step(f"sent {number}", len, "x")
    return "sent"


def _messages_agree(world: World, branches: list[tuple[holdfast.Store, str]]) -> None:
    """Each was delivered once, in order."""

    async def read_all(_: World, run: holdfast.AsyncRun) -> Any:
        return [(await run.receive()).value["n"] for _ in range(3)]

    world.enter("receiver", read_all)
    store = world.store
    got = [
        store.content(event)["value"]["n"]
        for event in store.events("receiver")
        if event.kind == "message.received"
    ]
    assert got == [1, 2], got


async def _facts(world: World, run: holdfast.AsyncRun) -> Any:
    await run.step("look", len, "sky")
    first = await run.remember("The sky is blue today.")
    await run.step("look", len, "grass")
    return [first.id, (await run.remember("Grass grows in spring.")).id]


def _facts_agree(world: World, branches: list[tuple[holdfast.Store, str]]) -> None:
    """Every store in which a branch works has both, once; each names an event that can be found."""
    for store in {id(one): one for one, _ in branches}.values():
        known = store.memory.list()
        assert sorted(fact.text for fact in known) == ["Grass grows in spring.", "The sky is blue today."]
        check_provenance(store)


async def _reasoning(world: World, run: holdfast.AsyncRun) -> Any:
    await run.plan(["look", "write"])
    await run.discover("The feed is in UTC.")
    await run.step("look", len, "x")
    await run.decide("Use UTC.", because="the feed does")
    return "thought"


async def _premises(world: World, run: holdfast.AsyncRun) -> Any:
    data = world.directory / "data.csv"
    if not data.exists():
        data.write_text("1,2,3")
    await run.depends_on(data)
    return await run.step("read", len, "1,2,3")


async def _artifacts(world: World, run: holdfast.AsyncRun) -> Any:
    path = world.directory / "report.md"
    async with run.open(path, "w") as file:
        file.write("one")
    await run.step("look", len, "x")
    async with run.open(path, "w") as file:
        file.write("two")
    return "written"


@holdfast.agent(name="crossed child")
def _child(run: holdfast.Run, what: str) -> str:
    run.step("plan", len, what)
    return str(once(_WORLDS[run.id.partition("/")[0]], what)())


_WORLDS: dict[str, World] = {}
"""The world of a child, by the name of its parent: an agent is a function of its module, and gets plain values."""


async def _children(world: World, run: holdfast.AsyncRun) -> Any:
    _WORLDS[run.id] = world
    await run.step("plan", len, "two children")
    first = await run.child("one", _child, "letter of one")
    return [first, await run.child("two", _child, "letter of two")]


async def _pins(world: World, run: holdfast.AsyncRun) -> Any:
    for number in range(3):
        await run.step(f"read {number}", len, "x")
        await run.checkpoint({"n": number}, label=f"c{number}")
    return "labelled"


async def _code(world: World, run: holdfast.AsyncRun) -> Any:
    await run.step("plan", len, "x")
    return once(world, "new letter" if await run.patched("new letters") else "old letter")()


PROGRAMS: Final = (
    Program("steps", _steps),
    Program("effects", _effects, once=("letter to ada", "letter to bob")),
    Program("doubts", _doubts, once=("payment",), broken=("payment",)),
    Program("state", _state, once=("letter 0", "letter 1", "letter 2", "letter 3"), restores=True),
    Program("conversation", _conversation),
    Program("model", _model),
    Program("questions", _questions, once=("payment",), lost=("question",)),
    Program(
        "promises",
        _promises,
        once=("figures",),
        sends=("tell of a promise",),
        lost=("promise",),
        before=_receiver,
        agrees=_promises_agree,
    ),
    Program("messages", _messages, sends=("send",), before=_receiver, agrees=_messages_agree),
    Program("facts", _facts, lost=("fact",), agrees=_facts_agree),
    Program("reasoning", _reasoning),
    Program("premises", _premises),
    Program("artifacts", _artifacts, lost=("artifact",)),
    Program("pins", _pins),
    Program("children", _children, once=("letter of one", "letter of two")),
    Program("code", _code, once=("new letter",)),
)
