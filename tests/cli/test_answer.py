"""``holdfast answer`` and ``holdfast cancel``: what a person sees, types and hears; and what other commands say of it."""

import json
import re
from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shop

BEGUN = 1772373731.0


@pytest.fixture
def asking(own_shop: "Shop") -> "Shop":
    """A run that is parked before a payment."""
    own_shop.work("bills", "ask")
    return own_shop


@pytest.fixture
def choosing(asking: "Shop") -> "Shop":
    """The same run, one question later."""
    assert asking("answer", "bills", "no").code == 0
    asking.work("bills", "ask", BEGUN + 60)
    return asking


def test_without_a_value_it_lists_what_is_asked(asking: "Shop") -> None:
    """The question, what it is about, how to answer, and exit code 3."""
    answer = asking("answer", "bills")
    assert answer.code == 3
    assert answer.out == indent(
        dedent("""\
            q1       May pay(amount=500, to="Ada") run?
            about    {"arguments": {"amount": 500, "to": "Ada"}, "tool": "pay"}
            asked    2026-03-01 14:02:11 UTC
            answers  yes or no

            holdfast answer bills q1 yes --store STORE
            holdfast answer bills q1 no --store STORE
            """),
        "  ",
    )
    assert asking("answer", "bills", "q1").out == answer.out


def test_an_answer_is_told_back_and_taken_in(asking: "Shop") -> None:
    """What was answered, by whom, and what to type next; then the run goes on with it."""
    answer = asking("answer", "bills", "no", "--by", "kim", "--reason", "too much")
    assert (answer.code, answer.out) == (
        0,
        dedent("""\
            answered  q1 May pay(amount=500, to="Ada") run?
            answer    no, by kim
            next      start its program again: it reads this and continues
              python agent.py STORE bills 1772373731.0 ask
            """),
    )
    listed = asking("answer", "bills")
    assert listed.code == 0
    assert "answered  no, by kim; applied when the run continues" in listed.out
    again = asking("answer", "bills", "q1", "yes")
    assert (again.code, again.err.splitlines()[0]) == (
        1,
        "error: question q1 of run bills is already answered: an answer by kim waits in its inbox",
    )
    asking.work("bills", "ask", BEGUN + 60)
    log = re.sub(" +", " ", asking("log", "bills", "--kind", "question").out)
    assert 'asked q1 May pay(amount=500, to="Ada") run?' in log
    assert "answered q1 no, by kim: too much" in log
    assert "asked q2 Where to?" in log


@pytest.mark.parametrize(("typed", "taken"), [("prod", "prod"), ("PROD", "prod"), ('"staging"', "staging")])
def test_a_choice_is_typed_as_people_do(choosing: "Shop", typed: str, taken: str) -> None:
    """In any case, with or without the quotes of JSON."""
    answer = choosing("answer", "bills", typed, "--json")
    content = json.loads(answer.out)
    assert (answer.code, content["id"], content["answer"]) == (0, "q2", taken)
    choosing.work("bills", "ask", BEGUN + 90)
    assert choosing.store.get("bills").status == "finished"


def test_what_does_not_fit_is_refused(choosing: "Shop") -> None:
    """With what may be answered; the question stands."""
    answer = choosing("answer", "bills", "moon")
    assert answer.code == 2
    assert answer.err == dedent("""\
        error: q2 of run bills is not answered: "moon" is not one of staging, prod
        hint: it asks for staging, prod
        """)
    assert choosing("answer", "bills", "q9", "prod").code == 1
    assert choosing("answer", "bills", "to", "the", "moon").code == 2
    answered = choosing("answer", "bills", "q1", "yes")
    assert "question q1 of run bills is already answered: no, by " in answered.err
    choosing.clock.sleep(7200)
    expired = choosing("answer", "bills", "prod")
    assert (expired.code, expired.err.splitlines()[0]) == (
        1,
        "error: question q2 of run bills expired at 2026-03-01 15:03:11 UTC: Where to?",
    )


def test_an_answer_can_come_from_stdin(choosing: "Shop") -> None:
    """``-`` reads it there."""
    assert choosing("answer", "bills", "-", stdin="prod\n").code == 0


def test_a_run_that_asks_nothing_says_so(shop: "Shop") -> None:
    """Exit code 0 for the list, 1 for an answer."""
    assert shop("answer", "daily.2").out == "run daily.2 has no questions\n"
    refused = shop("answer", "daily.2", "yes")
    assert (refused.code, refused.err.splitlines()[0]) == (
        1,
        "error: run daily.2 is finished, and asks nothing",
    )


def test_the_fields_of_answer(asking: "Shop") -> None:
    """As documented: those of a question, and with a value also what to type next."""
    from tests.cli.test_docs_page import documented

    wanted = {name for name in documented("answer") if not name.startswith(("questions", "next", "run"))}
    listed = json.loads(asking("answer", "bills", "--json").out)
    assert set(listed) == {"run", "questions"}
    assert set(listed["questions"][0]) == wanted
    told = json.loads(asking("answer", "bills", "yes", "--json").out)
    assert set(told) == wanted | {"run", "next"}
    assert json.loads(asking("show", "bills", "--json").out)["questions"][0].keys() == wanted


def test_the_list_and_the_run_say_that_somebody_is_waited_for(asking: "Shop") -> None:
    """``runs`` in the status and below the list, ``show`` with how to answer."""
    runs = asking("runs", "--status", "waiting").out
    assert "parked, 1 question" in runs
    assert 'holdfast answer bills --store STORE  # asks q1: May pay(amount=500, to="Ada") run?' in runs
    shown = asking("show", "bills").out
    assert "parked, asks 1 question, at point 0, attempt 1" in shown
    assert "a person has to answer\n  holdfast answer bills q1 yes --store STORE\n" in shown
    line = json.loads(asking("runs", "--json").out)["runs"][0]
    assert (line["open_questions"], line["waits_for"]) == (1, 'q1: May pay(amount=500, to="Ada") run?')


def test_a_sleeping_run_says_until_when(own_shop: "Shop") -> None:
    """In the list, in ``show``, and in the log."""
    own_shop.work("daily", "sleep")
    until = "until 2026-03-02 14:02:11 UTC"
    assert f"# waits {until}" in own_shop("runs").out
    shown = own_shop("show", "daily").out
    assert f"waits   {until}, since 2026-03-01 14:02:11 UTC" in shown
    assert "started before that time, it waits or parks again" in shown
    assert f"waits sleep {until}" in re.sub(" +", " ", own_shop("log", "daily").out)
    waits = json.loads(own_shop("show", "daily", "--json").out)["waits"]
    assert waits == [
        {"what": until, "since_at": "2026-03-01T14:02:11.000Z", "until_at": "2026-03-02T14:02:11.000Z"}
    ]


# -- cancel ----------------------------------------------------------------------------------------------------------


def test_cancel(asking: "Shop") -> None:
    """Cancelled now; every command says so, and what to do if it was a mistake."""
    answer = asking("cancel", "bills", "--reason", "wrong customer", "--by", "kim")
    assert (answer.code, answer.out) == (
        0,
        "run     bills\nstatus  cancelled: it takes no new work\n",
    )
    assert re.search(r"bills +cancelled +", asking("runs", "--status", "cancelled").out)
    shown = asking("show", "bills").out
    assert "cancelled  by kim: wrong customer, 2026-03-01 14:07:11 UTC" in shown
    assert 'it was cancelled; if_finished="reopen" in its program opens it again' in shown
    assert "run cancelled" in asking("log", "bills").out
    for words in (("cancel", "bills"), ("resume", "bills"), ("answer", "bills", "yes")):
        refused = asking(*words)
        assert (refused.code, "cancelled" in refused.err) == (1, True), words
    assert asking("answer", "bills").code == 0


def test_cancel_tells_who_holds_it(own_shop: "Shop") -> None:
    """A run at work: its process was told; the fields are as documented."""
    from tests.cli.test_docs_page import documented

    run = holdfast.run("busy", store=own_shop.store).open()
    answer = own_shop("cancel", "busy", "--json")
    content = json.loads(answer.out)
    assert set(content) == documented("cancel")
    assert (content["is_cancelled"], content["holder"]) == (False, "process 4242 on host")
    run.close()
    assert own_shop.store.get("busy").status == "cancelled"


def test_cancel_of_an_unknown_run(shop: "Shop") -> None:
    """Nothing is created by asking."""
    assert shop("cancel", "nobody").code == 1
    assert shop("cancel", "debt-cycles@3").code == 2


def test_of_a_run_that_is_finished_by_then_it_says_that(
    tmp_path: "Path", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program was started again as the answer came: there is nothing left to start."""
    from click.testing import CliRunner

    from holdfast.cli.app import app

    url = f"sqlite:///{tmp_path}/s.db"

    def program() -> None:
        with holdfast.run("bills", store=url) as run:
            run.ask("Pay?", returns=bool)

    with pytest.raises(holdfast.AwaitingAnswer):
        program()
    answer = holdfast.Store.answer

    def answer_and_finish(store: holdfast.Store, *given: object, **named: object) -> object:
        answered = answer(store, *given, **named)  # type: ignore[arg-type]
        program()
        return answered

    monkeypatch.setattr(holdfast.Store, "answer", answer_and_finish)
    done = CliRunner().invoke(app, ["answer", "bills", "yes", "--by", "kim", "--store", url])
    assert (done.exit_code, done.output) == (
        0,
        dedent("""\
            answered  q1 Pay?
            answer    yes, by kim
            next      nothing: the run is finished by now
            """),
    )


def test_without_a_run_it_lists_what_all_runs_ask(asking: "Shop") -> None:
    """Each run with its questions and the commands that answer them; exit code 3 while one is open."""
    asking.work("rent", "ask")
    found = asking("answer")
    assert found.code == 3
    assert re.search(r"^bills\n  q1 .*^rent\n  q1 ", found.out, re.MULTILINE | re.DOTALL)
    for run in ("bills", "rent"):
        assert f"holdfast answer {run} q1 yes --store STORE\n" in found.out
    assert [one["run"] for one in json.loads(asking("answer", "--json").out)["questions"]] == [
        "bills",
        "rent",
    ]
    assert asking("answer", "bills", "no").code == 0
    again = asking("answer").out
    assert "holdfast answer bills" not in again
    assert "holdfast answer rent q1 yes" in again


def test_without_any_question_it_says_so(own_shop: "Shop") -> None:
    """And the exit code is 0."""
    with holdfast.run("quiet", store=own_shop.store):
        pass
    assert own_shop("answer") == (0, "no run has an open question\n", "")
