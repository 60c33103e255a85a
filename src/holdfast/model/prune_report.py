"""What pruning comes to, for programs and people; and what is kept from it."""

from typing import NamedTuple


class Part(NamedTuple):
    """A line of the plan: so many records of a class, the bytes of their bodies, and why they go or stay."""

    what: str
    number: int
    size: int
    why: str


class RunPruned(NamedTuple):
    """One run: what was done with it (``pruned``, ``deleted``, ``kept``, ``skipped``), and what went and stays of it."""

    run: str
    outcome: str
    why: str = ""
    goes: tuple[Part, ...] = ()
    stays: tuple[Part, ...] = ()
    freed_bytes: int = 0


class PruneReport(NamedTuple):
    """What pruning came to, or would. Bytes are those of events and contents, as they are stored."""

    dry_run: bool
    runs: tuple[RunPruned, ...]
    contents: int
    contents_bytes: int
    bytes_before: int
    bytes_after: int
    reclaimed_bytes: int
    notes: tuple[str, ...] = ()


class Pin(NamedTuple):
    """A pinned point: the run whose own event it is, the event, and the place as it was named."""

    run: str
    seq: int
    place: str
