"""What an export says of itself, and what exporting, importing and erasing came to."""

from typing import Any, NamedTuple


class ExportedRun(NamedTuple):
    """One run of an export: its row, and the part that holds its own events after ``origin_seq`` up to ``upto_seq``."""

    run: str
    birth: str
    created_at: float
    status: str
    origin: str | None
    origin_seq: int
    upto_seq: int
    facts: dict[str, Any]
    """What its row knows beside this, but for what is about one store only."""
    events: int
    file: str
    sha256: str


class ExportedInbox(NamedTuple):
    """The letters of a run that moves."""

    letters: int
    file: str
    sha256: str


class Manifest(NamedTuple):
    """What an export holds: a run and those it was forked from, nearest first, and the blobs that they need."""

    run: str
    moved: bool
    runs: tuple[ExportedRun, ...]
    inbox: ExportedInbox | None
    blobs: tuple[str, ...]
    sha256: str = ""
    """Of the manifest without this field. The parts' hashes are in it, so it stands for the whole."""

    @property
    def head(self) -> int:
        """The last event of the exported history."""
        return self.runs[0].upto_seq


class Exported(NamedTuple):
    """What an export wrote, and where."""

    run: str
    path: str
    moved: bool
    head: int
    runs: int
    events: int
    blobs: int
    size_bytes: int
    sha256: str


class Imported(NamedTuple):
    """The run that may act now, what it came from, and what had to be written for it."""

    run: str
    moved: bool
    head: int
    copies: tuple[str, ...]
    """The exported runs that are sealed here, nearest first: histories to fork from, not to act."""
    events: int
    blobs: int
    sha256: str


class Erased(NamedTuple):
    """What is gone: events and blobs, forks that had to be given their own copy first, and bytes of the store's files."""

    run: str
    events: int
    blobs: int
    flattened: tuple[str, ...]
    size_bytes: int
