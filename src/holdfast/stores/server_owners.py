"""Liveness of processes for stores on a server: each process holds a name in the kernel while it lives.

Lost connections prove nothing: a server's restart or a proxy cuts them all. But the kernel releases a socket
bound to an abstract name when its process ends, however it ends, and never before. Such names belong to one
network namespace of one boot of one machine. So an owner reads ``pid@host/name.place``: process and host for
people, the name for a prober, and the place where it can be probed. From any other place, and on systems
without such names, nothing can be proven.

The invariant: exactly one process holds a name. A forked child releases its parent's.
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
from holdfast.stores.ending_process import alive_or_ending

_OWNER: Final = re.compile(r"\d+@[^/]*/(?P<name>[0-9a-f]{32})\.(?P<place>[0-9a-f]{16})")
_HOST_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_NOWHERE: Final = "0" * 16


class _Holding:
    """This process's name, and the descriptor of the socket that holds it."""

    def __init__(self) -> None:
        self.place = _place()
        name = secrets.token_hex(16)
        # The bare descriptor: only the end of the process may close it.
        self.descriptor = None if self.place == _NOWHERE else _bound(name).detach()
        host = _HOST_UNSAFE.sub("-", socket.gethostname())
        self.owner: Final = f"{os.getpid()}@{host}/{name}.{self.place}"


_lock = threading.Lock()
_holding: _Holding | None = None


def owner_here() -> str:
    """This process as a lease holder; the name is held from the first call until the process ends."""
    return _held().owner


def probe(owner: str) -> Liveness:
    """Whether the process of an owner lives: only what the kernel can prove."""
    here = _held()
    if owner == here.owner:
        return "alive"
    found = _OWNER.fullmatch(owner)
    if found is None or here.descriptor is None or found["place"] != here.place:
        return "unknown"
    # By connecting, not by binding: a concurrent prober would find the name taken, and report a dead process
    # alive.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_address(found["name"]))
        except ConnectionRefusedError:
            return "dead"
        except OSError:
            return "unknown"
    return alive_or_ending(owner)


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
