"""A power cut, played from the log: what the disk may hold of a store at one point of it.

What was synced is there. What was not may be there, or be lost, or be torn: any of its 512-byte sectors. After a failed
sync what was unsynced before it is lost for good, or had been written a moment earlier. Names behave like that too:
files that were made, moved or deleted since the directory was last synced are so, or are not yet, in order. One thing
is taken for granted that POSIX does not promise and every journaling file system does: a new file that is synced has its
name. SQLite counts on that where it has no descriptor left to sync the directory with, and goes on.
"""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults import shim
from tests.faults.shim import Record

_SECTOR: Final = 512
_KEEPING: Final = (0.0, 0.0, 0.5, 0.9, 1.0)
"""How much of what was not synced is kept: a cut draws one of these."""

Files = dict[str, bytes]


class Change(NamedTuple):
    """A write, or a truncation where there is no data."""

    offset: int
    data: bytes | None


class Inode:
    """A file on the disk, and what has not reached it."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.pending: list[Change] = []

    def sync(self) -> None:
        for change in self.pending:
            apply(self.durable, change)
        self.pending.clear()

    def lose(self, chance: random.Random, keeping: float) -> None:
        """A failed sync: the kernel calls everything clean, whether or not it was written."""
        for change in self.pending:
            if change.data is None or chance.random() < keeping:
                apply(self.durable, change)
        self.pending.clear()

    def after_cut(self, chance: random.Random, keeping: float) -> bytes:
        content = bytearray(self.durable)
        for change in self.pending:
            if chance.random() < keeping:
                apply(content, change)
            elif change.data is not None and chance.random() < 0.3:
                for part in sectors(change):
                    if chance.random() < 0.5:
                        apply(content, part)
        return bytes(content)


class Disk:
    """The directory of a store as the log tells it, up to some record."""

    def __init__(self, image: Files, chance: random.Random) -> None:
        self._chance = chance
        self._now: dict[str, Inode] = {name: Inode(content) for name, content in image.items()}
        self._durable = dict(self._now)
        self._moves: list[tuple[str, str, Inode | None]] = []
        self._inodes: dict[int, Inode] = {}
        self._surviving = chance.choice((0.0, 0.0, 0.5))
        """How much a failed sync had written before it failed."""

    def play(self, records: Iterable[Record]) -> None:
        for record in records:
            self._play(record)

    def after_cut(self) -> Files:
        """Some of what the disk may hold now."""
        names = dict(self._durable)
        for move in self._moves[: self._chance.randint(0, len(self._moves))]:
            follow(names, move)
        keeping = self._chance.choice(_KEEPING)
        return {
            name: inode.after_cut(self._chance, keeping)
            for name, inode in names.items()
            if not name.endswith("-shm")
        }

    def in_cache(self) -> Files:
        """What every process saw last. Only for a disk whose losses were left out."""
        return {
            name: inode.after_cut(self._chance, 1.0)
            for name, inode in self._now.items()
            if not name.endswith("-shm")
        }

    def _play(self, record: Record) -> None:
        inode = self._inodes.get(record.inode)
        if record.type == shim.OPEN:
            self._open(record)
        elif record.type == shim.UNLINK:
            self._move(Path(record.data.decode()).name, "", None)
        elif record.type == shim.RENAME:
            old, new = (Path(path).name for path in record.data.decode().split("\0"))
            self._move(old, new, self._now[old])
        elif record.type == shim.SYNC and record.kind == shim.FILES["directory"]:
            self._durable = dict(self._now)
            self._moves.clear()
        elif inode is None:
            return  # a mark or a fault
        elif record.type == shim.WRITE:
            inode.pending.append(Change(record.number, record.data))
        elif record.type == shim.TRUNCATE:
            inode.pending.append(Change(record.number, None))
        elif record.type == shim.SYNC:
            inode.sync()
            self._name(inode)
        elif record.type == shim.LOST:
            inode.lose(self._chance, self._surviving)

    def _open(self, record: Record) -> None:
        if record.kind == shim.FILES["directory"]:
            return
        name = Path(record.data.decode()).name
        if record.flags:  # it is new
            self._inodes[record.inode] = Inode()
            self._move("", name, self._inodes[record.inode])
        else:
            self._inodes[record.inode] = self._now[name]

    def _name(self, inode: Inode) -> None:
        """A file that is synced keeps the name that it was made under, and so does what came before that."""
        for place, (old, _, made) in enumerate(self._moves):
            if made is inode and not old:
                for move in self._moves[: place + 1]:
                    follow(self._durable, move)
                del self._moves[: place + 1]
                return

    def _move(self, old: str, new: str, inode: Inode | None) -> None:
        self._moves.append((old, new, inode))
        follow(self._now, self._moves[-1])


def follow(names: dict[str, Inode], move: tuple[str, str, Inode | None]) -> None:
    old, new, inode = move
    names.pop(old, None)
    if inode is not None:
        names[new] = inode


def apply(content: bytearray, change: Change) -> None:
    if change.data is None:
        del content[change.offset :]
    if len(content) < change.offset:
        content.extend(bytes(change.offset - len(content)))
    if change.data is not None:
        content[change.offset : change.offset + len(change.data)] = change.data


def sectors(change: Change) -> list[Change]:
    """The parts of a write that a disk writes whole or not at all."""
    assert change.data is not None
    parts, offset = [], change.offset
    end = offset + len(change.data)
    while offset < end:
        until = min(end, (offset // _SECTOR + 1) * _SECTOR)
        parts.append(Change(offset, change.data[offset - change.offset : until - change.offset]))
        offset = until
    return parts


def cut(image: Files, records: Sequence[Record], chance: random.Random) -> Files:
    """What may be left of a store when the power goes behind these records."""
    disk = Disk(image, chance)
    disk.play(records)
    return disk.after_cut()


def cached(image: Files, records: Sequence[Record]) -> Files:
    """What the processes themselves saw behind these records."""
    disk = Disk(image, random.Random(0))
    disk.play(record for record in records if record.type != shim.LOST)
    return disk.in_cache()
