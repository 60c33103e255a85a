"""Who is alive, for stores on a server: each process holds a name in the kernel for as long as it lives, and asks about others.

That a process's connections are gone proves nothing: a server's restart or a proxy cuts them all. But a socket bound to an
abstract name is let go of by the kernel however its process ends, at once, and by nothing else. Such names belong to one
network namespace of one boot of one machine, so an owner reads ``pid@host/name.place``: who and where for people, the name
for a prober, and the place in which it can be asked about. From any other place, and where a system has no such names,
nothing can be proven.

The invariant: a name is held by exactly one process. A forked child lets go of its parent's.
"""

import hashlib
import os
import re
import secrets
import socket
import sys
import threading
from pathlib import Path
from typing import Final

from holdfast.model.store_rows import Liveness

_OWNER: Final = re.compile(r"\d+@[^/]*/(?P<name>[0-9a-f]{32})\.(?P<place>[0-9a-f]{16})")
_HOST_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_NOWHERE: Final = "0" * 16


class _Holding:
    """This process's name, and the descriptor of the socket that holds it."""

    def __init__(self) -> None:
        self.place = _place()
        name = secrets.token_hex(16)
        # The bare descriptor: nothing but the end of the process is to close it.
        self.descriptor = None if self.place == _NOWHERE else _bound(name).detach()
        host = _HOST_UNSAFE.sub("-", socket.gethostname())
        self.owner: Final = f"{os.getpid()}@{host}/{name}.{self.place}"


_lock = threading.Lock()
_holding: _Holding | None = None


def owner_here() -> str:
    """This process as a lease holder; the name is held from the first call until the process ends."""
    return _held().owner


def probe(owner: str) -> Liveness:
    """Whether the process behind an owner lives: only what the kernel can tell."""
    here = _held()
    if owner == here.owner:
        return "alive"
    found = _OWNER.fullmatch(owner)
    if found is None or here.descriptor is None or found["place"] != here.place:
        return "unknown"
    # By connecting, not by binding: whoever asks at the same time would find the name taken, and the dead alive.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_address(found["name"]))
        except ConnectionRefusedError:
            return "dead"
        except OSError:
            return "unknown"
    return "alive"


def _held() -> _Holding:
    global _holding  # noqa: PLW0603 - one name a process
    with _lock:
        if _holding is None:
            _holding = _Holding()
        return _holding


def _bound(name: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        made.bind(_address(name))
    except BaseException:
        made.close()
        raise
    return made


def _address(name: str) -> str:
    return f"\0holdfast-{name}"


def _place() -> str:
    """This network namespace of this boot of this machine."""
    if not sys.platform.startswith("linux"):
        return _NOWHERE
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        space = Path("/proc/self/ns/net").stat()
    except OSError:
        return _NOWHERE
    return hashlib.sha256(b"%b %d %d" % (boot, space.st_dev, space.st_ino)).hexdigest()[:16]


def _let_go_after_fork() -> None:
    global _holding, _lock  # noqa: PLW0603 - the lock may have been held by a thread that does not exist here
    _lock = threading.Lock()
    if _holding is not None and _holding.descriptor is not None:
        os.close(_holding.descriptor)
    _holding = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_after_fork)
