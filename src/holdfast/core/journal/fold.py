"""Fold: a run's events, in order, into the view that every decision looks at.

The view is derived and can be made again at any time. Bodies stay undecoded: entering a run of 10,000 steps
must not cost 10,000 decodings. Only the few lifecycle events are read here.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.core.artifacts.versions import Made
from holdfast.core.budget.spending import plus, read_usage
from holdfast.core.journal.view_parts import Attempt, Said, Site
from holdfast.core.llm.request_shapes import usage_of
from holdfast.core.people.promises import Promised
from holdfast.core.people.questions import question_in
from holdfast.core.premises.noted_premises import Relied
from holdfast.core.steps.identity import split_key
from holdfast.model.budget import NOTHING_SPENT, Spent
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import (
    Mark,
    contents_of,
    fields_of,
    has_usage,
    is_hollow,
    mark_of,
    part_of,
)
from holdfast.model.events import (
    AUTOSAVE,
    CHAINED,
    DROPPED,
    HANDED_OVER,
    MENDED,
    MESSAGES,
    Event,
    Kind,
)
from holdfast.model.loops import Signed
from holdfast.model.questions import Question
from holdfast.model.store_rows import Status
from holdfast.model.waits import SLEEP, Waiting

FOLD_VERSION: Final = 7
"""Grows when the same events would fold to another view; cached snapshots of other versions are ignored."""
_CONVERSATION: Final = frozenset({MESSAGES, DROPPED})


class View:
    """Everything the journal tells, in the shape decisions need. Grows by ``add``; see ``fold``."""

    def __init__(self) -> None:  # noqa: PLR0915 - many small facts make up a view
        self.head, self.head_chain, self.points, self.last_outcome_seq = 0, 0, 0, 0
        self.status = Status.QUEUED
        self.started: Event | None = None
        self.result: bytes | None = None
        self.calls: dict[str, Call] = {}
        self.attempts: list[Attempt] = []
        self.checkpoint: Event | None = None
        self.chains: dict[str, Event] = {}
        """The latest checkpoint that has its state, of each chain that is kept for somebody else's program."""
        self.plan: Event | None = None
        self.last: Event | None = None
        self.messages: list[Said] = []
        self.base = 0
        """The event that stands for everything before it; 0 where nothing was compacted."""
        self.sites: dict[str, Site] = {}
        """Where calls were made whose records the base has replaced: how far they were counted."""
        self.states = 0
        """Checkpoints that still have their state, since the base."""
        self.restores = False
        """Whether the latest attempt began from a state instead of replaying from the top."""
        self.branch = 0
        """The rewind that this history goes on from; 0 where the head was never moved back."""
        self.branches: list[int] = []
        """The events at which this history left another one: forks and rewinds."""
        self.repeats, self.behind = "answer", list[Event]()  # see core/lineage/later_effects.py
        self.waits: dict[str, Waiting] = {}
        """What the run waits for, by the key of the call that does."""
        self.questions: dict[str, Question] = {}
        """What people were asked and have not answered, by the key of the call."""
        self.asked = 0
        """How many questions were asked."""
        self.earlier_attempts = 0
        self.latest_request: Event | None = None
        """The intent of the model call that was begun last: what its request refers to is stored already."""
        self.partials: dict[str, list[bytes]] = {}
        """What has arrived of streamed answers that are not whole: per call, the bodies of their chunks."""
        self.signs: list[Signed] = []
        """What was said about going in circles, in the order it was said."""
        self.spent = NOTHING_SPENT
        """What the model calls of this history took, with those that rewinds have left behind."""
        self.worked_s = 0.0
        """How long the attempts took that are over, without the pauses between them."""
        self.warned: dict[str, float] = {}
        """The limits of budgets that were warned of, with what they allowed then."""
        self.premises = Relied()
        self.artifacts = Made()
        self.promises = Promised()
        self.handed: Event | None = None
        """The handoff that the run began with."""
        self.claimed: set[int] = set()
        """Which of the effects that came with it the program has asked for, by their numbers."""
        self.trailing_failures: list[tuple[Call, int]] = []
        """Failures after which the program has recorded nothing: it is not known that it went past them."""

    def add(self, event: Event) -> None:
        """Fold one more event in."""
        self.head, self.head_chain = event.seq, event.chain
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event)
            self.last = event

    # -- calls -----------------------------------------------------------------------------------------------

    def _step_started(self, event: Event) -> None:
        call = self.calls.get(event.key)
        if call is None:
            call = self.calls[event.key] = Call(event.key, event.name)
            call.early = not self.restores
        call.seq, call.started_at, call.fence, call.body = event.seq, event.at, event.fence, event.body
        call.is_open = True
        call.doubt = None
        if mark := mark_of(event.body):
            self._marked(mark, event)
        if self.trailing_failures:
            self.trailing_failures = []

    def _marked(self, mark: Mark, event: Event) -> None:
        if mark == "noted":
            self.premises.intent(event)
        elif (
            mark == "handed"
        ):  # a call that a handoff knew: done there, or in doubt; see ``engine.transfer.handoff_answers``
            self.claimed.add(fields_of(event.body)["handed"]["n"])
        else:
            self.latest_request = event
            self.premises.model(event)

    def _step_finished(self, event: Event) -> None:
        if has_usage(event.body):
            self.spent = plus(self.spent, read_usage(event.body))
        self._conclude(event, good=True)

    def _step_failed(self, event: Event) -> None:
        self.trailing_failures.append((self._conclude(event, good=False), event.seq))

    def _step_doubted(self, event: Event) -> None:
        self.calls[event.key].doubt = part_of(event.body, "reason")

    def _step_settled(self, event: Event) -> None:
        body = fields_of(event.body)
        how = body["how"]
        if how == "retry":
            self.calls[event.key].is_open = False
            return
        if "usage" in body and body.get("via") != "origin":  # which has paid for it
            self.spent = plus(self.spent, usage_of(body["usage"]))
        self._conclude(event, good=how == "done")

    def _step_abandoned(self, event: Event) -> None:
        call = self.calls.get(event.key)
        if call is not None:  # else it was compacted: nobody waits for it
            call.abandoned = True

    def _mark(self, event: Event) -> None:
        if event.name == MENDED:
            self._mended(event)
        elif event.name == HANDED_OVER:
            self.handed = event
        if not event.key:  # no call of the program's
            return
        call = self.calls[event.key] = Call(event.key, event.name)
        call.early = not self.restores
        call.outcomes.append(Outcome(event.seq, True, self.points, event.body))
        self.last_outcome_seq = event.seq
        if event.name == "plan":
            self.plan = event
        elif event.name in _CONVERSATION:
            self.messages.append(Said(event.seq, event.name == DROPPED, event.body))
        if self.trailing_failures:
            self.trailing_failures = []

    def _mended(self, event: Event) -> None:
        said = Said(event.seq, False, event.body, fields_of(event.body).get("upto", event.seq))
        behind = sum(other.place <= said.place for other in self.messages)
        self.messages.insert(behind, said)

    # -- waits and questions ---------------------------------------------------------------------------------

    def _wait_started(self, event: Event) -> None:
        body = contents_of(event.body)
        self.waits[event.key] = Waiting(
            event.key,
            event.name,
            event.seq,
            body["for"],
            body.get("what", ""),
            body.get("why", ""),
            body["since"],
            body.get("until"),
        )
        self.trailing_failures = []

    def _wait_ended(self, event: Event) -> None:
        self.waits.pop(event.key, None)
        if event.name == SLEEP:
            self.give(event.key, event.name, Outcome(event.seq, True, self.points, event.body))

    def _question_asked(self, event: Event) -> None:
        self.questions[event.key] = question_in(event)
        self.asked += 1
        self.trailing_failures = []

    def _question_answered(self, event: Event) -> None:
        how = fields_of(event.body)["how"]
        self.questions.pop(event.key, None)
        if how != "withdrawn":
            good = how == "answered"
            call = self.give(event.key, event.name, Outcome(event.seq, good, self.points, event.body))
            self.trailing_failures = [] if good else [*self.trailing_failures, (call, event.seq)]

    def give(self, key: str, name: str, outcome: Outcome) -> Call:
        """An outcome for the program to be given: of a call that is no step."""
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = Call(key, name)
            call.early = not self.restores
        call.outcomes.append(outcome)
        self.last_outcome_seq = outcome.seq
        return call

    # -- promises --------------------------------------------------------------------------------------------

    def _promise_made(self, event: Event) -> None:
        self._mark(event)
        self.promises.made(event)

    def _promise_settled(self, event: Event) -> None:
        self._mark(event)
        self.promises.settled(event)

    def _promise_told(self, event: Event) -> None:
        self.promises.told(event)

    # -- premises --------------------------------------------------------------------------------------------

    def _premise_noted(self, event: Event) -> None:
        if event.key:  # the program declared it: a call like any mark
            self._mark(event)
        self.premises.noted(event)
        self.artifacts.noted(event, self.points, self.calls)

    def _premise_broken(self, event: Event) -> None:
        self.premises.found_broken(event)
        self.artifacts.found(event)

    def _artifact_begun(self, event: Event) -> None:
        self.artifacts.begin(event)

    # -- states ----------------------------------------------------------------------------------------------

    def _checkpoint(self, event: Event) -> None:
        self.points += 1
        if event.name != AUTOSAVE:  # no call of the program's: it will never ask for it
            self._mark(event)
        # Of a hollow one, the older one, or the top, leads to the same point: the calls since are answered.
        if not is_hollow(event.body):
            self.checkpoint = event
            self.states += 1
            if event.name == CHAINED and not (body := fields_of(event.body)).get("hidden"):
                self.chains[body["chain"]] = event

    def _restored(self, _: Event) -> None:
        self.restores = True

    def _stream_chunk(self, event: Event) -> None:
        if not is_hollow(event.body):
            self.partials.setdefault(event.key, []).append(event.body)

    def _conclude(self, event: Event, *, good: bool) -> Call:
        self.points += 1
        if good and self.partials:
            self.partials.pop(event.key, None)
        call = self.calls[event.key]
        call.is_open = False
        call.outcomes.append(Outcome(event.seq, good, self.points, event.body))
        self.last_outcome_seq = event.seq
        self.artifacts.last_step = call.name
        if good and self.trailing_failures:
            self.trailing_failures = []
        return call

    # -- lifecycle -------------------------------------------------------------------------------------------

    def _run_started(self, event: Event) -> None:
        self.started = event

    def _run_finished(self, event: Event) -> None:
        self.status = Status.FINISHED
        self.result = event.body
        self.waits, self.questions = {}, {}  # the program went another way

    def _run_cancelled(self, _: Event) -> None:
        self.status = Status.CANCELLED

    def _run_reopened(self, _: Event) -> None:
        self.result = None

    def _run_forked(self, event: Event) -> None:
        self.artifacts.under_way = {}  # another run's, which may be at it now
        self._leave_origin(event)

    def _run_rewound(self, event: Event) -> None:
        self.branch = event.seq
        body = self._leave_origin(event)
        if "spent" in body:  # what was left behind is paid for all the same
            self.spent, self.worked_s = Spent(*body["spent"]), body["worked_s"]

    def _leave_origin(self, event: Event) -> dict[str, Any]:
        """What ran at that point ran in another history; here nothing has ended, failed or finished yet."""
        self.worked_s = self.worked_upto_last_s
        if self.attempts and self.attempts[-1].how is None:
            self.attempts[-1].how, self.attempts[-1].ended_at = "left behind", event.at
        body = fields_of(event.body)
        self.earlier_attempts, self.repeats = body.get("attempts", 0), body.get("effects", self.repeats)
        if "effects" in body:
            self.behind = [] if self.repeats == "again" else [*self.behind, event]
        self.branches.append(event.seq)
        self.status, self.result, self.trailing_failures = Status.QUEUED, None, []
        return body

    def _step_overridden(self, event: Event) -> None:
        call = self.calls[event.key]
        call.is_open, call.doubt = False, None
        call.outcomes = [
            Outcome(event.seq, True, call.outcomes[-1].point if call.outcomes else self.points, event.body)
        ]
        self.last_outcome_seq = event.seq

    def _compacted(self, event: Event) -> None:
        """What the events before it came to, in their place."""
        from holdfast.core.prune.compaction import standing_view  # which knows this class

        view = standing_view(event)
        if view is not None:
            vars(self).update(vars(view))
        self.head, self.base, self.head_chain = event.seq, event.seq, event.chain

    def _attempt_started(self, event: Event) -> None:
        self.attempts.append(Attempt(self.next_attempt, event))
        self.premises.attempt(event)
        self.status = Status.RUNNING
        if self.signs and self.signs[-1].level == "pause":
            # Somebody looked at the agent and lets it go on.
            self.signs.append(Signed(self.last_outcome_seq, "again"))
        self.restores = False
        self.trailing_failures = []

    def _attempt_crashed(self, event: Event) -> None:
        # Found out later: it took as long as it gave signs of life.
        seen_at = max(self.last.at if self.last else 0.0, fields_of(event.body).get("last_beat_at", 0.0))
        self._count_time(min(seen_at, event.at))
        self.end_attempt("crashed", event.at)

    def _attempt_ended(self, event: Event) -> None:
        body = contents_of(event.body)
        for key, seq in body.get("again", ()):
            if key in self.calls:
                _forget(self.calls[key], seq)
        # The clock of people may have jumped meanwhile; only the process itself knew how long it took.
        self._count_time(self.attempts[-1].event.at + body["took_s"] if "took_s" in body else event.at)
        self.end_attempt(body["how"], event.at)
        self.status = body["status"]

    def _count_time(self, until: float) -> None:
        self.worked_s += max(0.0, until - self.attempts[-1].event.at)

    def shed(self, upto_seq: int, kept: "View") -> None:
        """Forget of the calls up to an event what ``kept`` does not know: it was compacted under this view."""
        for key, call in list(self.calls.items()):
            known = kept.calls.get(key)
            if known is not None:
                bodies = {outcome.seq: outcome.body for outcome in known.outcomes}
                call.body = known.body if call.seq == known.seq else call.body
                call.outcomes = [o._replace(body=bodies.get(o.seq, o.body)) for o in call.outcomes]
            elif max([call.seq, *(outcome.seq for outcome in call.outcomes)]) <= upto_seq:
                del self.calls[key]
        self.messages = kept.messages + [said for said in self.messages if said.seq > upto_seq]
        self.artifacts.shed(upto_seq)

    def end_attempt(self, how: str, at: float) -> None:
        """Close the running attempt. After a crash, what failed last with nothing recorded since is tried again."""
        attempt = self.attempts[-1]
        attempt.how, attempt.ended_at = how, at
        if how == "crashed":
            for call, seq in self.trailing_failures:
                _forget(call, seq)
        self.trailing_failures = []

    # -- budgets ---------------------------------------------------------------------------------------------

    def _budget_warned(self, event: Event) -> None:
        self.warned = {**self.warned, event.name: fields_of(event.body)["allowed"]}

    # -- circles ---------------------------------------------------------------------------------------------

    def _loop_noticed(self, event: Event) -> None:
        body = contents_of(event.body)
        # It stands in the append of the outcome that called for it, right behind it.
        self.signs.append(Signed(self.last_outcome_seq, body["level"], body["text"]))

    def _loop_left(self, _: Event) -> None:
        self.signs.append(Signed(self.last_outcome_seq, "left"))

    # -- questions -------------------------------------------------------------------------------------------

    @property
    def next_attempt(self) -> int:
        """The number of the attempt that would begin now."""
        return max(self.attempts[-1].number if self.attempts else 0, self.earlier_attempts) + 1

    @property
    def crashed_attempt(self) -> Attempt | None:
        """The last attempt, if nobody recorded how it ended."""
        if self.attempts and self.attempts[-1].how is None:
            return self.attempts[-1]
        return None

    @property
    def worked_upto_last_s(self) -> float:
        """How long all attempts took; one that nobody saw end counts up to the last event."""
        attempt = self.crashed_attempt
        if attempt is None or self.last is None:
            return self.worked_s
        return self.worked_s + max(0.0, self.last.at - attempt.event.at)

    def open_calls(self) -> list[Call]:
        """Calls that were started and never reported back, oldest first."""
        return sorted((c for c in self.calls.values() if c.is_open), key=lambda c: c.seq)

    def consume_upto(self, seq: int) -> tuple[dict[str, int], dict[str, list[int]]]:
        """Count everything recorded up to there as given to the program.

        The answer continues the counters: per site the highest count in use, and the failed counts below it.
        """
        counts = {site: known.used for site, known in self.sites.items()}
        free = {site: set(known.free) for site, known in self.sites.items() if known.free}
        for call in self.calls.values():
            outcomes = call.outcomes
            if not outcomes or outcomes[0].seq > seq:
                call.taken = 0
                continue
            call.taken = 1 if len(outcomes) == 1 else sum(o.seq <= seq for o in outcomes)
            site, n = split_key(call.key)
            if n is not None:
                if n > counts.get(site, 0):
                    counts[site] = n
                if not outcomes[call.taken - 1].good:
                    free.setdefault(site, set()).add(n)
        return counts, {site: sorted(ns) for site, ns in free.items()}


def _forget(call: Call, seq: int) -> None:
    call.outcomes = [outcome for outcome in call.outcomes if outcome.seq != seq]


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
    Kind.STREAM_CHUNK: View._stream_chunk,
    Kind.MARK: View._mark,
    Kind.CHECKPOINT: View._checkpoint,
    Kind.RESTORED: View._restored,
    Kind.WAIT_STARTED: View._wait_started,
    Kind.WAIT_ENDED: View._wait_ended,
    Kind.QUESTION_ASKED: View._question_asked,
    Kind.QUESTION_ANSWERED: View._question_answered,
    Kind.RUN_CANCELLED: View._run_cancelled,
    Kind.PREMISE_NOTED: View._premise_noted,
    Kind.PREMISE_BROKEN: View._premise_broken,
    Kind.ARTIFACT_BEGUN: View._artifact_begun,
    Kind.ARTIFACT_READY: View._artifact_begun,
    Kind.LOOP_NOTICED: View._loop_noticed,
    Kind.LOOP_LEFT: View._loop_left,
    Kind.PROMISE_MADE: View._promise_made,
    Kind.PROMISE_SETTLED: View._promise_settled,
    Kind.PROMISE_TOLD: View._promise_told,
    Kind.MESSAGE_RECEIVED: View._mark,
    Kind.BUDGET_WARNED: View._budget_warned,
    Kind.COMPACTED: View._compacted,
}


def fold(events: Iterable[Event], view: View | None = None) -> View:
    """The view of these events, or of these after those already in ``view``."""
    view = view or View()
    for event in events:
        view.add(event)
    return view
