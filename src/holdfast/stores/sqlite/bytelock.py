"""Locking one byte of a file without waiting; the only place that knows how an operating system spells that.

POSIX: classic ``fcntl`` record locks. They belong to the process, end with it however it ends, are not
inherited by a fork, and are **all dropped when any descriptor of that file is closed**: ``owners`` keeps one
descriptor per file for ever. Nothing grows: a lock may lie far behind the end of an empty file.

Windows: ``msvcrt.locking``, which knows only exclusive locks, so two probers at the same instant may each see
the other and say "alive"; the next look tells. Written from its documentation and never run: there is no
Windows in our tests.
"""

import os
import sys

if sys.platform == "win32":
    import msvcrt

    def try_lock(fd: int, offset: int, *, shared: bool) -> bool:  # noqa: ARG001 - there is no shared lock here
        """Whether the byte could be locked now."""
        os.lseek(fd, offset, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(fd: int, offset: int) -> None:
        os.lseek(fd, offset, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(fd: int, offset: int, *, shared: bool) -> bool:
        """Whether the byte could be locked now. An OSError means that locks do not work on this file."""
        try:
            fcntl.lockf(
                fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, 1, offset, os.SEEK_SET
            )
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(fd: int, offset: int) -> None:
        fcntl.lockf(fd, fcntl.LOCK_UN, 1, offset, os.SEEK_SET)
