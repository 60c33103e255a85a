"""A run that waits in one process is woken by another.

Planted once in a copy, and caught here: a waiter that looks into its inbox only now and then; a second answer that
is accepted because the first one's letter is gone already.
"""

import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.support import forked
from tests.support.stores import over_shared_stores

import holdfast
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.wait_fold import WAITS
from holdfast.model.event_fields import contents_of

if TYPE_CHECKING:
    from tests.race.conftest import Start, Worker

DEADLINE_S = 60.0


def until_asked(store: holdfast.Store) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not (QUESTIONS.of(store.view("run")).open or WAITS.of(store.view("run")).open):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def waiting(start: "Start", url: str, mode: str, how: str, store: holdfast.Store, **env: str) -> "Worker":
    worker = start(mode, url, how, **env)
    worker.hear("entered")
    until_asked(store)
    return worker


@over_shared_stores
@pytest.mark.parametrize("mode", ["wait", "wait_async"])
def test_an_answer_wakes_a_waiting_process(
    start: "Start", url: str, store: holdfast.Store, mode: str
) -> None:
    """Answered from another process, it goes on, although it would not look by itself for an hour."""
    worker = waiting(start, url, mode, "ask", store, NO_LOOK="1")
    store.answer("run", True, by="ada")
    worker.hear("finished")
    assert worker.wait() == 0
    assert contents_of(store.view("run").result or b"") == {"value": True}


def test_the_command_line_answers_too(start: "Start", url: str, store: holdfast.Store) -> None:
    """``holdfast answer``, while the run waits: nothing has to be started again."""
    worker = waiting(start, url, "wait", "ask", store)
    command = [sys.executable, "-c", "from holdfast.cli import main; main()"]
    done = forked.run(
        [*command, "answer", "run", "no", "--by", "kim", "--store", url],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    assert "\nnext      the process that holds the run takes it in\n" in done.stdout
    worker.hear("finished")
    assert contents_of(store.view("run").result or b"") == {"value": False}


@pytest.mark.parametrize("mode", ["wait", "wait_async"])
@pytest.mark.parametrize("how", ["ask", "sleep"])
def test_a_waiting_process_is_cancelled_at_once(
    start: "Start", url: str, store: holdfast.Store, mode: str, how: str
) -> None:
    """Whatever it waits for."""
    worker = waiting(start, url, mode, how, store)
    store.cancel("run", by="ada")
    assert worker.hear("cancelled")["by"] == "ada"
    assert worker.wait() == 1
    assert store.get("run").status == "cancelled"


@pytest.mark.parametrize("mode", ["wait", "wait_async"])
def test_killed_while_it_waits_it_goes_on_waiting(
    start: "Start", url: str, store: holdfast.Store, mode: str
) -> None:
    """The next process comes back to the same question, and the answer given in between is taken in."""
    worker = waiting(start, url, mode, "ask", store)
    worker.signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    assert store.get("run").status == "crashed"
    store.answer("run", True, by="ada")
    again = start(mode, url, "ask")
    again.hear("entered")
    again.hear("finished")
    kinds = [event.kind for event in store.events("run")]
    assert (kinds.count("question.asked"), kinds.count("question.answered")) == (1, 1)


@over_shared_stores
def test_of_two_who_answer_at_once_one_is_told_that_it_was_late(
    start: "Start", url: str, store: holdfast.Store
) -> None:
    """The first answer counts; the other is refused, and nothing is left behind."""
    for _ in range(3):
        worker = waiting(start, url, "wait", "ask", store)
        people = {name: start("answer", url, name) for name in ("ada", "bob")}
        for one in people.values():
            one.hear("ready")
        for one in people.values():
            one.tell("go")
        told = {name: one.hear("accepted", "refused")["told"] for name, one in people.items()}
        assert sorted(told.values()) == ["accepted", "refused"]
        worker.hear("finished")
        assert worker.wait() == 0
        assert contents_of(store.view("run").result or b"") == {"value": told["ada"] == "accepted"}
        store.rewind(f"run@#{next(e.seq for e in store.events('run') if e.kind == 'attempt.started')}")


@over_shared_stores
def test_a_stopped_process_that_lost_its_run_does_not_take_the_answer(
    start: "Start", impatient: str, store: holdfast.Store
) -> None:
    """Silent for longer than its lease, it is taken over while it waits; woken up, it sees that and stops."""
    worker = waiting(start, impatient, "wait", "ask", store)
    worker.stop()
    time.sleep(1.1)  # the lease is to run out: nothing else tells that
    other = start("wait", impatient, "ask")
    other.hear("entered")
    worker.signal(signal.SIGCONT)
    worker.hear("lease_lost")
    store.answer("run", True)
    other.hear("finished")
