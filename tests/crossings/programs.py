"""A small program for each kind of record, with what must be true of the world afterwards."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.crossings.world import Body, World

import holdfast

NOT_CROSSED: Final = {
    "threads": "LangGraph's own: tests/adapters/langgraph crosses its checkpoints with forks and kills",
    "queue": "a queued run is executed by a worker in a process of its own: tests/behaviour/queue, tests/crash",
    "replay": "it records nothing",
    "lineage": "what forks and rewinds record is there in every other program's cells",
    "spending": "tests/behaviour/budget: forks, rewinds, children and compaction have no outside effect",
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
    broken: tuple[str, ...] = ()
    """Which of them break off in the middle."""
    before: Callable[[World], Any] | None = None
    """What other runs do first."""
    agrees: Callable[[World, list[tuple[holdfast.Store, str]]], None] | None = None
    """What must be true of the branches, after all of them have run."""


def once(world: World, what: str) -> Callable[[], str]:
    """A tool without arguments that has an outside effect."""

    @holdfast.tool(effect="once", name=what, settle_s=0, ignore=("world",))
    def act() -> str:
        return world.happen(what)

    return act


def _steps(world: World, run: holdfast.Run) -> Any:
    return [run.step(f"read {name}", len, name) for name in ("a", "bb", "ccc")]


def _effects(world: World, run: holdfast.Run) -> Any:
    run.step("plan", len, "two letters")
    first = once(world, "letter to ada")()
    run.step("look", len, "again")
    return [first, once(world, "letter to bob")()]


def _doubts(world: World, run: holdfast.Run) -> Any:
    run.step("plan", len, "a payment")
    paid = once(world, "payment")()
    run.step("look", len, "again")
    return paid


def _state(world: World, run: holdfast.Run) -> Any:
    state = run.restore({"n": 0})
    while state["n"] < 4:
        once(world, f"letter {state['n']}")()
        state = {"n": state["n"] + 1}
        run.checkpoint(state)
    return state


def _conversation(world: World, run: holdfast.Run) -> Any:
    for text in ("hello", "how are you?", "bye"):
        run.messages.append({"role": "user", "content": text})
        run.step(f"answer {text}", len, text)
    return [message["content"] for message in run.messages]


def _model(world: World, run: holdfast.Run) -> Any:
    return [
        run.model("ask", lambda request: world.happen(f"call {request}"), question, model="m")
        for question in ("who", "why")
    ]


def _questions(world: World, run: holdfast.Run) -> Any:
    run.step("plan", len, "ask first")
    answer = run.ask("May I pay?", choices=["yes", "no"])
    return once(world, "payment")() if answer == "yes" else answer


def _receiver(world: World) -> None:
    world.enter("receiver", lambda _, run: run.receive())


def _promises(world: World, run: holdfast.Run) -> Any:
    run.step("plan", len, "a promise")
    promise = run.promise("the figures", to="receiver")
    once(world, "figures")()
    return run.keep(promise, note="sent").state


def _promises_agree(world: World, branches: list[tuple[holdfast.Store, str]]) -> None:
    """Both ends say the same of every promise that the receiver has heard of."""
    world.enter("receiver", lambda _, run: run.receive())
    heard = {one.id: one.state for one in world.store.promises("receiver").received}
    for store, run in branches:
        for made in store.promises(run).made:
            if store is world.store and made.id in heard:
                assert heard[made.id] == made.state, made


def _messages(world: World, run: holdfast.Run) -> Any:
    run.step("plan", len, "two messages")
    for number in (1, 2):
        run.send("receiver", {"n": number})
        run.step(f"sent {number}", len, "x")
    return "sent"


def _messages_agree(world: World, branches: list[tuple[holdfast.Store, str]]) -> None:
    """Each was delivered once, in order."""

    def read_all(_: World, run: holdfast.Run) -> Any:
        return [run.receive().value["n"] for _ in range(3)]

    world.enter("receiver", read_all)
    store = world.store
    got = [
        store.content(event)["value"]["n"]
        for event in store.events("receiver")
        if event.kind == "message.received"
    ]
    assert got == [1, 2], got


def _facts(world: World, run: holdfast.Run) -> Any:
    run.step("look", len, "sky")
    first = run.remember("The sky is blue today.")
    run.step("look", len, "grass")
    return [first.id, run.remember("Grass grows in spring.").id]


def _facts_agree(world: World, branches: list[tuple[holdfast.Store, str]]) -> None:
    """Every store in which a branch works has both, once; each names an event that can be found."""
    for store in {id(one): one for one, _ in branches}.values():
        known = store.memory.list()
        assert sorted(fact.text for fact in known) == ["Grass grows in spring.", "The sky is blue today."]
        for fact in known:
            if fact.event and any(info.run == fact.run for info in store.runs()):
                shown = store.run_with(fact.run, fact.event)
                assert any(event.seq == fact.event for event in store.events(shown)), fact


def _reasoning(world: World, run: holdfast.Run) -> Any:
    run.plan(["look", "write"])
    run.discover("The feed is in UTC.")
    run.step("look", len, "x")
    run.decide("Use UTC.", because="the feed does")
    return "thought"


def _premises(world: World, run: holdfast.Run) -> Any:
    data = world.directory / "data.csv"
    if not data.exists():
        data.write_text("1,2,3")
    run.depends_on(data)
    return run.step("read", len, "1,2,3")


def _artifacts(world: World, run: holdfast.Run) -> Any:
    path = world.directory / "report.md"
    with run.open(path, "w") as file:
        file.write("one")
    run.step("look", len, "x")
    with run.open(path, "w") as file:
        file.write("two")
    return "written"


@holdfast.agent(name="crossed child")
def _child(run: holdfast.Run, what: str) -> str:
    run.step("plan", len, what)
    return str(once(_WORLDS[run.id.partition("/")[0]], what)())


_WORLDS: dict[str, World] = {}
"""The world of a child, by the name of its parent: an agent is a function of its module, and gets plain values."""


def _children(world: World, run: holdfast.Run) -> Any:
    _WORLDS[run.id] = world
    run.step("plan", len, "two children")
    first = run.child("one", _child, "letter of one")
    return [first, run.child("two", _child, "letter of two")]


def _pins(world: World, run: holdfast.Run) -> Any:
    for number in range(3):
        run.step(f"read {number}", len, "x")
        run.checkpoint({"n": number}, label=f"c{number}")
    return "labelled"


def _code(world: World, run: holdfast.Run) -> Any:
    run.step("plan", len, "x")
    return once(world, "new letter" if run.patched("new letters") else "old letter")()


PROGRAMS: Final = (
    Program("steps", _steps),
    Program("effects", _effects, once=("letter to ada", "letter to bob")),
    Program("doubts", _doubts, once=("payment",), broken=("payment",)),
    Program("state", _state, once=("letter 0", "letter 1", "letter 2", "letter 3")),
    Program("conversation", _conversation),
    Program("model", _model),
    Program("questions", _questions, once=("payment",)),
    Program("promises", _promises, once=("figures",), before=_receiver, agrees=_promises_agree),
    Program("messages", _messages, before=_receiver, agrees=_messages_agree),
    Program("facts", _facts, agrees=_facts_agree),
    Program("reasoning", _reasoning),
    Program("premises", _premises),
    Program("artifacts", _artifacts),
    Program("pins", _pins),
    Program("children", _children, once=("letter of one", "letter of two")),
    Program("code", _code, once=("new letter",)),
)
