"""Reads many runs again and again, for lists. It keeps views, so the next look reads only new events.

It keeps as many as have a bounded number of events together: those that were looked at last.

Invariant: a look returns what reading everything would return. A run whose past was changed (pruned, rewound)
is read again from its beginning.
"""

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.engine.journal.journal import read_all
from holdfast.engine.state.blob_references import references, refers
from holdfast.errors import Corrupt
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import RunRow
from holdfast.stores.port import StorePort

_BLOBS_AT_ONCE: Final = 64
_EVENTS_KEPT: Final = 200_000
"""How many events the kept views may have together, beside those that the caller wants kept."""


class Seen(NamedTuple):
    """A run's view, and its size on disk; None if the size cannot be read.

    ``new`` are the events that this look has read, of those that count: all after ``after_seq``.
    """

    view: View
    size_bytes: int | None
    after_seq: int = 0
    new: Sequence[Event] = ()


class _Kept:
    """What is kept of one run: its view, and the sizes of the blobs that its own events need."""

    __slots__ = ("blobs", "borrowed", "past", "view")

    def __init__(self, past: object) -> None:
        self.past = past
        """Birth, origin and revision: if they differ, what was read does not count any more."""
        self.view = View()
        self.blobs: dict[str, int] = {}
        self.borrowed: set[str] = set()
        """Blobs that belong to the origin of a fork: they do not count for its size."""


class Overviews:
    """The runs of one store, as of the last look at each."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()

    def look(self, row: RunRow, *, keeps: bool = True) -> Seen:
        """The run now; ``keeps`` what was read for the next look. Corrupt if its journal is damaged."""
        with self._lock:
            # Popped: if reading fails below, no half-folded view is kept.
            kept, past = self._kept.pop(row.run, None), (row.birth, row.origin, row.revision)
            if kept is None or kept.past != past:
                kept = _Kept(past)
            events = read_all(self._store, row.run, after_seq=kept.view.head)
            if kept.view.head and any(event.kind == Kind.RUN_REWOUND for event in events):
                kept = _Kept(past)
                events = read_all(self._store, row.run)
            after_seq, new = kept.view.head, effective(events)
            fold(new, kept.view)
            size_bytes = self._size(row, kept, events)
            if keeps:
                self._kept[row.run] = kept
        return Seen(kept.view, size_bytes, after_seq, new)

    def forget_oldest(self, but: Iterable[str]) -> None:
        """Drop what was looked at longest ago while too much is kept, but none of these runs."""
        with self._lock:
            wanted, events = {*but}, 0
            for run in reversed(list(self._kept)):
                events += self._kept[run].view.head
                if events > _EVENTS_KEPT and run not in wanted:
                    del self._kept[run]

    def _size(self, row: RunRow, kept: _Kept, events: Sequence[Event]) -> int | None:
        """The bytes of the run's own events, and of the blobs that they added: each blob once, as stored."""
        try:
            needed = references(self._store, *(e for e in events if e.seq > row.origin_seq and refers(e)))
            if needed and row.origin_seq:
                borrowed = (e for e in events if e.seq <= row.origin_seq and refers(e))
                kept.borrowed |= references(self._store, *borrowed)
        except Corrupt:
            kept.past = None  # so that each look reads it again, until it is repaired
            return None
        kept.blobs |= self._sizes(sorted(needed - kept.borrowed - kept.blobs.keys()))
        return self._store.measure(row.run).bytes + sum(kept.blobs.values())

    def _sizes(self, addresses: Sequence[str]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for first in range(0, len(addresses), _BLOBS_AT_ONCE):
            found = self._store.get_blobs(addresses[first : first + _BLOBS_AT_ONCE])
            sizes |= {address: len(data) for address, data in found.items()}
        return sizes
