"""The checker of histories, on histories written by hand: what is right is explained, and each thing that must not be is not."""

from random import Random

import pytest
from tests.judges.lease_history import NEVER, Call, Held, order_of, told

A = ("a", "acquire", ("a", None))
B = ("b", "acquire", ("b", None))
OVER = ("b", "acquire", ("b", (1, 0)))

RIGHT = {
    "nothing": [],
    "one after the other": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call(*B, ("refused", 1, "a", 0), 2, 3),
        Call("a", "append", (1, 0), ("appended", 1), 4, 5),
        Call("a", "release", (1,), ("released",), 6, 7),
        Call(*B, ("granted", 2, "b", 0), 8, 9),
    ],
    "at the same time, the later first": [
        Call(*A, ("refused", 1, "b", 0), 0, 9),
        Call(*B, ("granted", 1, "b", 0), 1, 8),
    ],
    "a takeover, and the late one is fenced": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call(*OVER, ("granted", 2, "b", 0), 2, 3),
        Call("a", "append", (1, 0), ("fenced", 0, 2), 4, 5),
        Call("a", "renew", (1,), ("lost",), 6, 7),
    ],
    "a call without an answer that happened": [
        Call(*A, None, 0, NEVER),
        Call(*B, ("refused", 1, "a", 0), 5, 6),
    ],
    "a call without an answer that did not": [
        Call(*A, None, 0, NEVER),
        Call(*B, ("granted", 1, "b", 0), 5, 6),
    ],
    "a call without an answer that happened long after": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call("a", "append", (1, 0), None, 2, NEVER),
        Call("b", "read", (), (1, "a", 0, 0), 3, 4),
        Call("b", "read", (), (1, "a", 0, 1), 5, 6),
    ],
}  # fmt: skip
WRONG = {
    "a lease is granted twice": [
        Call(*A, ("granted", 1, "a", 0), 0, 9),
        Call(*B, ("granted", 1, "b", 0), 1, 8),
    ],
    "a lease is granted over a holder": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call(*B, ("granted", 2, "b", 0), 2, 3),
    ],
    "a stale fence is accepted": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call(*OVER, ("granted", 2, "b", 0), 2, 3),
        Call("a", "append", (1, 0), ("appended", 1), 4, 5),
    ],
    "a beat revives a lost lease": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call(*OVER, ("granted", 2, "b", 0), 2, 3),
        Call("a", "renew", (1,), ("kept",), 4, 5),
    ],
    "a takeover in spite of a beat": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call("a", "renew", (1,), ("kept",), 2, 3),
        Call(*OVER, ("granted", 2, "b", 0), 4, 5),
    ],
    "two appends at one head": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call("a", "append", (1, 0), ("appended", 1), 2, 5),
        Call("a", "append", (1, 0), ("appended", 1), 3, 4),
    ],
    "a read of the past": [
        Call(*A, ("granted", 1, "a", 0), 0, 1),
        Call("b", "read", (), (0, "", 0, 0), 2, 3),
    ],
    "an effect before its call": [
        Call(*B, ("refused", 1, "a", 0), 0, 1),
        Call(*A, None, 5, NEVER),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_explained(name: str) -> None:
    """By an order in which each answer follows, made one at a time."""
    order = order_of(RIGHT[name])
    assert order is not None
    state = Held()
    for call in order:
        state, answer = told(state, call)
        assert call.answer in {None, answer}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not(name: str) -> None:
    """However the calls overlap: no order is found."""
    assert order_of(WRONG[name]) is None


def test_long_histories_of_a_right_run_are_explained() -> None:
    """400 calls of 8 clients, of which up to 8 overlap; with one answer changed, they are not."""
    random = Random(5)
    state, calls = Held(), list[Call]()
    for moment in range(400):
        who = random.choice("abcdefgh")
        verb, arguments = random.choice(
            [
                ("acquire", (who, random.choice([None, (state.fence, state.beat), (state.fence, 9)]))),
                ("renew", (state.fence - random.choice([0, 0, 1]),)),
                ("release", (state.fence - random.choice([0, 1]),)),
                ("append", (state.fence, state.head - random.choice([0, 0, 1]))),
                ("read", ()),
            ]
        )
        call = Call(who, verb, arguments, None, moment - random.random() * 4, moment + random.random() * 4)
        state, answer = told(state, call)
        calls.append(call._replace(answer=answer))
    random.shuffle(calls)
    assert order_of(calls) is not None
    place = next(number for number, call in enumerate(calls) if call.verb == "append")
    assert (
        order_of([*calls[:place], calls[place]._replace(answer=("appended", 999)), *calls[place + 1 :]])
        is None
    )
