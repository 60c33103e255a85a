"""The owner of a store's files. As with git's ``safe.directory``, the owner decides, not write permissions.

It reads only metadata and opens nothing: closing a descriptor of the database would drop this process's locks
on it.
"""

import os
from typing import TYPE_CHECKING, Final

from holdfast.stores.own_files import ENDS

if TYPE_CHECKING:
    from _typeshed import StrPath

ROOT: Final = 0
_LOGS: Final = ("-wal", "-journal")
"""What SQLite brings into the database when it opens it: then it lies in a file of this user's."""


def other_owner(database: "StrPath", *, brought_by: int | None = None) -> str:
    """Another user than this one who owns a file of the store, or its directory; empty where there is none.

    The directory may be root's, like ``/tmp``. Under sudo, files of the user who called it count as one's
    own. ``brought_by`` owned a log that was brought into the database before, see ``log_owner``.
    """
    if not hasattr(os, "geteuid"):  # Windows has no such owners, and a profile belongs to one user
        return ""
    own = _own()
    uids = [_owner(f"{database}{end}") for end in ENDS]
    for uid in (*uids, brought_by):
        if uid is not None and uid not in own:
            return _name(uid)
    uid = _owner(os.path.dirname(database))
    return "" if uid is None or uid in own | {ROOT} else _name(uid)


def log_owner(database: "StrPath") -> int | None:
    """Another user who owns a log beside the database; to be asked before that is opened.

    Afterwards it is too late: the database holds what the log held, and for root SQLite changes the file's
    owner.
    """
    if not hasattr(os, "geteuid"):
        return None
    own = _own()
    for end in _LOGS:
        uid = _owner(f"{database}{end}")
        if uid is not None and uid not in own:
            return uid
    return None


def _own() -> set[int]:
    uid = os.geteuid()
    called_by = os.environ.get("SUDO_UID", "")
    return {uid, int(called_by)} if uid == ROOT and called_by.isdecimal() else {uid}


def _owner(place: "StrPath") -> int | None:
    try:
        return os.lstat(place).st_uid
    except FileNotFoundError:
        return None


def _name(uid: int) -> str:
    try:
        import pwd

        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except (ImportError, KeyError):
        return f"the user with uid {uid}"
