"""Notices of processes that are killed, by a real SIGKILL, before, during and after each port call of a delivery."""

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.support import forked
from tests.support.receiver import Receiver, receiving
from tests.support.sampling import OFTEN

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.testing.crash_matrix import Case, CrashMatrix

PROGRAM = Path(__file__).parent / "programs" / "reporting.py"
DEADLINE_S = 60.0


def ids(receiver: Receiver, store: str) -> dict[str, set[str]]:
    """The ids of the notices that came from this store, by case."""
    found: dict[str, set[str]] = {}
    for request in receiver.requests:
        if request.notice["store"] == store:
            found.setdefault(request.notice["what"], set()).add(request.headers["webhook-id"])
    return found


def test_killed_at_every_call_nothing_is_lost(
    crash_matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the killed process had not delivered comes from the next one, or from one that only looks.

    A notice that comes twice has the same id. Planted: the cursor moved before the delivery is recorded (notices
    lost); an id drawn at random (two ids for one question).
    """
    with receiving() as receiver:
        monkeypatch.setenv("HOOK_URL", receiver.url)

        def settle(case: Case) -> bool:
            if not case.store.questions("agent"):
                return False
            if not case.store.questions("agent")[0].pending_by:
                case.store.deliver_hooks()  # before the answer, which would overtake the question
                case.store.answer("agent", True)
            return True

        def check(case: Case) -> None:
            case.store.deliver_hooks()
            crashes = [
                contents_of(event.body)["attempt"]
                for event in case.store.events("agent")
                if event.kind == "attempt.crashed"
            ]
            found = ids(receiver, case.store.url)
            assert len(found.pop("finished")) == 1, case
            assert len(found.pop("question")) == 1, case
            assert len(found.pop("crashed", set())) == len(crashes), case
            assert found == {}, case
            assert {one.state for one in case.store.hooks.log()} == {"delivered"}, case

        report = crash_matrix.walk(PROGRAM, check=check, settle=settle, every=OFTEN, start="fork")
        assert report.kills > 10


def test_a_crash_is_reported_by_others_and_once(tmp_path: Path) -> None:
    """A process that only looks finds the dead holder; when the run is resumed, its record makes no second notice."""
    program = tmp_path / "agent.py"
    program.write_text(
        "import os, signal, sys, holdfast\n"
        "def pay():\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "with holdfast.run('a', store=sys.argv[1]) as run:\n"
        "    if len(sys.argv) == 2: run.once('pay', pay)\n"
    )
    url = f"{tmp_path}/s.db"
    with receiving() as receiver:
        store = holdfast.store(url)
        store.hooks.add(receiver.url, on=["in-doubt"])
        store.hooks.add(receiver.url, on=["failed"])
        done = forked.run([sys.executable, str(program), url], check=False)
        assert done.returncode == -signal.SIGKILL
        store.deliver_hooks()
        store.deliver_hooks()
        assert receiver.seen == [("a", "crashed")] * 2  # one for each hook
        notice = receiver.requests[0].notice
        assert notice["status"] == "crashed"
        assert [one["step"] for one in notice["in_doubt"]] == ["pay"]
        assert "'pay'" in notice["text"]
        store.resolve("a", "pay", "abandon")
        forked.run([sys.executable, str(program), url, "again"], check=True)
        store.deliver_hooks()
        assert receiver.seen == [("a", "crashed")] * 2
        store.close()


def test_a_holder_that_is_killed_while_it_sends(tmp_path: Path) -> None:
    """The receiver has it and never answered: it comes again from another process, under the same id."""
    program = tmp_path / "agent.py"
    program.write_text("import sys, holdfast\nwith holdfast.run('a', store=sys.argv[1]): pass\n")
    url = f"{tmp_path}/s.db"
    with receiving() as receiver:
        receiver.answers = [receiver.stall]
        store = holdfast.store(url)
        store.hooks.add(receiver.url, timeout_s=60.0)
        with forked.Popen([sys.executable, str(program), url]) as process:
            until = time.monotonic() + DEADLINE_S
            while not receiver.requests and time.monotonic() < until:
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
        assert store.get("a").status == "finished"
        assert store.hooks.log()[0].state == "waiting", "the claim of a dead process counts no more"
        assert store.deliver_hooks().delivered == 1
        came = Counter(one.headers["webhook-id"] for one in receiver.requests)
        assert [*came.values()] == [2]
        store.close()
