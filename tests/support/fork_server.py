"""Starts Python programs by a fork of a process that has imported what they need; for tests that start hundreds.

An interpreter that imports Holdfast and the driver of a server takes 0.2 to 0.4 s of CPU, a fork 0.07 s. The program has
its own directory, environment, pipes and signals, and ends as an interpreter does. Like a child that was spawned, a dead one
stays a zombie until its test waits for it.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

PRELOAD = (
    "holdfast.api.worker",
    "holdfast.cli.app",
    "holdfast.cli.commands.worker",
    "holdfast.stores.postgres",
    "tests.support.aws.preload",
)


@cache
def fork_server() -> "ForkServer":
    """The one of this test process, started when it is first asked for."""
    made = ForkServer()
    atexit.register(made.close)
    return made


class ForkServer:
    """The test's side: ``start`` is what ``subprocess.Popen`` is to a script of Python."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the test process
            )
        self._lock = threading.Lock()

    def start(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: int, stdout: int
    ) -> "Forked":
        """A process that runs a script with its arguments; both of its outputs go to ``stdout``."""
        job = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
        return Forked(self, int(self.ask(job, stdin, stdout)))

    def ask(self, request: dict[str, Any], *descriptors: int) -> Any:
        with self._lock:
            socket.send_fds(
                self._line, [len(message := json.dumps(request).encode()).to_bytes(8)], [*descriptors]
            )
            self._line.sendall(message)
            answer = self._line.recv(64)
        assert answer, "the fork server ended"
        return json.loads(answer)

    def close(self) -> None:
        self._line.close()  # then it ends
        self._process.wait(60)


class Forked:
    """A process that the server forked, with what ``subprocess.Popen`` has for it."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask({"reap": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            descriptor = os.pidfd_open(self.pid)  # a zombie has one too
            try:
                select.select([descriptor], [], [], timeout)
            finally:
                os.close(descriptor)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _serve(line: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Answer until the test process closes its end. Returns a job in the process that was forked for it."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(line, 8, 2)
        if not head:
            return None
        request = json.loads(line.recv(int.from_bytes(head), socket.MSG_WAITALL))
        if "reap" in request:
            pid, status = os.waitpid(request["reap"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                line.close()
                return request, descriptors
            for descriptor in descriptors:
                os.close(descriptor)
        line.sendall(json.dumps(answer).encode())


def _run(job: dict[str, Any], descriptors: list[int]) -> None:
    stdin, stdout = descriptors
    for descriptor, place in ((stdin, 0), (stdout, 1), (stdout, 2)):
        os.dup2(descriptor, place)
    os.close(stdin)
    os.close(stdout)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    script = job["arguments"][0]
    sys.argv = job["arguments"]
    sys.orig_argv = [sys.executable, *job["arguments"]]
    sys.path[0] = str(Path(script).parent)
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = script
    exec(compile(Path(script).read_bytes(), script, "exec"), module.__dict__)


def _main() -> None:
    from holdfast.testing.child_inside import _load

    _load([*PRELOAD])
    job = _serve(socket.socket(fileno=int(sys.argv[1])))
    if job is not None:
        _run(*job)


if __name__ == "__main__":
    _main()
