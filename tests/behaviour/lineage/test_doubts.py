"""Effects in doubt, when their run is forked or rewound: they stay in doubt, and only their own outcome settles them."""

from collections.abc import Callable
from typing import Any, Final

import pytest

import holdfast

Body = Callable[[holdfast.Run], Any]


class Stop(Exception):
    pass


class Bank:
    """Pays; the line breaks at the first ``cuts`` payments."""

    def __init__(self, cuts: int = 1) -> None:
        self.cuts = cuts
        self.paid: list[str] = []

    def __call__(self, to: str, *, idempotency_key: str = holdfast.KEY) -> str:
        self.paid.append(idempotency_key)
        if len(self.paid) <= self.cuts:
            raise ConnectionError("the line broke")
        return f"{to} paid by transfer {len(self.paid)}"


POINT: Final = "m@1"


def trip(bank: Bank) -> Body:
    pay = holdfast.tool(effect="once", name="pay", settle_s=0)(bank)

    def body(run: holdfast.Run) -> Any:
        run.step("plan", len, "a trip")
        return pay("ada")

    return body


def enter(url: str, run: str, body: Body) -> Any:
    """What the body gives in an attempt that ends in the middle."""
    given: list[Any] = []
    try:
        with holdfast.run(run, store=url) as entered:
            given.append(body(entered))
            raise Stop
    except Stop:
        return given[0]


def cut(url: str, body: Body) -> None:
    """Leave run ``m`` with its payment in doubt."""
    with pytest.raises(holdfast.StepInDoubt):
        enter(url, "m", body)


def test_an_effect_in_doubt_is_listed_before_a_fork_or_a_rewind(url: str) -> None:
    """Under both names of that list. Seen before: ``later_effects`` named only what was done."""
    cut(url, trip(Bank()))
    store = holdfast.store(url)
    assert [(one.step, one.how) for one in store.effects_behind(POINT)] == [("pay", "doubt")]
    assert store.later_effects(POINT) == ["pay"]


def test_after_a_rewind_the_list_names_the_run_that_has_the_effect_now(url: str) -> None:
    """``m`` itself has another event of that number, or none."""
    cut(url, trip(Bank()))
    store = holdfast.store(url)
    (listed,) = store.rewind(POINT).behind
    assert listed.run == "m~1"
    assert store.events("m~1")[listed.event - 1].name == "pay"
    assert [(doubt.run, doubt.step) for doubt in store.doubts("m~1")] == [("m~1", "pay")]
    with pytest.raises(holdfast.StepInDoubt, match="is in doubt already in run m~1"):
        enter(url, "m", trip(Bank()))


def test_an_effect_that_nobody_knows_of_is_in_doubt_behind_a_fork(url: str) -> None:
    """The program got ``EffectUnknown`` and went on; behind the point of a fork the effect is listed as what it is.

    Planted: taken for a failure that did nothing, it was not listed, and made again. No other test noticed.
    """
    bank = Bank()
    pay = holdfast.tool(effect="once", name="pay", settle_s=0, in_doubt="tell")(bank)

    def body(run: holdfast.Run) -> None:
        run.step("plan", len, "a trip")
        with pytest.raises(holdfast.EffectUnknown):
            pay("ada")

    enter(url, "m", body)
    store = holdfast.store(url)
    assert [(one.step, one.how) for one in store.effects_behind(POINT)] == [("pay", "doubt")]
    store.fork(POINT, as_="f")
    with pytest.raises(holdfast.StepInDoubt, match="is in doubt already in run m"):
        enter(url, "f", trip(bank))
    assert len(bank.paid) == 1


@pytest.mark.parametrize("branch", ["m~1", "f"])
def test_the_outcome_of_another_effect_settles_nothing(url: str, branch: str) -> None:
    """``m`` went back and paid again, under a new key: the first payment is as much in doubt as it was.

    Seen before: "settled: done", with the receipt of the other payment.
    """
    bank = Bank()
    body = trip(bank)
    cut(url, body)
    store = holdfast.store(url)
    store.fork("m", as_="f")
    store.rewind(POINT, effects="again")
    assert enter(url, "m", body) == "ada paid by transfer 2"
    with pytest.raises(holdfast.StepInDoubt):
        enter(url, branch, body)
    assert [doubt.step for doubt in store.doubts(branch)] == ["pay"]
    assert len({*bank.paid}) == len(bank.paid) == 2


@pytest.mark.parametrize("branch", ["m~1", "f"])
def test_the_same_effect_settles_the_doubt_in_every_branch(url: str, branch: str) -> None:
    """A person had it retried in the rewound run, under its first key: that is its outcome."""
    bank = Bank()
    body = trip(bank)
    cut(url, body)
    store = holdfast.store(url)
    store.fork("m", as_="f")
    store.rewind(POINT)
    with pytest.raises(holdfast.StepInDoubt):
        enter(url, "m", body)
    store.resolve("m", "pay", "retry")
    assert enter(url, "m", body) == enter(url, branch, body) == "ada paid by transfer 2"
    assert len({*bank.paid}) == 1


def test_what_a_person_says_in_the_kept_branch_answers_the_rewound_run(url: str) -> None:
    """The call is the same effect: nobody is asked twice."""
    bank = Bank()
    body = trip(bank)
    cut(url, body)
    store = holdfast.store(url)
    store.rewind(POINT)
    store.resolve("m~1", "pay", "done", value="on the bill")
    assert enter(url, "m~1", body) == enter(url, "m", body) == "on the bill"
    assert len(bank.paid) == 1


@pytest.mark.parametrize("again", [False, True])
def test_a_rewind_into_the_middle_of_a_finished_effect_knows_its_outcome(url: str, again: bool) -> None:
    """As a fork there does; in one append with the rewind. Seen before: in doubt, though the kept branch has the outcome."""
    bank = Bank(cuts=0)
    body = trip(bank)
    enter(url, "m", body)
    store = holdfast.store(url)
    (begun,) = [e.seq for e in store.events("m") if e.kind == "step.started" and e.name == "pay"]
    for _ in range(2 if again else 1):
        rewound = store.rewind(f"m@#{begun}")
    assert store.doubts("m") == []
    assert enter(url, "m", body) == "ada paid by transfer 1"
    (settled,) = [store.content(e) for e in store.events("m") if e.kind == "step.settled"]
    assert (settled["via"], settled["from"]) == ("origin", rewound.kept)
    assert len(bank.paid) == 1
