"""The manifest of an export, and the results of export, import, copy and erase."""

from typing import Any

from holdfast.model.named_tuple import NamedTuple


class ExportedRun(NamedTuple):
    """One run of an export: its row, and the part with its own events from ``origin_seq`` to ``upto_seq``."""

    run: str
    birth: str
    created_at: float
    status: str
    origin: str | None
    origin_seq: int
    upto_seq: int
    facts: dict[str, Any]
    """The other fields of its row, except those that concern one store only."""
    events: int
    file: str
    sha256: str


class ExportedInbox(NamedTuple):
    """The letters of a moved run's inbox."""

    letters: int
    file: str
    sha256: str


class ExportedRecords(NamedTuple):
    """The facts and the pins of a run and of those it was forked from, and how its promises ended."""

    facts: int
    pins: int
    file: str
    sha256: str
    settlements: int = 0


class SingleUse(NamedTuple):
    """The mark of an export of a moved run: it is the run, and may be imported once, in one place."""

    move: str
    """The id of the move: the same in every file written for it."""
    origin: str
    """The store that the run left, which records the import."""


class ExportedChild(NamedTuple):
    """A descendant of an exported run: an export of its own, below ``children/N/``, with its hash."""

    run: str
    sha256: str


class Manifest(NamedTuple):
    """The content of an export.

    A run and those it was forked from, nearest first, the blobs they need, and the run's descendants.
    """

    run: str
    moved: bool
    runs: tuple[ExportedRun, ...]
    inbox: ExportedInbox | None
    blobs: tuple[str, ...]
    single_use: SingleUse | None = None
    """For a moved run; None also for version 1 of the format, which did not have it."""
    children: tuple[ExportedChild, ...] = ()
    """Its descendants, and the histories of children that it may still borrow."""
    records: ExportedRecords | None = None
    """Its facts and pins. An export without children and records is of version 2."""
    version: int = 2
    sha256: str = ""
    """Of the manifest without this field. It contains the parts' hashes, so it covers the complete export."""

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
    children: int = 0
    """How many descendants went along; their events and blobs are counted."""
    facts: int = 0
    """The facts in the file: what these runs have remembered. The store keeps them, too."""
    pins: int = 0
    losses: tuple[str, ...] = ()
    """What could not go along, each with the reason."""


class Imported(NamedTuple):
    """The run that may act now, its origin, and what was written for it."""

    run: str
    moved: bool
    head: int
    copies: tuple[str, ...]
    """The exported runs that are sealed here, nearest first: history for forks, they do not act."""
    events: int
    blobs: int
    sha256: str
    owner: str = ""
    """The run's identity here: issued by this import, and recorded beside every idempotency key."""
    origin: str = ""
    """Whether the store that a moved run left was ``told`` of the import, or why not."""
    children: tuple[str, ...] = ()
    """The descendants that came along: sealed here unless the run was moved."""
    facts: int = 0
    """The facts that were new here, or newer than those here."""
    pins: int = 0
    """The pins that were new here."""


class CopiedRun(NamedTuple):
    """One run of a copy: its result, its status there now, and what was written for it."""

    run: str
    outcome: str
    """``copied``, ``moved``, ``there`` (already, and equal), ``empty`` (it has no event) or ``refused``."""
    status: str = ""
    """Its status in the other store; empty if it is not there."""
    head: int = 0
    events: int = 0
    blobs: int = 0
    size_bytes: int = 0
    """The uncompressed size of the events and blobs that were written."""
    origins: tuple[str, ...] = ()
    """The runs that it was forked from and that were copied as history only, nearest first."""
    why: str = ""
    facts: int = 0
    """The facts that were new there, or newer than those there; the next counts the new pins."""
    pins: int = 0
    losses: tuple[str, ...] = ()
    """What cannot go along, each with the reason."""


class CopyReport(NamedTuple):
    """The result of a copy from one store to another, or of a dry run."""

    source: str
    target: str
    move: bool
    dry_run: bool
    runs: tuple[CopiedRun, ...]
    events: int
    blobs: int
    size_bytes: int
    verified: int
    """How many runs were read back from the other store, and compared event by event and blob by blob."""
    facts: int = 0
    pins: int = 0
    losses: tuple[str, ...] = ()
    """What cannot go along, of all runs."""

    @property
    def refused(self) -> tuple[CopiedRun, ...]:
        """The runs that were not copied, each with its reason; for instance live runs that were to move."""
        return tuple(run for run in self.runs if run.outcome == "refused")


class CopyProgress(NamedTuple):
    """The progress of a copy: the action, the run, its number and the total, and the bytes written so far."""

    doing: str
    run: str
    done: int
    total: int
    size_bytes: int


class Erased(NamedTuple):
    """What was erased: events, blobs, bytes of the store's files; and forks that first got their own copy.

    Of a damaged run, ``unread`` says what could not be read, and ``left`` what the store may still hold
    because of that.
    """

    run: str
    events: int
    blobs: int
    flattened: tuple[str, ...]
    size_bytes: int
    unread: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    """The descendants that were erased with it; ``events`` and ``blobs`` count theirs."""


class RewrittenRun(NamedTuple):
    """A run that was written again without a secret: how many events changed, and whether its row did."""

    run: str
    events: int
    row: bool


class ErasedSecret(NamedTuple):
    """What was written again without a secret: runs, records and contents; and by how much the files shrank.

    ``left`` names what still has it.
    """

    secret: str
    runs: tuple[RewrittenRun, ...]
    records: int
    blobs: int
    size_bytes: int
    left: tuple[str, ...] = ()
