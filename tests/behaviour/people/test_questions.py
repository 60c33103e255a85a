"""Questions to people: asked once, answered once, bound to what they are about, across restarts.

Planted once, and caught here: an answer matched by its question's id alone (it then counted for another question after a
rewind); ``about`` left out of the identity; an expired question whose failure was not recorded; a letter that is taken
in and not consumed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from orjson import loads

import holdfast
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.wait_fold import WAITS
from holdfast.model.event_fields import contents_of

if TYPE_CHECKING:
    from tests.behaviour.conftest import Play, SetClock

Ask = Callable[..., Any]


class Way(Enum):
    SEA = 1
    AIR = 2


@dataclass
class Budget:
    amount: int
    note: str = ""


class Place(NamedTuple):
    city: str


@pytest.fixture
def store(url: str) -> holdfast.Store:
    return holdfast.store(url)


def asking(*args: Any, **options: Any) -> Callable[[Any], Any]:
    async def body(run: Any) -> Any:
        return await run.ask(*args, **options)

    return body


def kinds(store: holdfast.Store, run: str = "r") -> list[str]:
    return [e.kind for e in store.events(run) if e.kind.startswith("question")]


def test_the_run_parks_and_goes_on_when_it_is_answered(play: "Play", store: holdfast.Store) -> None:
    """Days later, by whom is recorded; and a replay gives the same answer without asking."""
    ask = asking("Deploy to prod?", returns=bool, about={"version": "1.2"})
    for _ in range(2):
        with pytest.raises(holdfast.AwaitingAnswer) as stop:
            play(ask)
        assert stop.value.question == "q1"
        assert store.get("r").status == "parked"
    (open_question,) = store.questions("r")
    assert (open_question.question, open_question.about) == ("Deploy to prod?", {"version": "1.2"})
    assert store.questions() == [open_question]
    store.answer("r", True, by="ada", reason="looks good")
    assert store.questions("r")[0].pending_by == "ada"
    assert play(ask) is True
    assert play(ask) is True
    assert kinds(store) == ["question.asked", "question.answered"]
    body = contents_of(store.events("r")[-3].body)
    assert (body["by"], body["reason"], body["value"]) == ("ada", "looks good", True)
    assert store.questions() == []


@pytest.mark.parametrize(
    ("returns", "given", "expected"),
    [
        (bool, False, False),
        (str, "42", "42"),
        (int, 7, 7),
        (float, 7, 7.0),
        (["sea", "air"], "air", "air"),
        (Way, "AIR", Way.AIR),
        (Way, Way.SEA, Way.SEA),
        (Budget, {"amount": 5}, Budget(5)),
        (Budget, Budget(5, "x"), Budget(5, "x")),
        (Place, {"city": "Kyiv"}, Place("Kyiv")),
        (None, {"any": [1, None]}, {"any": [1, None]}),
    ],
)
def test_an_answer_comes_back_as_what_was_asked_for(
    play: "Play", store: holdfast.Store, returns: Any, given: Any, expected: Any
) -> None:
    """Live and in a replay: of the same type, equal."""
    ask = asking("What?", returns=returns)
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    store.answer("r", given)
    for _ in range(2):
        found = play(ask)
        assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("returns", "given"),
    [
        (bool, "perhaps"),
        (bool, 1),
        (int, True),
        (int, 1.5),
        (str, 3),
        (["a", "b"], "c"),
        (Way, "LAND"),
        (Budget, {}),
        (Budget, [1]),
    ],
)
def test_an_answer_of_the_wrong_type_is_refused(
    url: str, store: holdfast.Store, returns: Any, given: Any
) -> None:
    """At once, to whoever gives it; the question stands as it was."""
    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("r", store=url) as run:
        run.ask("What?", returns=returns)
    with pytest.raises(holdfast.BadAnswer) as refused:
        store.answer("r", given)
    assert refused.value.hint.startswith("it asks for ")
    assert len(store.questions("r")) == 1
    assert store.questions("r")[0].pending_by == ""


def test_an_answer_that_the_class_refuses_leaves_the_question_open(
    play: "Play", store: holdfast.Store, caplog: pytest.LogCaptureFixture
) -> None:
    """What only the program's class can tell is told when it is taken in."""
    ask = asking("How much?", returns=Budget)
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    store.answer("r", {"amount": 5, "colour": "red"})
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    assert "put away" in caplog.text
    store.answer("r", {"amount": 5})
    assert play(ask) == Budget(5)


@pytest.mark.parametrize(
    "options",
    [{"choices": []}, {"choices": [["a"]]}, {"choices": ["a", "a"]}, {"returns": int, "choices": ["a"]}],
)
def test_a_question_that_cannot_be_is_refused(url: str, options: dict[str, Any]) -> None:
    """Before anything is recorded."""
    with holdfast.run("r", store=url) as run:
        with pytest.raises(holdfast.Misuse):
            run.ask("What?", **options)
        with pytest.raises(holdfast.Misuse):
            run.ask("  ")
        with pytest.raises(holdfast.NotStorable):
            run.ask("What?", about=object())
    assert kinds(holdfast.store(url)) == []


# -- bound to what it is about ---------------------------------------------------------------------------------------


def test_an_answer_about_something_else_does_not_count(play: "Play", store: holdfast.Store) -> None:
    """Asked again at that place about other arguments, it is a new question; the old one is withdrawn, answered or not."""
    with pytest.raises(holdfast.AwaitingAnswer):
        play(asking("Pay?", returns=bool, about={"amount": 5}))
    store.answer("r", True)
    with pytest.raises(holdfast.AwaitingAnswer) as stop:
        play(asking("Pay?", returns=bool, about={"amount": 500}))
    assert stop.value.question == "q2"
    assert [asked.id for asked in store.questions("r")] == ["q2"]
    with pytest.raises(holdfast.AlreadyAnswered, match="withdrawn"):
        store.answer("r", True, "q1")
    store.answer("r", False)
    assert play(asking("Pay?", returns=bool, about={"amount": 500})) is False
    assert kinds(store) == ["question.asked", "question.answered", "question.asked", "question.answered"]


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 1.0), (1, True), ([1, 2], (1, 2)), ({"a": 1}, {"a": 1, "b": None}), (None, "None")],
)
def test_what_can_be_told_apart_is_something_else(
    play: "Play", store: holdfast.Store, first: Any, second: Any
) -> None:
    """The hash is over the exact value."""
    for about, expected in ((first, "q1"), (second, "q2")):
        with pytest.raises(holdfast.AwaitingAnswer) as stop:
            play(asking("Pay?", about=about))
        assert stop.value.question == expected


def test_the_order_of_keys_is_not_something_else(play: "Play") -> None:
    """Canonical: the same arguments, written in another order."""
    for about in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        with pytest.raises(holdfast.AwaitingAnswer) as stop:
            play(asking("Pay?", about=about))
        assert stop.value.question == "q1"


def test_one_answer_is_for_one_question(play: "Play", store: holdfast.Store) -> None:
    """The same question asked twice is two questions; the first answer counts for the first."""

    async def body(run: Any) -> list[Any]:
        return [await run.ask("Go on?", returns=bool), await run.ask("Go on?", returns=bool)]

    for value in (True, False):
        with pytest.raises(holdfast.AwaitingAnswer):
            play(body)
        store.answer("r", value)
    assert play(body) == [True, False]


def test_an_answer_does_not_count_after_a_rewind(play: "Play", store: holdfast.Store, url: str) -> None:
    """A letter for the question of the branch that was left is put away, though the new one has the same id."""

    async def body(run: Any) -> Any:
        await run.checkpoint({"n": 1})
        return await run.ask("Go on?", returns=bool)

    with pytest.raises(holdfast.AwaitingAnswer):
        play(body)
    store.answer("r", True)
    store.rewind("r@1")
    with pytest.raises(holdfast.AwaitingAnswer) as stop:
        play(body)
    assert stop.value.question == "q1"
    assert store.questions("r")[0].pending_by == ""
    assert store._port.scan_records("inbox/r", limit=10) == []
    store.answer("r", False)
    assert play(body) is False


def test_an_answer_is_for_one_asking(play: "Play", clock: "SetClock", store: holdfast.Store) -> None:
    """The event that asked it counts: a letter for an earlier asking of the same thing is put away, whenever it comes."""
    from holdfast.engine.journal.inbox import post

    def late() -> None:
        clock.on_nap = None
        (asked,) = store.questions("r")
        told = {"kind": "answer", "key": asked.key, "seq": 1, "value": True, "by": "ada"}
        post(store._port, "r", "answer-1", told, at=clock.wall())

    clock.on_nap = late
    with pytest.raises(holdfast.AwaitingAnswer):
        play(asking("Go on?", returns=bool, wait_s=10))
    assert kinds(store) == ["question.asked"]
    with pytest.raises(holdfast.AwaitingAnswer):
        play(asking("Go on?", returns=bool))
    assert store._port.scan_records("inbox/r", limit=10) == []


def test_a_fork_asks_for_itself(play: "Play", store: holdfast.Store, url: str) -> None:
    """What stands open at the fork's point stands open in it; an answer to one is none to the other."""
    ask = asking("Go on?", returns=bool)
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    store.fork("r", as_="r2")
    assert [asked.run for asked in store.questions()] == ["r", "r2"]
    store.answer("r2", True)
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    with holdfast.run("r2", store=url) as run:
        assert run.ask("Go on?", returns=bool) is True


# -- several at once -------------------------------------------------------------------------------------------------


def test_several_questions_are_open_at_once(url: str, store: holdfast.Store) -> None:
    """Asked side by side, each has an id of its own; answered in any order, the run goes on with all."""

    async def body() -> list[Any]:
        run = holdfast.run("r", store=url)
        async with run as entered:

            async def one(city: str) -> Any:
                with entered.scope(city):
                    return await entered.ask(f"Visit {city}?", returns=bool)

            answers = list(await asyncio.gather(one("Kyiv"), one("Lviv"), one("Odesa")))
            await entered.finish(answers)
        return answers

    with pytest.raises(holdfast.AwaitingAnswer):
        asyncio.run(body())
    assert [asked.id for asked in store.questions("r")] == ["q1", "q2", "q3"]
    with pytest.raises(holdfast.UnknownQuestion, match="asks q1, q2, q3: name one"):
        store.answer("r", True)
    store.answer("r", False, "q2")
    with pytest.raises(holdfast.AwaitingAnswer):
        asyncio.run(body())
    # The attempt may park on q1 before its other task has read the answer to q2, which then waits in the inbox.
    assert [asked.id for asked in store.questions("r") if asked.pending is None] == ["q1", "q3"]
    store.answer("r", True, "q3")
    store.answer("r", True, "q1")
    assert asyncio.run(body()) == [True, False, True]


def test_a_program_that_goes_past_a_parked_question_asks_the_next(
    play: "Play", store: holdfast.Store
) -> None:
    """Two questions at one place of straight code, both asked by this program: neither takes the other's place."""

    async def body(run: Any) -> list[Any]:
        answers: list[Any] = []
        for city in ("Kyiv", "Lviv"):
            try:
                answers.append(await run.ask(f"Visit {city}?", returns=bool))
            except holdfast.AwaitingAnswer:
                answers.append(None)
        if None in answers:
            raise KeyboardInterrupt
        return answers

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            play(body)
        assert [asked.id for asked in store.questions("r")] == ["q1", "q2"]
    store.answer("r", True, "q1")
    store.answer("r", False, "q2")
    assert play(body) == [True, False]


# -- refusals --------------------------------------------------------------------------------------------------------


def test_what_nobody_asked_cannot_be_answered(play: "Play", store: holdfast.Store, url: str) -> None:
    """Of an unknown run, of a run that asks nothing, by another run, or answered already: each says so."""
    with pytest.raises(holdfast.UnknownRun):
        store.answer("nobody", True)
    with holdfast.run("other", store=url) as run:
        run.think("nothing to ask")
    with pytest.raises(holdfast.UnknownQuestion, match="finished"):
        store.answer("other", True)
    ask = asking("Go on?", returns=bool)
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    with pytest.raises(holdfast.UnknownQuestion, match="has not asked q7; it asks q1"):
        store.answer("r", True, "q7")
    store.answer("r", True, by="ada")
    with pytest.raises(holdfast.AlreadyAnswered, match="an answer by ada waits in its inbox"):
        store.answer("r", False, by="bob")
    with holdfast.run("r", store=url, stops="suppress") as run:
        assert run.ask("Go on?", returns=bool) is True
        with pytest.raises(holdfast.AlreadyAnswered, match="yes, by ada"):
            store.answer("r", False, "q1", by="bob")


def test_the_first_answer_that_is_taken_in_counts(url: str, store: holdfast.Store, monkeypatch: Any) -> None:
    """One that was left just behind another is refused, though the other's letter was gone already."""
    from holdfast.engine.journal import inbox

    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("r", store=url) as run:
        run.ask("Go on?", returns=bool)
    post = inbox.post

    def late(*args: Any, **kwargs: Any) -> bool:
        monkeypatch.setattr(inbox, "post", post)
        holdfast.store(url).answer("r", True, by="ada")
        with holdfast.run("r", store=url) as run:
            assert run.ask("Go on?", returns=bool) is True
        return post(*args, **kwargs)

    monkeypatch.setattr(inbox, "post", late)
    with pytest.raises(holdfast.AlreadyAnswered, match="yes, by ada"):
        store.answer("r", False, by="bob")


# -- waiting and expiring --------------------------------------------------------------------------------------------


def test_it_waits_in_the_process_and_then_parks(play: "Play", clock: "SetClock", url: str) -> None:
    """For ``wait_s``; an answer in the middle is given at once, and the run goes on."""
    ask = asking("Go on?", returns=bool, wait_s=30)
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    assert clock.passed == pytest.approx(30)

    def answer() -> None:
        if clock.passed >= 40:
            clock.on_nap = None
            holdfast.store(url).answer("r", True, by="ada")

    clock.on_nap = answer
    assert play(ask) is True
    assert 40 <= clock.passed <= 43


def test_nobody_answers_in_time(play: "Play", clock: "SetClock", store: holdfast.Store) -> None:
    """QuestionExpired, recorded: the same in a replay, whatever the clock says then; a late answer is refused."""

    async def body(run: Any) -> str:
        try:
            return str(await run.ask("Go on?", expires_s=60))
        except holdfast.QuestionExpired as expired:
            return expired.question

    async def stops(run: Any) -> None:
        await body(run)
        raise KeyboardInterrupt

    with pytest.raises(holdfast.AwaitingAnswer) as stop:
        play(body)
    assert stop.value.until == pytest.approx(clock.wall() + 60)
    clock.jump(61)
    with pytest.raises(holdfast.QuestionExpired):
        store.answer("r", "yes")
    with pytest.raises(KeyboardInterrupt):
        play(stops)
    clock.jump(-61)
    assert play(body) == "q1"
    assert kinds(store) == ["question.asked", "question.answered"]


def test_an_answer_in_time_counts_though_it_is_taken_in_later(
    play: "Play", clock: "SetClock", store: holdfast.Store
) -> None:
    """It was given before the question expired; nobody ran the program meanwhile."""
    ask = asking("Go on?", returns=bool, expires_s=60)
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    clock.jump(59)
    store.answer("r", True)
    clock.jump(3600)
    assert play(ask) is True


def test_an_expired_question_that_ended_the_attempt_is_asked_again(
    play: "Play", clock: "SetClock", store: holdfast.Store
) -> None:
    """As a failed step is tried again: nobody went past it."""
    ask = asking("Go on?", returns=bool, expires_s=60)
    with pytest.raises(holdfast.AwaitingAnswer):
        play(ask)
    clock.jump(61)
    with pytest.raises(holdfast.QuestionExpired):
        play(ask)
    with pytest.raises(holdfast.AwaitingAnswer) as stop:
        play(ask)
    assert stop.value.question == "q2"
    store.answer("r", True)
    assert play(ask) is True


# -- what stays ------------------------------------------------------------------------------------------------------


def test_open_waits_and_questions_survive_a_snapshot_and_a_compaction(
    url: str, store: holdfast.Store
) -> None:
    """Both carry the view as data."""
    from orjson import dumps

    from holdfast.core.journal import snapshots
    from holdfast.core.journal.fold import load
    from holdfast.core.prune.compaction import reduce
    from holdfast.core.prune.kept_view import difference

    with pytest.raises(holdfast.Sleeping), holdfast.run("r", store=url, stops="raise") as run:
        for _ in range(2):
            try:
                run.ask("Which?", returns=Way, about=[1], expires_s=60)
            except holdfast.AwaitingAnswer:
                continue
        run.sleep(3600, wait_s=0)
    view = store.view("r")
    assert (len(QUESTIONS.of(view).open), len(WAITS.of(view).open), QUESTIONS.of(view).asked) == (1, 1, 1)
    again = load(loads(dumps(snapshots.dump(view))))
    assert again is not None
    reduced = reduce(store.view("r"), set(), lambda _: b"").view()
    for other in (again, reduced):
        assert (QUESTIONS.of(other).open, WAITS.of(other).open, QUESTIONS.of(other).asked) == (
            QUESTIONS.of(view).open,
            WAITS.of(view).open,
            QUESTIONS.of(view).asked,
        )
    assert difference(store.view("r"), again) == ""
    QUESTIONS.of(reduced).open = {}
    assert difference(store.view("r"), reduced) != ""
