"""The views of a history as of each event in turn."""

from collections.abc import Iterator, Sequence

from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.model.events import Event, Kind


def walk(events: Sequence[Event]) -> Iterator[tuple[int, View]]:
    """The view as of every event in turn.

    It is the same object, which grows: read it before the next step.
    """
    view = View()
    for number, event in enumerate(events):
        if event.kind == Kind.RUN_REWOUND:
            # A view cannot forget, so the history without the events left behind is folded again.
            view = fold(effective(events[: number + 1]))
        else:
            view.add(event)
        yield event.seq, view
