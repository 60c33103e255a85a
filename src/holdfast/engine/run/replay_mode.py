"""The switch of a process that replays runs instead of continuing them; see ``engine/drift/replay.py``.

It is the process's own, and not an option of a run: the program that is replayed is the one that is always started.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from orjson import dumps

ENVIRONMENT: Final = "HOLDFAST_REPLAY"
"""The file that what is found is appended to, one line of JSON for each run."""


class Replayed(NamedTuple):
    """What a replay found: ``verdict`` is ``same``, ``reached``, ``differs`` or ``failed``."""

    run: str
    verdict: str
    answered: int
    """How many recorded calls the program asked for."""
    difference: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether today's program does what is recorded, as far as the record goes."""
        return self.verdict in {"same", "reached"}


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
