"""Tools that ask before the effect: approved once, denied as a result, and never for other arguments.

Planted once, and caught here: the intent written before the question; an approval that a fork uses a second time; a
denial that is not the same in a replay.
"""

from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast.model.event_fields import contents_of

if TYPE_CHECKING:
    from tests.behaviour.conftest import Play

paid: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def _no_payments() -> None:
    paid.clear()


def pay(to: str, amount: int) -> str:
    paid.append((to, amount))
    return f"paid {to} {amount}"


def words(arguments: dict[str, Any]) -> str:
    return f"Pay {arguments['amount']} to {arguments['to']}?"


@pytest.fixture
def tool(mode: str) -> Any:
    """The tool, called as its kind is."""

    def made(**options: Any) -> Any:
        if mode == "blocking":
            plain = holdfast.tool(name="pay", **options)(pay)

            async def call(*args: Any) -> Any:
                return plain(*args)

            return call

        async def pay_async(to: str, amount: int) -> str:
            return pay(to, amount)

        return holdfast.tool(name="pay", **options)(pay_async)

    return made


@pytest.fixture
def store(url: str) -> holdfast.Store:
    return holdfast.store(url)


def steps(store: holdfast.Store, run: str = "r") -> list[str]:
    return [e.kind for e in store.events(run) if e.kind.startswith("step")]


def test_nothing_happens_before_somebody_says_yes(tool: Any, play: "Play", store: holdfast.Store) -> None:
    """No intent, nothing in doubt; then the effect, once, and in a replay its recorded result."""
    call = tool(approve=True)

    async def body(run: Any) -> Any:
        return await call("ada", 5)

    with pytest.raises(holdfast.AwaitingAnswer, match=r'May pay\(amount=5, to="ada"\) run\?'):
        play(body)
    assert (paid, steps(store), store.doubts("r")) == ([], [], [])
    (asked,) = store.questions("r")
    assert asked.about == {"tool": "pay", "arguments": {"amount": 5, "to": "ada"}}
    store.answer("r", True, by="ada")
    for _ in range(2):
        assert play(body) == "paid ada 5"
    assert paid == [("ada", 5)]
    intent = next(contents_of(e.body) for e in store.events("r") if e.kind == "step.started")
    assert intent["approved"] == next(e.seq for e in store.events("r") if e.kind == "question.answered")


def test_a_denial_is_the_result(tool: Any, play: "Play", store: holdfast.Store) -> None:
    """Told in words, the same in every replay; no intent is written, and nothing happens."""
    call = tool(approve=True)

    async def body(run: Any) -> Any:
        return [await call("ada", 500), await run.step("after", str, 1)]

    with pytest.raises(holdfast.AwaitingAnswer):
        play(body)
    store.answer("r", False, by="ada", reason="too much")
    for _ in range(2):
        assert play(body) == ["denied by ada: too much", "1"]
    assert paid == []
    assert steps(store) == ["step.started", "step.finished"]


def test_other_arguments_are_asked_about_anew(tool: Any, play: "Play", store: holdfast.Store) -> None:
    """An approval of 5 is none of 500: the question is another one, and the old one is withdrawn."""
    call = tool(approve=True)
    amount = 5

    async def body(run: Any) -> Any:
        return await call("ada", amount)

    with pytest.raises(holdfast.AwaitingAnswer):
        play(body)
    store.answer("r", True)
    amount = 500
    with pytest.raises(holdfast.AwaitingAnswer):
        play(body)
    assert paid == []
    assert [asked.about["arguments"]["amount"] for asked in store.questions("r")] == [500]


def test_an_approval_is_for_one_call(tool: Any, play: "Play", store: holdfast.Store) -> None:
    """The same call twice is asked about twice."""
    call = tool(approve=True)

    async def body(run: Any) -> Any:
        return [await call("ada", 5), await call("ada", 5)]

    for value in (True, False):
        with pytest.raises(holdfast.AwaitingAnswer):
            play(body)
        store.answer("r", value, by="ada")
    assert play(body) == ["paid ada 5", "denied by ada"]
    assert paid == [("ada", 5)]


@pytest.mark.parametrize(("approve", "text"), [("Really pay?", "Really pay?"), (words, "Pay 5 to ada?")])
def test_the_question_can_be_said_otherwise(
    tool: Any, play: "Play", store: holdfast.Store, approve: Any, text: str
) -> None:
    """A text, or a function that makes it from the arguments; what it is about is the same."""
    call = tool(approve=approve)

    async def body(run: Any) -> Any:
        return await call("ada", 5)

    with pytest.raises(holdfast.AwaitingAnswer):
        play(body)
    (asked,) = store.questions("r")
    assert (asked.question, asked.about["tool"]) == (text, "pay")


def test_many_tools_at_once(url: str, store: holdfast.Store) -> None:
    """``tools(..., approve={...})`` names those that ask; one that is not there is refused."""
    tools = holdfast.tools([pay, words], effects={"words": "read"}, approve={"pay"})
    with pytest.raises(holdfast.Misuse, match="approve names pey"):
        holdfast.tools([pay], approve={"pey"})
    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("r", store=url):
        assert tools[1]({"amount": 1, "to": "x"}) == "Pay 1 to x?"
        tools[0]("ada", 5)
    assert len(store.questions("r")) == 1


def test_outside_of_a_run_nobody_is_asked() -> None:
    """It is the plain function there."""
    assert holdfast.tool(approve=True)(pay)("ada", 5) == "paid ada 5"


@pytest.mark.parametrize("how", ["fork", "rewind"])
def test_another_history_asks_for_itself(url: str, store: holdfast.Store, how: str) -> None:
    """An approval that was given and not used at the point is not used by two histories: the other one asks again.

    And that it asked again is the same in its replay.
    """
    charge = holdfast.tool(approve=True, name="pay")(pay)

    def body(run: holdfast.Run) -> str:
        result = charge("ada", 5)
        run.think("done")
        return result

    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("r", store=url) as run:
        body(run)
    store.answer("r", True, by="ada")
    with holdfast.run("r", store=url) as run:
        assert body(run) == "paid ada 5"
    answered = next(e.seq for e in store.events("r") if e.kind == "question.answered")
    other = "r"
    if how == "fork":
        other = "r2"
        store.fork(f"r@#{answered}", as_=other, effects="again")
    else:
        store.rewind(f"r@#{answered}", effects="again")
    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run(other, store=url) as run:
        body(run)
    assert paid == [("ada", 5)]
    store.answer(other, True, by="bob")
    with pytest.raises(KeyboardInterrupt), holdfast.run(other, store=url) as run:
        assert body(run) == "paid ada 5"
        raise KeyboardInterrupt
    with holdfast.run(other, store=url) as run:
        assert body(run) == "paid ada 5"
    assert paid == [("ada", 5)] * 2
    assert store.questions() == []
    with (
        pytest.raises(holdfast.AwaitingAnswer),
        holdfast.run(other, store=url, if_finished="reopen") as run,
    ):
        body(run)
        charge("ada", 5)  # both approvals are used up
    assert paid == [("ada", 5)] * 2


def test_a_fork_after_the_call_does_not_ask(url: str, store: holdfast.Store) -> None:
    """What was approved and done before the point is history, and replays."""
    charge = holdfast.tool(approve=True, name="pay")(pay)
    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("r", store=url):
        charge("ada", 5)
    store.answer("r", True, by="ada")
    with holdfast.run("r", store=url):
        charge("ada", 5)
    finished = next(e.seq for e in store.events("r") if e.kind == "step.finished")
    store.fork(f"r@#{finished}", as_="r2")
    with holdfast.run("r2", store=url):
        assert charge("ada", 5) == "paid ada 5"
    assert paid == [("ada", 5)]
