"""Starts Python programs by a fork of a process that has imported what they need; for tests that start hundreds.

An interpreter that imports Holdfast and the driver of a server takes five to ten times as much CPU as a fork. The program has
its own directory, environment, pipes and signals, and ends as an interpreter does. Like a child that was spawned, a dead one
stays a zombie until its test waits for it. ``tests/support/forked.py`` has this as ``subprocess.Popen`` and ``run``.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.engine.premises import premises

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
        self.environment = dict(os.environ)
        """As it was when the interpreter started: what only a start reads is read from it."""
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
        self._loaded: set[str] = set()

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int | None = None,
        session: bool = False,
    ) -> "Forked":
        """A process that runs what an interpreter would with these arguments; without ``stderr``, all it says goes to ``stdout``."""
        job = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "session": session}
        return Forked(self, int(self.ask(job, stdin, stdout, stdout if stderr is None else stderr)))

    def load(self, *modules: str) -> None:
        """Import what later programs need, once."""
        if new := [name for name in modules if name not in self._loaded]:
            self.ask({"load": new})
            self._loaded |= {*new}

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
        head, descriptors, _, _ = socket.recv_fds(line, 8, 3)
        if not head:
            return None
        request = json.loads(line.recv(int.from_bytes(head), socket.MSG_WAITALL))
        if "reap" in request:
            pid, status = os.waitpid(request["reap"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif "load" in request:
            for name in request["load"]:
                import_module(name)
            gc.collect()
            gc.freeze()  # as in _load: a child's collector leaves these pages alone
            answer = None
        else:
            answer = os.fork()
            if not answer:
                line.close()
                return request, descriptors
            for descriptor in descriptors:
                os.close(descriptor)
        line.sendall(json.dumps(answer).encode())


def _run(job: dict[str, Any], descriptors: list[int]) -> None:
    if job["session"]:
        os.setsid()
    for place, descriptor in enumerate(descriptors):  # they come in order: none is where a later one must be
        if descriptor == place:  # it was free here
            os.set_inheritable(place, True)
        else:
            os.dup2(descriptor, place)
            os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    vars(premises)["LOADED_BY"] = (
        time.time()
    )  # the program is loaded from here on: sources that are older are what it runs
    first, *rest = job["arguments"]
    sys.orig_argv = [sys.executable, first, *rest]
    module = sys.modules["__main__"] = ModuleType("__main__")
    if first == "-m":
        sys.argv, sys.path[0] = rest, job["cwd"]
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
    elif first == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)
    else:
        sys.argv, sys.path[0] = [first, *rest], str(Path(first).resolve().parent)
        module.__file__ = str(Path(first).absolute())
        exec(compile(Path(first).read_bytes(), first, "exec"), module.__dict__)


def _finished(job: dict[str, Any], descriptors: list[int]) -> int:
    """Run it to its end, and do what an interpreter does last. What that frees in the end is the kernel's: each page of it would be copied."""
    code = 0
    try:
        _run(job, descriptors)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else bool(end.code)
        if end.code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        code = 1
        if error.__traceback__ is not None:
            sys.excepthook(type(error), error, error.__traceback__.tb_next)
        if isinstance(error, KeyboardInterrupt):
            code = -signal.SIGINT
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    return code


def _main() -> None:
    from holdfast.testing.child_inside import _load

    _load([*PRELOAD])
    job = _serve(socket.socket(fileno=int(sys.argv[1])))
    if job is not None:
        code = _finished(*job)
        if code < 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code & 0xFF)


if __name__ == "__main__":
    _main()
