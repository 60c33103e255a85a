"""Cancelling: at once where nobody holds the run or it waits, else before the next thing that it would record.

Planted once, and caught here: a cancel letter that is not consumed with its record; one left for a finished run that
cancels it when it is opened again; ``Cancelled`` swallowed by the program and the run finished all the same.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast.engine.journal import inbox
from holdfast.model.event_fields import contents_of

if TYPE_CHECKING:
    from tests.behaviour.conftest import Play, SetClock


@pytest.fixture
def store(url: str) -> holdfast.Store:
    return holdfast.store(url)


def letters(store: holdfast.Store) -> list[str]:
    return [record.key for record in store._port.scan_records("inbox/r", limit=10)]


def kinds(store: holdfast.Store) -> list[str]:
    return [event.kind for event in store.events("r")]


async def parks(run: Any) -> None:
    await run.sleep(3600, wait_s=0)


def test_a_run_that_nobody_holds_is_cancelled_now(play: "Play", store: holdfast.Store) -> None:
    """Recorded with who and why; entering it is refused, and says so."""
    with pytest.raises(holdfast.Sleeping):
        play(parks)
    info = store.cancel("r", by="ada", reason="wrong customer")
    assert info.status == "cancelled"
    assert store.view("r").status == "cancelled"
    assert letters(store) == []
    with pytest.raises(holdfast.RunCancelled, match=r"by ada at .*: wrong customer") as refused:
        play(parks)
    assert "reopen" in refused.value.hint
    with pytest.raises(holdfast.RunOver, match="cancelled"):
        store.cancel("r")


def test_it_is_found_behind_a_page_of_other_letters(
    play: "Play", store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entering reads the inbox once, for everything in it; a full page may not have the letter that cancels."""
    with pytest.raises(holdfast.Sleeping):
        play(parks)
    monkeypatch.setattr(inbox, "RECORD_PAGE_MAX", 2)
    for letter in ("a", "b", inbox.CANCEL):
        content = {"kind": "cancel" if letter == inbox.CANCEL else "other", "by": "ada", "reason": ""}
        inbox.post(store._port, "r", letter, content, at=1.0)
    with pytest.raises(holdfast.RunCancelled, match="by ada"):
        play(parks)


def test_it_can_be_opened_again(play: "Play", store: holdfast.Store) -> None:
    """``if_finished="reopen"``: with everything that was recorded, and an open wait goes on."""

    async def body(run: Any) -> str:
        value: str = await run.step("work", str, 1)
        await parks(run)
        return value

    with pytest.raises(holdfast.Sleeping):
        play(body)
    store.cancel("r")
    with pytest.raises(holdfast.Sleeping):
        play(body, if_finished="reopen")
    assert "run.reopened" in kinds(store)
    assert kinds(store).count("step.started") == 1
    assert kinds(store).count("wait.started") == 1
    with pytest.raises(holdfast.Sleeping):
        play(body)


def test_the_next_of_a_series_begins_after_a_cancelled_one(play: "Play", store: holdfast.Store) -> None:
    """``if_finished="new"`` goes on as ``r.2``."""
    with pytest.raises(holdfast.Sleeping):
        play(parks)
    store.cancel("r")

    async def body(run: Any) -> str:
        return str(run.id)

    assert play(body, if_finished="new") == "r.2"


def test_while_it_waits_it_stops_at_once(play: "Play", clock: "SetClock", store: holdfast.Store) -> None:
    """A sleep, and a question; the letter goes in the append that records it."""

    def cancel() -> None:
        clock.on_nap = None
        assert store.cancel("r", by="ada", reason="enough").status == "running"

    for number, body in enumerate((parks_long, asks_long)):
        clock.on_nap = cancel
        with pytest.raises(holdfast.Cancelled, match="by ada: enough"):
            play(body, if_finished="reopen" if number else "replay")
        assert clock.passed < 10
        assert (store.get("r").status, letters(store)) == ("cancelled", [])
        cancelled, ended = store.events("r")[-2:]
        assert (cancelled.kind, ended.kind) == ("run.cancelled", "attempt.ended")
        assert contents_of(cancelled.body)["by"] == "ada"
        assert contents_of(ended.body)["how"] == "cancelled"


async def parks_long(run: Any) -> None:
    await run.sleep(3600)


async def asks_long(run: Any) -> None:
    await run.ask("Go on?", wait_s=None)


def test_at_work_it_stops_before_the_next_record(play: "Play", store: holdfast.Store, url: str) -> None:
    """The heartbeat notices with a beat; the step that runs comes to its end, and the next is not begun."""
    calls: list[str] = []

    async def body(run: Any) -> None:
        await run.step("first", str, 1)
        store.cancel("r", by="ada")
        store._session.heartbeat._beat([run_journal(store)])
        calls.append("in between")
        await run.step("second", str, 2)
        calls.append("never")

    with pytest.raises(holdfast.Cancelled):
        play(body)
    assert calls == ["in between"]
    assert store.get("r").status == "cancelled"


def run_journal(store: holdfast.Store) -> Any:
    ((journal, _),) = store._session.heartbeat._journals.values()
    return journal


def test_the_tender_looks_by_itself(tmp_path: Path) -> None:
    """With a short lease it beats often, and sees the letter without anybody's help."""
    impatient = holdfast.store(f"sqlite:///{tmp_path}/impatient.db?lease_s=0.3")
    deadline = time.monotonic() + 60
    with pytest.raises(holdfast.Cancelled), holdfast.run("r", store=impatient) as run:
        impatient.cancel("r")
        while True:
            assert time.monotonic() < deadline
            run.random()
            time.sleep(0.01)


def test_a_program_that_swallows_it_is_cancelled_all_the_same(
    play: "Play", clock: "SetClock", store: holdfast.Store
) -> None:
    """Every further call raises it again, and so does leaving."""

    async def body(run: Any) -> None:
        try:
            await run.sleep(3600)
        except BaseException:
            with pytest.raises(holdfast.Cancelled):
                await run.think("go on regardless")

    def cancel() -> None:
        clock.on_nap = None
        store.cancel("r")

    clock.on_nap = cancel
    with pytest.raises(holdfast.Cancelled):
        play(body)
    assert store.get("r").status == "cancelled"


def test_an_attempt_that_fails_before_it_notices_is_cancelled_too(
    play: "Play", store: holdfast.Store
) -> None:
    """The letter is found when the block is left."""

    async def body(run: Any) -> None:
        store.cancel("r", by="ada")
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        play(body)
    assert (store.get("r").status, letters(store)) == ("cancelled", [])
    assert contents_of(store.events("r")[-1].body)["how"] == "failed"


def test_a_crashed_run_is_cancelled_with_its_crash_recorded(url: str, store: holdfast.Store) -> None:
    """What nobody saw end is recorded first, so that the history is whole."""
    run = holdfast.run("r", store=url).open()
    run.think("about to die")
    store._session.heartbeat.remove(run_journal(store))
    store._port.release("r", fence=run._held.journal.fence)  # type: ignore[union-attr]
    assert store.get("r").status == "crashed"
    store.cancel("r")
    assert kinds(store)[-2:] == ["attempt.crashed", "run.cancelled"]
    assert store.get("r").status == "cancelled"
    with pytest.raises(holdfast.LeaseLost):  # had it only been silent, it would write nothing more
        run.close()


def test_a_fork_that_was_never_begun_can_be_cancelled(play: "Play", url: str, store: holdfast.Store) -> None:
    """And opened again, it is the fork that it was."""
    with pytest.raises(holdfast.Sleeping):
        play(parks)
    store.fork("r", as_="r2")
    store.cancel("r2")
    assert store.get("r2").status == "cancelled"
    assert [e.kind for e in store.events("r2")][-2:] == ["run.forked", "run.cancelled"]
    with pytest.raises(holdfast.RunCancelled), holdfast.run("r2", store=url):
        pass
    with pytest.raises(holdfast.Sleeping), holdfast.run("r2", store=url, if_finished="reopen") as run:
        run.sleep(3600, wait_s=0)


def test_a_letter_that_came_too_late_cancels_nothing(play: "Play", store: holdfast.Store) -> None:
    """Left for a run just before it finished, it does not cancel it when it is opened again, much later."""

    async def body(run: Any) -> str:
        return "done"

    play(body)
    from holdfast.engine.journal.inbox import CANCEL, post

    post(store._port, "r", CANCEL, {"kind": "cancel", "by": "ada", "reason": ""}, at=1.0)
    assert play(body, if_finished="reopen") == "done"
    assert (store.get("r").status, letters(store)) == ("finished", [])


def test_a_finished_run_cannot_be_cancelled(play: "Play", store: holdfast.Store) -> None:
    """RunOver, and nothing is left in its inbox."""

    async def body(run: Any) -> None:
        await run.think("done")

    play(body)
    with pytest.raises(holdfast.RunOver, match="finished"):
        store.cancel("r")
    assert letters(store) == []


def test_a_rewind_leads_out_of_a_cancelled_run(play: "Play", store: holdfast.Store) -> None:
    """The head is moved to before it, and the run goes on."""

    async def body(run: Any) -> str:
        await run.checkpoint({"n": 1})
        await run.sleep(3600, wait_s=0)
        return "unreachable"

    with pytest.raises(holdfast.Sleeping):
        play(body)
    store.cancel("r")
    store.rewind("r@1")
    with pytest.raises(holdfast.Sleeping):
        play(body)


def test_open_questions_of_a_cancelled_run_are_not_asked(play: "Play", store: holdfast.Store) -> None:
    """Nobody has to answer them; opened again, they stand as they were."""

    async def body(run: Any) -> Any:
        return await run.ask("Go on?", returns=bool)

    with pytest.raises(holdfast.AwaitingAnswer):
        play(body)
    store.cancel("r")
    assert store.questions() == []
    with pytest.raises(holdfast.UnknownQuestion, match="cancelled"):
        store.answer("r", True)
    with pytest.raises(holdfast.AwaitingAnswer) as stop:
        play(body, if_finished="reopen")
    assert stop.value.question == "q1"


def test_following_ends_with_a_cancelled_run(play: "Play", store: holdfast.Store) -> None:
    """Nothing more will come."""
    with pytest.raises(holdfast.Sleeping):
        play(parks)
    store.cancel("r")
    assert [event.kind for event in store.follow("r")][-1] == "run.cancelled"
