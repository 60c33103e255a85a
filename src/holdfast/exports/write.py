"""Writes an export under a temporary name, syncs it, then moves it to its place.

The invariant: the path has either its earlier content or a complete export, never a part of one.
"""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.core.transfer.export_manifest import MANIFEST
from holdfast.errors import ExportError, Misuse
from holdfast.exports import tar
from holdfast.exports.read import ExportReader, open_parcel

PART: Final = ".part"


class ExportWriter(ABC):
    """An unfinished export."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.draft: Final = path.with_name(path.name + PART)

    @property
    def place(self) -> str:
        """The final path."""
        return str(self.path)

    def opened(self) -> AbstractContextManager[ExportReader]:
        """The parts written so far, to be read back and checked before the export is published."""
        return open_parcel(self.draft)

    @abstractmethod
    def clear(self) -> None:
        """Start over, empty."""

    def lacks(self, name: str) -> bool:  # noqa: ARG002 - of any part
        """Whether a part must be written: a new file has none."""
        return True

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Add a part."""

    @abstractmethod
    def complete(self) -> int:
        """All parts are written: sync them. Returns the size in bytes."""

    @abstractmethod
    def publish(self) -> None:
        """Move it to its place; durable on return."""

    @abstractmethod
    def discard(self) -> None:
        """Remove all temporary files."""


@contextmanager
def writing(path: str | os.PathLike[str], *, directory: bool) -> Iterator[ExportWriter]:
    """An unfinished export for that path; what is not published at the end of the block is removed.

    Raises Misuse if something other than an export is there, ExportError if the file system refuses.
    """
    place = Path(path).absolute()
    _check_place(place, directory=directory)
    writer: ExportWriter = DirectoryWriter(place) if directory else FileWriter(place)
    try:
        writer.clear()
        yield writer
    except OSError as error:  # only file system errors of the export: store errors have their own classes
        problem = f"cannot be written: {error.strerror or error}"
        raise ExportError(path=str(path), problem=problem) from error
    finally:
        writer.discard()


def _check_place(place: Path, *, directory: bool) -> None:
    """Only an earlier export may be overwritten: a typing error must not destroy another file."""
    if not place.parent.is_dir():
        raise Misuse(
            problem=f"there is no directory {place.parent}", advice="make it first, or choose another"
        )
    if not place.exists() and not place.is_symlink():
        return
    if place.is_dir() != directory:
        is_, wanted = ("a directory", "a file") if place.is_dir() else ("a file", "a directory")
        raise Misuse(problem=f"{place} is {is_}, and {wanted} is to be written", advice="choose another path")
    if directory and not any(place.iterdir()):
        return
    try:
        with open_parcel(place) as reader:
            reader.read(MANIFEST)
    except ExportError as error:
        raise Misuse(
            problem=f"{place} already exists, and is not an export", advice="choose another path"
        ).because(error) from None


class Preview:
    """Counts the bytes of an export, and writes nothing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.place: Final = str(Path(path).absolute())
        self._size = 0

    def clear(self) -> None:
        """Start over, empty."""
        self._size = 0

    def lacks(self, name: str) -> bool:  # noqa: ARG002 - of any part
        """Every part would be written."""
        return True

    def put(self, name: str, data: bytes) -> None:  # noqa: ARG002 - only the size counts
        """Count a part."""
        self._size += len(data)

    def complete(self) -> int:
        """The size of all parts in bytes."""
        return self._size

    def opened(self) -> AbstractContextManager[ExportReader]:
        """There is nothing to read back."""
        raise AssertionError("nothing was written")

    def publish(self) -> None:
        """Nothing is published."""


class FileWriter(ExportWriter):
    """One tar file."""

    _file: BinaryIO | None = None

    def clear(self) -> None:
        self._close()
        self.draft.unlink(missing_ok=True)
        descriptor = os.open(self.draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")

    def put(self, name: str, data: bytes) -> None:
        assert self._file is not None
        self._file.write(tar.header(name, len(data)))
        self._file.write(data)
        self._file.write(tar.padding(len(data)))

    def complete(self) -> int:
        assert self._file is not None
        self._file.write(tar.END)
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._close()
        return size

    def publish(self) -> None:
        self.draft.replace(self.path)
        sync_directory(self.path.parent)

    def discard(self) -> None:
        self._close()
        self.draft.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class DirectoryWriter(ExportWriter):
    """A directory with a file per part."""

    _size = 0

    def clear(self) -> None:
        self.discard()
        self.draft.mkdir(mode=0o700)
        self._size = 0

    def put(self, name: str, data: bytes) -> None:
        place = self.draft / name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._size += len(data)

    def complete(self) -> int:
        for directory, _, _ in os.walk(self.draft, topdown=False):
            sync_directory(Path(directory))
        return self._size

    def publish(self) -> None:
        before = self.path.with_name(self.path.name + ".old")
        if self.path.exists():  # rename cannot replace a directory that is not empty
            shutil.rmtree(before, ignore_errors=True)
            self.path.replace(before)
        self.draft.replace(self.path)
        sync_directory(self.path.parent)
        shutil.rmtree(before, ignore_errors=True)

    def discard(self) -> None:
        shutil.rmtree(self.draft, ignore_errors=True)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive power loss. Windows has no such call and does it by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
