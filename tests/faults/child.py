"""The inside of the children: a nursery that forks them, and the loop in which one does what it is told.

The nursery has the shim loaded and everything imported, and has opened nothing: a fork of it is a fresh process
for a tenth of the price. A child reads commands from its socket, one JSON line each, and answers each with one.
"""

import gc
import json
import logging
import os
import signal
import socket
import sys
from importlib import import_module
from typing import Any

from tests.faults.acts import Acts
from tests.faults.plants import plant

import holdfast
from holdfast import limits
from holdfast.errors import HoldfastError, StopSignal

_HOLD_S = 2.0
"""How long a child holds back an outcome that the store does not take. A schedule lifts a fault only between two commands, so
that a longer wait ends the same way; and no answer within ``ANSWER_S`` is a hang then, and nothing else."""

_LATE = (
    "asyncio",
    "backports.zstd",
    "concurrent.futures.thread",
    "holdfast.stores.sqlite",
    "sqlite3",
    "traceback",
)


def main(fd: int, *, is_loaded: bool) -> None:
    """Serve: a descriptor comes in for each child to be forked, a pid for each that is to be waited for."""
    if is_loaded:
        for name in _LATE:
            import_module(name)
        for name in holdfast.__all__:
            getattr(holdfast, name)
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    setattr(limits, "OUTCOME_HOLD_S", _HOLD_S)  # noqa: B010 - it is Final for everybody else
    gc.collect()
    gc.freeze()
    door = socket.socket(fileno=fd)
    while True:
        word, fds, _, _ = socket.recv_fds(door, 64, 1)
        if not word:
            return
        if fds:
            pid = os.fork()
            if pid == 0:
                door.close()
                _live(socket.socket(fileno=fds[0]))
            os.close(fds[0])
            door.sendall(b"%d\n" % pid)
        else:
            door.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(int(word), 0)[1]))


def _live(wire: socket.socket) -> None:
    """One child, to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    acts = Acts(wire.fileno())
    answers = wire.makefile("w", encoding="utf-8")
    for line in wire.makefile("r", encoding="utf-8"):
        command = json.loads(line)
        if command["verb"] == "exit":  # as a program ends that never closed its store
            sys.exit(0)
        answers.write(json.dumps(_answer(acts, command)) + "\n")
        answers.flush()
    os._exit(0)


def _answer(acts: Acts, command: dict[str, Any]) -> dict[str, Any]:
    verb, options = command["verb"], command["options"]
    try:
        if verb == "plant":
            plant(options["name"])
            return {}
        found = getattr(acts, verb)(**options)
    except BaseException as error:
        return {"error": type(error).__name__, "text": _text(error), "is_typed": _is_typed(error)}
    return {"value": found}


def _is_typed(error: BaseException) -> bool:
    return isinstance(error, HoldfastError | StopSignal)


def _text(error: BaseException) -> str:
    if _is_typed(error) or isinstance(error, AssertionError):  # which the eyes of the oracle raise
        return str(error) or repr(error)
    import traceback

    return "".join(traceback.format_exception(error))[-2000:]


if __name__ == "__main__":
    main(int(sys.argv[1]), is_loaded=sys.argv[2] == "loaded")
