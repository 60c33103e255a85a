"""The part of a store handle that follows runs: waits until something has changed, and reads only that."""

from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.api.store.read_runs import Reading
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.events import Event
from holdfast.model.run_info import Past
from holdfast.model.store_rows import OVER, Cursor, inbox_space

FOLLOW_WAIT_S: Final = 5.0
"""A follower looks again at least this often, because a holder's death changes nothing in the store."""


class Following(Reading):
    """The part of a store handle that follows runs."""

    def follow(self, run: str, *, after_seq: int = 0) -> Iterator[Event]:
        """The run's events as they come, verified. Ends when the run is over and has no holder."""
        while True:
            info = self.get(run)  # read before the events: a run that is over then has no event after them
            for event in self.events(run, after_seq=after_seq):
                yield event
                after_seq = event.seq
            if info.status in OVER and info.holder in {None, "dead"}:
                return
            self.wait({run: self.cursor(run)._replace(seq=after_seq)}, timeout_s=FOLLOW_WAIT_S)

    def cursor(self, run: str) -> Cursor:
        """What there is to see of a run now, for ``wait``."""
        row = self._row(run)
        inbox = self._port.scan_records(inbox_space(run), limit=RECORD_PAGE_MAX, damaged=True)
        return Cursor(row.lease.fence, row.head, len(inbox))

    def wait(self, cursors: Mapping[str, Cursor], *, timeout_s: float) -> frozenset[str]:
        """Block until one of these runs has changed since its cursor; which, or none at the timeout.

        The death of a holder changes nothing in a store: look at ``get(run).holder`` from time to time.
        """
        return self._port.wait(cursors, timeout_s=timeout_s)

    def past(self, run: str) -> Past:
        """What a reader that keeps events must compare before it reads only new ones."""
        row = self._row(run)
        return Past(row.birth, row.origin, row.origin_seq, row.revision)
