"""Effects behind the point of a fork or a rewind: the same call is answered from the record, asked about, or made again, as was chosen.

Seen before: every fork made them again under a new idempotency key, so that no outside service could recognise the repeat.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.journal.journal import read_all
from holdfast.engine.lineage import later_effects
from holdfast.model.event_fields import contents_of
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

made: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


def pay(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
    made.append((to, idempotency_key))
    return f"{to} paid"


def find(to: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    return holdfast.Done(f"{to} paid") if (to, idempotency_key) in made else holdfast.NotDone()


verified = holdfast.tool(effect="once", name="pay", settle_s=0, verify=find)(pay)
unverified = holdfast.tool(effect="once", name="pay", settle_s=0)(pay)
repeatable = holdfast.tool(effect="idempotent", name="put")(pay)


class Stop(Exception):
    pass


def enter(url: str, run: str, body: Callable[[holdfast.Run], Any]) -> Any:
    """What the body gives in an attempt that ends in the middle, as far as the journal knows."""
    given: list[Any] = []
    try:
        with holdfast.run(run, store=url) as entered:
            given.append(body(entered))
            raise Stop
    except Stop:
        return given[0]


def trip(run: holdfast.Run, *people: str) -> list[str]:
    run.step("plan", len, "a trip")
    return [unverified(to) for to in people or ("ada",)]


def settled(url: str, run: str) -> list[dict[str, Any]]:
    store = holdfast.store(url)
    return [contents_of(event.body) for event in store.events(run) if event.kind == "step.settled"]


def test_the_same_call_is_answered_from_the_origin(url: str) -> None:
    """With the recorded value and under the origin's key, in every attempt; another call is another effect, with a key of its own."""
    assert enter(url, "a", lambda run: trip(run, "ada", "bob")) == ["ada paid", "bob paid"]
    info = holdfast.store(url).fork("a@1", as_="b")
    assert [(one.step, one.how, one.run, one.idempotency_key) for one in info.behind] == [
        ("pay", "done", "a", made[0][1]),
        ("pay", "done", "a", made[1][1]),
    ]
    for _ in range(2):
        assert enter(url, "b", lambda run: trip(run, "ada", "eve")) == ["ada paid", "eve paid"]
    assert [to for to, _ in made] == ["ada", "bob", "eve"]
    assert len({key for _, key in made}) == 3
    (answer,) = settled(url, "b")
    assert (answer["via"], answer["from"], answer["value"]) == ("origin", "a", "ada paid")
    intents = [e for e in holdfast.store(url).events("b") if e.kind == "step.started" and e.name == "pay"]
    assert made[0][1].encode() in intents[0].body


def test_as_often_as_it_happened_and_no_more(url: str) -> None:
    """The origin paid twice: two payments are answered, the third is made."""
    enter(url, "a", lambda run: trip(run, "ada", "ada"))
    holdfast.store(url).fork("a@1", as_="b")
    enter(url, "b", lambda run: trip(run, "ada", "ada", "ada"))
    assert len(made) == 3


def test_again_makes_it_again_under_a_new_key(url: str) -> None:
    """As it was before there was a choice."""
    enter(url, "a", trip)
    store = holdfast.store(url)
    store.fork("a@1", as_="b", effects="again")
    enter(url, "b", trip)
    assert len(made) == len({key for _, key in made}) == 2


def test_again_is_about_the_effects_that_are_listed_with_it(url: str) -> None:
    """What an earlier fork has listed stays answered, unless this one lists it too: then it was claimed behind the point.

    Seen before: it was made again, though ``behind`` was empty.
    """
    enter(url, "a", trip)
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    assert store.fork("b", as_="c", effects="again").behind == ()
    assert store.rewind(f"b@#{store.get('b').head}", effects="again").behind == ()
    for name in ("b", "c"):
        enter(url, name, trip)
    assert len(made) == 1
    claimed = next(event.seq for event in store.events("c") if event.kind == "step.settled")
    point = max(event.seq for event in store.events("c") if event.seq < claimed - 1)
    assert [one.step for one in store.fork(f"c@#{point}", as_="d", effects="again").behind] == ["pay"]
    for _ in range(2):
        enter(url, "d", trip)
    assert len(made) == len({key for _, key in made}) == 2


def test_again_in_a_child_is_about_the_effects_that_are_listed_with_it(url: str) -> None:
    """An effect of a child that the first fork has listed is answered in the second one, which does not list it."""

    def body(run: holdfast.Run) -> Any:
        run.step("plan", len, "a trip")
        with holdfast.run("kid"):
            return unverified("ada")

    enter(url, "a", body)
    store = holdfast.store(url)
    assert [one.step for one in store.fork("a@1", as_="b").behind] == ["pay"]
    assert store.fork("b", as_="c", effects="again").behind == ()
    enter(url, "c", body)
    assert len(made) == 1
    assert [one.step for one in store.fork("a@1", as_="d", effects="again").behind] == ["pay"]
    enter(url, "d", body)
    assert len(made) == 2


def test_asked_a_person_decides_and_no_verifier(url: str) -> None:
    """It has happened, and ``verify`` would say so: that is not the question. Done takes it as it is, retry makes another one."""

    def body(run: holdfast.Run) -> str:
        run.step("plan", len, "a trip")
        return verified("ada")

    enter(url, "a", body)
    store = holdfast.store(url)
    for name, how in (("b", "done"), ("c", "retry")):
        store.fork("a@1", as_=name, effects="ask")
        for _ in range(2):
            with pytest.raises(holdfast.StepInDoubt, match="has happened already in run a"):
                enter(url, name, body)
        assert [doubt.step for doubt in store.doubts(name)] == ["pay"]
        store.resolve(name, "pay", how, value="as it was")  # type: ignore[arg-type]
        assert enter(url, name, body) == ("as it was" if how == "done" else "ada paid")
    assert len(made) == len({key for _, key in made}) == 2


@pytest.mark.parametrize("effects", ["answer", "ask"])
def test_what_is_in_doubt_is_never_answered(url: str, effects: Any) -> None:
    """The origin does not know how it ended: neither does the fork, which asks under the origin's key, and keeps it in a repeat."""

    def cut(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
        made.append((to, idempotency_key))
        if len(made) == 1:
            raise ConnectionError("the line broke")
        return "paid now"

    tool = holdfast.tool(effect="once", name="pay", settle_s=0)(cut)

    def body(run: holdfast.Run) -> str:
        run.step("plan", len, "a trip")
        return tool("ada")

    with pytest.raises(holdfast.StepInDoubt):
        enter(url, "a", body)
    store = holdfast.store(url)
    info = store.fork("a@1", as_="b", effects=effects)
    assert [(one.step, one.how) for one in info.behind] == [("pay", "doubt")]
    with pytest.raises(holdfast.StepInDoubt, match="is in doubt already in run a"):
        enter(url, "b", body)
    store.resolve("b", "pay", "retry")
    assert enter(url, "b", body) == "paid now"
    assert len(made) == 2
    assert len({key for _, key in made}) == 1


def test_a_verifier_finds_out_what_the_origin_does_not_know(url: str) -> None:
    """In doubt there, its own tool can tell here: by the origin's key."""

    def cut(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
        pay(to, idempotency_key=idempotency_key)
        raise ConnectionError("the line broke")

    def body(run: holdfast.Run, tool: Any) -> str:
        run.step("plan", len, "a trip")
        return str(tool("ada"))

    with pytest.raises(holdfast.StepInDoubt):
        enter(url, "a", lambda run: body(run, holdfast.tool(effect="once", name="pay", settle_s=0)(cut)))
    holdfast.store(url).fork("a@1", as_="b")
    assert enter(url, "b", lambda run: body(run, verified)) == "ada paid"
    assert len(made) == 1


def test_what_the_origin_has_learned_since_counts(url: str) -> None:
    """In doubt when the fork was made, settled at the origin before the fork came to it."""

    def cut(to: str, *, idempotency_key: str = holdfast.KEY) -> str:
        pay(to, idempotency_key=idempotency_key)
        raise ConnectionError("the line broke")

    tool = holdfast.tool(effect="once", name="pay", settle_s=0)(cut)

    def body(run: holdfast.Run) -> str:
        run.step("plan", len, "a trip")
        return str(tool("ada"))

    with pytest.raises(holdfast.StepInDoubt):
        enter(url, "a", body)
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    store.resolve("a", "pay", "done", value="seen on the bill")
    enter(url, "a", body)
    assert enter(url, "b", body) == "seen on the bill"
    assert len(made) == 1


def test_a_failure_that_did_nothing_is_not_listed(url: str) -> None:
    """Declared harmless: it may be tried as if it had never been."""
    tries: list[int] = []

    @holdfast.tool(effect="once", name="book", harmless=(ValueError,))
    def book() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("sold out")
        return "booked"

    def body(run: holdfast.Run) -> Any:
        run.step("plan", len, "a trip")
        try:
            return book()
        except ValueError:
            return None

    assert enter(url, "a", body) is None
    info = holdfast.store(url).fork("a@1", as_="b")
    assert info.behind == ()
    assert enter(url, "b", body) == "booked"


def test_an_idempotent_effect_keeps_its_key(url: str) -> None:
    """Answered; or, where repeats are asked about, simply made again under the key that makes it one."""

    def body(run: holdfast.Run) -> str:
        run.step("plan", len, "a trip")
        return repeatable("ada")

    enter(url, "a", body)
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    assert enter(url, "b", body) == "ada paid"
    assert len(made) == 1
    store.fork("a@1", as_="c", effects="ask")
    assert enter(url, "c", body) == "ada paid"
    assert len(made) == 2
    assert len({key for _, key in made}) == 1


def test_rewound_the_branch_that_is_kept_has_them(url: str) -> None:
    """The same for a run that is moved back; also twice, and further back each time."""

    def body(run: holdfast.Run) -> list[str]:
        run.step("plan", len, "a trip")
        run.step("pack", len, "a bag")
        return [unverified("ada"), unverified("bob")]

    enter(url, "a", body)
    store = holdfast.store(url)
    rewound = store.rewind("a@3")
    assert [one.step for one in rewound.behind] == ["pay"]
    assert [one.step for one in store.rewind("a@2").behind] == ["pay", "pay"]
    assert [one.step for one in store.rewind("a@1").behind] == ["pay", "pay"]
    assert enter(url, "a", body) == ["ada paid", "bob paid"]
    assert len(made) == 2
    assert [one["via"] for one in settled(url, "a")] == ["origin", "origin"]
    store.rewind("a@1", effects="again")
    enter(url, "a", body)
    assert len(made) == 4


def test_forks_of_forks(url: str) -> None:
    """Behind its own beginning, before it, and at its head: what happened in any of its histories is known."""
    enter(url, "a", lambda run: trip(run, "ada", "bob"))
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    enter(url, "b", lambda run: trip(run, "ada", "eve"))
    assert len(made) == 3
    assert len(store.fork("b@1", as_="c").behind) == 3
    store.fork("b", as_="d")
    for name in ("c", "d"):
        enter(url, name, lambda run: trip(run, "ada", "eve"))
    enter(url, "c", lambda run: trip(run, "ada", "eve", "bob"))
    assert len(made) == 3


def test_the_origin_may_be_gone(url: str, tmp_path: Path) -> None:
    """Erased with the fork flattened, exported and imported, copied: what the fork knows it takes along, large results too."""

    @holdfast.tool(effect="once", name="draw")
    def draw(size: int) -> str:
        made.append(("draw", ""))
        return "x" * size

    def body(run: holdfast.Run) -> list[str]:
        run.step("plan", len, "a trip")
        return [unverified("ada"), draw(50_000)]

    enter(url, "a", body)
    store = holdfast.store(url)
    for name in ("b", "c", "d"):
        store.fork("a@1", as_=name)
    store.export("c", tmp_path / "c.holdfast")
    other = holdfast.store(f"memory://{tmp_path.name}-other")
    imported = other.import_(tmp_path / "c.holdfast")
    store.copy(other, ["d"], move=True)
    store.erase("c")
    store.erase("a", flatten=True)
    store.prune()
    for place, name in ((url, "b"), (other.url, imported.run), (other.url, "d")):
        assert enter(place, name, body) == ["ada paid", "x" * 50_000]
    assert len(made) == 2


def test_compacting_the_fork_keeps_them(url: str) -> None:
    """What replaces a long history still knows what it was told when it began."""
    enter(url, "a", trip)
    store = holdfast.store(url)
    store.fork("a@1", as_="b")

    def long(run: holdfast.Run) -> Any:
        state = run.restore({"i": 0})
        while state["i"] < 30:
            state["i"] = run.step("count", int, state["i"]) + 1
            run.checkpoint(state)
        return None

    enter(url, "b", long)
    enter(url, "b", long)
    policy = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=1)
    store.prune("b", policy=policy)
    assert any(event.kind == "compacted" for event in read_all(open_store(url), "b"))

    def late(run: holdfast.Run) -> str:
        run.restore({"i": 0})
        return unverified("ada")

    assert enter(url, "b", late) == "ada paid"
    assert len(made) == 1


class Killed(BaseException):
    pass


class Dying(Relay):
    """Dies at the first append behind a new run's row."""

    is_armed = False

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if self.is_armed and verb.__name__ == "append":
            raise Killed
        return verb(*args, **kwargs)


@pytest.mark.parametrize("effects", ["answer", "ask"])
def test_killed_between_the_row_and_its_event(url: str, effects: Any) -> None:
    """A fork that is a row and nothing else finds out about the effects when it is entered."""
    enter(url, "a", trip)
    port = Dying(open_store(url))
    port.is_armed = True
    with pytest.raises(Killed):
        holdfast.Store(port).fork("a@1", as_="b", effects=effects)
    port.is_armed = False
    if effects == "ask":
        with pytest.raises(holdfast.StepInDoubt):
            enter(url, "b", trip)
    else:
        assert enter(url, "b", trip) == ["ada paid"]
    assert len(made) == 1


def test_awaited_and_keyed_and_in_scopes(url: str) -> None:
    """The identity of a call is all that counts, wherever it comes from."""

    async def main(run_id: str) -> list[Any]:
        async with holdfast.run(run_id, store=url, stops="suppress") as run:
            await run.step("plan", len, "a trip")
            with run.scope("inner"):
                first = await run.once("pay", pay, "ada")
            return [first, await run.options(key="k").once("pay", pay, "bob")]
        raise AssertionError

    assert asyncio.run(main("a")) == asyncio.run(_forked(url, main))
    assert len(made) == 2


async def _forked(url: str, main: Callable[[str], Any]) -> Any:
    holdfast.store(url).fork("a@1", as_="b")
    return await main("b")


def test_at_the_head_a_fork_is_still_one_row(url: str) -> None:
    """Nothing lies behind the head, and nothing is read or written for it."""
    enter(url, "a", trip)
    info = holdfast.store(url).fork("a", as_="b")
    assert info.behind == ()
    assert open_store(url).read_events("b", limit=10) == []
    assert later_effects.entries_behind(open_store(url), "a", holdfast.store(url).get("a").head) == []


def test_the_choice_is_one_of_three(url: str) -> None:
    """BadOption names them, before anything is written."""
    enter(url, "a", trip)
    wrong: Any = "maybe"
    with pytest.raises(holdfast.BadOption, match=r"\('answer', 'ask', 'again'\)"):
        holdfast.store(url).fork("a@1", as_="b", effects=wrong)
    with pytest.raises(holdfast.BadOption, match="effects='maybe'"):
        holdfast.store(url).rewind("a@1", effects=wrong)
    assert len(list(holdfast.store(url).runs())) == 1


def test_diff_counts_no_effect_as_made_that_was_answered(url: str) -> None:
    """Beside a place before the effect, only what the fork itself has done to the world is told."""
    enter(url, "a", lambda run: trip(run, "ada"))
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    enter(url, "b", lambda run: trip(run, "ada", "eve"))
    found = store.diff("a@1", "b")
    assert [(one.side, one.call) for one in found.effects] == [("b", 'pay("eve")')]
    assert len(made) == 2


@pytest.mark.parametrize("how", ["fork", "rewind"])
def test_a_handoff_brings_the_effects_behind_the_point(url: str, tmp_path: Path, how: str) -> None:
    """Whoever takes over from a fork, or from a run that was rewound, does not repeat them either: the taker's call is answered,
    under the key that it was made with; what the fork has asked for since is its own, and is there once."""
    enter(url, "a", lambda run: trip(run, "ada", "bob"))
    store, other = holdfast.store(url), holdfast.store(tmp_path / "other.db")
    giver = "a"
    if how == "fork":
        store.fork("a@1", as_="b")
        giver = "b"
    else:
        store.rewind("a@1")
    enter(url, giver, lambda run: trip(run, "ada"))
    document = store.handoff(giver, to="taker")
    assert sorted(one["idempotency_key"] for one in document["effects"]) == sorted(key for _, key in made)
    other.accept(document, as_="taker")
    for _ in range(2):
        assert enter(other.url, "taker", lambda run: trip(run, "bob", "ada")) == ["bob paid", "ada paid"]
    assert [to for to, _ in made] == ["ada", "bob"]
    enter(other.url, "taker", lambda run: trip(run, "bob", "ada", "bob"))
    assert [to for to, _ in made] == ["ada", "bob", "bob"], "as often as it happened, and no more"


def test_a_handoff_asks_about_what_the_fork_would_have_asked_about(url: str, tmp_path: Path) -> None:
    """Chosen for the fork, it holds for whoever takes over: the effect is in doubt there, with the same reason."""
    enter(url, "a", lambda run: trip(run, "ada"))
    store, other = holdfast.store(url), holdfast.store(tmp_path / "other.db")
    store.fork("a@1", as_="b", effects="ask")
    document = store.handoff("b", to="taker")
    assert document["effects"] == []
    (doubt,) = document["in_doubt"]
    assert (doubt["step"], "has happened already in run a" in doubt["doubt"]) == ("pay", True)
    other.accept(document, as_="taker")
    with pytest.raises(holdfast.StepInDoubt):
        enter(other.url, "taker", lambda run: trip(run, "ada"))
    assert len(made) == 1


def test_a_handoff_of_a_fork_that_does_them_again_brings_none(url: str, tmp_path: Path) -> None:
    """``again`` was chosen: the taker makes them, under keys of its own."""
    enter(url, "a", lambda run: trip(run, "ada"))
    store, other = holdfast.store(url), holdfast.store(tmp_path / "other.db")
    store.fork("a@1", as_="b", effects="again")
    document = store.handoff("b", to="taker")
    assert (document["effects"], document["in_doubt"]) == ([], [])
    other.accept(document, as_="taker")
    enter(other.url, "taker", lambda run: trip(run, "ada"))
    assert len({key for _, key in made}) == 2


def capturing(run: holdfast.Run, notes: list[str], *people: str) -> list[str]:
    """Each call captures a list, which may have grown since."""
    run.step("plan", len, "a trip")

    def book(to: str) -> str:
        made.append((to, ",".join(notes)))
        return f"{to} booked"

    return [run.once("book", book, to) for to in people]


def test_other_captured_data_is_a_question(url: str) -> None:
    """The same effect with the same given arguments, by a function that has captured other data, is not made unasked.

    Before, it was another call, and was made a second time without a question.
    """
    enter(url, "a", lambda run: capturing(run, ["x"], "ada"))
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    with pytest.raises(holdfast.StepInDoubt, match="captured"):
        enter(url, "b", lambda run: capturing(run, ["x", "y"], "ada"))
    assert made == [("ada", "x")]
    store.resolve("b", "book", "done", value="ada booked")
    assert enter(url, "b", lambda run: capturing(run, ["x", "y"], "ada")) == ["ada booked"]
    assert made == [("ada", "x")]
    # One effect answers one call: the next one is another effect.
    assert enter(url, "b", lambda run: capturing(run, ["x", "y"], "ada", "ada")) == ["ada booked"] * 2
    assert made == [("ada", "x"), ("ada", "x,y")]


def test_other_arguments_are_another_effect(url: str) -> None:
    """A fork that does something else is not asked, and neither is a call that its origin never made."""
    enter(url, "a", lambda run: capturing(run, ["x"], "ada"))
    store = holdfast.store(url)
    store.fork("a@1", as_="b")
    assert enter(url, "b", lambda run: capturing(run, ["y"], "bob")) == ["bob booked"]
    store.fork("a@1", as_="c", effects="again")
    assert enter(url, "c", lambda run: capturing(run, ["y"], "ada")) == ["ada booked"]
    store.fork("a@1", as_="d")
    assert enter(url, "d", lambda run: capturing(run, ["x"], "ada", "bob")) == ["ada booked", "bob booked"]
    assert [to for to, _ in made] == ["ada", "bob", "ada", "bob"]
