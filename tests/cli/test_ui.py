"""``holdfast ui``: its first line, its end, and where it refuses to listen."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.support import forked

import holdfast

pytestmark = pytest.mark.slow


def started(store: Path, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "holdfast.cli", "ui", "--no-open", "--store", str(store), *options]
    return forked.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def refused(*options: str, store: str) -> tuple[int, str]:
    done = forked.run(
        [sys.executable, "-m", "holdfast.cli", "ui", "--no-open", "--store", store, *options],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        run.finish(1)
    return tmp_path / "s.db"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_the_first_line_is_the_address_with_its_token(store: Path, signum: signal.Signals) -> None:
    """It answers at once, and a signal ends it, also while a page follows a run."""
    ui = started(store)
    try:
        assert ui.stdout is not None
        address = ui.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with httpx.Client(follow_redirects=True, timeout=60) as browser:
            assert "Needs you" in browser.get(address).text
            base = address.partition("?")[0]
            with browser.stream("GET", f"{base}live?run=r") as live:
                assert next(live.iter_lines()) == ": connected"
                ui.send_signal(signum)
                ui.wait(60)
    finally:
        ui.kill()
        ui.communicate()


def test_json_and_a_token_of_ones_own(store: Path) -> None:
    """For programs that start it."""
    ui = started(store, "--json", "--read-only", "--token", "sixteen-characters-or-more")
    try:
        assert ui.stdout is not None
        told = json.loads(ui.stdout.readline())
        assert told["read_only"] is True
        assert told["url"].endswith("?token=sixteen-characters-or-more")
    finally:
        ui.kill()
        ui.communicate()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "can be reached from other machines"),
        (("--host", "0.0.0.0", "--token", "sixteen-characters"), "can be reached from other machines"),
        (("--host", "0.0.0.0", "--behind-proxy"), "can be reached from other machines"),
        (("--token", "short"), "at least 16 characters"),
        (("--tls-cert", __file__), "go together"),
    ],
)
def test_what_would_show_everything_to_everybody_is_refused(
    store: Path, options: tuple[str, ...], words: str
) -> None:
    """Before anything listens."""
    code, said = refused(*options, store=str(store))
    assert code == 2
    assert words in said


def test_a_port_that_is_taken(store: Path) -> None:
    """Is named, with what to do."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        code, said = refused("--port", port, store=str(store))
    assert code == 1
    assert port in said
    assert "--port" in said


def test_without_a_store_there_is_nothing_to_show(tmp_path: Path) -> None:
    """And none is made."""
    code, said = refused(store=str(tmp_path / "none.db"))
    assert code == 1
    assert "there is no store" in said
    assert not (tmp_path / "none.db").exists()
