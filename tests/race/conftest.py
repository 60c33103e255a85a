"""Workers: real processes that a test starts, talks to line by line, signals by their own pid, and ends by itself."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any, Self

import pytest
from tests.support.fork_server import Forked, fork_server

import holdfast

PROGRAM = Path(__file__).parent / "programs" / "worker.py"
DEADLINE_S = 60.0
"""Nothing here takes a second on an idle machine; this is for a busy one."""
Process = Forked | subprocess.Popen[str]


class Worker:
    """A child that tells JSON lines and is told words. ``hear`` waits, with a deadline, for what it tells."""

    def __init__(self, process: Process, stdin: IO[str], stdout: IO[str]) -> None:
        self.process = process
        self._stdin, self._stdout = stdin, stdout
        self.transcript: list[str] = []
        self._lines: Queue[str | None] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def forked(cls, arguments: Sequence[str], directory: Path, env: Mapping[str, str]) -> Self:
        theirs, ours = os.pipe()
        told, telling = os.pipe()
        process = fork_server().start(
            [str(PROGRAM), *arguments], cwd=directory, env={**os.environ, **env}, stdin=theirs, stdout=telling
        )
        os.close(theirs)
        os.close(telling)
        return cls(process, open(ours, "w"), open(told))

    @classmethod
    def spawned(cls, prefix: Sequence[str], arguments: Sequence[str], directory: Path) -> Self:
        process = subprocess.Popen(
            [*prefix, sys.executable, str(PROGRAM), *arguments],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        return cls(process, process.stdin, process.stdout)

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        for line in self._stdout:
            self._lines.put(line)
        self._lines.put(None)

    def hear(self, *wanted: str) -> dict[str, Any]:
        """The next thing it tells, which must be one of those."""
        while True:
            try:
                line = self._lines.get(timeout=DEADLINE_S)
            except Empty:
                raise AssertionError(f"waited for {wanted}; so far: {self.transcript}") from None
            assert line is not None, f"ended before it told {wanted}: {''.join(self.transcript)}"
            self.transcript.append(line)
            if line.startswith("{"):
                told: dict[str, Any] = json.loads(line)
                assert told["told"] in wanted, f"waited for {wanted}, heard {line}"
                return told

    def tell(self, word: str) -> None:
        self._stdin.write(f"{word}\n")
        self._stdin.flush()

    def signal(self, signum: int) -> None:
        """Signal this very process."""
        os.kill(self.pid, signum)

    def stop(self) -> None:
        """SIGSTOP it, and see that it stands still."""
        self.signal(signal.SIGSTOP)
        self.until_state("T")

    def until_state(self, state: str) -> None:
        """Wait until the kernel shows it in this state: T stopped, Z an unreaped zombie."""
        deadline = time.monotonic() + DEADLINE_S
        while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
            assert time.monotonic() < deadline, f"never came to be in state {state}"
            time.sleep(0.005)

    def wait(self) -> int:
        """Its exit code, negative for a signal."""
        return self.process.wait(DEADLINE_S)

    def end(self) -> None:
        """End it, whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()  # stopped or not
            self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        for pipe in (self._stdin, self._stdout):
            try:
                pipe.close()
            except BrokenPipeError:  # a word that it never read
                continue


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start workers in this test's directory; all are ended with the test."""
    workers: list[Worker] = []

    def start_one(*arguments: str, prefix: Sequence[str] = (), **env: str) -> Worker:
        if prefix:
            workers.append(Worker.spawned(prefix, arguments, tmp_path))
        else:
            workers.append(Worker.forked(arguments, tmp_path, env))
        return workers[-1]

    yield start_one
    for worker in workers:
        worker.end()


@pytest.fixture
def url(shared_url: str) -> str:
    """A store with the default lease: nobody here waits for it to run out."""
    return shared_url


@pytest.fixture
def impatient(url: str) -> str:
    """The same store, for those whose silence may be noticed soon."""
    return f"{url}{'&' if '?' in url else '?'}lease_s=1"


@pytest.fixture
def store(url: str) -> Iterator[holdfast.Store]:
    """The test's own look into the store."""
    opened = holdfast.store(url)
    yield opened
    opened.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Callable[[], list[str]]:
    """What was really paid, by which process."""
    path = tmp_path / "ledger"
    return lambda: path.read_text().splitlines() if path.exists() else []
