"""The files of the stores that this process has open.

No other code in the process may open one of them, not even to read it: closing it again would drop the locks
that the store relies on. They are also no content to hash or copy: they change with every record.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Final

_ENDS: Final = ("", "-wal", "-shm", "-owners", "-search", "-search-wal", "-search-shm")
_open: Counter[Path] = Counter()


def note(store: Path) -> None:
    """A store in this file was opened once more."""
    _open[store] += 1


def forget(store: Path) -> None:
    """It was closed once; forgotten with the last close."""
    _open[store] -= 1


def own_files() -> frozenset[tuple[int, int]]:
    """The files of all open stores, by device and inode: many paths may lead to them."""
    found = set()
    for store in [path for path, times in tuple(_open.items()) if times > 0]:
        for end in _ENDS:
            try:
                status = os.stat(f"{store}{end}")  # noqa: PTH116 - many, and most are there
            except OSError:
                continue
            found.add((status.st_dev, status.st_ino))
    return frozenset(found)
