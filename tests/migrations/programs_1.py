"""The programs behind the golden stores of format 1, which recorded one of everything that a store can hold.

``scenes_1`` played them with the code of format 1; a reader (``test_golden.py``) goes on with them. Nothing in here may change: calls
are known again by names and arguments.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.migrations.values_1 import ERRORS, GIVEN, TAKEN, VALUES, error_of, filled

import holdfast

WRITING = os.environ.get("HOLDFAST_GOLDEN") == "writing"
ran: list[str] = []
"""What was called in this process: of what is recorded, nothing must be called by a reader."""


class Unfinished(Exception):
    """Leaves the run to be resumed."""


class Missing(Exception):
    """A failure with an attribute."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is missing")
        self.what = what


@dataclass(frozen=True)
class Verdict:
    """What a person answers."""

    good: bool
    why: str


def die() -> None:
    """As a power cut ends it."""
    os.kill(os.getpid(), signal.SIGKILL)


def give(name: str) -> Any:
    ran.append(f"give {name}")
    return VALUES[name]


def give_ours(name: str) -> Any:
    ran.append(f"give {name}")
    return filled(name)


def take(value: Any, *, idempotency_key: str = holdfast.KEY) -> str:
    ran.append(f"take {type(value).__qualname__}")
    return f"taken: {type(value).__qualname__}"


def fail(name: str) -> None:
    ran.append(f"fail {name}")
    raise error_of(name)


def fail_oddly() -> None:
    ran.append("fail oddly")
    error = ExceptionGroup("both", [Missing("imf"), OSError(2, "No such file", "x.csv")])
    error.add_note("a note")
    raise error from KeyError("why")


def cut(name: str) -> str:
    """Its process is killed in it; called again, it comes to an end."""
    ran.append(f"cut {name}")
    if WRITING:
        die()
    return f"{name} at last"


def square(number: int) -> int:
    ran.append(f"square {number}")
    return number * number


def upper(text: str) -> str:
    ran.append(f"upper {text}")
    return text.upper()


def flaky() -> str:
    ran.append("flaky")
    if ran.count("flaky") == 1:
        raise ConnectionError("down")
    return "up"


@holdfast.tool(effect="read")
def look(query: str) -> str:
    """Finds the same, over and over."""
    ran.append(f"look {query}")
    return "nothing"


@holdfast.tool
def pay(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
    """An effect."""
    ran.append(f"pay {to}")
    return f"paid {to}"


# -- values ------------------------------------------------------------------------------------------------------------


def values(run: holdfast.Run) -> dict[str, Any]:
    """Each value as a result and as an argument; all in a state."""
    found = {name: run.step("give", give, name) for name in VALUES}
    for name, value in found.items():
        run.options(key=None).once("take", take, value)
        run.step("name", upper, name)
    run.checkpoint({"values": found, "client": holdfast.ephemeral(object())}, label="all of them")
    return found


def ours(run: holdfast.Run) -> dict[str, Any]:
    """Objects of our own classes: as results, as arguments, in a state."""
    found = {name: run.step("give", give_ours, name) for name in (*TAKEN, *GIVEN)}
    for name in TAKEN:
        run.once("take", take, found[name])
    run.checkpoint(found)
    return found


def failures(run: holdfast.Run) -> dict[str, BaseException]:
    """Every error of ours, and an odd one, that a program has gone past."""
    found: dict[str, BaseException] = {}
    for name in ERRORS:
        try:
            run.step("fail", fail, name)
        except holdfast.HoldfastError as error:
            found[name] = error
            run.decide("go on", because=name)
    try:
        run.step("fail oddly", fail_oddly)
    except ExceptionGroup as error:
        found["group"] = error
        run.decide("go on")
    return found


# -- steps, marks, effects -------------------------------------------------------------------------------------------


def steps(run: holdfast.Run) -> dict[str, Any]:
    """Marks of all names, scopes, retries, keys, draws."""
    run.plan(["look", "pay"])
    run.think("where to begin")
    run.decide("begin", because="why not")
    run.discover("debt is old")
    run.say("begun", to="ada")
    with run.scope("deep"), run.scope("deeper"):
        inner = run.step("upper", upper, "inner")
    tried = run.options(retries=2).step("flaky", flaky)
    keyed = run.options(key="my key", idempotent=True).step("upper", upper, "keyed")
    again = run.options(refetchable=True).step("upper", upper, "again")
    paid = pay("ada")
    run.checkpoint({"paid": paid}, label="paid")
    return {
        "inner": inner, "tried": tried, "keyed": keyed, "again": again, "paid": paid,
        "now": run.now(), "uuid": run.uuid(), "random": run.random(),
    }  # fmt: skip


def killed(run: holdfast.Run) -> list[str]:
    """A read was cut off: it runs again, what was before it does not."""
    return [run.step("upper", upper, "before"), pay("ada"), run.step("cut", cut, "read")]


def doubtful(run: holdfast.Run) -> str:
    """An effect was cut off."""
    run.step("upper", upper, "before")
    return run.once("cut", cut, "effect")


def raised(run: holdfast.Run) -> None:
    """An effect that raised: it may have happened."""
    run.once("fail", fail, "StoreBusy")


def drifting(run: holdfast.Run) -> str:
    """Asked for something else than the attempt before."""
    return run.step("upper", upper, "first" if WRITING and run.attempt == 1 else "second")


def looping(run: holdfast.Run) -> str:
    """In a circle, and out of it."""
    for _ in range(4):
        look("debt")
    return run.step("upper", upper, "something new")


def circling(run: holdfast.Run) -> None:
    """In a circle that parks it."""
    for _ in range(9):
        look("debt")


# -- state -------------------------------------------------------------------------------------------------------------


def diary(run: holdfast.Run) -> dict[str, Any]:
    """Restores, checkpoints, saves by itself; killed at day 4."""
    state = run.restore({"day": 0, "notes": [], "client": None})
    state["client"] = holdfast.ephemeral(object())
    run.autosave(lambda: state, every_s=3600, every_steps=2)
    while state["day"] < 8:
        day = state["day"]
        run.think(f"day {day} was long")
        state["notes"].append(run.options(refetchable=True).step("square", square, day))
        state["day"] += 1
        run.checkpoint(state, label="start" if day == 0 else None)
        if WRITING and day == 4:
            die()
    return {"day": state["day"], "notes": state["notes"]}


def bounded(run: holdfast.Run) -> dict[str, Any]:
    """As a diary, long enough to be pruned and compacted."""
    state = run.restore({"day": 0, "sum": 0})
    while state["day"] < 12:
        run.think(f"day {state['day']} was long")
        state["sum"] += run.options(refetchable=True).step("square", square, state["day"])
        if state["day"] == 3:
            pay("ada")
        state["day"] += 1
        run.checkpoint(state)
        if WRITING and state["day"] == 10:
            raise Unfinished
    return {"sum": state["sum"]}


def hollowed(run: holdfast.Run) -> list[str]:
    """Thoughts and refetchable results that were pruned; it replays from its top."""
    run.think("a thought that goes")
    found = [run.options(refetchable=True).step("upper", upper, "again"), pay("ada")]
    run.checkpoint({"n": 1})
    run.checkpoint({"n": 2})
    if WRITING:
        raise Unfinished
    return found


ASKED: list[Any] = [
    {"role": "user", "content": "What is there on debt?"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "upper", "arguments": '{"text": "debt"}'}},
        {"id": "call_2", "type": "function", "function": {"name": "upper", "arguments": '{"text": "war"}'}},
    ]},
]  # fmt: skip


def talk(run: holdfast.Run) -> list[Any]:
    """A conversation that was cut off between two tool calls."""
    if run.restore() is None:
        run.messages.append({"role": "system", "content": "Be brief."})
        run.messages.drop(1)
        run.messages.extend(ASKED)
        run.checkpoint({"turn": 1})
        run.step("upper", upper, "debt")
        if WRITING:
            die()
    ready: list[Any] = run.messages.ready()
    if WRITING:
        run.context(500)
        die()
    return ready


# -- models ------------------------------------------------------------------------------------------------------------


def model_says(request: Any) -> dict[str, Any]:
    ran.append("model")
    said = f"You said: {request['messages'][-1]['content']}"
    return {"text": said, "usage": {"input_tokens": 90, "output_tokens": 5}}


def model_streams(request: Any) -> Iterator[str]:
    ran.append("stream")
    yield from ["The water ", "is poured, "]
    if WRITING:
        time.sleep(0.5)  # so long that what came is in the journal
        yield "the beans "
        die()
    yield "the beans are ground."


def go_on(request: Any, text: str) -> Iterator[str]:
    ran.append(f"go on after {text!r}")
    yield from ["and so on."]


def modelling(run: holdfast.Run) -> list[Any]:
    """Model calls: whole, streamed whole, and a stream that was cut off."""
    messages = [{"role": "user", "content": "hello"}]
    whole = run.model("chat", model_says, {"model": "m", "messages": messages}, model="m", provider="p")
    again = run.model(
        "chat",
        model_says,
        {"model": "m", "messages": [*messages, {"role": "user", "content": "more"}]},
        model="m",
    )
    streamed = "".join(run.stream("stream", lambda _: iter(["a", "b"]), {"prompt": "ab"}))
    rest = "".join(run.stream("answer", model_streams, {"prompt": "How far are we?"}, go_on=go_on))
    return [whole, again, streamed, rest]


def wrapped(run: holdfast.Run, base_url: str) -> list[Any]:
    """The same through a wrapped client; the provider is one of the tests."""
    import openai

    client = holdfast.wrap(openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=10))
    messages: Any = [{"role": "user", "content": "How is coffee made?"}]
    whole = client.chat.completions.create(model="m", messages=messages)
    chunks = [
        chunk.choices[0].delta.content
        for chunk in client.chat.completions.create(model="m", messages=[*messages, *messages], stream=True)
        if chunk.choices
    ]
    response = client.responses.create(model="m", input="How is tea made?")
    embedded = client.embeddings.create(model="e", input="kelp")
    return [
        whole.choices[0].message.content, "".join(chunk or "" for chunk in chunks), response.output_text,
        len(embedded.data[0].embedding),
    ]  # fmt: skip


# -- waiting, people, files --------------------------------------------------------------------------------------------


def sleeper(run: holdfast.Run) -> str:
    run.sleep(0.01)
    run.sleep_until(4_102_444_800.0, wait_s=0)  # the year 2100
    return "woken"


def napper(run: holdfast.Run) -> str:
    """It parks; when somebody reads this, the time has come."""
    run.sleep(1, wait_s=0)
    return run.step("upper", upper, "woken")


def asking(run: holdfast.Run) -> list[Any]:
    good: Verdict = run.ask("Is it good?", returns=Verdict, about={"draft": 1})
    may = run.ask("May it go out?", returns=bool, wait_s=0)
    which = run.ask("Which one?", choices=["a", "b"], wait_s=0, expires_s=10**10)
    return [good, may, which]


def files(run: holdfast.Run) -> str:
    """Relies on a file and makes two; cut off while it writes the third."""
    run.depends_on("rates.csv")
    with run.open("report.md", "w") as file:
        file.write("GR 6.1\n")
    Path("made.csv").write_text("GR,3.4\n")
    run.artifact("made.csv")
    run.checkpoint({"files": 1}, label="written")
    with run.open("report.md", "w") as file:
        file.write("GR 3.4\n")
        if WRITING and run.attempt == 1:
            file.flush()
            die()
    return run.step("upper", upper, "written")


# -- other runs --------------------------------------------------------------------------------------------------------


def mailbox(run: holdfast.Run) -> list[Any]:
    """Receives one and has one left; is told of promises."""
    first = run.receive()
    if WRITING:
        raise Unfinished
    return [first.sender, first.value, run.receive().value]


def friend(run: holdfast.Run) -> str:
    """Sends, promises, keeps, breaks."""
    run.send("mailbox", {"n": 1, "at": VALUES["datetime utc"]})
    run.send("mailbox", "second")
    kept = run.promise("send the figures", to="mailbox")
    broken = run.promise("send more", to="mailbox", due=4_102_444_800.0)
    run.promise("an open one", to="mailbox")
    run.promise("to nobody here", to="Ada")
    run.keep(kept, note="they are sent")
    run.break_promise(broken, because="there are none")
    return "done"


@holdfast.agent("golden-child")
def child_agent(run: holdfast.Run, n: int) -> int:
    return run.step("square", square, n)


@holdfast.agent("golden-parent")
def parent_agent(run: holdfast.Run, n: int) -> int:
    run.step("upper", upper, "before")
    number: int = run.child("kid", child_agent, n)
    return number + 1


def giver(run: holdfast.Run) -> str:
    pay("ada")
    run.promise("send the figures", to="Ada")
    run.discover("debt is old")
    run.checkpoint({"turn": 1})
    raise Unfinished


def taker(run: holdfast.Run) -> list[str]:
    """Begins with a handoff: what the giver has paid is not paid again."""
    found = [pay("ada"), pay("bob")]
    if WRITING:
        raise Unfinished
    run.keep(run.promises.made[0], note="in the letters")
    return found


def forked(run: holdfast.Run) -> list[str]:
    found = [run.step("upper", upper, "why"), run.step("upper", upper, "how")]
    if WRITING and run.id == "trunk":
        return found
    return [*found, run.step("upper", upper, "when")]


def rememberer(run: holdfast.Run) -> list[Any]:
    fact = run.remember(
        "Greece pays 6.1 percent", tags=["rates"], scope="users/42", key="gr", value={"rate": 6.1}
    )
    found = run.recall("What does Greece pay?", scope="users/42")
    return [fact.text, [one.fact.text for one in found]]
