"""Writing an export: under another name until it is whole and synced, then moved to its place.

The invariant: at the path that was asked for lies what lay there before, or a whole export; never a part of one.
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
from holdfast.exports.read import Parcel, open_parcel

PART: Final = ".part"


class Crate(ABC):
    """An export on its way."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.draft: Final = path.with_name(path.name + PART)

    @property
    def place(self) -> str:
        """Where it is going to lie."""
        return str(self.path)

    def opened(self) -> AbstractContextManager[Parcel]:
        """What was written so far, to be read back before anybody relies on it."""
        return open_parcel(self.draft)

    @abstractmethod
    def clear(self) -> None:
        """Begin anew, with nothing in it."""

    def lacks(self, name: str) -> bool:  # noqa: ARG002 - of any part
        """Whether a part has to be put: a file begins with nothing."""
        return True

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Add a part."""

    @abstractmethod
    def complete(self) -> int:
        """All parts are there: make them survive power loss. The size in bytes."""

    @abstractmethod
    def publish(self) -> None:
        """Move it to its place; durable when it returns."""

    @abstractmethod
    def discard(self) -> None:
        """Leave nothing behind."""


@contextmanager
def writing(path: str | os.PathLike[str], *, directory: bool) -> Iterator[Crate]:
    """A crate for that path. What is not published when the block ends is gone. Misuse where something else lies there.

    ExportError where the file system refuses.
    """
    place = Path(path).absolute()
    _check_place(place, directory=directory)
    crate: Crate = DirectoryCrate(place) if directory else FileCrate(place)
    try:
        crate.clear()
        yield crate
    except OSError as error:  # the crate's: a store has errors of its own
        problem = f"cannot be written: {error.strerror or error}"
        raise ExportError(path=str(path), problem=problem) from error
    finally:
        crate.discard()


def _check_place(place: Path, *, directory: bool) -> None:
    """Only an earlier export may be written over: a typing error must not cost somebody their file."""
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
        with open_parcel(place) as parcel:
            parcel.read(MANIFEST)
    except ExportError as error:
        raise Misuse(
            problem=f"{place} is there already, and is no export", advice="choose another path"
        ).because(error) from None


class FileCrate(Crate):
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


class DirectoryCrate(Crate):
    """A directory with a file for each part."""

    _size = 0

    def clear(self) -> None:
        self.discard()
        self.draft.mkdir(mode=0o700)
        self._size = 0

    def put(self, name: str, data: bytes) -> None:
        place = self.draft / name
        place.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._size += len(data)

    def complete(self) -> int:
        for directory in (*(inner for inner in self.draft.iterdir() if inner.is_dir()), self.draft):
            sync_directory(directory)
        return self._size

    def publish(self) -> None:
        before = self.path.with_name(self.path.name + ".old")
        if self.path.exists():  # a directory that is not empty cannot be replaced in one move
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
