"""What people did with a run, in the order of time: from its journal, its pins, its labels and records."""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.model.act_record import ActRecord
from holdfast.model.event_fields import fields_of
from holdfast.model.events import EDITED, MENDED, Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.prune_report import Label, Pin
from holdfast.views.event_text import describe, subject
from holdfast.views.value_text import one_line

_KINDS: Final = frozenset(
    {
        Kind.RUN_FORKED,
        Kind.RUN_REWOUND,
        Kind.RUN_SEALED,
        Kind.RUN_UNSEALED,
        Kind.RUN_CANCELLED,
        Kind.STEP_SETTLED,
        Kind.STEP_ABANDONED,
        Kind.STEP_CLAIMED,
        Kind.STEP_OVERRIDDEN,
        Kind.QUESTION_ANSWERED,
        Kind.PREMISE_NOTED,
        Kind.JOURNAL_CUT,
    }
)
"""Kinds whose ``by`` is a person. That of a promise is a run."""

_WORDS: Final = {
    "resume": "resumed",
    "prune": "pruned",
    "export": "exported",
    "handoff": "handed over",
    "unpin": "unpinned",
    "unlabel": "label removed",
}


class ActLine(NamedTuple):
    """One act: when, by whom, what, and about what. ``seq`` is its event, or the point that it is about."""

    at: float
    by: str
    what: str
    detail: str
    seq: int | None = None


def act_lines(
    events: Iterable[Event], pins: Iterable[Pin], labels: Iterable[Label], acts: Sequence[ActRecord]
) -> list[ActLine]:
    """What people did, oldest first. Pins without a person are of an earlier version, and left out."""
    lines = [_of_event(event) for event in events if is_act(event)]
    lines += [ActLine(one.at, one.by, "pinned", one.place, one.seq) for one in pins if one.by]
    lines += [ActLine(one.at, one.by, "labelled", one.name, one.seq) for one in labels]
    lines += [ActLine(one.at, one.by, _WORDS.get(one.act, one.act), one.about) for one in acts]
    return sorted(lines, key=lambda line: line.at)


def is_act(event: Event) -> bool:
    """Whether a person asked for what this event records."""
    is_edit = event.name in {EDITED, MENDED} and event.kind in {Kind.CHECKPOINT, Kind.MARK}
    return (is_edit or event.kind in _KINDS) and bool(fields_of(event.body).get("by"))


def _of_event(event: Event) -> ActLine:
    by = one_line(str(fields_of(event.body)["by"]))
    told = describe(event)
    # The person has a column: the words of an event name them again.
    detail = told.detail.replace(f" by {by}", "").removeprefix(f"by {by}").lstrip(":,; ")
    named = subject(event)
    return ActLine(
        event.at, by, told.what, f"{named}: {detail}" if named and detail else named or detail, event.seq
    )
