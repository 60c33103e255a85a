"""The recovery benchmark counts what happened, and its plain loop shows both ends: everything repeated, and nothing."""

from pathlib import Path

import pytest
from bench.recovery.director import run
from bench.recovery.drivers import DRIVERS, Driver
from bench.recovery.judge import Verdict, first_new, judge
from bench.recovery.report import row_of, wins_of
from bench.recovery.task import ACTIONS, CALLS, PARTS, call_of, prompt_of, result_of
from bench.recovery.world import Event, Kill, Place, What

pytestmark = pytest.mark.slow


def log(*attempts: str) -> list[Event]:
    """A made-up log: each text is an attempt, as in ``asked0 answered0 began0 made0:key``."""
    events: list[Event] = []
    for attempt, text in enumerate(attempts, 1):
        for word in text.split():
            place, _, key = word.partition(":")
            what: What = next(one for one in ("asked", "answered", "began", "made") if place.startswith(one))
            tokens = 10 if what == "asked" else 0
            events.append(
                Event(float(len(events)), attempt, what, int(place.removeprefix(what)), key, tokens)
            )
    return events


def whole() -> str:
    """What an undisturbed run does."""
    words: list[str] = []
    for call in CALLS:
        words += [f"asked{call.number}", f"answered{call.number}"]
        words += [f"{what}{action.number}" for action in call.actions for what in ("began", "made")]
    return " ".join(words)


def counts(*attempts: str) -> Verdict:
    return judge(log(*attempts), kills=len(attempts) - 1)


def test_the_task_is_what_it_is_said_to_be() -> None:
    """40 model calls, and 20 tool calls of three classes; the conversation alone says which call is the next."""
    effects = [action.effect for action in ACTIONS]
    assert len(CALLS) == 40
    assert [effects.count(effect) for effect in ("read", "idempotent", "once")] == [8, 6, 6]
    assert max(len(call.actions) for call in CALLS) == 2
    conversation = ""
    for number, part in enumerate(PARTS):
        conversation += prompt_of(number)
        for call in part:
            assert call_of(conversation) == call
            for action in call.actions:
                assert action in call_of(conversation).actions
                conversation += result_of(action)


def test_an_undisturbed_run_costs_nothing() -> None:
    """No count is above zero."""
    verdict = counts(whole())
    assert (verdict.calls_repeated, verdict.calls_cut_off, verdict.tools_repeated) == (0, 0, 0)
    assert (verdict.payments_doubled, verdict.notes_doubled, verdict.effects_missing) == (0, 0, 0)
    assert (verdict.tokens_again, verdict.restarts, verdict.steps_lost, verdict.forgotten) == (0, 0, 0, 0)


def test_a_call_is_finished_when_its_process_went_on() -> None:
    """An answer that nobody acted on is cut off, and must be asked for again; a finished one must not."""
    cut = counts("asked0 answered0", whole())
    assert (cut.calls_repeated, cut.calls_cut_off, cut.restarts) == (0, 1, 0)
    went_on = counts("asked0 answered0 asked1", whole())
    assert (went_on.calls_repeated, went_on.calls_cut_off, went_on.restarts) == (1, 1, 1)
    assert went_on.tokens_again == 20


def test_a_request_that_the_client_repeats_proves_nothing() -> None:
    """The same call asked twice in one attempt does not finish itself."""
    verdict = counts("asked0 answered0 asked0 answered0", whole())
    assert (verdict.calls_repeated, verdict.calls_cut_off) == (0, 2)


def test_effects_are_counted_by_their_class() -> None:
    """A payment may be made once, a note once for each key, and a lookup as often as one likes."""
    payment, note, lookup = (
        next(action.number for action in ACTIONS if action.effect == effect)
        for effect in ("once", "idempotent", "read")
    )
    verdict = counts(f"made{payment}:a", f"made{payment}:a")
    assert (verdict.payments_doubled, verdict.notes_doubled) == (1, 0)
    verdict = counts(f"made{note}:a", f"made{note}:a", f"made{note}:b")
    assert (verdict.payments_doubled, verdict.notes_doubled) == (0, 1)
    verdict = counts(f"made{lookup}", f"made{lookup}")
    assert (verdict.payments_doubled, verdict.notes_doubled) == (0, 0)
    assert verdict.effects_missing == 12


def test_tools_are_finished_when_a_later_call_is_asked() -> None:
    """Tools of the same answer prove nothing of each other: they may run side by side."""
    call = next(call for call in CALLS if len(call.actions) == 2)
    one, other = (action.number for action in call.actions)
    side_by_side = counts(f"began{one} made{one} began{other}", f"began{one} made{one}")
    assert side_by_side.tools_repeated == 0
    later = counts(f"began{one} made{one} asked{call.number + 1}", f"began{one} made{one}")
    assert later.tools_repeated == 1
    assert later.steps_lost == 1


def test_a_conversation_that_lost_a_message_is_noticed() -> None:
    """A request with fewer tokens than the undisturbed one had is one that forgot something."""
    events = log("asked0 asked1")
    assert judge(events, kills=0, calm={0: 10, 1: 10}).forgotten == 0
    assert judge(events, kills=0, calm={0: 10, 1: 60}).forgotten == 1


def test_the_first_new_place_of_an_attempt_is_found() -> None:
    """What the attempt does again does not count."""
    events = log("asked0 answered0 asked1", "asked0 answered0 asked1 answered1")
    assert first_new(events, 1) == 0.0
    assert first_new(events, 2) == 6.0
    assert first_new(events, 3) is None


def driver(way: str) -> Driver:
    return next(one for one in DRIVERS if one.framework == "plain loop" and one.way == way)


def test_the_plain_loop_survives_kills_with_holdfast_and_begins_again_without(tmp_path: Path) -> None:
    """A kill in a payment that was made, and one at a model call: nothing is done twice; without Holdfast, all of it is."""
    payment = [action.number for action in ACTIONS if action.effect == "once"][1]
    kills = [Kill(Place("made", payment)), Kill(Place("asked", 30))]
    held = run(driver("holdfast"), tmp_path / "held", 0, kills)
    assert held.verdict == Verdict(
        kills=2,
        calls_repeated=0,
        calls_cut_off=1,
        tools_repeated=0,
        payments_doubled=0,
        notes_doubled=0,
        effects_missing=0,
        forgotten=0,
        tokens_again=held.tokens[30],
        restarts=0,
        persons=0,
        finished=True,
    )
    assert len(held.resumes_s) == 2
    bare = run(driver("none"), tmp_path / "bare", 0, kills)
    assert bare.verdict.finished
    assert bare.verdict.restarts == 2
    assert bare.verdict.calls_repeated > 30
    assert bare.verdict.payments_doubled >= 3
    rows = [row_of(driver("none"), bare, [bare]), row_of(driver("holdfast"), held, [held])]
    assert not any("payments" in line for line in wins_of(rows))
    swapped = [row_of(driver("none"), held, [held]), row_of(driver("holdfast"), bare, [bare])]
    assert any("payments doubled 0 against" in line for line in wins_of(swapped))


def test_without_verify_a_person_says_what_happened(tmp_path: Path) -> None:
    """Killed in a payment before and after it was made: the run stops, is told, and goes on without a second payment."""
    first, second, *_ = [action.number for action in ACTIONS if action.effect == "once"]
    kills = [Kill(Place("began", first)), Kill(Place("made", second))]
    verdict = run(driver("holdfast_unverified"), tmp_path / "run", 0, kills).verdict
    assert (verdict.kills, verdict.persons, verdict.finished) == (2, 2, True)
    assert (verdict.payments_doubled, verdict.effects_missing, verdict.steps_lost) == (0, 0, 0)
