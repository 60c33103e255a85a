"""Commits without a sync, until a later commit has synced them.

A crash of the server undoes such commits while this process lives on. (With an embedded store both end
together.) Its journal would continue after a gap. So the items of flushed appends are kept here until they
are safe, to be written again if a head is not where it should be.

The server's log has one order: a synced commit makes everything durable that was committed before it began.
The invariant: a commit that no synced one covers is counted here, whatever interrupted its writer.
"""

import threading
from collections import deque
from typing import Final

from holdfast.model.store_rows import Append

ITEMS_MAX: Final = 1_000
"""Past this, the store syncs by itself: no caller does."""


class UnsyncedCommits:
    """The flushed commits of one process to one store, numbered in the order in which they ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._covered = 0
        self._items: deque[tuple[int, Append]] = deque()
        self._astray: list[Append] = []

    @property
    def any(self) -> bool:
        """Whether a power loss could take something."""
        return self._count > self._covered

    @property
    def is_long(self) -> bool:
        return len(self._items) > ITEMS_MAX

    def add(self, *items: Append) -> None:
        """A flushed commit has ended, or may have; these items were in it."""
        with self._lock:
            self._count += 1
            self._items.extend((self._count, item) for item in items)

    def keep(self, *items: Append) -> None:
        """These were posted and did not arrive: no current commit covers them."""
        if items:
            self.add(*items)
            with self._lock:
                self._astray.extend(items)

    def astray(self) -> list[Append]:
        """What was posted and did not arrive, each once."""
        with self._lock:
            astray, self._astray = self._astray, []
        return astray

    def mark(self) -> int:
        """Take a mark before a synced commit starts.

        Pass it to ``cover`` when that has ended and written something.
        """
        return self._count

    def cover(self, mark: int) -> None:
        """All up to the mark is safe."""
        if mark == self._covered:
            return  # the common case, without the lock
        with self._lock:
            self._covered = max(self._covered, mark)
            while self._items and self._items[0][0] <= mark:
                self._items.popleft()

    def lost(self, run: str, head: int, after_seq: int) -> list[Append] | None:
        """The items that led a run from this head to that one, if they are all here."""
        found: list[Append] = []
        with self._lock:
            # From the end: of two items for one place, the first was abandoned.
            for _, item in reversed(self._items):
                if item.run == run and item.events and item.events[-1].seq == after_seq:
                    found.append(item)
                    after_seq = item.after_seq
                    if after_seq == head:
                        return found[::-1]
        return None
