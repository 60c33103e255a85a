"""Folds a run's events, in order, into the view that every decision reads.

The view is derived: folding the same events again gives the same view. Bodies of steps stay undecoded,
because entering a run of 10,000 steps must not cost 10,000 decodings. Only the few lifecycle events are
decoded here.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from holdfast.core.journal.feature_fold import FeatureFold
from holdfast.core.journal.folds import ALSO, BY_KIND, BY_MARK, BY_PART, CALLS, make_fold
from holdfast.core.journal.snapshots import FOLD_VERSION, fill, fill_from_base, newer_problem
from holdfast.core.journal.view_parts import Attempt, Site
from holdfast.limits import RECENT_CALLS_MAX
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import (
    PLAIN,
    USAGE,
    begins,
    contents_of,
    fields_of,
    is_hollow,
    mark_of,
    part_of,
    with_part_of,
)
from holdfast.model.events import UNASKED, Event, Kind
from holdfast.model.store_rows import Status

_new = tuple.__new__
_STARTED: Final = Kind.STEP_STARTED
_FINISHED: Final = Kind.STEP_FINISHED
assert {_STARTED, _FINISHED}.isdisjoint(BY_KIND.keys() | ALSO.keys()), "features see these by their parts"


class View:
    """What a run's events amount to, in the shape that decisions need. It grows by ``add``; see ``fold``."""

    def __init__(self) -> None:
        self.head, self.head_chain, self.points, self.last_outcome_seq = 0, 0, 0, 0
        self.status = Status.QUEUED
        self.started: Event | None = None
        self.result: bytes | None = None
        self.calls: dict[str, Call] = {}
        self.recent: deque[Call] = deque(maxlen=RECENT_CALLS_MAX)
        """The steps that got an outcome last, in that order; one may be there more than once, or be gone."""
        self.marks: dict[str, list[Call]] = {}
        """The calls of a single event by name, in order; one may be gone."""
        self.attempts: list[Attempt] = []
        self.checkpoint: Event | None = None
        self.last: Event | None = None
        self.last_step = ""
        """The name of the step that ended last."""
        self.base = 0
        """The seq of the compacted event that replaces all events before it; 0 if nothing was compacted."""
        self.sites: dict[str, Site] = {}
        """The counts of sites whose calls the base has replaced.

        Without them a new call would reuse a key.
        """
        self.states = 0
        """How many checkpoints since the base still have their state."""
        self.restores = False
        """Whether the latest attempt restored a state instead of replaying from the top."""
        self.branch = 0
        """The seq of the latest rewind; 0 if the head was never moved back."""
        self.branches: list[int] = []
        """The seqs of forks and rewinds, at which this history left another one."""
        self.newer = ""
        """What is in the journal that only a newer Holdfast can write."""
        self.earlier_attempts = 0
        self.worked_s = 0.0
        """How long the ended attempts took, without the pauses between them."""
        self.trailing_failures: list[tuple[Call, int]] = []
        """Failures after which the program has recorded nothing. They may be what ended the attempt."""
        self.folds: dict[str, FeatureFold] = {}
        """The folds of features by name: see ``folds``. Only features that this run uses are there."""
        self._watching: list[FeatureFold] = []
        """The folds that see every outcome."""

    def add(self, event: Event) -> None:
        """Fold one more event."""
        self.add_all((event,))

    def add_all(self, events: Iterable[Event]) -> None:
        """Fold these events, in order."""
        left = iter(events)
        while (other := self._add_plain_steps(left)) is not None:
            self._add_other(other.kind, other)

    def _add_plain_steps(self, events: Iterator[Event]) -> Event | None:
        """Fold intents and results of steps, up to another event, or one in which a feature has a part.

        Returns that event. Nearly all events of a long run are plain: they are folded without a call for
        each, and what only the last of them decides is set once.
        """
        calls, points, is_early, watching = self.calls, self.points, not self.restores, self._watching
        find, note = calls.get, self.recent.append
        event = plain = ended = call = last_key = None
        try:
            for event in events:
                seq, at, kind, name, key, fence, body, _, _ = event
                if kind == _STARTED and begins(body, PLAIN):
                    call, last_key = find(key), key
                    if call is None:
                        call = calls[key] = Call(key, name, seq, at, fence, body, True, is_early)
                    else:
                        call.begin_again(seq, at, fence, body)
                elif kind == _FINISHED and not begins(body, USAGE):
                    if call is None or key != last_key:  # most results follow their intents
                        call, last_key = calls[key], key
                    call.is_open = False
                    points += 1
                    call.outcomes.append(_new(Outcome, (seq, True, points, body)))
                    note(call)
                    ended = event
                    for fold in watching:
                        fold.concluded(event, good=True)
                else:
                    return event
                plain = event
            return None
        finally:  # also if an event does not follow from those before it: the head says which
            if event is not None:
                self.head, self.head_chain = event.seq, event.chain
            if plain is not None:
                # The program made another call, so it survived the failures before it.
                self.last, self.trailing_failures = plain, []
            if ended is not None:
                self.points, self.last_outcome_seq, self.last_step = points, ended.seq, calls[ended.key].name

    def _add_other(self, kind: str, event: Event) -> None:
        """Fold an event of any kind: what the kernel makes of it, and then the features."""
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, event)
        for name in BY_KIND.get(kind, ()):
            self.fold_of(name).add(self, event)
        # These kinds are in every journal. Making a fold for them would load the feature for every run.
        for name in ALSO.get(kind, ()):
            if name in self.folds:
                self.folds[name].add(self, event)
        if handler is not None or kind in BY_KIND:
            self.last = event
        elif not self.newer:
            self.newer = newer_problem(event)

    # -- features --------------------------------------------------------------------------------------------

    def fold_of(self, name: str) -> FeatureFold:
        """The fold of this feature. It is made now if the run has no event of the feature."""
        found = self.folds.get(name)  # an empty fold may be falsy, so ``or`` would replace it
        return self.keep(name, make_fold(name)) if found is None else found

    def keep(self, name: str, fold: FeatureFold) -> FeatureFold:
        """Make this the feature's fold, and let it look back at the view."""
        self.folds[name] = fold
        if fold.sees_outcomes:
            self._watching.append(fold)
        fold.began(self)
        return fold

    # -- calls -----------------------------------------------------------------------------------------------

    def _has_part(self, part: str, event: Event) -> None:
        for name in BY_PART.get(part, ()):
            self.fold_of(name).add(self, event)

    def _step_started(self, event: Event) -> None:
        """An intent in which a feature has a part."""
        call = self.calls.get(event.key)
        if call is None:
            call = self.calls[event.key] = Call(event.key, event.name, early=not self.restores)
        call.begin_again(event.seq, event.at, event.fence, event.body)
        self._has_part(mark_of(event.body), event)
        self.trailing_failures = []

    def _step_finished(self, event: Event) -> None:
        """A result in which a feature has a part."""
        self._has_part("usage", event)
        self._conclude(event, good=True)

    def _step_failed(self, event: Event) -> None:
        self.trailing_failures.append((self._conclude(event, good=False), event.seq))

    def _step_doubted(self, event: Event) -> None:
        call = self.calls[event.key]
        call.doubt = part_of(event.body, "reason")
        call.abandoned = False  # the program asks for it after all

    def _step_settled(self, event: Event) -> None:
        body = fields_of(event.body)
        how = body["how"]
        if how == "retry":  # closed without an outcome: the program makes the call again under the same key
            self.calls[event.key].is_open = False
            return
        if "usage" in body:
            self._has_part("usage", event)
        self._conclude(event, good=how == "done")

    def _step_abandoned(self, event: Event) -> None:
        call = self.calls.get(event.key)
        if call is not None:  # compaction removes calls that no program will ask for
            call.abandoned = True

    def _recorded(self, event: Event) -> None:
        """Records a call of a single event, such as a mark.

        An event without a key is not a call of the program.
        """
        if not event.key:
            return
        call = self.calls[event.key] = Call(event.key, event.name, early=not self.restores)
        call.outcomes.append(Outcome(event.seq, True, self.points, event.body))
        self.marks.setdefault(event.name, []).append(call)
        self.last_outcome_seq = event.seq
        if self.trailing_failures:
            self.trailing_failures = []

    def _mark(self, event: Event) -> None:
        self._recorded(event)
        for name in BY_MARK.get(event.name, ()):
            self.fold_of(name).add(self, event)

    def give(self, key: str, name: str, outcome: Outcome) -> Call:
        """Record an outcome that the program will get for a call that is not a step, such as a wait."""
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = Call(key, name, early=not self.restores)
        call.outcomes.append(outcome)
        self.last_outcome_seq = outcome.seq
        return call

    def add_outcome(self, call: Call, outcome: Outcome) -> None:
        """Record one more outcome of a step."""
        call.outcomes.append(outcome)
        self.recent.append(call)

    def marked(self, name: str, *, last: int = 0) -> list[Call]:
        """The calls of a single event with this name, oldest first; only of the last ones, if not all."""
        return [call for call in self.marks.get(name, [])[-last:] if self.calls.get(call.key) is call]

    # -- states ----------------------------------------------------------------------------------------------

    def _checkpoint(self, event: Event) -> None:
        self.points += 1
        # A hollow checkpoint cannot be restored. An older one, or the top, leads to the same point, because
        # the calls in between are answered from the journal.
        if not is_hollow(event.body):
            self.checkpoint = event
            self.states += 1
        if event.name not in UNASKED:  # the program did not make it, so it never asks for it
            self._mark(event)

    def _restored(self, _: Event) -> None:
        self.restores = True

    def _conclude(self, event: Event, *, good: bool) -> Call:
        self.points += 1
        call = self.calls[event.key]
        call.is_open = False
        self.add_outcome(call, Outcome(event.seq, good, self.points, event.body))
        self.last_outcome_seq = event.seq
        self.last_step = call.name
        for fold in self._watching:
            fold.concluded(event, good=good)
        if good and self.trailing_failures:
            self.trailing_failures = []
        return call

    # -- lifecycle -------------------------------------------------------------------------------------------

    def _run_started(self, event: Event) -> None:
        self.started = event

    def _run_finished(self, event: Event) -> None:
        self.status = Status.FINISHED
        self.result = event.body
        for fold in self.folds.values():
            fold.finished()

    def _run_cancelled(self, _: Event) -> None:
        self.status = Status.CANCELLED

    def _run_reopened(self, _: Event) -> None:
        self.result = None

    def _run_forked(self, event: Event) -> None:
        self._leave_origin(event)
        if self.started is not None:  # a person may have forked it with other inputs
            body = with_part_of(self.started.body, "inputs", event.body)
            self.started = self.started._replace(body=body)

    def _run_rewound(self, event: Event) -> None:
        self.branch = event.seq
        self._leave_origin(event)
        # The branch that was left behind also took time, so a rewind does not reset the clock of a budget.
        self.worked_s = fields_of(event.body).get("worked_s", self.worked_s)

    def _leave_origin(self, event: Event) -> None:
        """Begin a history of its own.

        What ran at that point belongs to the other one and has not ended here.
        """
        self.worked_s = self.worked_upto_last_s
        # Without an end, the attempt of the other history would count as one that crashed here.
        if self.attempts and self.attempts[-1].how is None:
            self.attempts[-1].how, self.attempts[-1].ended_at = "left behind", event.at
        fields = fields_of(event.body)
        self.earlier_attempts = fields.get("attempts", 0)
        if "cwd" in fields and self.attempts:
            self.attempts[-1].start_in(fields["cwd"])
        for fold in self.folds.values():
            fold.left_origin(self, event)
        self.branches.append(event.seq)
        self.status, self.result, self.trailing_failures = Status.QUEUED, None, []

    def _step_overridden(self, event: Event) -> None:
        call = self.calls[event.key]
        call.is_open, call.doubt = False, None
        # The replaced outcome keeps its point: an override adds no step, so the numbers behind it stay.
        call.outcomes = [
            Outcome(event.seq, True, call.outcomes[-1].point if call.outcomes else self.points, event.body)
        ]
        self.recent.append(call)
        self.last_outcome_seq = event.seq

    def _compacted(self, event: Event) -> None:
        """Replace this view with the one that the compacted event holds."""
        view = View()
        self.newer = self.newer or newer_problem(event)
        if not self.newer and fill_from_base(view, event):
            vars(self).update(vars(view))
        self.head, self.base, self.head_chain = event.seq, event.seq, event.chain

    def _attempt_started(self, event: Event) -> None:
        self.attempts.append(Attempt(self.next_attempt, event))
        self.status = Status.RUNNING
        self.restores = False
        self.trailing_failures = []

    def _attempt_crashed(self, event: Event) -> None:
        # The next holder writes this event, maybe days later. The attempt lasted until its last event or
        # beat.
        seen_at = max(self.last.at if self.last else 0.0, fields_of(event.body).get("last_beat_at", 0.0))
        self._count_time(min(seen_at, event.at))
        self.end_attempt("crashed", event.at)

    def _attempt_ended(self, event: Event) -> None:
        body = contents_of(event.body)
        # The failures that ended the attempt are forgotten, so that the next attempt tries these calls again.
        for key, seq in body.get("again", ()):
            if key in self.calls:
                _forget(self.calls[key], seq)
        # The wall clock may have jumped meanwhile. The process measured ``took_s`` with its monotonic clock.
        self._count_time(self.attempts[-1].event.at + body["took_s"] if "took_s" in body else event.at)
        self.end_attempt(body["how"], event.at)
        self.status = body["status"]

    def _count_time(self, until: float) -> None:
        self.worked_s += max(0.0, until - self.attempts[-1].event.at)

    def shed(self, upto_seq: int, kept: "View") -> None:
        """Drop what compaction removed under this view: calls up to the event that are not in ``kept``.

        A call that stays takes the bodies of ``kept``, since the store no longer has the old ones.
        """
        for key, call in list(self.calls.items()):
            known = kept.calls.get(key)
            if known is not None:
                bodies = {outcome.seq: outcome.body for outcome in known.outcomes}
                call.body = known.body if call.seq == known.seq else call.body
                call.outcomes = [o._replace(body=bodies.get(o.seq, o.body)) for o in call.outcomes]
            elif max([call.seq, *(outcome.seq for outcome in call.outcomes)]) <= upto_seq:
                del self.calls[key]
        for name, fold in self.folds.items():
            fold.shed(upto_seq, kept.fold_of(name))

    def end_attempt(self, how: str, at: float) -> None:
        """Close the running attempt.

        After a crash, the last failures are tried again if nothing was recorded since.
        """
        attempt = self.attempts[-1]
        attempt.how, attempt.ended_at = how, at
        if how == "crashed":
            for call, seq in self.trailing_failures:
                _forget(call, seq)
        self.trailing_failures = []

    # -- questions -------------------------------------------------------------------------------------------

    @property
    def next_attempt(self) -> int:
        """The number of the attempt that would begin now."""
        return max(self.attempts[-1].number if self.attempts else 0, self.earlier_attempts) + 1

    @property
    def crashed_attempt(self) -> Attempt | None:
        """The last attempt, if no event says how it ended: it runs, or it crashed."""
        if self.attempts and self.attempts[-1].how is None:
            return self.attempts[-1]
        return None

    @property
    def worked_upto_last_s(self) -> float:
        """How long all attempts took. An attempt without an end counts up to the last event."""
        attempt = self.crashed_attempt
        if attempt is None or self.last is None:
            return self.worked_s
        return self.worked_s + max(0.0, self.last.at - attempt.event.at)

    def doing_at(self, event: Event) -> str:
        """What the run was in the middle of as of this event, for example a wait.

        Empty if no feature knows.
        """
        return next((doing for fold in self.folds.values() if (doing := fold.doing_at(event))), "")

    def open_calls(self) -> list[Call]:
        """Calls that were started and never reported back, oldest first."""
        return sorted((c for c in self.calls.values() if c.is_open), key=lambda c: c.seq)

    def consume_upto(self, seq: int) -> tuple[dict[str, int], dict[str, list[int]]]:
        """Count everything recorded up to ``seq`` as given to the program, as a restore does.

        Returns where counting continues: per site the highest count in use, and the counts that failed. The
        program uses a failed count again when it repeats the call, as it does on replay.
        """
        counts = {site: known.used for site, known in self.sites.items()}
        free = {site: set(known.free) for site, known in self.sites.items() if known.free}
        highest = counts.get
        for key, call in self.calls.items():
            outcomes = call.outcomes
            if not outcomes or outcomes[0].seq > seq:
                call.taken = 0
                continue
            taken = call.taken = 1 if len(outcomes) == 1 else sum(o.seq <= seq for o in outcomes)
            site, _, count = key.partition(".")  # as ``split_key``; a restore comes by every call of the run
            if count == "k":  # an explicit key has no count
                continue
            n = int(count)
            if n > highest(site, 0):
                counts[site] = n
            if not outcomes[taken - 1].good:
                free.setdefault(site, set()).add(n)
        return counts, {site: sorted(ns) for site, ns in free.items()}


def _forget(call: Call, seq: int) -> None:  # a failure: earlier versions could name a result by mistake
    call.outcomes = [outcome for outcome in call.outcomes if outcome.seq != seq or outcome.good]


# ruff: noqa: SLF001 - the table is part of the class; a class body cannot name its own methods in one
_HANDLERS: Final[dict[str, Callable[[View, Event], Any]]] = {
    Kind.RUN_STARTED: View._run_started,
    Kind.RUN_FINISHED: View._run_finished,
    Kind.RUN_REOPENED: View._run_reopened,
    Kind.RUN_FORKED: View._run_forked,
    Kind.RUN_REWOUND: View._run_rewound,
    Kind.ATTEMPT_STARTED: View._attempt_started,
    Kind.ATTEMPT_CRASHED: View._attempt_crashed,
    Kind.ATTEMPT_ENDED: View._attempt_ended,
    Kind.STEP_STARTED: View._step_started,
    Kind.STEP_FINISHED: View._step_finished,
    Kind.STEP_FAILED: View._step_failed,
    Kind.STEP_DOUBTED: View._step_doubted,
    Kind.STEP_SETTLED: View._step_settled,
    Kind.STEP_ABANDONED: View._step_abandoned,
    Kind.STEP_OVERRIDDEN: View._step_overridden,
    Kind.MARK: View._mark,
    Kind.CHECKPOINT: View._checkpoint,
    Kind.RESTORED: View._restored,
    Kind.RUN_CANCELLED: View._run_cancelled,
    Kind.COMPACTED: View._compacted,
    **dict.fromkeys(CALLS, View._recorded),
}


def fold(events: Iterable[Event], view: View | None = None) -> View:
    """The view of these events; with ``view``, these events are added to it."""
    view = view or View()
    view.add_all(events)
    return view


def standing_view(event: Event) -> View | None:
    """The view that a compacted event holds; None if it holds none."""
    view = View()
    return view if fill_from_base(view, event) else None


def load(data: dict[str, Any]) -> View | None:
    """The view of a cached snapshot; None if another version of the fold made it."""
    if data["version"] != FOLD_VERSION:
        return None
    fill(view := View(), data)
    return view
