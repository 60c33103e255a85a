"""Words of people and of other runs when a run is rewound: none is lost, and a refused one changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.engine.lineage import rewind
from holdfast.model.store_rows import inbox_space
from holdfast.stores.url import open_store

Body = Callable[[holdfast.Run], Any]


class Stop(Exception):
    pass


def enter(url: str, run: str, body: Body) -> Any:
    """What the body gives in an attempt that ends in the middle; the stop-signal that ended it."""
    given: list[Any] = []
    try:
        with holdfast.run(run, store=url) as entered:
            given.append(body(entered))
            raise Stop
    except Stop:
        return given[0]
    except holdfast.StopSignal as stopped:
        return type(stopped)


def seq_of(url: str, run: str, kind: str) -> int:
    (found,) = [event.seq for event in holdfast.store(url).events(run) if event.kind == kind]
    return found


def letters(url: str, run: str) -> list[str]:
    return [record.key for record in open_store(url).scan_records(inbox_space(run), limit=100)]


def asks(run: holdfast.Run) -> Any:
    run.step("plan", len, "a trip")
    return run.ask("Pay?", choices=["yes", "no"])


def test_a_question_that_is_open_again_is_answered_anew(url: str) -> None:
    """Back to where it was asked: the new answer counts, and the old one stays with the kept branch.

    Seen before: "answered already: no", and the refused answer was recorded all the same.
    """
    enter(url, "m", asks)
    store = holdfast.store(url)
    store.answer("m", "no")
    assert enter(url, "m", asks) == "no"
    store.rewind(f"m@#{seq_of(url, 'm', 'question.asked')}")
    store.answer("m", "yes")
    with pytest.raises(holdfast.AlreadyAnswered, match="waits in its inbox"):
        store.answer("m", "no")
    assert enter(url, "m", asks) == "yes"
    with pytest.raises(holdfast.AlreadyAnswered, match="yes"):
        store.answer("m", "no", "q1")
    assert letters(url, "m") == []
    assert enter(url, "m~1", asks) == "no"


def test_an_accepted_answer_goes_with_its_question(url: str) -> None:
    """It was not read yet when the run went back to before the question. Seen before: put away with a line in the log."""
    enter(url, "m", asks)
    store = holdfast.store(url)
    store.answer("m", "no")
    rewound = store.rewind(f"m@#{seq_of(url, 'm', 'question.asked') - 1}")
    assert len(rewound.letters.kept) == 1
    assert (letters(url, "m"), len(letters(url, "m~1"))) == ([], 1)
    assert enter(url, "m~1", asks) == "no"
    assert enter(url, "m", asks) is holdfast.AwaitingAnswer


def test_an_accepted_answer_stays_where_its_question_stays(url: str) -> None:
    """The question was asked before the point: the run that goes on reads the answer."""
    enter(url, "m", asks)
    holdfast.store(url).answer("m", "no")
    rewound = holdfast.store(url).rewind(f"m@#{seq_of(url, 'm', 'question.asked')}")
    assert rewound.letters.kept == ()
    assert enter(url, "m", asks) == "no"


def test_a_resolution_goes_with_its_effect(url: str) -> None:
    """And from there it answers the run that was rewound, which makes the same call."""
    calls: list[str] = []

    @holdfast.tool(effect="once", settle_s=0, ignore=("calls",))
    def pay(to: str) -> str:
        calls.append(to)
        raise ConnectionError("the line broke")

    def body(run: holdfast.Run) -> Any:
        run.step("plan", len, "a trip")
        return pay("ada")

    assert enter(url, "m", body) is holdfast.StepInDoubt
    store = holdfast.store(url)
    store.resolve("m", "pay", "done", value="on the bill")
    store.rewind("m@1")
    assert enter(url, "m~1", body) == enter(url, "m", body) == "on the bill"
    assert calls == ["ada"]


def test_killed_before_the_head_moves_the_run_has_its_letters(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch that would have kept them is one fork too many, and the rewind can be made again."""
    enter(url, "m", asks)
    store = holdfast.store(url)
    store.answer("m", "no")
    place = f"m@#{seq_of(url, 'm', 'question.asked') - 1}"
    with monkeypatch.context() as patch, pytest.raises(Stop):

        def killed(*_: Any, **__: Any) -> None:
            raise Stop

        patch.setattr(rewind, "append_all", killed)
        store.rewind(place)
    assert len(letters(url, "m")) == 1
    assert store.rewind(place).kept == "m~2"
    assert enter(url, "m~2", asks) == "no"


# -- messages between runs -----------------------------------------------------------------------------------


def sends(run: holdfast.Run) -> Any:
    run.step("begin", len, "a")
    for number in (1, 2, 3):
        run.send("receiver", {"n": number})
    return "sent"


def receives(count: int) -> Body:
    def body(run: holdfast.Run) -> Any:
        run.step("begin", len, "a")
        return [run.receive().value["n"] for _ in range(count)]

    return body


def test_a_rewound_receiver_reads_its_messages_again(url: str) -> None:
    """In their order, before those that came later; each once. Seen before: it waited for ever."""
    assert enter(url, "receiver", receives(1)) is holdfast.AwaitingMessage
    enter(url, "sender", sends)
    assert enter(url, "receiver", receives(2)) == [1, 2]
    store = holdfast.store(url)
    for _ in range(2):
        rewound = store.rewind("receiver@1")
        assert len(rewound.letters.again) == 2
        assert enter(url, "receiver", receives(2)) == [1, 2]
    assert enter(url, "receiver", receives(3)) == [1, 2, 3]
    assert enter(url, "receiver~1", receives(2)) == [1, 2]
    assert letters(url, "receiver") == []


def test_a_rewound_sender_does_not_deliver_again(url: str) -> None:
    """What it sent stays delivered: the same call is answered."""
    enter(url, "receiver", receives(1))
    enter(url, "sender", sends)
    store = holdfast.store(url)
    rewound = store.rewind("sender@1")
    assert [one.step for one in rewound.behind] == ["send"] * 3
    enter(url, "sender", sends)
    assert enter(url, "receiver", receives(3)) == [1, 2, 3]
    assert letters(url, "receiver") == []


def test_messages_that_were_not_read_can_be_taken_back(url: str) -> None:
    """The first was read and stays delivered; the others are gone until the sender sends them again."""
    enter(url, "receiver", receives(1))
    enter(url, "sender", sends)
    assert enter(url, "receiver", receives(1)) == [1]
    store = holdfast.store(url)
    rewound = store.rewind("sender@1", messages="take_back")
    assert rewound.taken_back == ("receiver", "receiver")
    assert letters(url, "receiver") == []
    assert [one.step for one in rewound.behind] == ["send"]
    enter(url, "sender", sends)
    assert enter(url, "receiver", receives(3)) == [1, 2, 3]
    assert enter(url, "receiver", receives(4)) is holdfast.AwaitingMessage


def test_a_tool_of_the_same_name_is_no_message(url: str) -> None:
    """Only what waits in an inbox can be taken back; the tool's own call stays recorded, whatever its arguments are."""
    sent: list[object] = []

    @holdfast.tool(effect="idempotent", name="send", ignore=("sent",))
    def send(to: object) -> str:
        sent.append(to)
        return "sent"

    def body(run: holdfast.Run) -> Any:
        run.step("begin", len, "a")
        return [send(["ada"]), send(7)]

    enter(url, "sender", body)
    rewound = holdfast.store(url).rewind("sender@1", messages="take_back")
    assert rewound.taken_back == ()
    assert [one.step for one in rewound.behind] == ["send", "send"]
    enter(url, "sender", body)
    assert sent == [["ada"], 7]


def test_a_promise_that_was_heard_is_heard_again(url: str) -> None:
    """A rewound receiver knows what it was promised, also if the promise was kept meanwhile."""
    enter(url, "receiver", receives(1))

    def promises(run: holdfast.Run) -> Any:
        run.step("begin", len, "a")
        return run.promise("the figures", to="receiver").id

    enter(url, "sender", promises)
    enter(url, "receiver", receives(1))
    store = holdfast.store(url)
    assert [one.state for one in store.promises("receiver").received] == ["open"]
    assert len(store.rewind("receiver@1").letters.again) == 1
    assert [one.state for one in store.promises("receiver").received] == ["open"]
