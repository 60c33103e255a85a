"""``unclaimed="tell"``: a call that may be a recorded effect is not made, and the model reads why."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.errors import EffectNotMade
from holdfast.model.events import Kind

made: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


class Crash(Exception):
    """The program ends here, as if it was killed."""


def pay(who: str) -> str:
    made.append(who)
    return f"receipt for {who}"


def attempt(url: str, body: Callable[[holdfast.Run], Any], *, id: str = "a", **options: Any) -> Any:  # noqa: A002
    """One attempt that is cut off at its end."""
    out = None
    try:
        with holdfast.run(id, store=url, unclaimed="tell", **options) as run:
            out = body(run)
            raise Crash
    except Crash:
        return out


def asking(*whos: str) -> Callable[[holdfast.Run], list[str]]:
    """A plain loop whose model is not journaled: it asks for these payments, and reads what comes back."""

    def body(run: holdfast.Run) -> list[str]:
        read = []
        for who in whos:
            try:
                read.append(run.once("pay", pay, who))
            except EffectNotMade as told:
                read.append(str(told))
        return read

    return body


def test_the_model_reads_what_was_done_and_nothing_is_made(url: str) -> None:
    """The model went another way: the text names the call, the recorded effect, its result and the ways on."""
    attempt(url, asking("Ada"))
    (read,) = attempt(url, asking("Zoe"))
    assert made == ["Ada"]
    assert read.startswith(
        "pay was NOT made: recorded effects were not asked for\n  now       pay(who='Zoe')\n"
    )
    assert "pay(who='Ada')  (done, not asked for)" in read
    assert 'returned "receipt for Ada"' in read
    assert "If it is another one" in read


def test_asking_again_is_no_decision(url: str) -> None:
    """A framework that retries a failed tool asks again without the model: that must not pay."""
    attempt(url, asking("Ada"))
    attempt(url, asking("Zoe", "Zoe", "Zoe"))
    attempt(url, asking("Zoe", "Zoe", "Zoe", "Zoe"))
    assert made == ["Ada"]

    def keyed(run: holdfast.Run) -> None:
        for _ in range(3):
            with pytest.raises(EffectNotMade):
                run.options(key="bill").once("pay", pay, "Zoe")

    attempt(url, keyed)
    assert made == ["Ada"]


def test_retries_of_the_call_itself_do_not_count_either(url: str) -> None:
    """``retries=`` is for failures of the function, which was not called."""
    attempt(url, asking("Ada"))
    with pytest.raises(EffectNotMade):
        attempt(url, lambda run: run.options(retries=3).once("pay", pay, "Zoe"))
    assert made == ["Ada"]


def test_a_model_that_asks_for_the_recorded_one_first_may_make_another(url: str) -> None:
    """The recorded effect is claimed and answers; nothing is open then, and the other payment is made."""
    attempt(url, asking("Ada"))
    read = attempt(url, asking("Zoe", "Ada", "Zoe"))
    assert read[1:] == ["receipt for Ada", "receipt for Zoe"]
    assert made == ["Ada", "Zoe"]
    assert attempt(url, asking("Zoe", "Ada", "Zoe")) == read  # what was read is recorded, and read again
    assert made == ["Ada", "Zoe"]


@pytest.mark.parametrize(("how", "result", "paid"), [
    ("same", "receipt for Ada", ["Ada"]),
    ("new", "receipt for Zoe", ["Ada", "Zoe"]),
    ("abandon", "receipt for Zoe", ["Ada", "Zoe"]),
])  # fmt: skip
@pytest.mark.parametrize("is_live", [True, False], ids=["while it runs", "between attempts"])
def test_a_decision_counts_when_the_call_is_asked_for_again(
    url: str, how: Any, result: str, paid: list[str], is_live: bool
) -> None:
    """A person, or a tool that the program gives to its model, decides; the journal says who."""
    attempt(url, asking("Ada"))
    store = holdfast.store(url)

    def decide() -> None:
        (stopped,) = store.stopped_calls("a")
        store.resolve("a", stopped.effects[0].id, how, by="model")

    def body(run: holdfast.Run) -> Any:
        (read,) = asking("Zoe")(run)
        if is_live:
            decide()
        return [read, *asking("Zoe")(run)]

    if is_live:
        read = attempt(url, body)
    else:
        read = [*attempt(url, asking("Zoe")), result]
        decide()
    for _ in range(2):  # the same as before: a model that was journaled with it finds its own prompt
        assert attempt(url, asking("Zoe", "Zoe")) == read
    assert read[1] == result
    assert made == paid
    claims = [event for event in store.events("a") if event.kind == Kind.STEP_CLAIMED]
    assert [b'"by":"model"' in claim.body for claim in claims] == ([True] if how != "abandon" else [])


def test_a_failure_that_ended_the_attempt_is_judged_again(url: str) -> None:
    """The program did not catch it: the next attempt asks again, and is not let through."""
    attempt(url, asking("Ada"))
    for _ in range(3):
        with pytest.raises(EffectNotMade):
            attempt(url, lambda run: run.once("pay", pay, "Zoe"))
    assert made == ["Ada"]


def test_that_it_was_told_is_in_the_record(url: str) -> None:
    """The journal has the drift with ``told``, and the call with its failure: people see both."""
    attempt(url, asking("Ada"))
    attempt(url, asking("Zoe"))
    events = holdfast.store(url).events("a")
    (drifted,) = [event for event in events if event.kind == Kind.DRIFTED]
    assert b'"how":"told"' in drifted.body
    kinds = [event.kind for event in events if event.seq >= drifted.seq][:3]
    assert kinds == [Kind.DRIFTED, Kind.STEP_STARTED, Kind.STEP_FAILED]


def test_other_module_data_is_told_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose function reads other data than its record: the same text, and nothing is made."""
    attempt(url, lambda run: run.once("bill", pay_in_currency, "Ada"))
    monkeypatch.setitem(globals(), "CURRENCY", "USD")
    with pytest.raises(EffectNotMade, match="other data of its module"):
        attempt(url, lambda run: run.once("bill", pay_in_currency, "Ada"))
    assert made == ["Ada EUR"]


CURRENCY = "EUR"


def pay_in_currency(who: str) -> str:
    return pay(f"{who} {CURRENCY}")


def test_a_call_on_the_record_is_answered(url: str) -> None:
    """Nothing is told where the program asks for what is recorded, nor for new work behind it."""
    attempt(url, asking("Ada", "Bob"))
    assert attempt(url, asking("Ada", "Bob", "Zoe"))[2] == "receipt for Zoe"
    assert made == ["Ada", "Bob", "Zoe"]


def test_drift_that_may_pass_is_not_told(url: str) -> None:
    """``on_drift="warn"`` makes the effect: there is no stop that could be told instead."""
    attempt(url, asking("Ada"))
    assert attempt(url, asking("Zoe"), on_drift="warn") == ["receipt for Zoe"]


def test_the_option_has_two_values(url: str) -> None:
    """Anything else is refused, with the choices."""
    with pytest.raises(holdfast.BadOption, match="unclaimed"):
        holdfast.run("a", store=url, unclaimed="ask")  # type: ignore[arg-type]
