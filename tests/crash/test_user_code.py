"""Killed in the user's own code: inside the tools, before and after the effect; inside the verifier; and by edits."""

from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL

import pytest
from tests.support.sampling import OFTEN

from holdfast.testing.crash_matrix import Case, CrashMatrix, Kill
from holdfast.testing.killing_store import WHENS

Check = Callable[..., None]
Settle = Callable[[Case], bool]

PLACES = [
    ["look_up:ada"],
    ["upload:before"],
    ["upload:after"],
    ["charge:ada:before"],
    ["charge:ada:after"],
    ["charge:bob:before"],
    ["charge:bob:after"],
    ["charge:ada:after", "verify"],
    ["charge:ada:before", "verify", "verify", "charge:ada:before", "charge:ada:after", "charge:bob:after"],
]


def die_at(case: Case, place: str) -> bool:
    """Start the agent and have it die at this place of its own code; False if it came to its end without it."""
    order = case.directory / "die"
    order.write_text(place)
    code = case.run().code
    assert code in {0, -SIGKILL}, case.exits[-1].output
    assert order.exists() == (code == 0)
    order.unlink(missing_ok=True)
    return code != 0


def calm_of(crash_matrix: CrashMatrix, agent: Path, name: str) -> Path:
    calm = crash_matrix.case(agent, name, start="fork")
    assert calm.run().code == 0, calm.exits[-1].output
    return calm.directory


@pytest.mark.parametrize("agent_name", ["replay", "restore", "gather"])
def test_killed_inside_the_tools(
    crash_matrix: CrashMatrix, agent: Path, agent_name: str, check_case: Check
) -> None:
    """Killed on either side of an effect, or while it is being verified, the effect is there once in the end."""
    calm = calm_of(crash_matrix, agent, agent_name)
    for places in PLACES:
        if agent_name == "restore" and places[0].startswith("upload"):
            continue  # it uploads nothing
        case = crash_matrix.case(agent, agent_name, start="fork")
        for place in places:
            # Side by side, another task may have paid already, in an attempt before.
            assert die_at(case, place) or agent_name == "gather"
        assert case.run().code == 0, f"{places}: {case.exits[-1].output}"
        check_case(case, calm)


@pytest.mark.parametrize("place", ["charge:ada:before", "charge:ada:after", "charge:bob:after"])
def test_in_doubt_until_somebody_says(
    crash_matrix: CrashMatrix, agent: Path, place: str, check_case: Check, ask_person: Settle
) -> None:
    """Without a verifier the run stops at every start, names the step, and does nothing until a person has spoken."""
    calm = calm_of(crash_matrix, agent, "unverified")
    case = crash_matrix.case(agent, "unverified", start="fork")
    assert die_at(case, place)
    ledger = case.directory / "ledger"
    before = ledger.read_text() if ledger.exists() else ""
    for _ in range(3):
        assert case.run().code == 3, case.exits[-1].output
        (doubt,) = case.store.doubts("agent")
        assert (doubt.step, doubt.pending) == ("charge", None)
        assert case.store.get("agent").status == "in_doubt"
        assert (ledger.read_text() if ledger.exists() else "") == before
    ask_person(case)
    assert case.run().code == 0, case.exits[-1].output
    check_case(case, calm)


def test_a_resolution_counts_once(
    crash_matrix: CrashMatrix, agent: Path, check_case: Check, ask_person: Settle
) -> None:
    """ "Retry" lets the effect be tried once more, not for ever: cut off again, it is in doubt again.

    Planted: the letter not consumed with its event (``consumed=`` left out). The next start then finds the old
    "retry" in the inbox and repeats the effect without asking; this test catches it.
    """
    calm = calm_of(crash_matrix, agent, "unverified")
    case = crash_matrix.case(agent, "unverified", start="fork")
    assert die_at(case, "charge:ada:before")
    assert case.run().code == 3
    case.store.resolve("agent", "charge", "retry")
    assert die_at(case, "charge:ada:after")
    assert case.run().code == 3, "tried again without a new word from anybody"
    ask_person(case)
    assert case.run().code == 0, case.exits[-1].output
    check_case(case, calm)


@pytest.mark.parametrize("place", ["charge:ada:before", "charge:ada:after"])
def test_killed_while_taking_in_a_resolution(
    crash_matrix: CrashMatrix, agent: Path, place: str, check_case: Check, ask_person: Settle
) -> None:
    """A letter and its consequence are one: killed at any call of the start that takes it in, neither is lost.

    If the effect had not happened, killing the retry may put it in doubt again; then the person is asked again.
    """
    calm = calm_of(crash_matrix, agent, "unverified")
    kills, step = 0, min(OFTEN, 2)
    for when in WHENS:
        for at in range(0, 200, step):
            case = crash_matrix.case(agent, "unverified", start="fork")
            assert die_at(case, place)
            assert case.run().code == 3
            ask_person(case)
            case.run(Kill(at, when))
            struck = case.struck is not None
            while case.run().code == 3:
                ask_person(case)
            assert case.exits[-1].code == 0, case.exits[-1].output
            check_case(case, calm)
            kills += struck
            if not struck:
                break
    assert kills >= 30 // step


def test_an_edited_call_is_not_given_the_old_answer(crash_matrix: CrashMatrix) -> None:
    """A read step that asks for something else after the crash runs, and gets its own answer.

    Planted: arguments left out of a call's identity (``site_of`` without them). The edited program is then answered
    with the page it no longer asks for; this test and the next one catch it.
    """
    case = crash_matrix.case(Path(__file__).parent / "programs" / "edited.py", "read", start="fork")
    (case.directory / "asks").write_text("1")
    (case.directory / "die").touch()
    assert case.run().code == -SIGKILL
    (case.directory / "asks").write_text("2")
    assert case.run().code == 0, case.exits[-1].output
    result = case.store.view("agent").result
    case.close()
    assert result == b'{}\n{"value":"page 2"}'


def test_an_edited_once_call_stops(crash_matrix: CrashMatrix) -> None:
    """A once effect that asks for something else at the place of a recorded one stops as drift; nothing happens."""
    case = crash_matrix.case(Path(__file__).parent / "programs" / "edited.py", "once", start="fork")
    (case.directory / "asks").write_text("1")
    (case.directory / "die").touch()
    assert case.run().code == -SIGKILL
    (case.directory / "asks").write_text("2")
    assert case.run().code == 4, case.exits[-1].output
    assert "now       post(page=2)" in case.exits[-1].output
    assert "post(page=1)  (done, not asked for)" in case.exits[-1].output
    assert (case.directory / "posted").read_text() == "1\n"
