"""Folds the decisions and discoveries of a run, so that compaction can keep them.

They are the results of reasoning, for the models and people that come later; no program asks for them again.
Thoughts and things said are not kept: they go with the range of events that compaction replaces.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import Compaction, FeatureFold, Slot
from holdfast.core.journal.snapshots import bytes_of, text_of
from holdfast.limits import COMPACTED_NOTES_BYTES_MAX, COMPACTED_NOTES_MAX
from holdfast.model.event_fields import fields_of, is_hollow, part_of, values_in
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class Note(NamedTuple):
    """A decision or a discovery: the event and the time at which it was recorded, its name and its body."""

    seq: int
    at: float
    name: str
    body: bytes

    @property
    def size(self) -> int:
        """The bytes of its content, also where that is in a blob."""
        return int(fields_of(self.body).get("value_bytes") or len(self.body))


class NoteFold(FeatureFold):
    """The notes whose content was not pruned, oldest first."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Add a note."""
        if not is_hollow(event.body):
            self.notes.append(Note(event.seq, event.at, event.name, event.body))

    def dump(self, *, whole: bool) -> dict[str, Any]:
        """The notes, for a compacted event. A cached snapshot has none: its readers look into the journal."""
        return {"notes": [[*note[:3], text_of(note.body)] for note in self.notes]} if whole else {}

    def load(self, data: Mapping[str, Any]) -> None:
        """The notes."""
        self.notes = list(_notes(data))

    def reduced(self, compaction: Compaction) -> Self:
        """Keep the notes that the policy keeps, within the limits, newest first."""
        kept = type(self)()
        within = [note for note in self.notes if note.seq >= compaction.reasoning_from]
        kept.notes = [*_fitting(reversed(within))][::-1]
        return kept

    def shed(self, upto_seq: int, kept: Self) -> None:
        """Take what stays, and keep what came since."""
        self.notes = kept.notes + [note for note in self.notes if note.seq > upto_seq]

    def blobs(self) -> Iterator[str]:
        """The blobs of long notes."""
        for note in self.notes:
            yield from values_in(note.body)


NOTES: Final = Slot("notes", NoteFold)


def notes_in(event: Event) -> list[Note]:
    """The notes that a compacted event carries, oldest first; none for other kinds."""
    view = part_of(event.body, "view") if event.kind == Kind.COMPACTED else None
    return [*_notes(view or {})]


def _notes(data: Mapping[str, Any]) -> Iterator[Note]:
    for seq, at, name, body in data.get("notes", ()):
        yield Note(seq, at, name, bytes_of(body) or b"{}")


def _fitting(notes: Iterable[Note]) -> Iterator[Note]:
    """As many as the limits allow. One that is too long is passed over: it must not hide the others."""
    room, left = COMPACTED_NOTES_BYTES_MAX, COMPACTED_NOTES_MAX
    for note in notes:
        if left and note.size <= room:
            room, left = room - note.size, left - 1
            yield note
