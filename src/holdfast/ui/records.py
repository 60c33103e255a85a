"""The journals that pages show, kept between two looks: the next look reads only what is new.

Only a few runs are kept, those looked at last. Everything else is asked of the store each time.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Final

from holdfast.api.store.store import Store
from holdfast.core.reports.progress import Overview
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import Doubt, Past, RunInfo
from holdfast.views.run_record import RunRecord

_RUNS_KEPT: Final = 6
PREVIEW_EVENTS: Final = 400
"""How many events the first rows of a long run are made of."""
LONG_EVENTS: Final = 3_000
"""A journal longer than this is shown before it is read."""


class Look(NamedTuple):
    """A run as it is now. A look that is not whole has only the first events."""

    info: RunInfo
    record: RunRecord
    overview: Overview
    doubts: list[Doubt]
    is_whole: bool = True


class _Kept:
    def __init__(self, record: RunRecord, past: Past) -> None:
        self.record, self.past = record, past
        self.lock = Lock()


class Records:
    """The records of the runs that were looked at last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()

    def look(self, run: str) -> Look:
        """The run now. Raises UnknownRun, Corrupt."""
        past = self._store.past(run)
        kept = self._entry(run, past)
        with (
            kept.lock
        ):  # around the look, too: of several parts that are asked for at once, one reads the journal
            overview = self._store.look_after(run, kept.record.head, partial(self._add, run, kept))
        # Asked only where there are some: the answer reads the whole journal once more.
        doubts = self._store.doubts(run) if overview.in_doubt else []
        return Look(overview.info, kept.record, overview, doubts)

    def preview(self, run: str) -> Look:
        """As ``look``; of a long run that was not read yet, only its beginning."""
        info = self._store.get(run)
        with self._lock:
            is_kept = run in self._kept
        if is_kept or info.head <= LONG_EVENTS:
            return self.look(run)
        record = RunRecord(run, borrowed_seq=self._store.past(run).origin_seq)
        record.add(self._store.events(run, upto_seq=PREVIEW_EVENTS))
        return Look(info, record, Overview(info, None), [], is_whole=False)

    def _add(self, run: str, kept: _Kept, events: Sequence[Event]) -> None:
        """Read what is new; all of it if the run was rewound meanwhile."""
        if kept.record.head and any(event.kind == Kind.RUN_REWOUND for event in events):
            kept.record = RunRecord(run, borrowed_seq=kept.past.origin_seq)
            events = self._store.events(run)
        kept.record.add(events)

    def _entry(self, run: str, past: Past) -> _Kept:
        with self._lock:
            kept = self._kept.get(run)
            if kept is None or kept.past != past:
                kept = self._kept[run] = _Kept(RunRecord(run, borrowed_seq=past.origin_seq), past)
            self._kept.move_to_end(run)
            while len(self._kept) > _RUNS_KEPT:
                self._kept.popitem(last=False)
            return kept
