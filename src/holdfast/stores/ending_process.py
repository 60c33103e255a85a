"""Whether a process of this machine is about to be gone.

The kernel frees the memory of a killed process before it closes its files: a process of some gigabytes holds
its locks, and looks alive by them, for a good part of a second. Its parts may end in any order, too.
"""

from typing import Final

from holdfast.model.store_rows import Liveness

_EXITING: Final = 0x4
"""``PF_EXITING`` among the flags of ``/proc/PID/stat``."""
_KILLED: Final = 1 << 8
"""SIGKILL among the pending signals of ``/proc/PID/status``."""


def alive_or_ending(owner: str) -> Liveness:
    """Of a holder (``PID@host/…``) that has its lock. The process of that number may be another one.

    Then the caller only waits for a moment. Where there is no ``/proc``, it is alive.
    """
    pid = owner.partition("@")[0]
    try:
        facts = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        signals = _read(f"/proc/{pid}/status")
    except OSError:
        return "alive"
    pending = signals.partition(b"ShdPnd:")[2].split(maxsplit=1)[0]
    if facts[0] in b"ZX" or int(facts[6]) & _EXITING or int(pending, 16) & _KILLED:
        return "ending"
    return "alive"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
