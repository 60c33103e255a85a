"""What kind of file system a path lies on, and whether SQLite's promises hold there.

Knows names of file systems; knows nothing of SQLite. ``filesystem_of`` is pure over the text of
``/proc/self/mountinfo``; where there is no such file the answer is that nobody knows, which refuses nothing.
"""

import re
from pathlib import Path
from typing import Final

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")

NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs",
        "fuse.goofys", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf",
    }
)  # fmt: skip
"""Locks or syncs of these do not keep SQLite's promises: a store on one of them is refused."""

VOLATILE: Final[dict[str, str]] = {
    "tmpfs": "lives in memory and is gone after a reboot",
    "ramfs": "lives in memory and is gone after a reboot",
    "overlay": "is a container's own layer and is gone with the container",
    "aufs": "is a container's own layer and is gone with the container",
    "virtiofs": "is shared with a host, whose disk decides what a sync means",
    "fuse.grpcfuse": "is shared with a host, whose disk decides what a sync means",
}
"""These keep the promises as long as they exist, which may be shorter than people think."""


def filesystem_of(mountinfo_text: str, path: str) -> str:
    """The type of the file system that holds an absolute, resolved path; empty if the text does not tell."""
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


def filesystem_at(path: Path) -> str:
    """The type of the file system that holds a path on this machine; empty if nobody knows."""
    try:
        text = _MOUNTINFO.read_text(errors="surrogateescape")
    except OSError:
        return ""
    return filesystem_of(text, str(path))


def _holds(mount_point: str, path: str) -> bool:
    return mount_point in ("/", path) or path.startswith(mount_point + "/")


def _unescaped(text: str) -> str:
    """The kernel writes blanks, tabs, newlines and backslashes of a mount point as octal."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
