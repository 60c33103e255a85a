"""Kills at file operations: ``FILE_KILL=3:before`` strikes the fourth call of ``engine.artifacts.file_operations`` that changes something,
``rename#2:after`` the second of that name.

``before`` and ``after`` the operation; ``torn`` writes half of the bytes first, where the operation is a write. The name
of the operation that was struck is left in the file that ``FILE_KILL_MARK`` names.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.engine.artifacts import file_operations


def install() -> None:
    """Replace the operations in this process; without ``FILE_KILL``, nothing is."""
    told = os.environ.get("FILE_KILL")
    if not told:
        return
    at, _, when = told.partition(":")
    count = 0
    calls: dict[str, int] = {}

    def killing(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def struck(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            number, count = count, count + 1
            calls[name] = calls.get(name, 0) + 1
            if at not in {str(number), f"{name}#{calls[name]}"}:
                return operation(*args, **kwargs)
            if when == "torn":
                if name != "write":
                    return operation(*args, **kwargs)
                operation(args[0], bytes(args[1])[: len(args[1]) // 2])
            elif when == "after":
                operation(*args, **kwargs)
            Path(os.environ["FILE_KILL_MARK"]).write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("still alive")

        return struck

    for name in file_operations.OPERATIONS:
        setattr(file_operations, name, killing(name, getattr(file_operations, name)))
