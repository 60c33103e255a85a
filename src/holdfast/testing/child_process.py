"""The outside of a child process: starts a script, waits for it, and reports its end and its output.

There are two ways, with the same result. ``Spawned`` starts a fresh interpreter each time. ``Forked`` keeps
one fork server (see ``child_inside``): much cheaper, and wrong only for a script whose imports start threads
in the server.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import Final, Literal, Protocol

from holdfast.model.named_tuple import NamedTuple

Start = Literal["spawn", "fork"]
_CHILD: Final = "holdfast.testing.child_inside"
_CLOSING_S: Final = 10.0


class Exit(NamedTuple):
    """How a child ended: its exit code, negative for a signal, and its output on both streams."""

    code: int
    output: str


class Children(Protocol):
    """A way to run scripts in child processes."""

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path, timeout_s: float
    ) -> Exit:
        """Run a script to its end. Past ``timeout_s`` the child is killed and TimeoutError raised."""
        ...

    def close(self) -> None:
        """Release what is kept between children."""
        ...


def children(start: Start, preload: Sequence[str] = ()) -> Children:
    """The children for this start method.

    ``preload`` are modules that a fork server imports before it forks.
    """
    return Forked(preload) if start == "fork" else Spawned()


class KeptChildren:
    """The ways to run scripts that were asked for, each with what it keeps between children.

    A fork server imports for up to a second, so tests share one.
    """

    def __init__(self) -> None:
        self._ways: dict[tuple[Start, tuple[str, ...]], Children] = {}

    def get(self, start: Start, preload: Sequence[str]) -> Children:
        """The children for this start method, made when they are first asked for."""
        way = (start, tuple(preload))
        if way not in self._ways:
            self._ways[way] = children(*way)
        return self._ways[way]

    def close(self) -> None:
        """End the processes that are kept between children."""
        for kept in self._ways.values():
            kept.close()
        self._ways.clear()


class Spawned:
    """A fresh interpreter for every child."""

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path, timeout_s: float
    ) -> Exit:
        child: subprocess.Popen[bytes] | None = None
        with output.open("ab") as printed:
            try:
                with _interrupted_after():
                    child = subprocess.Popen(  # noqa: S603 - the caller's own script
                        [sys.executable, "-m", _CHILD, *arguments],
                        cwd=cwd,
                        env=dict(env),
                        stdin=subprocess.DEVNULL,
                        stdout=printed,
                        stderr=printed,
                    )
                code = child.wait(timeout_s)
            except BaseException as cut:
                if child is not None:
                    child.kill()
                    child.wait()  # else it would be left as a zombie
                if isinstance(cut, subprocess.TimeoutExpired):
                    raise _late(arguments, timeout_s, output) from None
                raise
        return Exit(code, _text(output))

    def close(self) -> None:
        """Nothing to release."""


class Forked:
    """A fork server, started with the first child."""

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._preload = tuple(preload)
        self._fork_server: subprocess.Popen[str] | None = None

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path, timeout_s: float
    ) -> Exit:
        fork_server = self._fork_server
        if fork_server is None or fork_server.poll() is not None:
            fork_server = self._open()
        job = {
            "arguments": list(arguments),
            "cwd": os.fspath(cwd),
            "env": dict(env),
            "output": os.fspath(output),
            "timeout_s": timeout_s,
        }
        assert fork_server.stdin is not None
        assert fork_server.stdout is not None
        fork_server.stdin.write(json.dumps(job) + "\n")
        fork_server.stdin.flush()
        answer = fork_server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the fork server of test children ended by itself ({fork_server.wait()})")
        code: int | None = json.loads(answer)["code"]
        if code is None:
            raise _late(arguments, timeout_s, output)
        return Exit(code, _text(output))

    def close(self) -> None:
        fork_server, self._fork_server = self._fork_server, None
        if fork_server is None:
            return
        with fork_server:  # closes its pipes and waits for it; without jobs it ends by itself
            assert fork_server.stdin is not None
            fork_server.stdin.close()
            try:
                fork_server.wait(_CLOSING_S)
            except subprocess.TimeoutExpired:
                fork_server.terminate()  # during a job, after an interrupt: it ends its child first

    def _open(self) -> subprocess.Popen[str]:
        self._fork_server = subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-m", _CHILD, "--serve", *self._preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # It imports what this process can, wherever a test has gone to meanwhile.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,  # Ctrl-C in the terminal is for the test process only
        )
        return self._fork_server


@contextmanager
def _interrupted_after() -> Iterator[None]:
    """Hold Ctrl-C back inside the block: there, it would leave a child behind that has begun already."""
    if current_thread() is not main_thread():  # only the main thread is interrupted
        yield
        return
    held_back: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: held_back.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if held_back:
        signal.raise_signal(signal.SIGINT)


def _late(arguments: Sequence[str], timeout_s: float, output: Path) -> TimeoutError:
    return TimeoutError(
        f"{' '.join(arguments)} did not end within {timeout_s:.0f} s; it printed:\n{_text(output)}"
    )


def _text(output: Path) -> str:
    return output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
