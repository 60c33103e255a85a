"""Reads the rows of a damaged SQLite file page by page, without SQLite.

SQLite gives up if a page on the way to a row is damaged; here every page that is still a leaf of some table
yields its rows, whatever happened to the others. It knows the file format (published and stable) and not our
tables: the caller compares each row with its checksum. If the WAL has a newer page, that is used, up to its
last complete commit. It writes nothing, and an error here can only lose a row.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from
from typing import Final

from holdfast.model.named_tuple import NamedTuple

_MAGIC: Final = b"SQLite format 3\0"
_LEAF: Final = 13
_FREE: Final = 2
_PTRMAP_ENTRY: Final = 5
_WAL_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_WAL_MAGIC: Final = (0x377F0682, 0x377F0683)
_INT_SIZES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_PAGE_SIZE: Final = 4096

Value = None | int | float | str | bytes


class Row(NamedTuple):
    """A row of some table. Text that is not valid UTF-8 is bytes."""

    rowid: int
    values: tuple[Value, ...]


class Pages:
    """The pages of a database and of its WAL. May raise OSError."""

    def __init__(self, database: Path) -> None:
        self._fd = os.open(database, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        header = os.pread(self._fd, 100, 0)
        size = int.from_bytes(header[16:18], "big") if header.startswith(_MAGIC) else _PAGE_SIZE
        self._size = 65_536 if size == 1 else size if size >= 512 and not size & (size - 1) else _PAGE_SIZE
        self._usable = self._size - (header[20] if header.startswith(_MAGIC) else 0)
        self._newer, self._count = self._committed(database.with_name(database.name + "-wal"))
        self._count = max(self._count, os.fstat(self._fd).st_size // self._size)

    def close(self) -> None:
        os.close(self._fd)

    def __len__(self) -> int:
        return self._count

    def rows(self) -> Iterator[Row]:
        """The rows of every leaf that is in use, in the order of the pages."""
        for number in range(1, self._count + 1):
            page = self._page(number)
            start = 100 if number == 1 else 0
            if len(page) == self._size and page[start] == _LEAF and not self._is_free(number):
                yield from self._cells(page, start)

    def _cells(self, page: bytes, start: int) -> Iterator[Row]:
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        for place in range(start + 8, min(start + 8 + 2 * count, self._usable - 1), 2):
            row = self._row(page, int.from_bytes(page[place : place + 2], "big"))
            if row is not None:
                yield row

    def _row(self, page: bytes, offset: int) -> Row | None:
        """The row whose cell starts there; None if it is not a cell."""
        try:
            size, offset = _varint(page, offset)
            rowid, offset = _varint(page, offset)
            payload = self._payload(page, offset, size)
            return None if payload is None else Row(_signed(rowid), _record(payload))
        except (IndexError, ValueError):
            return None

    def _payload(self, page: bytes, offset: int, size: int) -> bytes | None:
        """A cell's content, including overflow pages."""
        usable = self._usable
        if size <= usable - 35:
            return page[offset : offset + size] if offset + size <= usable else None
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = least if local > usable - 35 else local
        parts, left = [page[offset : offset + local]], size - local
        following = int.from_bytes(page[offset + local : offset + local + 4], "big")
        while left > 0:
            if not 1 <= following <= self._count:
                return None
            further = self._page(following)
            parts.append(further[4 : 4 + min(left, usable - 4)])
            left -= usable - 4
            following = int.from_bytes(further[:4], "big")
        payload = b"".join(parts)
        return payload if len(payload) == size else None

    def _page(self, number: int) -> bytes:
        if number in self._newer:
            return os.pread(self._wal, self._size, self._newer[number])
        return os.pread(self._fd, self._size, (number - 1) * self._size)

    def _is_free(self, number: int) -> bool:
        """Whether the pointer map marks this page as free: its content was deleted."""
        per_map = self._usable // _PTRMAP_ENTRY + 1
        first = (number - 2) // per_map * per_map + 2
        if number <= 2 or number == first:
            return number == first and number != 1
        entry = self._page(first)[_PTRMAP_ENTRY * (number - first - 1) :][:1]
        return entry == bytes([_FREE])

    def _committed(self, wal: Path) -> tuple[dict[int, int], int]:
        """Where the WAL has the newest version of each page, up to its last complete commit.

        And the number of pages.
        """
        newest: dict[int, int] = {}
        waiting: dict[int, int] = {}
        count = 0
        try:
            self._wal = os.open(wal, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return newest, count
        header = os.pread(self._wal, _WAL_HEADER, 0)
        if len(header) < _WAL_HEADER or int.from_bytes(header[:4], "big") not in _WAL_MAGIC:
            return newest, count
        order = ">" if header[3] & 1 else "<"
        self._size = int.from_bytes(header[8:12], "big") or self._size
        sums = _wal_sums(header[:24], (0, 0), order)
        offset = _WAL_HEADER
        while (
            len(frame := os.pread(self._wal, _FRAME_HEADER + self._size, offset))
            == _FRAME_HEADER + self._size
        ):
            number, commit, salt, checked = *unpack_from(">II", frame), frame[8:16], frame[16:24]
            sums = _wal_sums(frame[:8] + frame[_FRAME_HEADER:], sums, order)
            if salt != header[16:24] or checked != b"".join(part.to_bytes(4, "big") for part in sums):
                break
            waiting[number] = offset + _FRAME_HEADER
            if commit:
                newest |= waiting
                waiting, count = {}, commit
            offset += len(frame)
        return newest, count


def _wal_sums(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    words = unpack_from(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for place in range(offset, offset + 8):
        byte = data[place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return value << 8 | data[offset + 8], offset + 9


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _record(payload: bytes) -> tuple[Value, ...]:
    header_end, offset = _varint(payload, 0)
    at, values = header_end, []
    while offset < header_end:
        kind, offset = _varint(payload, offset)
        value, at = _value(payload, kind, at)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, kind: int, at: int) -> tuple[Value, int]:
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind], at
    if kind in _INT_SIZES:
        end = at + _INT_SIZES[kind]
        _check(payload, end)
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == 7:
        _check(payload, at + 8)
        number: float = unpack_from(">d", payload, at)[0]
        return number, at + 8
    if kind < 12:
        raise ValueError(kind)
    end = at + (kind - 12) // 2
    _check(payload, end)
    data = payload[at:end]
    if not kind & 1:
        return data, end
    try:
        return data.decode(), end
    except UnicodeDecodeError:
        return data, end


def _check(payload: bytes, end: int) -> None:
    if end > len(payload):
        raise ValueError(end)
