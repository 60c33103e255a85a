"""Statistics of runs: tools and their times, costs of model calls, ends of attempts, and what replay saved.

They are counted from the journals alone, in one pass each. Invariants: everything is counted once, in the run
where it happened, including what a rewind left behind. The counts of a tool agree with the SQL view
``tool_counts`` (which does not see what was compacted), and the failures with ``failures``. The time inside a
step is counted once, so shares of time add up to 1, however steps are nested.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.core.budget.spending import plus, since, total
from holdfast.core.journal.call_notes import noted_behind
from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.llm.request_shapes import usage_of
from holdfast.core.reports.counts import (
    AttemptStats,
    Compacted,
    Failure,
    ModelStats,
    RunStats,
    Source,
    Stats,
    Tally,
)
from holdfast.model.budget import NOTHING_SPENT, Spent
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Event, Kind, is_intact
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import Lease
from holdfast.model.usage import Usage

FAILURES_KEPT: Final = 20
"""How many of the latest failures a compacted range keeps."""
FAILED_ENDS: Final = frozenset({"failed", "in_doubt", "diverged"})
"""The ends of attempts that count as failures. Ctrl-C and waiting do not; a crash has an event of its own."""


def gather(sources: Iterable[Source]) -> Stats:
    """The statistics of these runs."""
    tallies: dict[str, Tally] = {}
    runs = tuple(_run_stats(source, tallies) for source in sources)
    whole_s = sum(tally.own_s for tally in tallies.values())
    tools = [tally.stats(name, whole_s) for name, tally in tallies.items()]
    tools.sort(key=lambda tool: (-tool.started, -tool.finished, tool.name))
    failures = [failure for run in runs for failure in run.failures]
    failures.sort(key=lambda failure: (failure.at, failure.run, failure.seq), reverse=True)
    return Stats(runs, tuple(tools), tuple(failures), _models(model for run in runs for model in run.models))


def tally_stretch(
    run: str, borrowed: Iterable[Event], own: Iterable[Event], after_seq: int, upto_seq: int
) -> dict[str, Any]:
    """The counts of a range of events, as JSON. A compacted event keeps them in the place of the events."""
    tallies: dict[str, Tally] = {}
    walk = JournalWalk(RunInfo(run, "", 0.0, 0, Lease(), None), tallies)
    for event in borrowed:
        walk.borrow(event)
    before: dict[str, Tally] = {}
    models: dict[tuple[str, str], Spent] = {}
    attempts = failures = unanswered = 0
    kinds: dict[str, int] = {}
    for event in own:
        if event.seq > upto_seq:
            break
        if event.seq <= after_seq:
            walk.add(event)
            continue
        if not kinds:
            before = {name: tally.copy() for name, tally in tallies.items()}
            attempts, failures = len(walk.attempts), len(walk.failures)
            models, unanswered = walk.models.copy(), walk.unanswered
        walk.add(event)
        inner = fields_of(event.body)["tallies"]["kinds"] if event.kind == Kind.COMPACTED else {event.kind: 1}
        for kind, number in inner.items():
            kinds[kind] = kinds.get(kind, 0) + number
    return {
        "kinds": kinds,
        "tools": {name: [*tally.since(before.get(name))] for name, tally in tallies.items()},
        # The attempt that was running before the range continued in it, so it is included with its new state.
        "attempts": [
            [*attempt[:-1], [*attempt.answered_spent]] for attempt in walk.attempts[max(0, attempts - 1) :]
        ],
        "failures": [[*failure] for failure in walk.failures[failures:][-FAILURES_KEPT:]],
        "models": [[*key, [*spent]] for key, spent in _since(walk.models, models).items()],
        "unanswered": walk.unanswered - unanswered,
    }


def _run_stats(source: Source, tallies: dict[str, Tally]) -> RunStats:
    info = source.info
    if source.events is None:
        return RunStats(info.run, "damaged", info.created_at)
    # A checksum covers the name of the run that an event was appended to, so borrowed events fail it. They
    # come first, so the first event that passes is the first of the run's own.
    first = bisect_left(source.events, 1, key=lambda event: is_intact(info.run, event))
    walk = JournalWalk(info, tallies)
    for event in source.events[:first]:
        walk.borrow(event)
    for event in source.events[first:]:
        walk.add(event)
    walk.close()
    return RunStats(
        run=info.run,
        status=info.status,
        created_at=info.created_at,
        attempts=tuple(walk.attempts),
        crashes=sum(attempt.how == "crashed" for attempt in walk.attempts),
        started=walk.started,
        own_s=round(walk.own_s, 6),
        saved=sum(attempt.answered for attempt in walk.attempts),
        saved_s=round(sum((attempt.answered_s for attempt in walk.attempts), 0.0), 6),
        failures=tuple(reversed(walk.failures)),
        models=_models(ModelStats(*key, spent) for key, spent in walk.models.items()),
        unanswered=max(0, walk.unanswered),
        saved_spent=total(attempt.answered_spent for attempt in walk.attempts),
    )


def _since(
    now: dict[tuple[str, str], Spent], before: dict[tuple[str, str], Spent]
) -> dict[tuple[str, str], Spent]:
    """What each model cost between two counts."""
    spent = {key: since(whole, before.get(key, NOTHING_SPENT)) for key, whole in now.items()}
    return {key: part for key, part in spent.items() if part.calls}


def _models(models: Iterable[ModelStats]) -> tuple[ModelStats, ...]:
    """The models, each once, the most expensive first, then those with the most tokens."""
    sums: dict[tuple[str, str], Spent] = {}
    for model, provider, spent in models:
        sums[model, provider] = total((sums.get((model, provider), NOTHING_SPENT), spent))
    found = [ModelStats(*key, spent) for key, spent in sums.items() if spent.calls]
    return tuple(sorted(found, key=lambda m: (-m.spent.cost, -m.spent.tokens, m.model, m.provider)))


def _attempt(*fields: Any) -> AttemptStats:
    """An attempt from the data of a compacted event."""
    attempt = AttemptStats(*fields)
    return attempt._replace(answered_spent=Spent(*attempt.answered_spent))


class JournalWalk:
    """Counts one journal, event by event.

    Borrowed events are folded but not counted: they count for their own run.
    """

    def __init__(self, info: RunInfo, tallies: dict[str, Tally]) -> None:
        self.attempts: list[AttemptStats] = []
        self.failures: list[Failure] = []
        self.started, self.own_s = 0, 0.0
        self.models: dict[tuple[str, str], Spent] = {}
        self.unanswered = 0
        """How many model calls began and were not answered."""
        self._usages: dict[int, Usage] = {}
        self._info, self._tallies = info, tallies
        self._view = View()
        self._events: list[Event] = []
        self._borrowed_seq = 0
        self._inside: dict[str, str] = {}
        self._inner_s: dict[str, float] = {}
        """Per step, the time that steps inside it took since it began."""
        self._own_s: dict[int, float] = {}

    def borrow(self, event: Event) -> None:
        """Fold an event of another run.

        Times and costs of its steps are kept, to compute what replay saves.
        """
        self._fold(event)
        self._borrowed_seq = event.seq
        if event.kind == Kind.STEP_STARTED:
            self._nest(event, contents_of(event.body))
        elif event.kind in {Kind.STEP_FINISHED, Kind.STEP_FAILED}:
            body = contents_of(event.body)
            self._time(event, body)
            self._usage(event, body)

    def add(self, event: Event) -> None:
        self._fold(event)
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event, contents_of(event.body))

    @property
    def view(self) -> View:
        """The view of the events so far."""
        return self._view

    def _fold(self, event: Event) -> None:
        self._events.append(event)
        if event.kind == Kind.RUN_REWOUND:
            self._view = fold(effective(self._events))
        else:
            self._view.add(event)

    def close(self) -> None:
        """Add what the journal alone does not say: how an attempt without an end is, and steps in doubt."""
        info, view = self._info, self._view
        if view.crashed_attempt is not None and self.attempts:
            self.attempts[-1] = self.attempts[-1]._replace(how=info.status)
            if info.status == "crashed" and view.last is not None:
                noted = noted_behind(info.noted, view.head)
                step = noted.name if noted is not None else self._step_cut_off()
                message = f"in the middle of {step!r}" if step else f"after {view.last.kind}"
                seen = view.last._replace(at=max(view.last.at, info.lease.beat_at))
                self._fail(seen, "crashed", step, {"message": message}, ended=True)
        for call in view.open_calls():
            is_known = call.doubt is not None or info.holder != "alive"
            if call.seq > self._borrowed_seq and is_known and is_once(call) and not call.abandoned:
                self._tally(call.name).in_doubt += 1

    def _tally(self, name: str) -> Tally:
        return self._tallies.setdefault(name, Tally())

    # -- steps -----------------------------------------------------------------------------------------------

    def _step_started(self, event: Event, body: dict[str, Any]) -> None:
        self._tally(event.name).started += 1
        self.started += 1
        self.unanswered += body.get("effect") == "model"
        self._nest(event, body)

    def _nest(self, event: Event, body: dict[str, Any]) -> None:
        self._inside[event.key] = str(body.get("in", "")).partition(":")[0]
        self._inner_s[event.key] = 0.0

    def _step_retried(self, event: Event, _: dict[str, Any]) -> None:
        self._tally(event.name).retried += 1
        self._inner_s[event.key] = 0.0  # an outcome records the time of its last try only

    def _step_finished(self, event: Event, body: dict[str, Any]) -> None:
        self._tally(event.name).finished += 1
        self._took(event, body)
        self._pay(event, body)

    def _step_failed(self, event: Event, body: dict[str, Any]) -> None:
        self._took(event, body)
        self._failed(event, body)

    def _failed(self, event: Event, body: dict[str, Any]) -> None:
        self._tally(event.name).failed += 1
        self._fail(event, "step", event.name, body.get("error") or {}, ended=False)

    def _step_settled(self, event: Event, body: dict[str, Any]) -> None:
        if body.get("via") == "origin":
            return  # it happened in the run that this one is a fork of
        if body["how"] == "done":
            self._tally(event.name).finished += 1
            self._pay(event, body)
        elif body["how"] == "failed":
            self._failed(event, body)

    def _took(self, event: Event, body: dict[str, Any]) -> None:
        if "ms" in body:  # a failure that was settled later has no time
            own_s = self._time(event, body)
            self._tally(event.name).took_s.append(body["ms"] / 1000)
            self._tally(event.name).own_s += own_s
            self.own_s += own_s

    def _time(self, event: Event, body: dict[str, Any]) -> float:
        """Note how long a step took, for itself and for the step around it.

        Returns the time without inner steps.
        """
        took_s: float = body.get("ms", 0.0) / 1000
        # Parallel inner steps may take longer in total than the step around them.
        own_s = max(0.0, took_s - self._inner_s.get(event.key, 0.0))
        parent = self._inside.get(event.key)
        if parent in self._inner_s:
            self._inner_s[parent] += took_s
        self._own_s[event.seq] = own_s
        return own_s

    def _pay(self, event: Event, body: dict[str, Any]) -> None:
        usage = self._usage(event, body)
        if usage is not None:
            key = usage.model, usage.provider
            self.models[key] = plus(self.models.get(key, NOTHING_SPENT), usage)
            self.unanswered -= 1

    def _usage(self, event: Event, body: dict[str, Any]) -> Usage | None:
        """The usage of a model call. It is kept, to compute what replay saves."""
        if "usage" not in body:
            return None
        usage = self._usages[event.seq] = usage_of(body["usage"])
        return usage

    def _compacted(self, _: Event, body: dict[str, Any]) -> None:
        """Add the counts of the replaced events. The attempt that was running before them is updated."""
        tallies = body.get("tallies")
        if tallies is None:
            return
        for name, fields in tallies["tools"].items():
            part = Compacted(*fields)
            self._tally(name).add(part)
            self.started += part.started
            self.own_s += part.own_s
        for fields in tallies["attempts"]:
            attempt = _attempt(*fields)
            if self.attempts and self.attempts[-1].number == attempt.number:
                self.attempts.pop()
            self.attempts.append(attempt)
        self.failures += [Failure(*fields) for fields in tallies["failures"]]
        for model, provider, spent in tallies.get("models", ()):
            before = self.models.get((model, provider), NOTHING_SPENT)
            self.models[model, provider] = total((before, Spent(*spent)))
        self.unanswered += tallies.get("unanswered", 0)

    # -- attempts --------------------------------------------------------------------------------------------

    def _attempt_started(self, event: Event, _: dict[str, Any]) -> None:
        steps = [call for call in self._view.calls.values() if call.seq]  # marks have no intent
        recorded = [outcome.seq for call in steps if not call.abandoned for outcome in call.outcomes]
        saved_s = round(sum((self._own_s.get(seq, 0.0) for seq in recorded), 0.0), 6)
        begun = (self._view.attempts[-1].number, "running", event.at, None)
        saved = NOTHING_SPENT
        for seq in recorded:
            if seq in self._usages:
                saved = plus(saved, self._usages[seq])
        self.attempts.append(AttemptStats(*begun, len(recorded), saved_s, saved))

    def _attempt_crashed(self, event: Event, body: dict[str, Any]) -> None:
        self._end("crashed", None)
        # The next attempt wrote this event when it found the crash. The failure was at the last sign of life.
        seen = event._replace(at=max(self._events[-2].at, body.get("last_beat_at", 0.0)))
        step = body.get("noted") or self._step_cut_off()
        self._fail(seen, "crashed", step, {"message": body["last"]}, ended=True)

    def _attempt_ended(self, event: Event, body: dict[str, Any]) -> None:
        self._end(body["how"], event.at)
        error = body.get("error") or {}
        again = {seq for _, seq in body.get("again", ())}
        if again:
            self.failures = [f._replace(ended=f.ended or f.seq in again) for f in self.failures]
        elif body["how"] in FAILED_ENDS:
            step = (error.get("state") or {}).get("step", "")
            self._fail(event, body["how"], str(step), error, ended=True)

    def _end(self, how: str, at: float | None) -> None:
        took_s = None if at is None else round(at - self.attempts[-1].started_at, 6)
        self.attempts[-1] = self.attempts[-1]._replace(how=how, took_s=took_s)

    def _run_rewound(self, _: Event, __: dict[str, Any]) -> None:
        if self.attempts and self.attempts[-1].how == "running":
            self._end("crashed", None)  # a rewind takes the lease, so the attempt had ended without a record

    def _step_cut_off(self) -> str:
        """The latest step of the last attempt that never reported back."""
        since = self._view.attempts[-1].event.seq
        return next((call.name for call in reversed(self._view.open_calls()) if call.seq > since), "")

    def _fail(self, event: Event, how: str, step: str, error: dict[str, Any], *, ended: bool) -> None:
        place = (self._info.run, event.seq, event.at, self._view.attempts[-1].number, how, step)
        self.failures.append(Failure(*place, error.get("type", ""), error.get("message", ""), ended))


# ruff: noqa: SLF001 - the table is part of the class; a class body cannot name its own methods in one
_HANDLERS: Final[dict[str, Callable[[JournalWalk, Event, dict[str, Any]], None]]] = {
    Kind.STEP_STARTED: JournalWalk._step_started,
    Kind.STEP_RETRIED: JournalWalk._step_retried,
    Kind.STEP_FINISHED: JournalWalk._step_finished,
    Kind.STEP_FAILED: JournalWalk._step_failed,
    Kind.STEP_SETTLED: JournalWalk._step_settled,
    Kind.RUN_REWOUND: JournalWalk._run_rewound,
    Kind.ATTEMPT_STARTED: JournalWalk._attempt_started,
    Kind.ATTEMPT_CRASHED: JournalWalk._attempt_crashed,
    Kind.COMPACTED: JournalWalk._compacted,
    Kind.ATTEMPT_ENDED: JournalWalk._attempt_ended,
}
