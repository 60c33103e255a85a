"""The file system of a path, and whether SQLite's guarantees hold there.

It knows names of file systems; it knows nothing of SQLite. ``filesystem_of`` is pure over the text of
``/proc/self/mountinfo``; without such a file the answer is unknown, which refuses nothing.
"""

import os
import re
from typing import TYPE_CHECKING, Final

from holdfast.errors import StoreUnavailable

if TYPE_CHECKING:
    from _typeshed import StrPath

_MOUNTINFO: Final = "/proc/self/mountinfo"
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")

NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs",
        "fuse.goofys", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf",
    }
)  # fmt: skip
"""Their locks or syncs do not give SQLite's guarantees: a store there is refused."""

VOLATILE: Final[dict[str, str]] = {
    "tmpfs": "lives in memory and is gone after a reboot",
    "ramfs": "lives in memory and is gone after a reboot",
    "overlay": "is a container's own layer and is gone with the container",
    "aufs": "is a container's own layer and is gone with the container",
    "virtiofs": "is shared with a host, whose disk decides what a sync means",
    "fuse.grpcfuse": "is shared with a host, whose disk decides what a sync means",
}
"""These give the guarantees as long as they exist, which may be shorter than people expect."""


def filesystem_of(mountinfo_text: str, path: str) -> str:
    """The type of the file system that holds an absolute, resolved path; empty if it is unknown."""
    found, depth = "", -1
    for line in mountinfo_text.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        mount_point = _unescaped(fields[4])
        # Not ">": of two mounts at one place the later covers the earlier.
        if len(mount_point) >= depth and _holds(mount_point, path):
            found, depth = after.split(" ", 1)[0], len(mount_point)
    return found


def filesystem_at(path: "StrPath") -> str:
    """The type of the file system that holds a path on this machine; empty if it is unknown."""
    try:
        with open(_MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return ""
    return filesystem_of(text, str(path))


def _holds(mount_point: str, path: str) -> bool:
    return mount_point in ("/", path) or path.startswith(mount_point + "/")


def _unescaped(text: str) -> str:
    """The kernel writes blanks, tabs, newlines and backslashes of a mount point as octal."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def check_in_place(path: "StrPath", inode: int) -> None:
    """Raise StoreUnavailable unless the file with this inode is still at its path."""
    try:
        if os.stat(path).st_ino == inode:
            return
    except FileNotFoundError:
        pass
    except OSError as error:
        problem = f"it cannot be looked at whether the file is still in its place: {error.strerror}"
        raise StoreUnavailable(store=str(path), problem=problem) from error
    raise StoreUnavailable(store=str(path), problem="the file was moved or deleted while it was open")
