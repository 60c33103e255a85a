"""The files of the stores that this process has open.

No other code in the process may open one of them, not even to read it: closing it again would drop the locks
that the store relies on. They are also no content to hash or copy: they change with every record.
"""

import os
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import StrPath

ENDS: Final = (
    "",
    "-wal",
    "-shm",
    "-journal",
    "-owners",
    "-search",
    "-search-wal",
    "-search-shm",
    "-search-journal",
)
"""What the names of a store's files end with, behind the name of its database."""
_open: Counter[str] = Counter()


def note(store: "StrPath") -> None:
    """A store in this file was opened once more."""
    _open[os.fspath(store)] += 1


def forget(store: "StrPath") -> None:
    """It was closed once; forgotten with the last close."""
    _open[os.fspath(store)] -= 1


def is_own_name(directory: str | int, name: str) -> bool:
    """Whether an open store has a file of this name in this directory, or would take one for its own."""
    for store in _open_stores():
        place, its_name = os.path.split(store)
        if name.startswith(its_name) and name.removeprefix(its_name) in ENDS:
            try:
                if os.path.samestat(os.stat(place), os.stat(directory)):
                    return True
            except OSError:  # one of them is not there
                continue
    return False


def own_files() -> frozenset[tuple[int, int]]:
    """The files of all open stores, by device and inode: many paths may lead to them."""
    found = set()
    for store in _open_stores():
        for end in ENDS:
            try:
                status = os.stat(f"{store}{end}")
            except OSError:
                continue
            found.add((status.st_dev, status.st_ino))
    return frozenset(found)


def _open_stores() -> list[str]:
    return [path for path, times in tuple(_open.items()) if times > 0]
