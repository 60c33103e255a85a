"""The result of pruning, for programs and people; and what is protected from it."""

from holdfast.model.named_tuple import NamedTuple


class Part(NamedTuple):
    """A line of the plan: the number of records of a class, their size in bytes, and why they go or stay."""

    what: str
    number: int
    size: int
    why: str


class RunPruned(NamedTuple):
    """One run: its result (``pruned``, ``deleted``, ``kept``, ``skipped``), and what went and what stays."""

    run: str
    outcome: str
    why: str = ""
    goes: tuple[Part, ...] = ()
    stays: tuple[Part, ...] = ()
    freed_bytes: int = 0


class PruneReport(NamedTuple):
    """The result of pruning, or of a dry run. Bytes are those of stored events and blobs."""

    dry_run: bool
    runs: tuple[RunPruned, ...]
    contents: int
    contents_bytes: int
    bytes_before: int
    bytes_after: int
    reclaimed_bytes: int
    notes: tuple[str, ...] = ()


class Pin(NamedTuple):
    """A pinned point: the run that owns the event, the event, and the place as it was typed."""

    run: str
    seq: int
    place: str
    by: str = ""
    """The person who pinned it; empty if an earlier version did not record it."""
    at: float = 0.0


class Label(NamedTuple):
    """A name that a person gave to a point, and that keeps it: the run that owns the event, and the event."""

    run: str
    seq: int
    name: str
    by: str = ""
    at: float = 0.0
