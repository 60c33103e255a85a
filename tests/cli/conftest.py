"""A shop of runs in every state, and ways to call ``holdfast`` on it: in this process, in another, on a terminal.

Time stands still in all of them, so that output can be compared letter by letter; what cannot be known beforehand
(processes, paths, random keys) is given a name by ``normal``.
"""

import fcntl
import os
import pty
import re
import runpy
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from tests.support import forked
from tests.support.fork_server import Forked, fork_server

import holdfast
from holdfast.cli.app import app
from holdfast.engine.run.store_session import session_of
from holdfast.stores.url import open_store

PROGRAMS = Path(__file__).parent / "programs"
AGENT = PROGRAMS / "agent.py"
BEGUN = 1772373731.0  # 2026-03-01 14:02:11 UTC
NOW = BEGUN + 300


class Answer(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str


class Shop:
    """A store with runs in it, looked at from this process and from others."""

    def __init__(self, path: Path, now: float = NOW) -> None:
        self.path = path
        self.beside = path.parent
        """Where a test puts other files."""
        self.clock: Any = runpy.run_path(str(AGENT), run_name="agent")["StillClock"](now)
        session_of(open_store(path), clock=self.clock)
        self.store = holdfast.store(path)
        self._keys: dict[str, str] = {}

    def work(self, run: str, scenario: str, at: float = BEGUN) -> int:
        """Let the agent work in a process of its own; its exit code."""
        words = [str(AGENT), str(self.path), run, str(at), scenario]
        with open(os.devnull, "r+") as nothing:
            process = fork_server().start(
                words, cwd=self.path.parent, env=os.environ, stdin=nothing.fileno(), stdout=nothing.fileno()
            )
        return process.wait(60)

    def __call__(self, *args: str, stdin: str | None = None) -> Answer:
        """A command line on this store, in this process. A key may be given by the name that ``normal`` gave it."""
        if any(word.startswith("KEY-OF-") for word in args):
            self._learn_keys()
        known = {name: key for key, name in self._keys.items()}
        args = tuple(known.get(word, word) for word in args)
        found = CliRunner().invoke(
            app, [*args, "--store", str(self.path)], input=stdin, env={"COLUMNS": "80"}
        )
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return Answer(found.exit_code, self.normal(found.stdout), self.normal(found.stderr))

    def command(self, *args: str) -> list[str]:
        """The same command line for a process of its own."""
        at_time = [
            sys.executable,
            str(PROGRAMS / "at_time.py"),
            str(AGENT),
            str(self.path),
            str(self.clock.at),
        ]
        return [*at_time, *args, "--store", str(self.path)]

    @contextmanager
    def started(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """The command as a process of its own, with pipes; whatever happens in the block, it does not stay behind."""
        with forked.Popen(
            self.command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def screen(self, *args: str, columns: int = 80, **environ: str) -> str:
        """What a person sees who types it in a terminal of that width, letter by letter."""
        return typed(self.command(*args), columns, self.path.parent, environ)

    def on_terminal(self, *args: str, columns: int = 80, **environ: str) -> str:
        """The same, with names for what differs from one test run to the next."""
        return self.normal(self.screen(*args, columns=columns, **environ))

    def normal(self, text: str) -> str:
        """The text with a name for everything that differs from one test run to the next."""
        for known, name in (
            (f"cd {self.path.parent} && ", ""),
            (sys.executable, "python"),
            (str(AGENT), "agent.py"),
            (f"sqlite:///{self.path}", "URL"),
            (str(self.path), "STORE"),
            (str(self.path.parent), "HERE"),
            (str(self.beside), "HERE"),
        ):
            text = text.replace(known, name)
        text = re.sub(r"process \d+ on [\w.-]+", "process 4242 on host", text)
        # Each package that is loaded is a premise, and the fork server has loaded what other tests asked for.
        text = re.sub(r"(?m)^(premises +)\d+ hold", r"\1SOME hold", text)
        text = re.sub(r"\b[0-9a-f]{32}\b", "IDEMPOTENCY-KEY", text)
        text = re.sub(r"\b[0-9a-f]{24}\b", "FINGERPRINT", text)
        return re.sub(r"\b[0-9a-f]{20}\.(?:\d+|k)\b", lambda key: self._named(key[0]), text)

    def _named(self, key: str) -> str:
        """The identity of a call is a hash, which is nothing to write down: it is named after its step."""
        if key not in self._keys:
            self._learn_keys()
        return self._keys[key]

    def _learn_keys(self) -> None:
        for info in reversed(self.store.runs()):
            for event in self.store.events(info.run):
                if event.key and event.key not in self._keys:
                    number = sum(name.startswith(f"KEY-OF-{event.name}-") for name in self._keys.values()) + 1
                    self._keys[event.key] = f"KEY-OF-{event.name}-{number}"


def typed(command: list[str], columns: int, cwd: Path, environ: dict[str, str]) -> str:
    """Run a command with a terminal for its stdout and stderr; everything that was written to it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    hidden = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"TERM": "xterm-256color", **environ}
    process: Forked | subprocess.Popen[bytes]
    for_python = [
        name for name in environ if name.startswith("PYTHON")
    ]  # only an interpreter's start reads it
    if command[0] == sys.executable and command[1].endswith(".py") and not for_python:
        process = fork_server().start(command[1:], cwd=cwd, env=env, stdin=slave, stdout=slave)
    else:
        process = forked.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=env)
    os.close(slave)
    pieces = []
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the last writer has closed its end
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(master)
    process.wait(timeout=60)
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.fixture(autouse=True)
def _buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python buffers a pipe as it does for everybody; with this set, a missing flush would not be noticed."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.fixture(scope="session")
def shop(disk_directory: Path) -> Iterator[Shop]:
    """Runs in many states, to look at and not to change. On a disk: ``doctor`` warns of a store in memory."""
    made = Shop(Path(tempfile.mkdtemp(dir=disk_directory)) / "shop.db")
    made.work("daily.2", "finish", BEGUN - 86_400)
    made.work("ledger", "fail", BEGUN - 600)
    made.work("nightly", "crash", BEGUN - 60)
    made.work("debt-cycles", "crash", BEGUN)
    made.work("debt-cycles", "finish", BEGUN + 60)
    yield made
    made.store.close()


@pytest.fixture
def own_shop(disk_directory: Path, tmp_path: Path) -> Iterator[Shop]:
    """An empty shop of one's own, to change."""
    made = Shop(Path(tempfile.mkdtemp(dir=disk_directory)) / "own.db")
    made.beside = tmp_path
    yield made
    made.store.close()


@pytest.fixture
def holdfast_in() -> Callable[..., Answer]:
    """``holdfast`` in this process, in a directory of choice and without ``--store``."""

    def call(directory: Path, *args: str, **environ: str | None) -> Answer:
        before = Path.cwd()
        os.chdir(directory)
        try:
            found = CliRunner().invoke(app, list(args), env={"HOLDFAST_URL": None, **environ})
        finally:
            os.chdir(before)
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return Answer(found.exit_code, found.stdout, found.stderr)

    return call
