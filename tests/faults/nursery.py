"""The outside of the children: starting them, telling them what to do, and learning how they ended.

Nothing here waits for a time to pass. A child answers, or its socket says that it has ended; if neither happens within
``ANSWER_S`` something hangs, and that is an error.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
ANSWER_S: Final = 60.0


class Ended(Exception):
    """The child is no more; how it ended is in ``code``: negative for a signal."""

    def __init__(self, code: int) -> None:
        super().__init__(f"ended with {code}")
        self.code = code


class Nursery:
    """One process with the shim loaded and everything imported, that forks children."""

    def __init__(self, library: Path, *, is_loaded: bool = True) -> None:
        mine, theirs = socket.socketpair()
        self._door = mine
        self._door.settimeout(ANSWER_S)
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.faults.child",
                str(theirs.fileno()),
                "loaded" if is_loaded else "bare",
            ],
            cwd=ROOT,
            env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def fork(self) -> "Child":
        mine, theirs = socket.socketpair()
        socket.send_fds(self._door, [b"fork"], [theirs.fileno()])
        theirs.close()
        return Child(self, mine, self._answer())

    def wait(self, pid: int) -> int:
        """The exit code of a child that has ended or is about to."""
        self._door.sendall(b"%d" % pid)
        return self._answer()

    def close(self) -> None:
        self._door.close()
        self._process.wait(ANSWER_S)

    def _answer(self) -> int:
        word = b""
        while not word.endswith(b"\n"):
            more = self._door.recv(64)
            assert more, "the nursery has ended by itself"
            word += more
        return int(word)


class Child:
    """One process of a schedule."""

    def __init__(self, nursery: Nursery, wire: socket.socket, pid: int) -> None:
        self._nursery = nursery
        self._wire = wire
        self._wire.settimeout(ANSWER_S)
        self._commands, self._answers = (
            wire.makefile("w", encoding="utf-8"),
            wire.makefile("r", encoding="utf-8"),
        )
        self.pid = pid

    def tell(self, verb: str, **options: Any) -> None:
        """Say what to do, without waiting for the answer."""
        try:
            self._commands.write(json.dumps({"verb": verb, "options": options}) + "\n")
            self._commands.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has ended: the answer will tell

    def hear(self) -> dict[str, Any]:
        """The answer. Ended where there is none."""
        try:
            line = self._answers.readline()
        except ConnectionResetError:
            line = ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        raise Ended(self._reaped())

    def ask(self, verb: str, **options: Any) -> dict[str, Any]:
        self.tell(verb, **options)
        return self.hear()

    def kill(self) -> None:
        """End it where it stands, which is between two commands."""
        os.kill(self.pid, signal.SIGKILL)
        self._reaped()

    def leave(self) -> int:
        """Let it end as a program does that never closed its store."""
        self.tell("exit")
        return self._reaped()

    def _reaped(self) -> int:
        code = self._nursery.wait(self.pid)
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # what it was told last, and did not hear any more
            self._commands.close()
        self._answers.close()
        self._wire.close()
        return code
