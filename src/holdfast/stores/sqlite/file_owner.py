"""The owner of a store's files. As with git's ``safe.directory``, the owner decides, not write permissions.

It reads only metadata and opens nothing: closing a descriptor of the database would drop this process's locks
on it.
"""

import os
from pathlib import Path
from typing import Final

ROOT: Final = 0
_FILES: Final = ("", "-wal", "-shm", "-journal")
"""The files that SQLite reads: an owner of any of them decides what is read."""


def other_owner(database: Path) -> str:
    """Another user who owns a file of the store, or its directory; empty if there is none.

    The directory may be root's, like ``/tmp``. Under sudo the files of the calling user count as one's own.
    """
    if not hasattr(os, "geteuid"):  # Windows has no such owners, and a profile belongs to one user
        return ""
    own = _own()
    for suffix in _FILES:
        uid = _owner(database.with_name(database.name + suffix))
        if uid is not None and uid not in own:
            return _name(uid)
    uid = _owner(database.parent)
    return "" if uid is None or uid in own | {ROOT} else _name(uid)


def _own() -> set[int]:
    uid = os.geteuid()
    called_by = os.environ.get("SUDO_UID", "")
    return {uid, int(called_by)} if uid == ROOT and called_by.isdecimal() else {uid}


def _owner(place: Path) -> int | None:
    try:
        return place.lstat().st_uid
    except FileNotFoundError:
        return None


def _name(uid: int) -> str:
    try:
        import pwd

        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except (ImportError, KeyError):
        return f"the user with uid {uid}"
