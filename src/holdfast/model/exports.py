"""What an export says of itself, and what exporting, importing, copying and erasing came to."""

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


class SingleUse(NamedTuple):
    """What an export of a moved run says of itself: it is the run, and it is to be imported once, in one place."""

    move: str
    """The id of the move: the same in every file that was written of it."""
    origin: str
    """The store that the run was moved out of, which knows who took it."""


class Manifest(NamedTuple):
    """What an export holds: a run and those it was forked from, nearest first, and the blobs that they need."""

    run: str
    moved: bool
    runs: tuple[ExportedRun, ...]
    inbox: ExportedInbox | None
    blobs: tuple[str, ...]
    single_use: SingleUse | None = None
    """Of a moved run; None also where version 1 of the format wrote it, which did not say so."""
    version: int = 2
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
    owner: str = ""
    """As whom the run acts here: minted by this import, in the journal, and recorded beside every idempotency key."""
    origin: str = ""
    """What is known of the store that a moved run came out of: ``told`` that it was taken, or why it was not."""


class CopiedRun(NamedTuple):
    """One run of a copy: what became of it, where it stands there now, and what had to be written for it."""

    run: str
    outcome: str
    """``copied``, ``moved``, ``there`` (already, and the same), ``empty`` (it has no event yet) or ``refused``."""
    status: str = ""
    """Its status in the other store; empty where it is not there."""
    head: int = 0
    events: int = 0
    blobs: int = 0
    size_bytes: int = 0
    """Of the events and blobs that had to be written, not compressed."""
    origins: tuple[str, ...] = ()
    """The runs that it was forked from and that came along as history only, nearest first."""
    why: str = ""


class CopyReport(NamedTuple):
    """What a copy from one store to another came to, or would."""

    source: str
    target: str
    move: bool
    dry_run: bool
    runs: tuple[CopiedRun, ...]
    events: int
    blobs: int
    size_bytes: int
    verified: int
    """How many of the runs were read back from the other store, and compared event by event and blob by blob."""

    @property
    def refused(self) -> tuple[CopiedRun, ...]:
        """The runs that were not copied, each with why; those that are asked to move and are live, for one."""
        return tuple(run for run in self.runs if run.outcome == "refused")


class CopyProgress(NamedTuple):
    """How far a copy is: what is being done, with which run, the how manieth of all, and the bytes written so far."""

    doing: str
    run: str
    done: int
    total: int
    size_bytes: int


class Erased(NamedTuple):
    """What is gone: events and blobs, forks that had to be given their own copy first, and bytes of the store's files.

    Of a damaged run, ``unread`` says what could not be read, and ``left`` what may be in the store still because of that.
    """

    run: str
    events: int
    blobs: int
    flattened: tuple[str, ...]
    size_bytes: int
    unread: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
