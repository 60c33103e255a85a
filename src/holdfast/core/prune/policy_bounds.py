"""Which records are within the bounds of a policy: how many, how old, how large."""

from collections.abc import Sequence
from typing import Final

from holdfast.core.journal.fold import View
from holdfast.core.reports.note_fold import NOTES
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event
from holdfast.model.retention import Keep

_DAY_S: Final = 86_400.0


def within(records: Sequence[tuple[float, int]], keep: Keep, now: float) -> set[int]:
    """The numbers of the records within all bounds of a policy, counted from the newest.

    ``records`` are times and sizes, oldest first.
    """
    found: set[int] = set()
    total = 0
    for number in reversed(range(len(records))):
        at, size = records[number]
        total += size
        if keep.last is not None and len(found) >= keep.last:
            break
        if keep.days is not None and now - at > keep.days * _DAY_S:
            break
        if keep.size_mb is not None and total > keep.size_mb * 1e6:
            break
        found.add(number)
    return found


def kept_within(events: Sequence[Event], keep: Keep, now: float) -> set[int]:
    """The seqs of the events that the policy keeps."""
    numbers = within([(event.at, _content_size(event)) for event in events], keep, now)
    return {events[number].seq for number in numbers}


def first_reasoning(view: View, own: Sequence[Event], keep: Keep, now: float) -> int:
    """The first event whose reasoning the policy keeps.

    What the run borrows, or carries since an earlier compaction, counts as its own: it compacts that again.
    """
    records = {note.seq: (note.at, note.size) for note in NOTES.of(view).notes}
    records |= {event.seq: (event.at, _content_size(event)) for event in own}
    seqs = sorted(records)
    kept = within([records[seq] for seq in seqs], keep, now)
    return seqs[min(kept)] if kept else view.head + 1


def _content_size(event: Event) -> int:
    fields = fields_of(event.body)
    return int(fields.get("state_bytes") or fields.get("value_bytes") or len(event.body))
