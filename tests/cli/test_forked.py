"""What the other tests rely on: a program that ``tests/support/forked`` forks is what an interpreter would have made of it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import forked

pytestmark = pytest.mark.slow

SCRIPT = """
import __main__, atexit, os, sys, threading
atexit.register(print, "at the end")
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread"))).start()
print(sys.argv, sys.orig_argv, sys.path[0], __name__, __main__.__dict__.get("__file__"), sys.stdin.readline())
print(os.getcwd(), os.environ.get("GIVEN"), os.getsid(0) == os.getpid(), file=sys.stderr)
"""


def both(command: list[str], **options: Any) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
    """The exit code and what it said, of the same command started and forked."""
    runs: list[Callable[..., Any]] = [subprocess.run, forked.run]
    ended = [run(command, capture_output=True, text=True, timeout=60, **options) for run in runs]
    started, other = ((done.returncode, done.stdout, done.stderr) for done in ended)
    return started, other


@pytest.mark.parametrize("how", ["a script", "a relative script", "code"])
def test_it_sees_what_an_interpreter_shows(tmp_path: Path, how: str) -> None:
    """Arguments, paths, names, input, directory, environment, session; its threads and its last words are waited for."""
    (tmp_path / "program.py").write_text(SCRIPT, encoding="utf-8")
    words = {
        "a script": [str(tmp_path / "program.py")],
        "a relative script": ["program.py"],
        "code": ["-c", SCRIPT],
    }
    command = [sys.executable, *words[how], "--one", "two"]
    env = {**os.environ, "GIVEN": "x"}
    started, other = both(command, cwd=tmp_path, env=env, input="a line\n", start_new_session=True)
    assert started == other
    assert started[0] == 0


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('no')", 1),
        ("raise SystemExit(None)", 0),
        ("1 / 0", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os; os.close(1); print('lost')", 120),
        ("import sys; sys.stdout.write('not flushed'); sys.exit(0)", 0),
    ],
)
def test_it_ends_as_an_interpreter_does(code: str, expected: int) -> None:
    """With the same code or signal, and everything written."""
    started, other = both([sys.executable, "-c", code])
    assert started[:2] == other[:2]
    assert other[0] == expected
    assert started[2].splitlines()[-1:] == other[2].splitlines()[-1:] or expected == 120


def test_a_module_is_run_as_one(tmp_path: Path) -> None:
    """``-m``, as the command line is started."""
    started, other = both([sys.executable, "-m", "holdfast.cli", "runs", "--no-such"], cwd=tmp_path)
    assert started == other
    assert started[0] == 2


def test_one_that_hangs_is_given_up(tmp_path: Path) -> None:
    """Killed after its time, and gone."""
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run([sys.executable, "-c", "import time; time.sleep(600)"], timeout=0.05)
    with forked.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as process:
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


def test_what_only_a_start_reads_is_started() -> None:
    """Options of the interpreter, and variables that are for it."""
    told = forked.run(
        [sys.executable, "-W", "error", "-c", "import sys; print(sys.warnoptions)"],
        capture_output=True,
        text=True,
    )
    assert "error" in told.stdout
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    told = forked.run([sys.executable, "-c", "print(hash('a'))"], env=env, capture_output=True, text=True)
    again = subprocess.run(
        [sys.executable, "-c", "print(hash('a'))"], env=env, capture_output=True, text=True
    )
    assert told.stdout == again.stdout


def test_what_only_a_start_reads_is_compared_with_what_the_server_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen: a variable that was taken away since, and a child whose output was still not buffered."""
    code = "import sys; print(sys.stdout.write_through)"
    forked.run([sys.executable, "-c", code])  # the server is there
    for value in ("1", "", "1"):
        monkeypatch.setenv("PYTHONUNBUFFERED", value)
        started, other = both([sys.executable, "-c", code])
        assert started == other
