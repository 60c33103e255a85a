"""What can be read from a damaged store, and what was copied."""

from collections.abc import Iterator
from typing import Protocol

from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Blob, Record, RunRow


class RunRemains(NamedTuple):
    """A run with an intact row: its contiguous events, and its acknowledged head.

    ``beyond`` are events after the first lost one: intact, but no run can continue from them.
    """

    row: RunRow
    events: tuple[Event, ...]
    beyond: tuple[Event, ...]
    acknowledged: int


class Remains(Protocol):
    """A damaged store, as far as it can be read; each row was compared with its checksum."""

    lost: list[str]
    """What is named by something that could be read, and is itself damaged or gone; one line each."""
    loss_known: bool
    """Whether the store knows what was acknowledged, so that every loss of it is named; set by ``runs``."""

    def runs(self) -> list[RunRemains]:
        """The runs, each after the one that it was forked from."""
        ...

    def records(self) -> list[Record]:
        """Letters, facts, labels, pins."""
        ...

    def blobs(self) -> Iterator[Blob]:
        """Stored contents. The reader must compare them with their addresses."""
        ...


class RunSalvaged(NamedTuple):
    """The result for a run: the number of copied events, the number of known losses, and notes."""

    run: str
    events: int
    lost: int
    notes: tuple[str, ...] = ()


class Salvaged(NamedTuple):
    """What a new store received, and what it did not: every loss if ``loss_known``, else the losses seen."""

    runs: tuple[RunSalvaged, ...]
    records: int
    blobs: int
    lost: tuple[str, ...]
    loss_known: bool
