"""The switch of a process that replays runs instead of continuing them; see ``engine/drift/replay.py``.

It belongs to the process and is no option of a run: the program is started as it always is.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orjson import dumps

from holdfast.model.replay import ENVIRONMENT, Replayed


class _Switch:
    note: Callable[[Replayed], None] | None = None


def is_on() -> bool:
    """Whether runs are replayed instead of continued."""
    return _Switch.note is not None or ENVIRONMENT in os.environ


@contextmanager
def replaying(note: Callable[[Replayed], None]) -> Iterator[None]:
    """Replay the runs that this process enters meanwhile; ``note`` gets what is found of each."""
    before, _Switch.note = _Switch.note, note
    try:
        yield
    finally:
        _Switch.note = before


def report(found: Replayed) -> None:
    """Give what was found to the one who asked for the replay."""
    if _Switch.note is not None:
        _Switch.note(found)
        return
    line = dumps(found._asdict()) + b"\n"
    fd = os.open(os.environ[ENVIRONMENT], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line)  # in one piece: a program may have several processes
    finally:
        os.close(fd)
