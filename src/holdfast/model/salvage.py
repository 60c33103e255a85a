"""What can be brought out of a damaged store, and what was brought."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from holdfast.model.events import Event
from holdfast.model.store_rows import Blob, Record, RunRow


class RunRemains(NamedTuple):
    """A run whose row is sound: its own events as far as they follow each other, and how far it was acknowledged.

    ``beyond`` are events behind the first one that is lost: sound by themselves, and nothing that a run can go on from.
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
    """Whether it is known what was acknowledged, so that whatever is lost of it is named; told with the runs."""

    def runs(self) -> list[RunRemains]:
        """The runs, each behind the one that it was forked from."""
        ...

    def records(self) -> list[Record]:
        """Letters, facts, labels, pins."""
        ...

    def blobs(self) -> Iterator[Blob]:
        """Contents as they are kept; whether they are what their addresses say is for the reader to compare."""
        ...


class RunSalvaged(NamedTuple):
    """What became of a run: how many events were brought, how many are known to be lost, and what to know of it."""

    run: str
    events: int
    lost: int
    notes: tuple[str, ...] = ()


class Salvaged(NamedTuple):
    """What was brought into a new store, and what was not: all of it where ``loss_known``, else as far as it was seen."""

    runs: tuple[RunSalvaged, ...]
    records: int
    blobs: int
    lost: tuple[str, ...]
    loss_known: bool
