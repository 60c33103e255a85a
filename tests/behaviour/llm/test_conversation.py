"""``run.messages`` as a provider must see it: settled from the journal before a send, recorded, and the same in every replay."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from orjson import dumps

import holdfast
from holdfast.core.llm.conversation import AGAIN, DOUBT, NOT_RUN, validate
from holdfast.engine.llm import repair_run
from holdfast.engine.llm.conversation_repair import settle_request
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.model.events import Kind

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "Pay and look."}
ran: list[Any] = []


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@holdfast.tool(effect="read")
def look(query: str, limit: int = 10) -> dict[str, Any]:
    ran.append(("look", query))
    return {"found": query, "limit": limit}


@holdfast.tool(effect="once")
def pay(amount: int) -> str:
    ran.append(("pay", amount))
    if amount == 13:
        raise Killed
    return f"paid {amount}"


@holdfast.tool(effect="read")
def fail() -> str:
    raise ValueError("no such thing")


def asks(*calls: tuple[str, str, dict[str, Any]]) -> Message:
    made = [
        {"id": call, "type": "function", "function": {"name": name, "arguments": dumps(given).decode()}}
        for call, name, given in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def told(call: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call, "content": text}


def attempt(url: str, body: Callable[[holdfast.Run], Any], **options: Any) -> Any:
    with holdfast.run("a", store=url, **options) as run:
        return body(run)


def killed(url: str, body: Callable[[holdfast.Run], Any]) -> None:
    def then_die(run: holdfast.Run) -> None:
        body(run)
        raise Killed

    with suppress(Killed, holdfast.StepInDoubt):
        attempt(url, then_die)


FOUR = asks(
    ("c1", "look", {"query": "debt"}),
    ("c2", "fail", {}),
    ("c3", "pay", {"amount": 13}),
    ("c4", "look", {"query": "other"}),
)


def in_the_middle_of_the_calls(run: holdfast.Run) -> None:
    run.messages.extend([USER, FOUR])
    run.checkpoint({"turn": 1})
    run.messages.append(told("c1", dumps(look("debt")).decode()))
    with suppress(ValueError):
        fail()
    pay(13)


SETTLED = [
    USER,
    FOUR,
    told("c1", '{"found":"debt","limit":10}'),
    told("c2", "error: ValueError: no such thing"),
    told("c3", DOUBT),
    told("c4", NOT_RUN),
]


def mends(url: str) -> list[Any]:
    return [e for e in holdfast.store(url).events("a") if e.kind == Kind.MARK and e.name == "messages mended"]


def test_what_an_interruption_left_is_settled_from_the_journal(url: str) -> None:
    """A recorded outcome is the result; of an effect in doubt nobody knows; one that was not begun was not run.

    Nothing is executed for it, reading alone changes nothing, and the effect stays in doubt.
    Planted: settled from the view of this attempt instead of the journal; settled on every look.
    """
    killed(url, in_the_middle_of_the_calls)
    before = ran.copy()

    def go_on(run: holdfast.Run) -> None:
        run.restore()
        assert list(run.messages) == [USER, FOUR]
        assert run.messages.ready() == SETTLED
        assert list(run.messages) == SETTLED
        assert run.messages.ready() == SETTLED
        raise Killed

    with suppress(Killed):
        attempt(url, go_on)
    assert ran == before
    assert len(mends(url)) == 1
    assert [doubt.step for doubt in holdfast.store(url).doubts("a")] == ["pay"]


def test_the_model_is_told_the_same_in_every_replay(url: str) -> None:
    """Also when more is known by then: what it was told is recorded. Planted: computed anew on each restore."""
    killed(url, in_the_middle_of_the_calls)
    killed(url, lambda run: (run.restore(), run.messages.ready()))
    holdfast.store(url).resolve("a", "pay", "done", value="paid 13 after all")

    def again(run: holdfast.Run) -> list[Any]:
        run.restore()
        return run.messages.ready()

    assert attempt(url, again) == SETTLED
    assert len(mends(url)) == 1


def test_a_later_state_holds_the_settled_conversation(url: str) -> None:
    """What stood recorded behind the old state, and was not said again, is no part of it. Planted: it was."""
    killed(url, in_the_middle_of_the_calls)

    def go_on(run: holdfast.Run) -> None:
        run.restore()
        run.messages.ready()
        run.messages.append({"role": "assistant", "content": "I stop."})
        run.checkpoint({"turn": 2})

    killed(url, go_on)

    assert conversation(url) == [*SETTLED, {"role": "assistant", "content": "I stop."}]


def test_what_was_not_said_again_is_no_part_of_a_later_state(url: str) -> None:
    """Recorded behind the state, and then another way was taken. Said after all, also later, it is part of the next.

    Planted: every record before a state counted as said.
    """

    def text(message: Message) -> Any:
        return message["content"]

    def first(run: holdfast.Run) -> None:
        run.restore()
        run.messages.append({"role": "user", "content": "one"})
        run.checkpoint({"turn": 1})
        run.messages.append({"role": "user", "content": "two"})
        run.messages.append({"role": "user", "content": "three"})

    def second(run: holdfast.Run) -> None:
        run.restore()
        run.messages.append({"role": "user", "content": "another"})
        run.checkpoint({"turn": 2})
        assert [*map(text, run.messages)] == ["one", "another"]

    def third(run: holdfast.Run) -> None:
        run.restore()
        assert [*map(text, run.messages)] == ["one", "another"]
        run.messages.append({"role": "user", "content": "two"})
        run.checkpoint({"turn": 3})

    for body in (first, second, third):
        killed(url, body)
    assert [*map(text, conversation(url))] == ["one", "another", "two"]


def test_what_is_said_behind_a_state_is_part_of_the_next(url: str) -> None:
    """A state that was saved before the program came to a recorded message does not take it away for good."""

    def body(run: holdfast.Run, *, early: bool) -> None:
        run.restore()
        run.messages.append({"role": "user", "content": "one"})
        if early:
            run.checkpoint({"turn": "early"})
        run.messages.append({"role": "user", "content": "two"})
        if early:
            run.checkpoint({"turn": "late"})

    killed(url, lambda run: body(run, early=False))
    killed(url, lambda run: body(run, early=True))
    assert [message["content"] for message in conversation(url)] == ["one", "two"]


def test_a_program_that_goes_on_with_its_calls_is_left_alone(url: str) -> None:
    """It finds its calls open after a restore, answers them itself from the journal, and nothing is mended.

    Planted: settled at the restore, which made every result a second one.
    """
    wanted = asks(("c1", "look", {"query": "x"}), ("c2", "look", {"query": "y"}))

    def body(run: holdfast.Run) -> list[Any]:
        if run.restore() is None:
            run.messages.extend([USER, wanted])
            run.checkpoint({"pending": ["x", "y"]})
        for call, query in (("c1", "x"), ("c2", "y")):
            run.messages.append(told(call, str(look(query))))
            if query == "x" and not run.resumed:
                raise Killed
        return run.messages.ready()

    with suppress(Killed):
        attempt(url, body)
    sent = attempt(url, body)
    assert [one.get("tool_call_id") for one in sent] == [None, None, "c1", "c2"]
    assert ran == [("look", "x"), ("look", "y")]
    assert mends(url) == []


def test_what_the_program_itself_forgot_is_refused(url: str) -> None:
    """In a live turn nothing is guessed: it is told which message, and what to do; mending is there for whoever wants it."""

    def body(run: holdfast.Run) -> None:
        run.messages.extend([USER, asks(("c1", "look", {"query": "x"}))])
        with pytest.raises(
            holdfast.InvalidHistory, match=r"message 1 .* call c1 \(look\) has no result"
        ) as refused:
            run.messages.ready()
        assert refused.value.code == "orphaned_call"
        look("x")
        assert run.messages.mend() == [
            'message 1: call c1 (look) had no result: {"found":"x","limit":10}',
        ]
        assert run.messages.mend() == []
        assert run.messages.ready()[-1] == told("c1", '{"found":"x","limit":10}')

    attempt(url, body)


def test_mending_from_the_top_replays(url: str) -> None:
    """The n-th mending of a program is the n-th recorded one; what needed none is not counted."""
    wanted = asks(("c1", "look", {"query": "x"}))

    def body(run: holdfast.Run) -> list[Any]:
        run.messages.append(USER)
        assert run.messages.mend() == []
        run.messages.append(wanted)
        run.messages.mend()
        run.messages.append(USER)
        return list(run.messages)

    killed(url, body)
    first = len(mends(url))
    assert attempt(url, body) == [USER, wanted, told("c1", DOUBT), USER]
    assert (first, len(mends(url))) == (1, 1)


def test_a_result_that_came_after_all_takes_the_place_of_the_notice(url: str) -> None:
    """A program that answers a call which was settled meanwhile: its own result counts, once."""
    wanted = asks(("c1", "look", {"query": "x"}))

    def begin(run: holdfast.Run) -> None:
        run.messages.extend([USER, wanted])
        run.checkpoint({})

    killed(url, begin)

    def go_on(run: holdfast.Run) -> list[Any]:
        run.restore()
        run.messages.mend()
        run.messages.append(told("c1", "the real one"))
        return run.messages.ready()

    assert attempt(url, go_on) == [USER, wanted, told("c1", "the real one")]


def test_a_read_that_was_cut_off_can_be_made_again(url: str) -> None:
    """The model is told so, and the call, made again, runs."""

    @holdfast.tool(effect="read")
    def slow() -> str:
        ran.append("slow")
        if len(ran) == 1:
            raise Killed
        return "at last"

    def body(run: holdfast.Run) -> None:
        run.messages.extend([USER, asks(("c1", "slow", {}))])
        run.checkpoint({})
        slow()

    killed(url, body)

    def go_on(run: holdfast.Run) -> str:
        run.restore()
        assert run.messages.ready()[-1] == told("c1", AGAIN)
        return slow()

    assert attempt(url, go_on) == "at last"


def test_a_key_is_the_whole_identity_of_a_call(url: str) -> None:
    """A step recorded under the call's id is its result, whatever it is called."""

    def body(run: holdfast.Run) -> None:
        run.messages.extend([USER, asks(("c1", "look", {"query": "x"}))])
        run.checkpoint({})
        run.options(key="c1").step("dispatch", lambda: "by key")

    killed(url, body)
    assert attempt(url, lambda run: (run.restore(), run.messages.ready())[1])[-1] == told("c1", "by key")


def test_awaited_messages_are_settled_alike(url: str) -> None:
    """The same names, awaited."""
    killed(url, in_the_middle_of_the_calls)

    async def go_on() -> list[Any]:
        async with holdfast.run("a", store=url, stops="suppress") as run:
            await run.restore()
            sent = await run.messages.ready()
            assert await run.messages.mend() == []
            await run.messages.append({"role": "assistant", "content": "x"}, provider="p", model="m")
        return sent

    assert asyncio.run(go_on()) == SETTLED


def test_thoughts_stay_with_their_model(url: str) -> None:
    """Kept in the journal, sent back to whoever had them, left out for another."""

    def body(run: holdfast.Run) -> None:
        run.messages.append(USER)
        said = {"role": "assistant", "content": "Hi", "reasoning_content": "hm"}
        run.messages.append(said, provider="ollama", model="qwen")
        assert run.messages[1] == {**said, "holdfast": {"provider": "ollama", "model": "qwen"}}
        assert run.messages.ready(provider="ollama", model="qwen") == [USER, said]
        assert run.messages.ready(provider="openai", model="gpt") == [
            USER,
            {"role": "assistant", "content": "Hi"},
        ]
        assert run.messages.ready() == [USER, said]
        with pytest.raises(holdfast.Misuse, match="which is no message"):
            run.messages.append("hi", provider="ollama")

    attempt(url, body)


def test_a_fork_settles_what_its_origin_left(url: str) -> None:
    """The journal that it borrows tells what became of the calls."""
    killed(url, in_the_middle_of_the_calls)
    holdfast.store(url).fork("a", as_="b")
    with holdfast.run("b", store=url, stops="suppress") as run:
        run.restore()
        assert run.messages.ready() == SETTLED


@pytest.mark.parametrize("drops", [0, 1, 3, 5])
def test_a_compacted_conversation_is_the_same(url: str, drops: int) -> None:
    """Pruned down to its last states, a run begins with the same messages, also where its end was mended and its
    beginning dropped.

    Planted: the count of a repair not moved when older messages went.
    """
    killed(url, in_the_middle_of_the_calls)

    def go_on(run: holdfast.Run) -> None:
        run.restore()
        run.messages.ready()
        run.messages.drop(drops)
        for turn in range(2, 5):
            run.messages.append({"role": "user", "content": str(turn)})
            run.checkpoint({"turn": turn})

    killed(url, go_on)
    store = holdfast.store(url)
    before = conversation(url)
    assert validate(before) == [] or drops
    policy = holdfast.Retention(checkpoints=holdfast.Keep(last=1), compact_events=1)
    store.prune("a", policy=policy)
    assert any(event.kind == Kind.COMPACTED for event in store.events("a"))
    assert conversation(url) == before
    assert len(before) == len(SETTLED) - drops + 3


def conversation(url: str) -> list[Any]:
    found: list[Any] = []

    def body(run: holdfast.Run) -> None:
        run.restore()
        found.extend(run.messages)

    killed(url, body)
    return found


def test_messages_that_a_program_keeps_itself_are_settled_for_a_request(url: str) -> None:
    """From the same journal, for one request; nothing is recorded, and its own list stays as it is."""
    killed(url, in_the_middle_of_the_calls)

    def body(run: holdfast.Run) -> None:
        own = [USER, FOUR]
        sent, repairs = drive(settle_request(run._held, BLOCKING, own))
        assert sent == SETTLED
        assert len(repairs) == 4
        assert own == [USER, FOUR]
        raise Killed

    with suppress(Killed):
        attempt(url, body)
    assert mends(url) == []


def test_two_repairs_behind_one_record_both_count(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that replays from the top gets both, in their order."""
    said = [USER, asks(("c1", "pay", {"amount": 1})), USER, asks(("c2", "pay", {"amount": 2})), USER]
    last = {"role": "user", "content": "go on"}

    def body(run: holdfast.Run) -> list[Any]:
        run.messages.extend([*said, last])
        return list(run.messages)

    killed(url, body)
    store = holdfast.store(url)
    with monkeypatch.context() as early:  # as a version that mends less would
        early.setattr(repair_run, "open_turn", lambda _: 3)
        assert len(store.mend("a")) == 1
    assert len(store.mend("a")) == 1
    mended = attempt(url, body)
    assert validate(mended) == []
    assert [message["role"] for message in mended] == [
        *("user", "assistant", "tool", "user", "assistant", "tool", "user", "user")
    ]
