"""Tar files with one possible encoding: equal parts give equal bytes, and any other byte is damage.

Plain ustar, so that ``tar -xf`` reads them. A header depends only on a part's name and size. A header that
differs in a single bit is refused, and so is anything but zeros between and after parts.
"""

from collections.abc import Iterator
from typing import BinaryIO, Final

from holdfast import limits
from holdfast.errors import DamagedExport, NotAnExport
from holdfast.model.named_tuple import NamedTuple

BLOCK: Final = 512
END: Final = bytes(2 * BLOCK)
_SIZE_MAX: Final = 0o77777777777
_NAME_BYTES_MAX: Final = 100


class Entry(NamedTuple):
    """The position of a part in the file."""

    name: str
    offset: int
    size: int


def header(name: str, size: int) -> bytes:
    """The block before a part."""
    encoded = name.encode("ascii")
    assert 0 < len(encoded) <= _NAME_BYTES_MAX, name
    assert 0 <= size <= _SIZE_MAX, size
    fields = [
        encoded.ljust(100, b"\0"),
        b"0000600\0",  # mode: for the owner only
        b"0000000\0",  # owner and group: root, always
        b"0000000\0",
        b"%011o\0" % size,
        b"%011o\0" % 0,  # time: always zero, so that equal parts give equal bytes
        b" " * 8,  # the checksum counts as blanks while it is computed
        b"0",
        bytes(100),
        b"ustar\x0000",
    ]
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padding(size: int) -> bytes:
    """The zeros after a part, up to the next block."""
    return bytes(-size % BLOCK)


def scan(file: BinaryIO, path: str) -> Iterator[Entry]:
    """The parts of a file, in order. Raises NotAnExport for another file, DamagedExport for a changed one."""
    offset = count = 0
    while True:
        block = file.read(BLOCK)
        if block == END[:BLOCK]:
            break
        count += 1
        if count > limits.EXPORT_PARTS_MAX:
            raise DamagedExport(path=path, problem=f"holds more than {limits.EXPORT_PARTS_MAX:,} parts")
        entry = _entry(block, offset, path)
        yield entry
        end = entry.offset + entry.size
        file.seek(end)
        if file.read(-entry.size % BLOCK) != padding(entry.size):
            raise DamagedExport(path=path, problem=f"is cut off or changed behind {entry.name}")
        offset = end + len(padding(entry.size))
    if offset == 0:
        raise NotAnExport(path=path, problem="holds nothing")
    if file.read(BLOCK + 1) != END[BLOCK:]:
        raise DamagedExport(path=path, problem="does not end where it should")


def _entry(block: bytes, offset: int, path: str) -> Entry:
    try:
        name = block[:100].rstrip(b"\0").decode("ascii")
        size = int(block[124:135], 8)
        if len(block) == BLOCK and block == header(name, size):
            return Entry(name, offset + BLOCK, size)
    except (AssertionError, ValueError):
        pass
    if offset == 0:
        raise NotAnExport(path=path, problem="is not a Holdfast export")
    raise DamagedExport(path=path, problem=f"is cut off or changed at byte {offset:,}")
