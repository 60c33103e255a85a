"""The inside of a child process: run a script as ``python script.py`` would, with every store made to strike.

``python -m holdfast.testing.child SCRIPT ARG…`` runs one. With ``--serve`` it is a nursery: it reads jobs, one JSON
line each, forks a child for each, and answers how the child ended. A nursery has imported what children need and has
opened nothing and started no thread, so a fork of it is as clean as a fresh start and ten times cheaper.
"""

import json
import os
import runpy
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from holdfast.stores import sqlite  # noqa: F401 - what every child needs is loaded before the fork
from holdfast.stores import url as urls
from holdfast.testing.killing import killing_port

_POLL_S_MIN: Final = 0.0005
_POLL_S_MAX: Final = 0.01


def main(arguments: list[str]) -> None:
    """Run the script; or serve, and in each fork run the script of its job."""
    if arguments[:1] == ["--serve"]:
        for module in arguments[1:]:
            import_module(module)
        job = _serve()
        if job is None:
            return
        arguments = job
    _wrap_every_store()
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).absolute().parent)
    runpy.run_path(arguments[0], run_name="__main__")


def _wrap_every_store() -> None:
    """From here on, whatever opens a store in this process gets one that strikes where the environment says."""
    openers: dict[str, Any] = urls._OPENERS  # noqa: SLF001 - the one seam that needs nothing of the script
    for scheme, opener in openers.items():
        openers[scheme] = lambda name, opener=opener: killing_port(opener(name))


def _serve() -> list[str] | None:
    """Fork a child for each job. Returns the job's script and arguments in the child, and None in the nursery."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            return _become(job)
        status = _wait(pid, job["timeout_s"])
        sys.stdout.write(json.dumps({"code": status}) + "\n")
        sys.stdout.flush()
    return None


def _become(job: dict[str, Any]) -> list[str]:
    """Take the job's directory, environment and output, and a fresh process's signals."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    arguments: list[str] = job["arguments"]
    return arguments


def _wait(pid: int, timeout_s: float) -> int | None:
    """How the child ended, as ``subprocess`` tells it: negative for a signal. None if it had to be ended."""
    deadline = time.monotonic() + timeout_s
    poll_s = _POLL_S_MIN
    reaped, status = 0, 0
    try:
        while not reaped and time.monotonic() < deadline:
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if not reaped:
                time.sleep(poll_s)
                poll_s = min(poll_s * 1.5, _POLL_S_MAX)
    finally:
        if not reaped:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if reaped else None


if __name__ == "__main__":
    main(sys.argv[1:])
