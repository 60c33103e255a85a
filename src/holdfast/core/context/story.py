"""A run's history for a context: what counts, with its events, and without what rewinds left behind.

It is the folded view, and what a view does not keep: how attempts ended, failures, answers, warnings. An
event that was compacted is cited as the event that replaced it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.core.journal.fold import View
from holdfast.core.journal.hollow import REASONING
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.journal.view_parts import Attempt
from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.core.reports.note_fold import NOTES
from holdfast.core.steps.identity import enclosing
from holdfast.model.calls import Call
from holdfast.model.event_fields import fields_of, is_hollow, part_of
from holdfast.model.events import HANDED_OVER, RECALLED, Event, Kind
from holdfast.model.named_tuple import NamedTuple

_BRANCHED: Final = frozenset({Kind.RUN_FORKED, Kind.RUN_REWOUND})
_OVERALL: Final = _BRANCHED | {Kind.RUN_REOPENED, Kind.COMPACTED}


class Mark(NamedTuple):
    """A note of the agent, and the event to cite."""

    seq: int
    name: str
    body: bytes


class Failure(NamedTuple):
    """A call that failed and did not succeed since: the last error, and the events of all its failures."""

    call: Call
    seqs: tuple[int, ...]
    error: dict[str, Any]


class Story:
    """Collects what a context can say, event by event."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.view = View()
        self.overall: list[Event] = []
        self._forget()
        for event in effective(events):
            self._take_in(event)

    def _forget(self) -> None:
        self.events: dict[int, Event] = {}
        self.ends: dict[int, Event] = {}
        """The end of an attempt, by the event of its beginning."""
        self.marks: list[Mark] = []
        self.handed: list[Mark] = []
        """The handoffs that this run accepted."""
        self.recalled: list[Mark] = []
        """The facts that this run recalled from memory."""
        self.chunks: dict[str, list[Event]] = {}
        self.answered: list[tuple[Event, Event | None]] = []
        """Answers, each with its question; None if that was compacted."""
        self._asked: dict[str, Event] = {}
        self.broken: dict[str, Event] = {}
        self.circle: Event | None = None
        self.budgets: dict[str, Event] = {}
        self.cancelled: Event | None = None
        self.finished: Event | None = None
        self.doubts: dict[str, Event] = {}
        self._failures: dict[str, list[tuple[int, dict[str, Any]]]] = {}

    def cite(self, seq: int) -> int:
        """The event to cite for this one: itself, or the compacted event that replaced it."""
        return max(seq, self.view.base)

    # -- what counts -----------------------------------------------------------------------------------------

    def steps(self) -> list[Call]:
        """The calls of functions, tools and models, in the order in which they began."""
        return sorted((call for call in self.view.calls.values() if call.seq), key=lambda call: call.seq)

    def done(self) -> Iterator[Call]:
        """The steps with a result, without those inside another such step."""
        for call in self.steps():
            if is_done(call) and not self._is_inside_done(call):
                yield call

    def failures(self) -> Iterator[Failure]:
        """The calls whose last outcome is a failure, in the order of these failures."""
        found = []
        for key, errors in self._failures.items():
            call = self.view.calls.get(key)
            if call is not None and not is_done(call) and not call.is_open:
                found.append(Failure(call, tuple(self.cite(seq) for seq, _ in errors), errors[-1][1]))
        return iter(sorted(found, key=lambda failure: failure.seqs[-1]))

    def failed_at(self, key: str) -> int | None:
        """The event of the last failure of this call; None if it never failed."""
        errors = self._failures.get(key)
        return self.cite(errors[-1][0]) if errors else None

    def open_calls(self, *, is_held: bool) -> tuple[list[Call], list[Call]]:
        """The effects in doubt, and the other calls without an end.

        A call of the running attempt is under way. It is in doubt only if that attempt recorded so.
        """
        doubted: list[Call] = []
        others: list[Call] = []
        for call in self.view.open_calls():
            if call.abandoned or self._is_inside_done(call):
                continue
            is_live = is_held and call.fence == self._fence()  # another fence: an earlier attempt began it
            in_doubt = is_once(call) and (call.doubt is not None or not is_live)
            (doubted if in_doubt else others).append(call)
        return doubted, others

    def is_live(self, call: Call, *, is_held: bool) -> bool:
        """Whether the attempt that began an open call is still working on it."""
        return is_held and call.fence == self._fence()

    def _fence(self) -> int | None:
        """The fence of the running attempt; None if none runs."""
        attempts = self.view.attempts
        return attempts[-1].event.fence if attempts and attempts[-1].how is None else None

    def _is_inside_done(self, call: Call) -> bool:
        scope = _scope(call)
        while scope:
            parent = self.view.calls.get(scope)
            if parent is None:
                scope = enclosing(scope)
            elif is_done(parent):
                return True
            else:
                scope = _scope(parent)
        return False

    def before(self, attempt: Attempt) -> tuple[Attempt, Event] | None:
        """The attempt before this one, and its last event; None if a fork or rewind came in between.

        The next holder records a crash later, so the last event of a crashed attempt is the last one that it
        wrote.
        """
        branched = max((e.seq for e in self.overall if e.kind in _BRANCHED), default=0)
        for earlier in reversed(self.view.attempts):
            end = self.ends.get(earlier.event.seq)
            if earlier is attempt or end is None or end.seq < branched:
                continue
            if end.kind == Kind.ATTEMPT_CRASHED:
                return earlier, self.events.get(self.cite(fields_of(end.body)["last_seq"]), end)
            return earlier, end
        return None

    # -- adding events ---------------------------------------------------------------------------------------

    def _take_in(self, event: Event) -> None:
        self.view.add(event)
        if event.kind == Kind.COMPACTED:
            # It replaces all events before it. Some of them may still be there, as those that a rewind left
            # are, where the compacted event has also replaced the rewind.
            self._forget()
            self._begin_with(event)
        self.events[event.seq] = event
        if event.kind in _OVERALL:
            self.overall.append(event)
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event)

    def _begin_with(self, event: Event) -> None:
        """Take what a compacted event kept: notes, and marks and failures that can be asked for again."""
        handed = HANDOFF.of(self.view).handed
        if handed is not None:
            self.handed.append(Mark(event.seq, HANDED_OVER, handed.body))
        notes = NOTES.of(self.view).notes
        self.marks += [Mark(event.seq, note.name, note.body) for note in notes]
        carried = {note.seq for note in notes}
        for call in self.view.calls.values():
            for outcome in call.outcomes:
                body = outcome.body
                if body is None or is_hollow(body):
                    continue
                if not call.seq and call.name == RECALLED:
                    self.recalled.append(Mark(event.seq, call.name, body))
                elif not call.seq and call.name in REASONING and outcome.seq not in carried:
                    self.marks.append(Mark(event.seq, call.name, body))
                elif call.seq and not outcome.good and (error := part_of(body, "error")):
                    self._failures.setdefault(call.key, []).append((event.seq, error))

    def _attempt_ended(self, event: Event) -> None:
        if self.view.attempts:
            self.ends[self.view.attempts[-1].event.seq] = event

    def _attempt_started(self, _: Event) -> None:
        if self.circle is not None and fields_of(self.circle.body).get("level") == "pause":
            self.circle = None  # the run was paused, and a person let it continue

    def _mark(self, event: Event) -> None:
        if event.name == HANDED_OVER:
            self.handed.append(Mark(event.seq, event.name, event.body))
        elif event.name == RECALLED and not is_hollow(event.body):
            self.recalled.append(Mark(event.seq, event.name, event.body))
        elif event.name in REASONING and not is_hollow(event.body):
            self.marks.append(Mark(event.seq, event.name, event.body))

    def _step_ended(self, event: Event) -> None:
        self.chunks.pop(event.key, None)
        self.doubts.pop(event.key, None)
        error = part_of(event.body, "error") if event.kind != Kind.STEP_FINISHED else None
        if error:
            self._failures.setdefault(event.key, []).append((event.seq, error))

    def _step_doubted(self, event: Event) -> None:
        self.doubts[event.key] = event

    def _chunk(self, event: Event) -> None:
        self.chunks.setdefault(event.key, []).append(event)

    def _question_asked(self, event: Event) -> None:
        self._asked[event.key] = event

    def _question_answered(self, event: Event) -> None:
        self.answered.append((event, self._asked.pop(event.key, None)))

    def _premise_broken(self, event: Event) -> None:
        self.broken[event.name] = event

    def _premise_noted(self, event: Event) -> None:
        # The premise holds again, or the orphan was written again. Otherwise the model should still know of
        # it.
        broken = self.broken.get(event.name)
        is_again = event.key and broken is not None and "orphan_of" in fields_of(broken.body)
        if is_again or fields_of(event.body).get("via") == "restored":
            self.broken.pop(event.name, None)

    def _loop_noticed(self, event: Event) -> None:
        self.circle = event

    def _loop_left(self, _: Event) -> None:
        self.circle = None

    def _budget_warned(self, event: Event) -> None:
        self.budgets[event.key or event.name] = event

    def _run_cancelled(self, event: Event) -> None:
        self.cancelled = event

    def _run_finished(self, event: Event) -> None:
        self.finished, self.circle = event, None

    def _run_goes_on(self, _: Event) -> None:
        self.finished = self.cancelled = None


def is_done(call: Call) -> bool:
    """Whether the last outcome of a call is a result."""
    return not call.is_open and bool(call.outcomes) and call.outcomes[-1].good


def _scope(call: Call) -> str:
    return str(fields_of(call.body).get("in", "")) if call.body is not None else ""


# ruff: noqa: SLF001 - the table is part of the class; a class body cannot name its own methods in one
_HANDLERS: Final = {
    Kind.ATTEMPT_STARTED: Story._attempt_started,
    Kind.ATTEMPT_ENDED: Story._attempt_ended,
    Kind.ATTEMPT_CRASHED: Story._attempt_ended,
    Kind.MARK: Story._mark,
    Kind.STEP_FINISHED: Story._step_ended,
    Kind.STEP_FAILED: Story._step_ended,
    Kind.STEP_SETTLED: Story._step_ended,
    Kind.STEP_DOUBTED: Story._step_doubted,
    Kind.STREAM_CHUNK: Story._chunk,
    Kind.QUESTION_ASKED: Story._question_asked,
    Kind.QUESTION_ANSWERED: Story._question_answered,
    Kind.PREMISE_BROKEN: Story._premise_broken,
    Kind.PREMISE_NOTED: Story._premise_noted,
    Kind.LOOP_NOTICED: Story._loop_noticed,
    Kind.LOOP_LEFT: Story._loop_left,
    Kind.BUDGET_WARNED: Story._budget_warned,
    Kind.RUN_CANCELLED: Story._run_cancelled,
    Kind.RUN_FINISHED: Story._run_finished,
    Kind.RUN_REOPENED: Story._run_goes_on,
    Kind.RUN_FORKED: Story._run_goes_on,
    Kind.RUN_REWOUND: Story._run_goes_on,
}
