"""No effect is repeated by whoever takes over: done ones are answered, doubtful ones are settled under the giver's key."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast

DONE: list[str] = []
"""What was done, by any process of a test."""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@holdfast.tool
def charge(amount: int, *, idempotency_key: str = holdfast.KEY) -> dict[str, Any]:
    DONE.append(f"charge {amount}")
    return {"amount": amount, "key": idempotency_key}


def never() -> None:
    pytest.fail("it was made again")


def look(what: str) -> str:
    DONE.append(f"look {what}")
    return what


def noted(what: str) -> str:
    DONE.append(f"note {what}")
    return what.upper()


def giver(store: holdfast.Store) -> dict[str, Any]:
    document: dict[str, Any] = {}
    with holdfast.run("giver", store=store) as run:
        charge(5)
        charge(5)
        with run.scope("elsewhere"):
            charge(7)
        run.step("look", look, "x")
        run.options(key="mail-1").once("mail", noted, "ada")
        run.options(idempotent=True).step("put", noted, "file")
        document |= run.handoff(to="taker", seal=True)
    return document


def taker(run: holdfast.Run) -> list[Any]:
    """In another order, at other places, with what the giver has done and what it has not."""
    with run.scope("mine"):
        first = charge(7)
    second = run.step("inside", lambda: charge(5))
    third, fourth = charge(5), charge(5)
    run.step("look", look, "x")
    mailed = run.options(key="mail-1").once("mail", noted, "ada")
    other = run.options(key="mail-2").once("mail", noted, "ada")
    return [
        first,
        second,
        third,
        fourth,
        mailed,
        other,
        run.options(idempotent=True).step("put", noted, "file"),
    ]


def test_each_effect_answers_one_call_and_reads_are_made(tmp_path: Path) -> None:
    """By name and arguments wherever the call stands, by key where it was given one; the third equal call is a new one.

    Planted: answering without taking the effect out of the pool gives the third charge the first's key.
    """
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    document = json.loads(json.dumps(giver(store)))
    keys = [one["idempotency_key"] for one in document["effects"]]
    DONE.clear()
    other.accept(document, as_="taker")
    with holdfast.run("taker", store=other) as run:
        found = taker(run)
        run.finish("ok")
    assert DONE == ["charge 5", "look x", "note ada"]
    assert [one["key"] for one in found[:3]] == [keys[2], keys[0], keys[1]]
    assert found[3]["key"] not in keys
    assert found[4:] == ["ADA", "ADA", "FILE"]
    settled = [
        (event.name, body["via"], body["run"], body["event"])
        for event in other.events("taker")
        if event.kind == "step.settled" and (body := other.content(event))
    ]
    assert settled[0] == ("charge", "handoff", "giver", document["effects"][2]["events"][0])
    assert len(settled) == 5


def wire(amount: float, to: str = "Ada") -> str:
    DONE.append(f"wire {amount!r} {to}")
    return f"{amount!r} to {to}"


def wire_later(amount: float, to: str = "Ada", urgent: bool = False) -> str:
    DONE.append(f"wire {amount!r} {to} {urgent}")
    return "made"


def taken(tmp_path: Path, given: Any, asked: Any) -> Any:
    """What the taker's call returns, after the giver made its own."""
    store = holdfast.store(tmp_path / "a.db")
    with holdfast.run("giver", store=store) as run:
        given(run)
        document = json.loads(json.dumps(run.handoff(to="taker", seal=True)))
    DONE.clear()
    other = holdfast.store(tmp_path / "b.db")
    other.accept(document, as_="taker")
    with holdfast.run("taker", store=other) as run:
        return asked(run)


@pytest.mark.parametrize("asked", [
    lambda run: run.once("wire", wire, 5.0),
    lambda run: run.once("wire", wire, 5, to="Ada"),
    lambda run: run.once("wire", wire_later, 5),
    lambda run: run.once("wire", wire_later, 5.0, urgent=False),
], ids=["another type", "said", "a new default", "both"])  # fmt: skip
def test_arguments_that_are_equal_by_value_are_the_same_effect(tmp_path: Path, asked: Any) -> None:
    """As in the run itself: ``5`` and ``5.0``, and a parameter at its default that the giver did not have."""
    assert taken(tmp_path, lambda run: run.once("wire", wire, 5), asked) == "5 to Ada"
    assert DONE == []


@pytest.mark.parametrize("asked", [
    lambda run: run.once("wire", wire, True),
    lambda run: run.once("wire", wire, 1, to="Bob"),
    lambda run: run.once("wire", wire_later, 1, urgent=True),
    lambda run: run.once("send", wire, 1),
], ids=["True", "another person", "not at its default", "another name"])  # fmt: skip
def test_other_arguments_are_another_effect(tmp_path: Path, asked: Any) -> None:
    """``True`` is not ``1``, and nothing is matched by its place or by likeness: the call is made."""
    taken(tmp_path, lambda run: run.once("wire", wire, 1), asked)
    assert len(DONE) == 1


def test_the_exact_effect_comes_before_an_equal_one(tmp_path: Path) -> None:
    """The giver made ``5.0`` and then ``5``: each call of the taker gets its own."""

    def given(run: holdfast.Run) -> None:
        run.once("wire", wire, 5.0)
        run.once("wire", wire, 5)

    found = taken(tmp_path, given, lambda run: [run.once("wire", wire, 5), run.once("wire", wire, 5.0)])
    assert found == ["5 to Ada", "5.0 to Ada"]
    assert DONE == []


def test_a_key_alone_matches_nothing(tmp_path: Path) -> None:
    """Two programs may use the same key for different things: the name has to be the same, too."""

    def asked(run: holdfast.Run) -> Any:
        return run.options(key="7").once("mail", noted, "ada"), run.options(key="7/pay").once("wire", wire, 5)

    def given(run: holdfast.Run) -> None:
        run.options(key="7").once("wire", wire, 5)
        run.options(key="7/pay").once("wire", wire, 5)

    assert taken(tmp_path, given, asked) == ("ADA", "5 to Ada")
    assert DONE == ["note ada"]


@pytest.mark.parametrize("died_after", range(1, 9))
def test_a_taker_that_dies_anywhere_asks_for_each_effect_once(tmp_path: Path, died_after: int) -> None:
    """Replayed from the top and restored from a state: what it was answered, it is answered again, and nothing else.

    Planted: counting an effect as claimed only in memory lets the second attempt claim it a second time.
    """
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    other.accept(giver(store), as_="taker")
    DONE.clear()

    def body(run: holdfast.Run, upto: int) -> None:
        calls = iter(range(1, 100))

        def died() -> None:
            if next(calls) == upto:
                raise KeyError

        state = run.restore({"charged": 0})
        for number in range(state["charged"], 4):
            charge(5)
            died()
            run.checkpoint({"charged": number + 1})
            died()

    for upto in (died_after, 1, 99):
        try:
            with holdfast.run("taker", store=other) as run:
                body(run, upto)
        except KeyError:
            continue
    assert other.get("taker").status == "finished"
    assert DONE == ["charge 5", "charge 5"]


def test_tasks_side_by_side_get_one_each(tmp_path: Path) -> None:
    """Awaited, at once: two are answered, one is made."""
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    other.accept(giver(store), as_="taker")
    DONE.clear()

    async def drive() -> None:
        async with holdfast.run("taker", store=other) as run:

            async def claim(number: int) -> Any:
                with run.scope(f"task {number}"):
                    return await run.once("charge", charge.fn, 5)

            found.extend(await asyncio.gather(*map(claim, range(3))))

    found: list[Any] = []
    asyncio.run(drive())
    assert DONE == ["charge 5"]
    assert len({one["key"] for one in found}) == 3


LEDGER: dict[str, str] = {}


def find_payment(idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    return holdfast.Done("found") if idempotency_key in LEDGER else holdfast.NotDone()


def cut_off(person: str, *, idempotency_key: str = holdfast.KEY) -> str:
    if DONE and DONE[0] == "cut":
        if DONE[1] == "after":
            LEDGER[idempotency_key] = person
        raise ConnectionError
    LEDGER[idempotency_key] = person
    return "paid"


pay = holdfast.tool(effect="once", verify=find_payment, settle_s=0, name="pay")(cut_off)
plain = holdfast.tool(effect="once", name="pay")(cut_off)


def doubtful(store: holdfast.Store, when: str) -> tuple[dict[str, Any], str]:
    """A giver that does not know whether it has paid, and the key that it paid with."""
    LEDGER.clear()
    DONE[:] = ["cut", when]
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("giver", store=store):
        plain("ada")
    DONE.clear()
    document = store.handoff("giver", to="taker", seal=True)
    return json.loads(json.dumps(document)), document["in_doubt"][0]["idempotency_key"]


@pytest.mark.parametrize(("when", "said"), [("after", "found"), ("before", "paid")])
def test_a_doubt_is_settled_by_the_takers_verify_under_the_givers_key(
    tmp_path: Path, when: str, said: str
) -> None:
    """Done: answered. Not done: made once, under the same key. Planted: a key of the taker's own pays twice."""
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    document, key = doubtful(store, when)
    other.accept(document, as_="taker")
    for _ in range(2):
        with holdfast.run("taker", store=other) as run:
            assert pay("ada") == said
            run.finish(said)
    assert {key: "ada"} == LEDGER


@pytest.mark.parametrize("how", ["done", "retry", "failed"])
@pytest.mark.parametrize("early", [True, False])
def test_a_doubt_that_nobody_can_verify_is_a_persons_to_settle(tmp_path: Path, how: str, early: bool) -> None:
    """Before the program asks for it or after: StepInDoubt, `resolve`, and what was said is what the program gets."""
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    document, key = doubtful(store, "before")
    other.accept(document, as_="taker")
    if not early:
        with pytest.raises(holdfast.StepInDoubt, match="in run giver"), holdfast.run("taker", store=other):
            plain("ada")
        assert [doubt.step for doubt in other.doubts("taker")] == ["pay"]
    other.resolve("taker", "pay", how, value="told", message="bounced")  # type: ignore[arg-type]
    with holdfast.run("taker", store=other) as run:
        if how == "failed":
            with pytest.raises(RuntimeError, match="bounced"):
                plain("ada")
        else:
            assert plain("ada") == ("told" if how == "done" else "paid")
        run.finish()
    assert ({key: "ada"} if how == "retry" else {}) == LEDGER
    assert other.doubts("taker") == []


def test_what_the_giver_is_in_the_middle_of_is_in_doubt_and_not_over(tmp_path: Path) -> None:
    """Handed over by a live giver that keeps going: its process lives, so not even `verify` may say that it did not happen."""
    store, other = holdfast.store(tmp_path / "a.db"), holdfast.store(tmp_path / "b.db")
    documents: list[dict[str, Any]] = []

    def slow() -> None:
        documents.append(store.handoff("giver"))

    with holdfast.run("giver", store=store) as run:
        run.once("pay", slow)
    (doubt,) = documents[0]["in_doubt"]
    assert (doubt["step"], doubt["is_over"]) == ("pay", False)
    other.accept(documents[0], as_="taker")
    for _ in range(2):  # also after a restart, when the process that asked for it is gone
        with (
            pytest.raises(holdfast.StepInDoubt, match="may still be alive"),
            holdfast.run("taker", store=other) as run,
        ):
            run.options(verify=holdfast.NotDone, settle_s=0).once("pay", never)


def test_an_effect_that_the_model_was_told_nobody_knows_of_is_in_doubt(tmp_path: Path) -> None:
    """`in_doubt="tell"` lets the giver go on; whoever takes over is told, and not left to do it again."""
    store = holdfast.store(tmp_path / "a.db")

    def broken() -> None:
        raise ConnectionError

    with holdfast.run("giver", store=store) as run:
        with pytest.raises(holdfast.EffectUnknown):
            run.options(in_doubt="tell").once("pay", broken)
        document = run.handoff(seal=True)
    assert [one["step"] for one in document["in_doubt"]] == ["pay"]


def test_what_was_given_is_given_on(tmp_path: Path) -> None:
    """From the first to the third: what the second never asked for, done or in doubt, still answers and still is.

    Planted: a document of the second's own steps alone lets the third charge again.
    """
    stores = [holdfast.store(tmp_path / f"{name}.db") for name in "abc"]
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("one", store=stores[0]) as run:
        charge(5)
        charge(6)
        DONE[:] = ["cut", "before"]
        plain("ada")
    first = stores[0].handoff("one", to="two", seal=True)
    stores[1].accept(first, as_="two")
    with holdfast.run("two", store=stores[1]) as run:
        charge(5)
        charge(8)
        second = run.handoff(to="three", seal=True)
    assert [(one["arguments"]["amount"], one.get("from", {}).get("run")) for one in second["effects"]] == [
        (6, "one"),
        (5, None),
        (8, None),
    ]
    assert second["in_doubt"][0]["idempotency_key"] == first["in_doubt"][0]["idempotency_key"]
    stores[2].accept(json.loads(json.dumps(second)), as_="three")
    DONE.clear()
    with holdfast.run("three", store=stores[2]) as run:
        keys = [charge(amount)["key"] for amount in (5, 6, 8)]
        assert DONE == []
        assert keys[0] == first["effects"][0]["idempotency_key"]
        assert keys[1] == first["effects"][1]["idempotency_key"]
        with pytest.raises(holdfast.StepInDoubt):
            plain("ada")
        stores[2].resolve("three", "pay", "done", value="told")
        assert plain("ada") == "told"


# -- what a rewind left behind ---------------------------------------------------------------------------------------


LINE_IS_DOWN: list[bool] = []


def in_vain(amount: int, *, idempotency_key: str) -> holdfast.NotDone:
    return holdfast.NotDone()


@holdfast.tool(verify=in_vain, settle_s=0, name="order after a rewind")
def order(amount: int, *, idempotency_key: str = holdfast.KEY) -> str:
    if LINE_IS_DOWN:
        LINE_IS_DOWN.pop()
        raise ConnectionError("the line is down")
    DONE.append(f"order {amount}")
    return f"{len(DONE)} under {idempotency_key}"


def rewound_giver(store: holdfast.Store, amounts: list[int], *, fails: bool) -> list[str]:
    """Orders, once more after a failure; rewound to where none was made, or the first had only failed."""
    LINE_IS_DOWN[:] = [True] * fails
    for _ in range(1 + fails):
        with suppress(ConnectionError, KeyError), holdfast.run("giver", store=store):
            made = [order(amount) for amount in amounts]
            raise KeyError
    failed = next(event.seq for event in store.events("giver") if event.kind == "attempt.ended")
    store.rewind(f"giver@#{failed if fails else 2}")
    return made


def test_an_effect_that_failed_before_a_rewinds_point_is_carried(tmp_path: Path) -> None:
    """It was made behind that point, so the taker gets its result.

    Seen before: the failed call was there, so the effect was left out of the document, and the taker made it again.
    """
    store = holdfast.store(tmp_path / "a.db")
    made = rewound_giver(store, [5], fails=True)
    store.accept(store.handoff("giver", to="taker", seal=True), as_="taker")
    with holdfast.run("taker", store=store):
        assert order(5) == made[0]
    assert DONE == ["order 5"]


def test_equal_effects_are_answered_in_the_order_of_the_calls(tmp_path: Path) -> None:
    """Also where the first was made again after a rewind, and the second is only known from what it left behind.

    Seen before: what was left behind came first, and the taker's first call got the second one's result.
    """
    store = holdfast.store(tmp_path / "a.db")
    made = rewound_giver(store, [5, 5], fails=False)
    with suppress(KeyError), holdfast.run("giver", store=store):
        assert order(5) == made[0]
        raise KeyError
    store.accept(store.handoff("giver", to="taker", seal=True), as_="taker")
    with holdfast.run("taker", store=store):
        assert [order(5), order(5)] == made


def test_a_fork_of_the_taker_has_each_effect_once(tmp_path: Path) -> None:
    """It knows the effect by the handoff and by its origin. The second equal call is another one, and is made.

    Seen before: both calls got the one result.
    """
    store = holdfast.store(tmp_path / "a.db")
    with holdfast.run("giver", store=store) as run:
        made = order(5)
        document = run.handoff(to="taker", seal=True)
    store.accept(document, as_="taker")
    with suppress(KeyError), holdfast.run("taker", store=store):
        assert order(5) == made
        raise KeyError
    begun = next(event.seq for event in store.events("taker") if event.kind == "attempt.started")
    store.fork(f"taker@#{begun}", as_="fork")
    for _ in range(2):
        with suppress(KeyError), holdfast.run("fork", store=store):
            first, second = order(5), order(5)
            raise KeyError
    assert first == made
    assert second != made
    assert DONE == ["order 5", "order 5"]
    store.accept(store.handoff("fork", to="third", seal=True), as_="third")
    with holdfast.run("third", store=store):
        assert [order(5), order(5)] == [first, second]
    assert len(DONE) == 2


@holdfast.tool(name="order with a bad line")
def order_by_phone(amount: int) -> str:
    DONE.append(f"order {amount}")
    if len(DONE) == 2:
        raise ConnectionError("the line is down")
    return "noted"


def test_a_second_handoff_keeps_the_order_of_done_and_doubtful(tmp_path: Path) -> None:
    """Of two equal calls the first is done and the second in doubt, also for who takes over from the taker.

    Seen before: the doubt came first, and the taker's first call was in doubt.
    """
    store = holdfast.store(tmp_path / "a.db")
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("giver", store=store):
        order_by_phone(5)
        order_by_phone(5)
    store.accept(store.handoff("giver", to="taker", seal=True), as_="taker")
    store.accept(store.handoff("taker", to="third", seal=True), as_="third")
    with pytest.raises(holdfast.StepInDoubt), holdfast.run("third", store=store):
        assert order_by_phone(5) == "noted"
        order_by_phone(5)
    assert len(DONE) == 2
