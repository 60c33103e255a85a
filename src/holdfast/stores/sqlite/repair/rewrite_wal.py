"""Rewrites the WAL after a failed fsync.

After a failed fsync the kernel may mark the pages clean without having written them; the next fsync succeeds
and they are still not on the disk. A frame lost that way cuts off every later one at recovery, acknowledged
or not, and a checkpoint that trusts such a WAL can leave a torn database behind. The kernel's copy is still
complete, so: read it, write it back, and sync that. The invariant is the caller's: it holds the write lock,
so nothing changes meanwhile.

What was folded must not be among what is lost. SQLite syncs the file only when a checkpoint is complete, and
counts the pages of one that a reader held up as folded without it. After a failed sync no checkpoint writes
them again, and the next complete one cuts the WAL that still had them. So ``checkpoint`` syncs them, and
where that fails, ``rewrite_folded`` writes them again.
"""

import os
from typing import TYPE_CHECKING, Final

import apsw

if TYPE_CHECKING:
    from _typeshed import StrPath

_CHUNK_BYTES: Final = 1 << 16
"""SQLite's file layer keeps only the low 17 bits of a write's length.

A longer write silently writes nothing.
"""
_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL
_DATABASE_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB
_WAL_HEADER_BYTES, _PAGE_SIZE_AT, _FRAME_HEADER_BYTES = 32, 8, 24
"""See "The WAL File Format" in SQLite's documentation."""


def wal_size(database: "StrPath") -> int:
    """The size of the WAL beside a database; 0 if there is none."""
    try:
        return os.stat(f"{database}-wal").st_size
    except FileNotFoundError:
        return 0


def rewrite_wal(database: "StrPath") -> None:
    """Make every byte of the WAL reach the disk, also what an earlier failed sync lost.

    May raise apsw.Error.
    """
    if not wal_size(database):
        return
    # Through SQLite's own file layer, which syncs as this system needs it.
    file = apsw.VFSFile("", f"{database}-wal", [_FLAGS, 0])
    try:
        size = file.xFileSize()
        for offset in range(0, size, _CHUNK_BYTES):
            file.xWrite(file.xRead(min(_CHUNK_BYTES, size - offset), offset), offset)
        file.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        file.xClose()


def rewrite_folded(database: "StrPath") -> None:
    """Make every page that was folded reach the disk, also what a failed sync of the database lost.

    The caller keeps checkpoints away. May raise apsw.Error.
    """
    pages, size = _pages_in_wal(database)
    if not pages:
        return
    file = apsw.VFSFile("", os.fspath(database), [_DATABASE_FLAGS, 0])
    try:
        end = file.xFileSize()
        for page in sorted(pages):  # of those that are not folded yet, what the file has now is as good
            if page * size <= end:
                file.xWrite(file.xRead(size, (page - 1) * size), (page - 1) * size)
        file.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        file.xClose()


def _pages_in_wal(database: "StrPath") -> tuple[set[int], int]:
    """The numbers of the pages that the WAL has, outdated frames too, and the size of a page."""
    length = wal_size(database)
    if length <= _WAL_HEADER_BYTES:
        return set(), 0
    wal = apsw.VFSFile("", f"{database}-wal", [_FLAGS, 0])
    try:
        size = int.from_bytes(wal.xRead(4, _PAGE_SIZE_AT), "big")
        frame = _FRAME_HEADER_BYTES + size
        starts = range(_WAL_HEADER_BYTES, length - frame + 1, frame)
        return {int.from_bytes(wal.xRead(4, start), "big") for start in starts} - {0}, size
    finally:
        wal.xClose()


def checkpoint(connection: apsw.Connection, database: "StrPath", mode: int) -> tuple[int, int]:
    """Fold what can be: the pages of the WAL, and how many are folded and synced. May raise apsw.Error."""
    try:
        pages, folded = connection.wal_checkpoint("main", mode)
    except apsw.BusyError:  # what no reader held up is folded
        _sync(database)
        raise
    if 0 < folded < pages:
        _sync(database)
    return pages, folded


def _sync(database: "StrPath") -> None:
    # Through SQLite's own file layer: another descriptor of ours would drop its locks when it is closed.
    file = apsw.VFSFile("", os.fspath(database), [_DATABASE_FLAGS, 0])
    try:
        file.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        file.xClose()
