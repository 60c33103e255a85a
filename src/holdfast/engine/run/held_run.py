"""A run that this process holds: its journal, its folded view, and how far the program has come in it.

A held run knows which recorded outcomes the program has received (the cursor) and which calls are in flight.
It decides nothing itself. All of it is memory: after a crash, the next process builds it again from the
journal.

Invariant: no two calls at one site that are in flight or done have the same number. One lock guards the
counters. It is never held across user code, and across I/O only in ``compact``.
"""

import os
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from holdfast.core.journal.run_row_facts import owner_of
from holdfast.core.steps.call_point import ROOT_PATH, UNKNOWN_AFTER
from holdfast.core.steps.identity import split_key
from holdfast.engine.journal.load_view import Pager
from holdfast.engine.run.call_site import TaskCalls, current_task
from holdfast.engine.run.features import OPTIONS, Feature, Hooks, is_enabled, make_feature, waking_on
from holdfast.errors import Drained, ForkedHandle, HandleClosed, RunFinished
from holdfast.model.calls import Call, CallOptions, Outcome
from holdfast.model.event_fields import contents_of
from holdfast.model.markers import KNOWN, LINEAGE
from holdfast.model.store_rows import RunRow, Status

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.core.prune.prune_plan import Compacting
    from holdfast.engine.journal.journal import Journal
    from holdfast.engine.run.entry import Entry
    from holdfast.engine.run.observers import AttemptObserver
    from holdfast.engine.run.sigterm import MainThread, Watch
    from holdfast.engine.run.store_session import StoreSession
    from holdfast.engine.steps.step import Work
    from holdfast.engine.sync_async import UnawaitedCalls
    from holdfast.errors import RunSealed

CHECK_ARGUMENTS = "HOLDFAST_CHECK_ARGUMENTS"
"""If it is set, every call of the process is checked for changed arguments: ``holdfast.testing`` sets it."""
_AGAIN = "_holdfast_again"
"""The attribute in which an exception carries the recorded failures that it stands for.

On the exception itself: a table of exceptions would keep every traceback of a long run alive.
"""
_Mark = tuple[str, str, int]
"""A recorded failure: the birth of its run, the key of its call, and its seq."""


class RunTree:
    """Where a held run is among the runs of this process that were entered inside each other."""

    __slots__ = ("children", "entered", "parent")

    def __init__(self) -> None:
        self.parent: HeldRun | None = None
        """The run inside which it was entered, as a child."""
        self.children: dict[str, HeldRun] = {}
        """Children of this attempt whose recorded effects may not all have been asked for."""
        self.entered: set[str] = set()
        """All children that this attempt has entered."""


class HeldRun:
    """A run as this process holds it. A finished run that is only replayed has no journal."""

    awake_for: CallOptions | None = None
    """The options of the last call, if every feature is awake that they need."""
    has_ended = False
    """Whether the end of the attempt is recorded, with that of the run."""
    lineage = ""  # the name of its lineage, once a declared secret needs it
    unasked: dict[str, Call]
    """All calls that wait for the program, and some that do not any more; see ``waiting_calls``."""

    def __init__(  # noqa: PLR0915 - many small facts make up a held run
        self,
        session: "StoreSession",
        row: RunRow,
        view: "View",
        journal: "Journal | None",
        entry: "Entry | None" = None,
    ) -> None:
        self.session, self.store, self.clock = session, session.store, session.clock
        self.row: RunRow = row
        self.run: str = row.run
        self.agent: str = row.agent
        self.entry = entry
        """The options that it was entered with; None if no program entered it."""
        # After a rewind the same calls are new effects: they must not have the old branch's idempotency keys.
        self.birth = f"{row.birth}@{view.branch}" if view.branch else row.birth
        self.owner = owner_of(row)
        self.view: View = view
        self.journal: Journal | None = journal
        self.number = view.attempts[-1].number if view.attempts else 0
        self.resumed: bool = view.started is not None
        self.entered_seq, self.last_at = 0, 0.0
        """The last event before this attempt, and when it was recorded."""
        self.status: str = Status.RUNNING if journal else Status.FINISHED
        self.points = view.points
        self._numbers = count(view.points + 1)
        self.drift_stops = True
        self.is_strict = entry is not None and entry.strict
        self.checks_arguments = self.is_strict or CHECK_ARGUMENTS in os.environ
        """Whether every call is checked for changed arguments: ``engine/steps/given_arguments.py``."""
        self.may_drift: bool = any(call.seq or call.name == "child" for call in view.calls.values())
        self.remembers = False
        """Whether all outcomes are kept in memory; else only those that the program can ask for again."""
        self.is_closed, self.is_finished = False, journal is None
        self.refusal: Callable[[str], BaseException] | None = None
        """What is raised instead of writing, in a run that is only replayed."""
        self.sealed: RunSealed | None = None  # set when this attempt hands the run over
        self.cursor_seq = 0  # the event up to which the program restored a state instead of replaying calls
        self.unsaid: frozenset[int] = frozenset()
        """Conversation records before the cursor that were not yet part of it when the state was taken."""
        self.tree = RunTree()
        self.apart = set[str]()
        """Runs that were entered inside this one and are not its children."""
        self.features: dict[str, Feature] = {}
        self.hooks = Hooks()
        self._sleeping = {"call": waking_on("call"), "checkpoint": waking_on("checkpoint")}
        self.sigterm: MainThread | Watch | None = None
        """Holds SIGTERM back while a ``once`` call is in flight; None if this run does not handle SIGTERM."""
        self.unawaited: UnawaitedCalls | None = None
        """The calls of an async run that the program made and has not awaited."""
        self.result: bytes | None = None
        self.observer: AttemptObserver | None = None
        """The observer of this attempt, if there is one."""
        self.handle: Any = None
        """The Run or AsyncRun through which the program sees this held run."""
        self.root = TaskCalls(current_task(), "", ROOT_PATH)
        self.pid = os.getpid()
        self._began = session.clock.monotonic()
        self.pager = Pager(session.store, row.run)
        self._threads: dict[object, TaskCalls] = {}
        self._counts: dict[str, int] = {}
        self._free: dict[str, list[int]] = {}
        self._in_flight: dict[str, Work] = {}
        self.claims: list[str] = []
        """The sites of calls that are claimed and whose record is not complete yet, one for each call."""
        self._noted: set[str] | None = None
        """While the run is pruned: the sites at which calls may be recorded that the pruner has not seen."""
        self._lock = Lock()
        self._live, self.replayed_upto = view.last_outcome_seq == 0, 0
        self.unasked = dict(view.calls)

    # -- features --------------------------------------------------------------------------------------------

    def feature(self, name: str) -> Feature:
        """The feature of this name; it is loaded now if it is not awake."""
        found = self.features.get(name)
        if found is None:
            made = make_feature(name, self)
            with self._lock:  # two threads may both have made one: the first one counts
                found = self.features.setdefault(name, made)
                self.hooks.collect(self.features)
        return found

    def put_to_sleep(self, name: str) -> None:
        """Remove a feature that is not needed any more."""
        with self._lock:
            self.awake_for = None
            self.features.pop(name, None)
            self.hooks.collect(self.features)

    def wake_on(self, what: str) -> None:
        """Wake the features that wait for the first call, or for the first checkpoint."""
        names = self._sleeping[what]
        if names:
            self._sleeping[what] = ()
            for name in names:
                if is_enabled(name, self):
                    self.feature(name)

    def wake_for(self, call_options: CallOptions) -> None:
        """Wake the features that this call's options need."""
        self.wake_on("call")
        for option, name in OPTIONS:
            if getattr(call_options, option):
                self.feature(name)
        self.awake_for = call_options

    @property
    def took_s(self) -> float:
        """How long this attempt took so far, by the monotonic clock."""
        return self.clock.monotonic() - self._began

    def ms_since(self, began: float) -> float:
        """The time since ``began``, as a call's record has it."""
        # To round a float takes longer than all of this.
        return int((self.clock.monotonic() - began) * 1e6 + 0.5) / 1000

    @property
    def has_record(self) -> bool:
        """Whether this run, or one around it, had recorded calls or children when it was entered."""
        return self.may_drift or (self.tree.parent is not None and self.tree.parent.has_record)

    # -- may it act? -----------------------------------------------------------------------------------------

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it; a process made by os.fork has only a copy."""
        return self.pid == os.getpid()

    def check_usable(self) -> None:
        """HandleClosed for a closed run, ForkedHandle after os.fork, RunSealed after a handoff."""
        if self.sealed is not None:
            raise self.sealed
        if self.is_closed:
            raise HandleClosed(what=f"run {self.run}")
        if self.pid != os.getpid():
            raise ForkedHandle(what=f"run {self.run}", opened_by=self.pid, used_by=os.getpid())
        if KNOWN:  # what is written next is this run's
            LINEAGE.set(self.lineage)

    def require_journal(self, what: str, *, begins: bool = True) -> "Journal":
        """The journal to append to.

        RunFinished, LeaseLost, Cancelled; Drained if the call begins something.
        """
        if self.refusal is not None:
            raise self.refusal(what)
        if self.is_finished or self.journal is None:
            raise RunFinished(run=self.run, what=repr(what))
        if self.journal.lost is not None:
            raise self.journal.lease_lost()
        if self.journal.cancelled is not None:
            raise self.journal.cancel_signal()
        if begins and self.journal.is_drained:
            raise Drained(run=self.run)
        self._live = True
        return self.journal

    # -- the cursor ------------------------------------------------------------------------------------------

    def claim(self, site: str) -> int:
        """The number of the next call at this site: the lowest that did not succeed and is not in flight.

        The caller calls ``land`` when the call's outcome is in the journal, or never will be.
        """
        free, counts = self._free, self._counts
        with self._lock:
            self.claims.append(site)
            if self._noted is not None:
                self._noted.add(site)
            if free and (freed := free.get(site)):
                return heappop(freed)  # a repeated call gets the number of its failed try, and so its key
            n = counts[site] = counts.get(site, 0) + 1
            return n

    def land(self, site: str) -> None:
        """The record of a claimed call is complete."""
        if site:
            try:  # noqa: SIM105 - ``suppress`` takes longer
                self.claims.remove(site)  # one operation: it needs no lock
            except ValueError:
                pass

    def unclaim(self, site: str, n: int) -> None:
        """The call did not succeed: the next call at this site gets its number."""
        if site:
            with self._lock:
                heappush(self._free.setdefault(site, []), n)

    def next_outcome(self, call: Call) -> Outcome | None:
        """The next recorded outcome of the call that the program has not received yet, or None.

        An explicit key is the whole identity: after a success, every call with this key gets that outcome.
        """
        with self._lock:
            if call.taken < len(call.outcomes):
                outcome = call.outcomes[call.taken]
                call.taken += 1
                if call.taken == len(call.outcomes) and not call.is_open:
                    self.unasked.pop(call.key, None)
                self.replayed_upto = max(self.replayed_upto, outcome.seq)
                return outcome
            if call.outcomes and call.key.endswith(".k") and call.outcomes[-1].good:
                outcome = call.outcomes[-1]
                self.replayed_upto = max(self.replayed_upto, outcome.seq)
                return outcome
            return None

    def note_given(self, outcome: Outcome) -> None:
        """Move the cursor over an outcome that was just settled and goes to the program."""
        with self._lock:
            self.replayed_upto = max(self.replayed_upto, outcome.seq)

    def remember(self, key: str, name: str, outcome: Outcome, *, is_given: bool) -> None:
        """Keep an outcome that can be asked for again; ``is_given`` if the program has received it."""
        with self._lock:
            call = self.view.calls.setdefault(key, Call(key, name))
            call.is_open = False
            self.view.add_outcome(call, outcome)
            call.taken = len(call.outcomes) - (0 if is_given else 1)
            if not is_given:
                self.unasked[key] = call

    def waiting_calls(self) -> list[Call]:
        """The calls that the program has not got an outcome or an unknown end of, in no order.

        It looks at what is left to ask for, so that the first new step does not pay for the whole journal.
        """
        calls = self.view.calls
        with self._lock:
            left = list(self.unasked.items())
        return [call for key, call in left if call.is_waiting and calls.get(key) is call]

    def move_cursor(self, seq: int, unsaid: Iterable[int] = ()) -> None:
        """Count every record up to this event as received; of the conversation, all except ``unsaid``."""
        self.cursor_seq, self.unsaid = seq, frozenset(unsaid)
        for moved in self.hooks.cursor_moved:
            moved()
        with self._lock:
            self._counts, self._free = self.view.consume_upto(seq)
            self.unasked = {key: call for key, call in self.view.calls.items() if call.is_waiting}
            self.replayed_upto = max(self.replayed_upto, seq)

    @property
    def replaying(self) -> bool:
        """Whether there are recorded outcomes that the program has not reached yet."""
        return not self._live and self.replayed_upto < self.view.last_outcome_seq

    @property
    def has_replayed(self) -> bool:
        """Whether the program has received recorded outcomes since it began or restored its state."""
        return self.replayed_upto > self.cursor_seq

    def intent_of(self, call: Call) -> bytes:
        """The body of a recorded call's intent."""
        if call.body is None:
            call.body = self.pager.body_of(call.seq)
        return call.body

    def recorded(self, key: str, field: str) -> Any:
        """A field of the intent of a recorded call that is still open; None if there is none."""
        call = self.view.calls.get(key)
        return None if call is None or not call.is_open else contents_of(self.intent_of(call)).get(field)

    def body_of(self, outcome: Outcome) -> bytes:
        """The body of a recorded outcome."""
        return self.body_at(outcome.seq, outcome.body)

    def body_at(self, seq: int, body: bytes | None) -> bytes:
        """The body of an event; it is read from the journal if the view does not have it."""
        return self.pager.body_of(seq) if body is None else body

    def task_calls_of(self, task: object) -> TaskCalls:
        """The calls of a thread that has no call site in its context: where it started is not known."""
        if task == self.root.task:
            return self.root
        with self._lock:
            return self._threads.setdefault(task, TaskCalls(task, UNKNOWN_AFTER))

    # -- pruning ---------------------------------------------------------------------------------------------

    def note_claims(self) -> None:
        """From now on, note the sites of calls, including calls that are claimed or in flight now."""
        with self._lock:
            self._noted = {*self.claims, *(work.asked.site for work in self.in_flight())}

    def forget_claims(self) -> None:
        """Stop noting sites: the pruner is done."""
        with self._lock:
            self._noted = None

    def compact(self, compacting: "Compacting", write: Callable[[AbstractSet[str]], bool]) -> bool:
        """Write a compaction of the run's own journal, and forget what it removes.

        A resumed attempt knows only what the compaction keeps. If this attempt kept counting from what was
        removed, a resumed one would not find its later calls. So no call may get a number between the write
        and the update of the counters: this is the one write under the lock.
        """
        with self._lock:
            noted = self._noted if self._noted is not None else set(self._counts)
            reduced = compacting.reduced
            if not write(noted & reduced.sites.keys()):
                return False
            for site in reduced.sites.keys() - reduced.needed - noted:
                self._counts.pop(site, None)
                self._free.pop(site, None)
            for forget in self.hooks.compacted:
                forget(compacting.upto_seq)
            self.view.shed(compacting.upto_seq, reduced.view())
            return True

    # -- calls in flight -------------------------------------------------------------------------------------

    def enter_call(self, key: str, work: "Work") -> bool:
        """Note a call as in flight; False if the same key is in flight already."""
        return self._in_flight.setdefault(key, work) is work  # one operation: it needs no lock

    def leave_call(self, key: str) -> None:
        """The call is not in flight any more."""
        self._in_flight.pop(key, None)

    def in_flight(self) -> "list[Work]":
        """The calls in flight now."""
        return list(self._in_flight.values())

    def next_number(self, site: str) -> int:
        """The number that the next call at this site will get."""
        with self._lock:
            free = self._free.get(site)
            return free[0] if free else self._counts.get(site, 0) + 1

    def take_number(self, site: str, n: int) -> None:
        """Reserve the number of an open call that turned out to be done: no other call may get it."""
        with self._lock:
            free = self._free.setdefault(site, [])
            if n in free:
                free.remove(n)
                heapify(free)
            else:
                for skipped in range(self._counts.get(site, 0) + 1, n):
                    heappush(free, skipped)
                self._counts[site] = max(n, self._counts.get(site, 0))

    def take_call(self, key: str) -> None:
        """Reserve a record that answers a call of another identity: no call of its own site gets it."""
        site, n = split_key(key)
        if n is not None:
            self.take_number(site, n)

    def latest_number(self, site: str) -> int:
        """The number of the latest call at this site that is done, in flight or in doubt; 0 if none."""
        with self._lock:
            number, free = self._counts.get(site, 0), self._free.get(site, ())
            while number in free:
                number -= 1
            return number

    def add_point(self) -> int:
        """Count one more step or checkpoint."""
        self.points = number = next(self._numbers)
        return number


def remember_failure(error: BaseException, held: HeldRun, key: str, seq: int) -> None:
    """Note on the exception which recorded failure it is, with the recorded failures that caused it.

    With the run's birth: a child's failure ends its parent, too, which may have a call of the same key and
    number.
    """
    found = [*_marks_behind(error), (held.birth, key, seq)]
    try:
        setattr(error, _AGAIN, found)
    except (AttributeError, TypeError):  # a class that takes no attributes: its step is then not tried again
        return


def failures_behind(error: BaseException, held: HeldRun) -> list[tuple[str, int]]:
    """The failures of this run that an exception stands for: the key and the seq of each."""
    return [(key, seq) for birth, key, seq in _marks_behind(error) if birth == held.birth]


def _marks_behind(error: BaseException | None, depth: int = 20) -> list[_Mark]:
    """The recorded failures that an exception stands for: its own, else those of its nearest recorded cause.

    It stops there: a failure that the program handled before that one was raised does not end the attempt.
    """
    if error is None or depth == 0:
        return []
    own = _marks_of(error)
    if own:
        return own
    if isinstance(error, BaseExceptionGroup):
        return [mark for inner in error.exceptions for mark in _marks_behind(inner, depth - 1)]
    context = error.__context__
    if error.__suppress_context__ and context is not None:
        return _marks_behind(error.__cause__, depth - 1) or _marks_of_response(context)
    return _marks_behind(error.__cause__, depth - 1) or _marks_behind(context, depth - 1)


def pass_on_failure(error: BaseException, to: object) -> None:
    """Note on what a client makes of an error, a response or an exception, which recorded failure it is."""
    with suppress(AttributeError, TypeError):
        setattr(to, _AGAIN, _marks_behind(error))


def _marks_of(error: BaseException) -> list[_Mark]:
    own: list[_Mark] = getattr(error, _AGAIN, [])
    return own or _marks_of_response(error)


def _marks_of_response(error: BaseException) -> list[_Mark]:
    """Those of the response that a client's error was made of: the client never saw the recorded failure."""
    for name in ("response", "raw_response"):
        found: list[_Mark] = getattr(vars(error).get(name), _AGAIN, [])
        if found:
            return found
    return []
