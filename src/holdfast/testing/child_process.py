"""The outside of a child process: start a script, wait for it, and tell how it ended and what it printed.

Two ways, with the same answer. ``Spawned`` starts a fresh interpreter each time. ``Forked`` keeps one nursery (see
``child``) that forks: much cheaper, and wrong only for a script whose imports start threads in the nursery.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

Start = Literal["spawn", "fork"]
_CHILD: Final = "holdfast.testing.child_inside"
_CLOSING_S: Final = 10.0


class Exit(NamedTuple):
    """How a child ended: its exit code, negative for a signal, and what it printed on either stream."""

    code: int
    output: str


class Children(Protocol):
    """A way of running scripts in children of their own."""

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path, timeout_s: float
    ) -> Exit:
        """Run a script with its arguments to its end. TimeoutError, and the child is ended, past ``timeout_s``."""
        ...

    def close(self) -> None:
        """Let go of whatever is kept between children."""
        ...


def children(start: Start, preload: Sequence[str] = ()) -> Children:
    """The children that are started in this way; ``preload`` are modules that a nursery imports before it forks."""
    return Forked(preload) if start == "fork" else Spawned()


class Spawned:
    """A fresh interpreter for every child."""

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path, timeout_s: float
    ) -> Exit:
        with output.open("ab") as printed:
            try:
                ended = subprocess.run(  # noqa: S603 - the caller's own script
                    [sys.executable, "-m", _CHILD, *arguments],
                    cwd=cwd,
                    env=dict(env),
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=printed,
                    timeout=timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise _late(arguments, timeout_s, output) from None
        return Exit(ended.returncode, _text(output))

    def close(self) -> None:
        """Nothing is kept."""


class Forked:
    """A nursery, started with the first child, that forks them."""

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._preload = tuple(preload)
        self._nursery: subprocess.Popen[str] | None = None

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path, timeout_s: float
    ) -> Exit:
        nursery = self._nursery or self._open()
        job = {
            "arguments": list(arguments),
            "cwd": os.fspath(cwd),
            "env": dict(env),
            "output": os.fspath(output),
            "timeout_s": timeout_s,
        }
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        nursery.stdin.write(json.dumps(job) + "\n")
        nursery.stdin.flush()
        answer = nursery.stdout.readline()
        if not answer:
            raise RuntimeError(f"the nursery of test children ended by itself ({nursery.wait()})")
        code: int | None = json.loads(answer)["code"]
        if code is None:
            raise _late(arguments, timeout_s, output)
        return Exit(code, _text(output))

    def close(self) -> None:
        nursery, self._nursery = self._nursery, None
        if nursery is None:
            return
        with nursery:  # closes its pipes and waits for it; without jobs it ends by itself
            assert nursery.stdin is not None
            nursery.stdin.close()
            try:
                nursery.wait(_CLOSING_S)
            except subprocess.TimeoutExpired:
                nursery.terminate()  # in the middle of a job, after an interrupt: it ends its child first

    def _open(self) -> subprocess.Popen[str]:
        self._nursery = subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-m", _CHILD, "--serve", *self._preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C in the terminal is for the test process alone
        )
        return self._nursery


def _late(arguments: Sequence[str], timeout_s: float, output: Path) -> TimeoutError:
    return TimeoutError(
        f"{' '.join(arguments)} did not end within {timeout_s:.0f} s; it printed:\n{_text(output)}"
    )


def _text(output: Path) -> str:
    return output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
