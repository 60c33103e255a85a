"""``holdfast hooks``: what it prints, its JSON, its exit codes; and the processes that deliver for others."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.test_docs_page import documented, paths, tops
from tests.support import forked
from tests.support.receiver import Receiver, receiving

import holdfast
from holdfast.engine.hooks import run_hooks

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

DEADLINE_S = 60.0
HOLDFAST = str(Path(sys.executable).parent / "holdfast")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the thread that delivers may get its turn late."""
    monkeypatch.setattr(run_hooks, "HOOK_WAIT_S", 60.0)


def finish(shop: "Shop", run: str) -> None:
    with holdfast.run(run, store=shop.store):
        pass


def test_a_hook_from_its_beginning_to_its_end(own_shop: "Shop", receiver: Receiver) -> None:
    """Added, listed, tried, used and removed."""
    assert own_shop("hooks").out == "no hooks; `holdfast hooks add URL` adds one\n"
    added = own_shop("hooks", "add", f"{receiver.url}/secret/path", "--on", "finished, failed")
    assert added.code == 0
    assert "hook  h1 added" in added.out
    assert "not signed" in added.out
    listed = own_shop("hooks").out
    assert "finished, failed" in listed
    assert "secret/path" not in listed
    assert own_shop("hooks", "test", "h1").out == "delivered a test to h1\n"
    finish(own_shop, "report")
    assert receiver.seen[-1] == ("report", "finished")
    log = own_shop("hooks", "log").out.splitlines()
    assert log[0].split() == ["WHEN", "HOOK", "RUN", "WHAT", "STATE"]
    assert log[1].split()[-4:] == ["h1", "report", "finished", "delivered"]
    assert own_shop("hooks", "log", "other").out == "nothing was delivered, and nothing waits\n"
    assert "h1 removed" in own_shop("hooks", "remove", "h1").out
    refused = own_shop("hooks", "remove", "h1")
    assert (refused.code, refused.err) == (
        2,
        "error: there is no hook h1 in URL\nhint: `holdfast hooks --store STORE` lists them\n",
    )


def test_a_test_that_does_not_arrive(own_shop: "Shop", receiver: Receiver) -> None:
    """Exit code 1, and why."""
    receiver.answers = [500]
    own_shop("hooks", "add", receiver.url)
    failed = own_shop("hooks", "test", "h1")
    assert (failed.code, failed.out) == (1, "not delivered: it answers 500\n")


@pytest.mark.parametrize(
    "words",
    [
        ("add",),
        ("add", "http://x", "--command", "true"),
        ("add", "ftp://x"),
        ("add", "http://x", "--on", "sometimes"),
        ("add", "--command", "'"),
        ("remove",),
        ("test",),
        ("celebrate",),
    ],
)
def test_misuse(own_shop: "Shop", words: tuple[str, ...]) -> None:
    """Exit code 2, and nothing is added."""
    assert own_shop("hooks", *words).code == 2
    assert own_shop.store.hooks.list() == []


def test_the_fields(own_shop: "Shop", receiver: Receiver) -> None:
    """Documented and printed fields are the same."""
    receiver.answers = [200, 500]
    added = json.loads(own_shop("hooks", "add", receiver.url, "--json").out)
    tried = json.loads(own_shop("hooks", "test", "h1", "--json").out)
    finish(own_shop, "report")
    listed = json.loads(own_shop("hooks", "list", "--json").out)
    log = json.loads(own_shop("hooks", "log", "--json").out)
    passed = json.loads(own_shop("hooks", "deliver", "--json").out)
    assert added["hook"] == listed["hooks"][0]
    assert log["deliveries"][0]["status_code"] == 500
    found = {path for one in (tried, listed, log, passed) for path in paths(one)}
    # ``failed`` is a status, too, and those are not read as fields.
    assert tops(found) - {"failed"} == tops(documented("hooks"))


def wait_for(receiver: Receiver, wanted: tuple[str, str]) -> None:
    """Poll until it is there."""
    until = time.monotonic() + DEADLINE_S
    while wanted not in receiver.seen and time.monotonic() < until:
        time.sleep(0.02)
    assert wanted in receiver.seen, receiver.seen


KILLED = """
import os, signal, sys, holdfast
with holdfast.run("victim", store=sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
"""
AGENTS = """
import holdfast
@holdfast.agent("clerk")
def clerk(run): return 1
"""


@pytest.mark.parametrize(
    "words", [("hooks", "deliver", "--follow"), ("worker", "agents.py"), ("watch", "--", "sleep", "600")]
)
def test_a_process_that_stays_reports_the_crash_of_another(
    words: tuple[str, ...], tmp_path: Path, receiver: Receiver
) -> None:
    """The killed one reports nothing; whichever of these runs beside it does."""
    (tmp_path / "agents.py").write_text(AGENTS)
    place = str(tmp_path / "s.db")
    store = holdfast.store(place)
    store.hooks.add(receiver.url)
    store.close()
    environment = {**os.environ, "HOLDFAST_URL": place}
    with forked.Popen(
        [HOLDFAST, *words], cwd=tmp_path, env=environment, start_new_session=True, stderr=subprocess.DEVNULL
    ) as process:
        try:
            done = forked.run([sys.executable, "-c", KILLED, place], check=False, cwd=tmp_path)
            assert done.returncode == -signal.SIGKILL
            wait_for(receiver, ("victim", "crashed"))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert receiver.seen == [("victim", "crashed")]
