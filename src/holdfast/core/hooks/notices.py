"""Decides which events of a run make a notice, and on which occasions.

A notice is derived from the journal, so it is not lost with the process that should have delivered it. Its id
depends on the run's birth, the event and the case alone: every process that derives it finds the same id. An
event that a fork borrows, or that came from another store, makes none.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from holdfast.core.journal.fold import View
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.journal.run_row_facts import facts_of
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.hooks import FAILED, FINISHED, IN_DOUBT, NEEDS_PERSON, Hook, Mark
from holdfast.model.store_rows import RunRow, Status

KINDS: Final = frozenset({Kind.QUESTION_ASKED, Kind.RUN_FINISHED, Kind.ATTEMPT_ENDED, Kind.ATTEMPT_CRASHED})
"""The kinds of events that can make a notice."""
CRASHED: Final = "crashed"
_OF_CHILDREN: Final = frozenset({NEEDS_PERSON, IN_DOUBT})
"""What a child reports by itself: its end is its parent's affair."""
STOPS: Final[dict[str, tuple[str, str]]] = {
    "holdfast.errors:BudgetExceeded": (FAILED, "out-of-budget"),
    "holdfast.errors:PremiseMissing": (FAILED, "premise-missing"),
    "holdfast.errors:Poisoned": (FAILED, "poisoned"),
    "holdfast.errors:Looping": (NEEDS_PERSON, "looping"),
}
"""The occasion and the case of a parked attempt, by the error that parked it.

A question has a notice of its own. A run that waits for a time, a provider, a message or a child continues by
itself.
"""
_ENDS: Final[dict[str, tuple[str, str]]] = {
    Status.FAILED: (FAILED, "failed"),
    Status.DIVERGED: (FAILED, "diverged"),
    Status.IN_DOUBT: (IN_DOUBT, "in-doubt"),
}


def first_seq(row: RunRow) -> int:
    """The event behind which a run's events are its own, and of this store."""
    return max(row.origin_seq, int(facts_of(row).get("elsewhere", 0)))


def marks_in(row: RunRow, view: View, events: Iterable[Event]) -> Iterator[Mark]:
    """The notices that these events make, oldest first. ``view`` is the run's, at its head."""
    own = first_seq(row)
    for event in events:
        # A fork that got its own copy of what it borrowed has events from before its row was made.
        if event.seq > own and event.at >= row.created_at:
            yield from _mark(row, view, event)


def _mark(row: RunRow, view: View, event: Event) -> Iterator[Mark]:
    if event.kind == Kind.QUESTION_ASKED:
        yield _marked(row, event, (NEEDS_PERSON,), "question", key=event.key)
    elif event.kind == Kind.RUN_FINISHED:
        yield _marked(row, event, (FINISHED,), "finished")
    elif event.kind == Kind.ATTEMPT_CRASHED:
        number = fields_of(event.body)["attempt"]
        begun = next((one.event for one in view.attempts if one.number == number), event)
        yield crash_mark(row, view, begun, number, event.at)
    elif event.kind == Kind.ATTEMPT_ENDED and (found := _end(event)) is not None:
        yield _marked(row, event, (found[0],), found[1])


def _end(event: Event) -> tuple[str, str] | None:
    """The occasion and the case of the end of an attempt; None if it needs no notice."""
    contents = contents_of(event.body)
    status = contents.get("status", contents.get("how"))
    if status == Status.PARKED:
        error: dict[str, Any] = contents.get("error") or {}
        return STOPS.get(str(error.get("type", "")))
    return _ENDS.get(str(status))


def crash_mark(row: RunRow, view: View, begun: Event, number: int, at: float) -> Mark:
    """The notice of a crashed attempt, which ``begun`` started.

    It is known by the start of the attempt: a process that only sees a dead holder finds the same notice as
    the next holder, which records the crash.
    """
    doubts = any(is_once(call) and not call.abandoned for call in view.open_calls())
    on = (FAILED, IN_DOUBT) if doubts else (FAILED,)
    return Mark(_id(row, begun, CRASHED), on, CRASHED, begun.seq, at, number)


def _marked(row: RunRow, event: Event, on: tuple[str, ...], what: str, key: str = "") -> Mark:
    return Mark(_id(row, event, what), on, what, event.seq, event.at, 0, key)


def _id(row: RunRow, event: Event, what: str) -> str:
    # The time, too: an import keeps the birth, and may reach the same number in two stores.
    known = f"{row.birth}\0{event.seq}\0{event.at!r}\0{what}"
    return f"notice_{sha256(known.encode()).hexdigest()[:32]}"


def wants(hook: Hook, mark: Mark, *, is_child: bool) -> bool:
    """Whether this hook receives this notice."""
    on = {*mark.on} if hook.children or not is_child else {*mark.on} & _OF_CHILDREN
    return bool(on & {*hook.on}) and mark.at >= hook.since
