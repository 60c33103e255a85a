"""Reads an export, from a tar file or a directory, as named parts.

It knows where the bytes of each part are, and that there are no others. It does not know their meaning.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.core.transfer.export_manifest import MANIFEST
from holdfast.errors import DamagedExport, NotAnExport
from holdfast.exports import tar
from holdfast.limits import EXPORT_LINE_BYTES_MAX


class ExportReader(ABC):
    """An export to read, part by part and as often as needed. Every method may raise DamagedExport."""

    def __init__(self, path: Path) -> None:
        self.path: Final = str(path)

    @property
    def sound(self) -> frozenset[str]:
        """The blobs that need no further check. For an export from outside, none."""
        return frozenset()

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the parts, in order."""

    @abstractmethod
    def size(self, name: str) -> int:
        """The size of a part in bytes."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A complete part."""

    @abstractmethod
    def lines(self, name: str) -> Iterator[bytes]:
        """A part line by line, with line ends; other parts may be read meanwhile."""

    @abstractmethod
    def close(self) -> None:
        """Close the export."""

    def _missing(self, name: str) -> DamagedExport:
        return DamagedExport(path=self.path, problem=f"is not whole: {name} is missing")


@contextmanager
def open_parcel(path: str | os.PathLike[str]) -> Iterator[ExportReader]:
    """Open the export at a path. It only locates the parts. Raises NotAnExport or DamagedExport."""
    place = Path(path)
    with _export_error(str(path)):
        reader: ExportReader = DirectoryReader(place) if place.is_dir() else FileReader(place)
    with closing(reader):
        yield reader


class FileReader(ExportReader):
    """One tar file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file: BinaryIO = path.open("rb")
        self._entries: dict[str, tar.Entry] = {}
        try:
            for entry in tar.scan(self._file, self.path):
                if entry.name in self._entries:
                    raise DamagedExport(path=self.path, problem=f"holds {entry.name} twice")
                self._entries[entry.name] = entry
        except BaseException:
            self._file.close()
            raise

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def size(self, name: str) -> int:
        return self._entry(name).size

    def read(self, name: str) -> bytes:
        _, offset, size = self._entry(name)
        with _export_error(self.path):
            self._file.seek(offset)
            return self._file.read(size)

    def lines(self, name: str) -> Iterator[bytes]:
        _, offset, size = self._entry(name)
        end = offset + size
        while offset < end:
            with _export_error(self.path):
                self._file.seek(offset)
                line = self._file.readline(min(EXPORT_LINE_BYTES_MAX, end - offset))
            if not line:
                raise self._missing(name)
            offset += len(line)
            yield line

    def close(self) -> None:
        self._file.close()

    def _entry(self, name: str) -> tar.Entry:
        if name not in self._entries:
            raise self._missing(name)
        return self._entries[name]


class DirectoryReader(ExportReader):
    """A directory with a file per part. Hidden files, which file managers create, are ignored."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        found: list[str] = []
        for directory, inner, files in os.walk(path):
            inner[:] = [name for name in inner if not name.startswith(".")]
            below = Path(directory).relative_to(path)
            found += [(below / name).as_posix() for name in files if not name.startswith(".")]
        self._names: Final = sorted(found)
        if MANIFEST not in self._names:
            raise NotAnExport(path=self.path, problem=f"is a directory without a {MANIFEST}")

    @property
    def names(self) -> list[str]:
        return list(self._names)

    def size(self, name: str) -> int:
        with _export_error(self.path):
            return self._file(name).stat().st_size

    def read(self, name: str) -> bytes:
        with _export_error(self.path):
            return self._file(name).read_bytes()

    def lines(self, name: str) -> Iterator[bytes]:
        with _export_error(self.path):
            file = self._file(name).open("rb")
        with file:
            while True:
                with _export_error(self.path):
                    line = file.readline(EXPORT_LINE_BYTES_MAX)
                if not line:
                    return
                yield line

    def close(self) -> None:
        """Nothing to close: no file stays open between two reads."""

    def _file(self, name: str) -> Path:
        place = self._path / name
        if name not in self._names or not place.is_file():  # a pipe or a device might never end
            raise self._missing(name)
        return place


@contextmanager
def _export_error(path: str) -> Iterator[None]:
    """A file system error as an export error."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotAnExport(path=path, problem="is not there") from error
    except OSError as error:
        raise NotAnExport(path=path, problem=f"cannot be read: {error.strerror or error}") from error
