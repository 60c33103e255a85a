"""Reading an export, from a tar file or from a directory, as parts by name.

Knows where a part's bytes are and that there are no others. What they must say is not known here.
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


class Parcel(ABC):
    """An export that can be read, part by part and as often as needed. Every verb may raise DamagedExport."""

    def __init__(self, path: Path) -> None:
        self.path: Final = str(path)

    @property
    def sound(self) -> frozenset[str]:
        """The blobs that need not be looked at again: of a file that comes from elsewhere, none."""
        return frozenset()

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The parts that are there, in order."""

    @abstractmethod
    def size(self, name: str) -> int:
        """How many bytes a part has."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A whole part."""

    @abstractmethod
    def lines(self, name: str) -> Iterator[bytes]:
        """A part line by line, each with its end; other parts may be read meanwhile."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    def _missing(self, name: str) -> DamagedExport:
        return DamagedExport(path=self.path, problem=f"is not whole: {name} is missing")


@contextmanager
def open_parcel(path: str | os.PathLike[str]) -> Iterator[Parcel]:
    """The export at a path. NotAnExport, DamagedExport; nothing but the parts' places has been looked at then."""
    place = Path(path)
    with _told(str(path)):
        parcel: Parcel = DirectoryParcel(place) if place.is_dir() else FileParcel(place)
    with closing(parcel):
        yield parcel


class FileParcel(Parcel):
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
        with _told(self.path):
            self._file.seek(offset)
            return self._file.read(size)

    def lines(self, name: str) -> Iterator[bytes]:
        _, offset, size = self._entry(name)
        end = offset + size
        while offset < end:
            with _told(self.path):
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


class DirectoryParcel(Parcel):
    """A directory with a file for each part; hidden files, which file managers leave, are not looked at."""

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
        with _told(self.path):
            return self._file(name).stat().st_size

    def read(self, name: str) -> bytes:
        with _told(self.path):
            return self._file(name).read_bytes()

    def lines(self, name: str) -> Iterator[bytes]:
        with _told(self.path):
            file = self._file(name).open("rb")
        with file:
            while True:
                with _told(self.path):
                    line = file.readline(EXPORT_LINE_BYTES_MAX)
                if not line:
                    return
                yield line

    def close(self) -> None:
        """Nothing is kept open between two reads."""

    def _file(self, name: str) -> Path:
        place = self._path / name
        if name not in self._names or not place.is_file():  # nothing that never ends, like a pipe
            raise self._missing(name)
        return place


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What the file system says, as an error of an export."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotAnExport(path=path, problem="is not there") from error
    except OSError as error:
        raise NotAnExport(path=path, problem=f"cannot be read: {error.strerror or error}") from error
