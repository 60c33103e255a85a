"""``subprocess.Popen`` and ``run`` for programs of Python, which the fork server starts; anything else is started as ever.

What only the start of an interpreter reads is left to one: its options, ``PYTHON…`` variables and the locale.
"""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.fork_server import Forked, fork_server

_AT_THE_START = ("PYTHON", "LC_", "LANG", "MALLOC_", "LD_")


class Popen(subprocess.Popen[Any]):
    """A process. If it is a program of this Python, it has been forked."""

    _forked: Forked | None = None

    def _execute_child(self, *given: Any) -> None:
        command, _, hook, _, descriptors, cwd, env, _, _, is_shell, *rest = given
        pipes, (restored, group, groups, user, umask, session, *_) = rest[:6], rest[6:]
        stdin, _, _, stdout, _, stderr = pipes
        is_plain = restored and not (hook or descriptors or is_shell) and group is groups is user is None
        if not (is_plain and umask < 0 and _is_forkable(command, env)):
            return super()._execute_child(*given)  # type: ignore[misc, no-any-return]
        streams = [own if piped == -1 else piped for own, piped in enumerate((stdin, stdout, stderr))]
        self._forked = fork_server().start(
            [os.fsdecode(word) for word in command[1:]],
            cwd=Path(os.fsdecode(cwd or Path.cwd())),
            env=os.environ if env is None else {os.fsdecode(k): os.fsdecode(v) for k, v in env.items()},
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            session=session,
        )
        self.pid, self._child_created = self._forked.pid, True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        return None

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._forked is None:
            return super()._internal_poll(*given, **named)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            self.returncode = self._forked.poll()
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._forked is None:
            return super()._try_wait(flags)  # type: ignore[misc, no-any-return]
        if not flags & os.WNOHANG and self._forked.returncode is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                select.select([descriptor], [], [])
            finally:
                os.close(descriptor)
        code = self._forked.poll()
        return (0, 0) if code is None else (self.pid, -code if code < 0 else code << 8)


def _is_forkable(command: Any, env: Any) -> bool:
    if isinstance(command, str | bytes) or len(command) < 2 or command[0] != sys.executable:
        return False
    first = os.fsdecode(command[1])
    if not (first in {"-c", "-m"} or first.endswith(".py")):
        return False
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # which a child inherits
        return False
    given = _read_at_the_start(os.environ if env is None else env)
    return given == _read_at_the_start(fork_server().environment)


def _read_at_the_start(env: Any) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_THE_START)}


def run(
    command: Any,
    *,
    capture_output: bool = False,
    check: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> "subprocess.CompletedProcess[Any]":
    """As ``subprocess.run``."""
    words = options.pop("input", None)
    if words is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(words, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done
