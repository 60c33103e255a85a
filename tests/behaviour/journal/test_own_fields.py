"""What a user says can never be taken for what Holdfast says: bodies have the two apart.

Each of these was seen on bodies of format 1, where both stood in one object and were looked for as bytes.
"""

import contextlib
from typing import Any

import pytest
from tests.behaviour.conftest import Counter

import holdfast
from holdfast import Keep, Retention
from holdfast.model.event_fields import contents_of, fields_of, parts_of
from holdfast.model.events import Kind

NOTHING = Retention(refetchable=Keep(last=0))


def test_a_payment_whose_arguments_say_refetchable_is_made_once(url: str, counter: Counter) -> None:
    """Its result was pruned as one that may be fetched again, and the next attempt paid a second time."""

    def program() -> None:
        with contextlib.suppress(RuntimeError), holdfast.run("shop", store=url) as run:
            run.once("pay", counter, {"id": 7, "refetchable": True})
            raise RuntimeError("not yet")

    program()
    holdfast.store(url).prune(policy=NOTHING)
    program()
    assert counter.calls == [{"id": 7, "refetchable": True}]


def test_a_step_that_is_refetchable_still_is(url: str, counter: Counter) -> None:
    """The declaration counts, whatever the arguments are."""

    def program() -> None:
        with contextlib.suppress(RuntimeError), holdfast.run("shop", store=url) as run:
            run.options(refetchable=True).step("fetch", counter, {"refetchable": False})
            raise RuntimeError("not yet")

    program()
    holdfast.store(url).prune(policy=NOTHING)
    program()
    assert len(counter.calls) == 2


def test_a_labelled_state_stays_whatever_it_holds(url: str) -> None:
    """A state that held ``"label": None`` was taken for one without a label, and went under the default policy."""
    with holdfast.run("draft", store=url) as run:
        run.restore(None)
        run.checkpoint({"label": None, "text": "the first draft"}, label="draft-1")
        for number in range(40):
            run.checkpoint({"number": number})
    store = holdfast.store(url)
    store.prune()
    kept = [e for e in store.events("draft") if e.kind == Kind.CHECKPOINT and "state" in parts_of(e.body)]
    assert fields_of(kept[0].body)["label"] == "draft-1"
    store.fork("draft@draft-1", as_="again")
    with holdfast.run("again", store=url) as run:
        assert run.restore(None) == {"label": None, "text": "the first draft"}


def test_a_fork_lists_effects_and_not_what_speaks_of_them(url: str, counter: Counter) -> None:
    """A read whose arguments say "once" was listed as an effect that the fork may repeat."""
    with holdfast.run("r", store=url) as run:
        run.step("look", counter, "once")
        run.once("pay", counter, "read")
    store = holdfast.store(url)
    assert store.later_effects("r@#1") == ["pay"]


def test_a_once_call_recorded_by_a_letter_keeps_the_two_apart(url: str) -> None:
    """What somebody says about a call becomes its outcome; no field of ours is taken from it."""
    with contextlib.suppress(BaseException), holdfast.run("r", store=url) as run:
        run.once("pay", _cut_off)
    answer = {"how": "failed", "via": "origin", "pruned": "compacted", "value_blob": "0" * 64, "usage": {}}
    store = holdfast.store(url)
    store.resolve("r", "pay", "done", value=answer)
    with holdfast.run("r", store=url) as run:
        assert run.once("pay", _cut_off) == answer
    (settled,) = [e for e in store.events("r") if e.kind == Kind.STEP_SETTLED]
    assert fields_of(settled.body) == {"how": "done", "via": "person", "by": fields_of(settled.body)["by"]}
    assert parts_of(settled.body) == {"value": answer}


def _cut_off() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "value", [None, {}, {"pruned": "refetchable"}, '"pruned":"compacted"}', "\n", [{"$": 1}]]
)
def test_values_that_look_like_the_end_of_a_record(url: str, counter: Counter, value: Any) -> None:
    """A record is hollow by a field of ours alone."""
    for _ in range(2):
        with contextlib.suppress(RuntimeError), holdfast.run("r", store=url) as run:
            assert run.step("make", counter, value) == value
            raise RuntimeError
    assert counter.calls == [value]
    (finished,) = [e for e in holdfast.store(url).events("r") if e.kind == Kind.STEP_FINISHED]
    assert contents_of(finished.body).keys() == {"ms", "value"}
