"""Forks with an edited state, message or inputs: what the program gets, what replay does, and what is refused."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast.errors import Misuse
from holdfast.model.events import Kind
from holdfast.model.recorded_value import Recorded
from holdfast.model.retention import Keep, Retention
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

ALL = Retention(checkpoints=Keep(last=1), compact_events=0)
asked: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    asked.clear()


@pytest.fixture
def store(url: str) -> holdfast.Store:
    return holdfast.store(url)


@pytest.fixture
def there() -> Iterator[holdfast.Store]:
    store = holdfast.store(f"memory://{uuid4().hex}")
    yield store
    store.close()


class Stop(Exception):
    pass


def model(messages: list[Any]) -> str:
    asked.append([one["content"] for one in messages])
    return f"answer {len(asked)}"


def say(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


# -- programs -----------------------------------------------------------------------------------------------------


def counting(run: holdfast.Run, upto: int) -> Any:
    """Restores its state, and saves one after each step."""
    state = run.restore({"n": 0, "done": []})
    while state["n"] < upto:
        done = run.step("work", lambda n: f"did {n}", state["n"])
        state = {**state, "n": state["n"] + 1, "done": [*state["done"], done]}
        run.checkpoint(state)
    return state


def chatting(run: holdfast.Run, turns: int, *, restores: bool = False) -> list[str]:
    """Keeps its conversation in the run."""
    if restores:
        run.restore(None)
    for turn in range(turns):
        if len(run.messages) <= 2 * turn:
            run.messages.append(say("user", f"question {turn}"))
        if len(run.messages) <= 2 * turn + 1:
            answer = run.model("chat", model, run.messages.ready())
            run.messages.append(say("assistant", answer))
            if restores:
                run.checkpoint({"turn": turn})
    return [one["content"] for one in run.messages]


def attempt(store: holdfast.Store, name: str, body: Callable[[holdfast.Run], Any], **options: Any) -> Any:
    out = None
    try:
        with holdfast.run(name, store=store, **options) as run:
            out = body(run)
            raise Stop
    except Stop:
        return out


# -- state --------------------------------------------------------------------------------------------------------


def test_a_fork_restores_its_edited_state(store: holdfast.Store) -> None:
    """``run.restore`` returns it in every attempt, recorded steps stay consumed; the origin has its own."""
    attempt(store, "a", lambda run: counting(run, 3))
    store.fork("a@4", as_="b", state={"n": 10, "done": ["by hand"]}, by="ada")
    assert attempt(store, "b", lambda run: counting(run, 11)) == {"n": 11, "done": ["by hand", "did 10"]}
    assert attempt(store, "b", lambda run: counting(run, 11)) == {"n": 11, "done": ["by hand", "did 10"]}
    assert attempt(store, "a", lambda run: counting(run, 3))["done"] == ["did 0", "did 1", "did 2"]


def test_the_edited_state_is_a_point_of_a_person(store: holdfast.Store) -> None:
    """It has a number, can be forked from, and its event names who made it."""
    attempt(store, "a", lambda run: counting(run, 2))
    store.fork("a@4", as_="b", state={"n": 7, "done": []}, by="ada")
    [edited] = [event for event in store.events("b") if event.name == "edited"]
    assert store.content(edited)["by"] == "ada"
    assert store.content(edited)["state"] == {"n": 7, "done": []}
    store.fork("b@5", as_="c")
    assert attempt(store, "c", lambda run: run.restore()) == {"n": 7, "done": []}
    assert {change.path for change in store.diff("a@4", "b@5").state} == {"n", "done[0]", "done[1]"}


def test_only_what_differs_is_written(url: str) -> None:
    """A large state with one edited entry costs a few hundred bytes."""
    store = holdfast.store(url)
    big = {str(n): "x" * 500 for n in range(2_000)}

    def large(run: holdfast.Run) -> None:
        run.restore(None)
        run.checkpoint({"big": big, "n": 1})

    attempt(store, "a", large)
    store.fork("a@1", as_="b", state={"big": big, "n": 2})
    size = store.size("b")
    assert size is not None
    assert size < 20_000
    assert attempt(store, "b", lambda run: run.restore()) == {"big": big, "n": 2}
    store.fork("a@1", as_="c", state={"big": {**big, "new": "y" * 3_000_000}, "n": 2})
    assert attempt(store, "c", lambda run: len(run.restore()["big"])) == 2_001


@dataclass
class Draft:
    title: str
    pages: int


def test_values_with_a_type_of_their_own_stay_typed(store: holdfast.Store) -> None:
    """A person edits the recorded form, and the program gets its object; a dict with a $ stays a dict otherwise."""

    def drafting(run: holdfast.Run) -> Any:
        state = run.restore(None)
        if state is None:
            run.checkpoint({"draft": Draft("debt", 3), "seen": ("a", "b")})
        return state

    attempt(store, "a", drafting)
    form = store.editable("a@1")
    tree = form.state
    assert form.state_refusal == ""
    edited = {**tree, "draft": {**tree["draft"], "v": {"title": "credit", "pages": 3}}}
    store.fork("a@1", as_="b", state=Recorded(edited))
    assert attempt(store, "b", drafting) == {"draft": Draft("credit", 3), "seen": ("a", "b")}
    store.fork("a@1", as_="c", state={"draft": {"$": "no tag"}})
    assert attempt(store, "c", drafting) == {"draft": {"$": "no tag"}}
    store.fork("a@1", as_="d", state=Recorded({"big": 10**40, "inf": float("inf"), "text": "\ud800"}))
    assert attempt(store, "d", drafting) == {"big": 10**40, "inf": float("inf"), "text": "\ud800"}
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    with pytest.raises(holdfast.HoldfastError, match="state"):
        store.fork("a@1", as_="e", state=Recorded(deep))


def test_a_state_that_no_program_would_see_is_refused(store: holdfast.Store) -> None:
    """One that replays, has no state, or has gone on since. The refusal says where it could be edited."""
    attempt(store, "replays", lambda run: run.checkpoint({"n": 1}))
    with pytest.raises(Misuse, match="never restored a state"):
        store.fork("replays@1", as_="b", state={"n": 2})
    attempt(store, "stateless", lambda run: run.step("s", str, 1))
    with pytest.raises(Misuse, match="has no state"):
        store.fork("stateless@1", as_="b", state={"n": 2})
    attempt(store, "a", lambda run: counting(run, 2))
    with pytest.raises(Misuse, match="that of a@2") as refused:
        store.fork("a@3", as_="b", state={"n": 2})
    assert "fork a@2" in refused.value.hint
    with pytest.raises(holdfast.NotStorable):
        store.fork("a@2", as_="b", state={"n": object()})
    assert "b" not in {info.run for info in store.runs()}


def test_an_autosaved_state_can_be_edited(store: holdfast.Store) -> None:
    """It keeps its cursor, which is before the step in whose middle it was saved."""
    state: dict[str, Any] = {}

    def saving(run: holdfast.Run) -> Any:
        state.clear()
        state.update(run.restore({"n": 0}))
        run.autosave(lambda: dict(state), every_steps=1)
        while state["n"] < 3:
            run.step("work", str, state["n"])
            state["n"] += 1
        return dict(state)

    attempt(store, "a", saving)
    seq = [event.seq for event in store.events("a") if event.name == "autosave"][1]
    store.fork(f"a@#{seq}", as_="b", state={"n": 2, "hand": True})
    assert attempt(store, "b", saving) == {"n": 3, "hand": True}


# -- messages -----------------------------------------------------------------------------------------------------


def test_a_replaying_program_has_the_edited_message(store: holdfast.Store) -> None:
    """Recorded calls are answered; the next model call gets the edited text, in this attempt and the next."""
    attempt(store, "a", lambda run: chatting(run, 2))
    assert len(asked) == 2
    before = _intent(store, "a", 2) - 1
    store.fork(
        f"a@#{before}", as_="b", messages={0: say("user", "another question"), -1: say("user", "and then?")}
    )
    told = ["another question", "answer 1", "and then?", "answer 3"]
    assert attempt(store, "b", lambda run: chatting(run, 2)) == told
    assert asked[2:] == [told[:3]]
    assert attempt(store, "b", lambda run: chatting(run, 2)) == told
    assert len(asked) == 3


def test_a_restoring_program_begins_with_the_edited_message(store: holdfast.Store) -> None:
    """And with an edited state too, if both are edited."""
    attempt(store, "a", lambda run: chatting(run, 2, restores=True))
    store.fork(
        "a@2", as_="b", messages={1: say("assistant", "by hand")}, state={"turn": 0, "hand": 1}, by="ada"
    )

    def body(run: holdfast.Run) -> Any:
        return run.restore(None), chatting(run, 2)

    told = ["question 0", "by hand", "question 1", "answer 3"]
    assert attempt(store, "b", body) == ({"turn": 0, "hand": 1}, told)
    assert attempt(store, "b", body) == ({"turn": 0, "hand": 1}, told)
    assert len(asked) == 3


def test_a_message_that_a_model_has_answered_is_refused(store: holdfast.Store) -> None:
    """The call would be drift. The refusal names the event right before it, where the edit works."""

    def body(run: holdfast.Run) -> str:
        run.messages.append(say("user", "q"))
        return run.model("chat", model, run.messages.ready())

    attempt(store, "a", body)
    with pytest.raises(Misuse, match="has asked a model with the old message") as refused:
        store.fork("a@1", as_="b", messages={0: say("user", "p")})
    place = refused.value.hint.split()[1].rstrip(",")
    store.fork(place, as_="b", messages={0: say("user", "p")})


def test_a_message_that_is_not_there_or_that_no_provider_takes_is_refused(store: holdfast.Store) -> None:
    """So is any, of a run whose program keeps its messages itself."""
    attempt(store, "a", lambda run: run.messages.append(say("user", "q")))
    with pytest.raises(Misuse, match="has no message 1 there: its conversation has 1"):
        store.fork("a", as_="b", messages={1: say("user", "p")})
    with pytest.raises(holdfast.InvalidHistory):
        store.fork("a", as_="b", messages={0: {"role": "nobody", "content": "p"}})
    attempt(store, "none", lambda run: run.step("s", str, 1))
    with pytest.raises(Misuse, match="keeps no messages"):
        store.fork("none", as_="b", messages={0: say("user", "p")})
    assert store.editable("none").messages == ()
    assert "keeps no messages" in store.editable("none").messages_refusal


# -- inputs -------------------------------------------------------------------------------------------------------


def test_a_fork_is_entered_with_its_edited_inputs(store: holdfast.Store) -> None:
    """With the same ones it goes on, with the origin's it is refused, and says what differs."""
    inputs = {"country": "GR", "years": 10}
    attempt(store, "a", lambda run: run.step("s", str, 1), inputs=inputs)
    store.fork("a@1", as_="b", inputs={**inputs, "country": "ES"})
    for _ in range(2):
        assert (
            attempt(store, "b", lambda run: run.step("s", str, 1), inputs={**inputs, "country": "ES"}) == "1"
        )
    with pytest.raises(holdfast.InputsChanged) as refused:
        attempt(store, "b", lambda run: None, inputs=inputs)
    assert "- country: 'ES'" in str(refused.value)
    assert attempt(store, "b", lambda run: run.step("s", str, 1)) == "1", "who names none takes those"
    assert attempt(store, "a", lambda run: run.step("s", str, 1), inputs=inputs) == "1"
    with pytest.raises(holdfast.InputsChanged):
        attempt(store, "a", lambda run: None, inputs={**inputs, "country": "ES"})


def test_an_agent_gets_the_edited_inputs_as_arguments(store: holdfast.Store) -> None:
    """From the first event a fork begins anew with them; a large value is stored apart."""
    seen: list[Any] = []

    @holdfast.agent("surveyor")
    def surveyor(run: holdfast.Run, country: str, text: str = "") -> int:
        seen.append(country)
        return run.step("length", len, country + text)

    surveyor.run("a", store=store, country="GR")
    long = "x" * 100_000
    store.fork("a@#1", as_="b", inputs={"country": "Spain", "text": long})
    assert surveyor.run("b", store=store, country="Spain", text=long) == 100_005
    assert seen == ["GR", "Spain"]
    assert store.editable("b").inputs == {"country": "Spain", "text": long}
    with pytest.raises(Misuse, match="arguments by name"):
        store.fork("a@#1", as_="c", inputs=["ES"])


def test_long_inputs_go_with_the_run(store: holdfast.Store, there: holdfast.Store, tmp_path: Path) -> None:
    """They are a content of their own: an export takes it along, and a prune keeps it."""
    long = {"text": "x" * 200_000}
    attempt(store, "a", lambda run: run.step("s", str, 1), inputs={"text": ""})
    store.fork("a@1", as_="b", inputs=long)
    store.prune(policy=ALL)
    store.export("b", tmp_path / "x", move=True)
    there.import_(tmp_path / "x")
    assert there.editable("b").inputs == long
    assert attempt(there, "b", lambda run: run.step("s", str, 1), inputs=long) == "1"


def test_recorded_steps_are_answered_only_for_the_same_arguments(store: holdfast.Store) -> None:
    """With other inputs in the middle, a step that takes them runs, and one that does not is answered."""

    def survey(country: str) -> str:
        asked.append(country)
        return country

    def body(run: holdfast.Run) -> Any:
        return [run.step("plan", len, "same"), run.step("survey", survey, country)]

    country = "GR"
    attempt(store, "a", body, inputs={"country": country})
    store.fork("a", as_="b", inputs={"country": "ES"})
    country = "ES"
    assert attempt(store, "b", body, inputs={"country": "ES"}) == [4, "ES"]
    assert asked == ["GR", "ES"]


# -- crash windows ------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


class Dying(Relay):
    """Dies at the nth append."""

    appends_left = 0

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if verb.__name__ == "append":
            if not self.appends_left:
                raise Killed
            self.appends_left -= 1
        return verb(*args, **kwargs)


@pytest.mark.parametrize(
    "edits",
    [
        {"state": {"n": 5, "done": []}},
        {"inputs": {"x": 2}},
        {"messages": {0: {"role": "user", "content": "p"}}},
    ],
    ids=["state", "inputs", "message"],
)
def test_a_fork_never_lacks_its_edits(url: str, edits: dict[str, Any]) -> None:
    """Killed before they are written, it cannot be entered; the same command makes it."""

    def body(run: holdfast.Run) -> Any:
        if not run.messages:
            run.messages.append(say("user", "q"))
        return counting(run, 1)

    store = holdfast.store(url)
    attempt(store, "a", body, inputs={"x": 1})
    port = Dying(open_store(url))
    with pytest.raises(Killed):
        holdfast.Store(port).fork("a@2", as_="b", **edits)
    assert store.get("b").status == "importing"
    with pytest.raises(holdfast.RunSealed, match="fork"):
        holdfast.run("b", store=url).open()
    store.fork("a@2", as_="b", **edits)
    form = store.editable("b")
    found = (form.state["n"], form.inputs["x"], form.messages[0]["content"])
    assert found == {"state": (5, 1, "q"), "inputs": (1, 2, "q"), "messages": (1, 1, "p")}[next(iter(edits))]


# -- features meet ------------------------------------------------------------------------------------------------


def everything(store: holdfast.Store) -> dict[str, Any]:
    """A fork with all edits, of a run that restores and keeps its messages."""

    def body(run: holdfast.Run) -> Any:
        run.restore({"n": 0, "done": []})
        if not run.messages:
            run.messages.append(say("user", "q"))
        return counting(run, 1)

    attempt(store, "a", body, inputs={"x": 1})
    store.fork(
        "a@2", as_="b", inputs={"x": 2}, state={"n": 5, "done": []}, messages={0: say("user", "p")}, by="ada"
    )
    return {"state": {"n": 5, "done": []}, "inputs": {"x": 2}, "messages": (say("user", "p"),)}


def has(store: holdfast.Store, run: str, wanted: dict[str, Any]) -> None:
    form = store.editable(run)
    assert {"state": form.state, "inputs": form.inputs, "messages": form.messages} == wanted


def test_edits_stay_with_forks_flattening_and_prune(store: holdfast.Store) -> None:
    """A fork of the fork has them; its origin can be erased; a prune of both keeps them."""
    wanted = everything(store)
    store.fork("b", as_="c")
    has(store, "c", wanted)
    store.prune(policy=ALL)
    has(store, "b", wanted)
    store.erase("a", flatten=True)
    has(store, "b", wanted)
    has(store, "c", wanted)
    assert attempt(store, "b", lambda run: run.restore(), inputs={"x": 2}) == wanted["state"]
    for _ in range(2):
        attempt(store, "b", lambda run: counting(run, 8))
    store.prune("b", policy=ALL)
    form = store.editable("b")
    assert (form.inputs, form.messages, form.state["n"]) == ({"x": 2}, wanted["messages"], 8)


@pytest.mark.parametrize("how", ["export", "move", "copy"])
def test_edits_move_to_another_store(
    store: holdfast.Store, there: holdfast.Store, tmp_path: Path, how: str
) -> None:
    """Imported events are checked against their schema: what people edited passes."""
    wanted, name = everything(store), "b"
    if how == "copy":
        store.copy(there, move=True)
    else:
        store.export("b", tmp_path / "x", move=how == "move")
        name = there.import_(tmp_path / "x").run
    has(there, name, wanted)
    assert attempt(there, name, lambda run: run.restore(), inputs={"x": 2}) == wanted["state"]


def test_a_rewind_to_before_the_fork_takes_the_edits_back(store: holdfast.Store) -> None:
    """The kept branch has them."""
    wanted = everything(store)
    attempt(store, "b", lambda run: counting(run, 6))
    kept = store.rewind("b@2").kept
    form = store.editable("b")
    assert (form.state["n"], form.inputs, form.messages) == (1, {"x": 1}, (say("user", "q"),))
    kept_form = store.editable(kept)
    assert (kept_form.inputs, kept_form.messages) == (wanted["inputs"], wanted["messages"])


def test_a_handoff_has_the_edited_state_and_inputs(store: holdfast.Store) -> None:
    """The taker begins with them."""
    wanted = everything(store)
    document = store.handoff("b", seal=True, by="ada")
    taken = store.accept(document, as_="taker")
    assert store.editable(taken.run).inputs == wanted["inputs"]
    assert "did" not in str(document["state"])


def test_an_async_program_gets_the_edits(store: holdfast.Store) -> None:
    """The same rules, awaited."""
    wanted = everything(store)

    async def program() -> None:
        async with holdfast.run("b", store=store, inputs={"x": 2}) as run:
            assert await run.restore() == wanted["state"]
            assert list(run.messages) == list(wanted["messages"])

    asyncio.run(program())


def test_what_would_change_is_told_before(store: holdfast.Store) -> None:
    """Before and after, and what the program makes of it; what stays the same is left out. Nothing is written."""
    everything(store)
    told = store.fork_changes(
        "a@2", inputs={"x": 3}, state={"n": 1, "done": ["did 0"]}, messages={0: say("user", "w")}
    )
    assert [(one.what, one.before, one.after) for one in told] == [
        ("inputs", {"x": 1}, {"x": 3}),
        ("message 0", say("user", "q"), say("user", "w")),
    ]
    assert "InputsChanged" in told[0].then
    with pytest.raises(Misuse):
        store.fork_changes("a@1", state={"n": 1})
    assert {info.run for info in store.runs()} == {"a", "b"}


def _intent(store: holdfast.Store, run: str, nth: int) -> int:
    """The event of the nth call."""
    return [event.seq for event in store.events(run) if event.kind == Kind.STEP_STARTED][nth - 1]
