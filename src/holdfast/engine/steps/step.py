"""Executes a step: answers from the journal, or appends an intent, calls the function, appends the outcome.

Invariants: the intent of an ``idempotent`` or ``once`` effect is on disk before the function is called; that
of a plain ``read`` goes with its outcome. The program gets a result only after its outcome is on disk.

Crash windows: before the intent, nothing happened. Between intent and outcome, a ``read`` or ``idempotent``
step runs again, with the same idempotency key; a ``once`` step is in doubt, and ``in_doubt`` settles it.
After the outcome, the step is answered from the journal and never runs again.
"""

import sys
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from os import getpid
from typing import Any

from holdfast.codec.exceptions import encode_failure
from holdfast.codec.values import encode, encode_quickly
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.steps.arguments import has_parameter, unwrap
from holdfast.core.text.times import moment
from holdfast.engine.journal.deferred_intents import defer
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.run.call_site import CALL_SITE, BodySite
from holdfast.engine.run.features import Denied, Extra
from holdfast.engine.run.held_run import HeldRun, remember_failure
from holdfast.engine.steps import given_arguments, in_doubt
from holdfast.engine.steps.begun_elsewhere import minted_key
from holdfast.engine.steps.call_identity import (
    RequestedCall,
    answer,
    answer_at_hand,
    find_answer,
    identify,
    intent_of,
    look_around,
    lost_of,
    unclaiming,
)
from holdfast.engine.sync_async import OutOfTime, Runtime, Straggler, call_here, is_async, load_threads
from holdfast.errors import (
    DeadlinePassed,
    HoldfastError,
    Misuse,
    NotStorable,
    StepTimeout,
    StopSignal,
    TooLarge,
)
from holdfast.limits import RETRY_BACKOFF_S, RETRY_BACKOFF_S_MAX
from holdfast.model.calls import READ, Call, CallOptions, Outcome
from holdfast.model.events import Kind
from holdfast.model.markers import KEY, KNOWN, LINEAGE, SHAPES
from holdfast.model.store_rows import Append

_REPEATED = frozenset({"read", "model"})
"""Effects that are simply made again after a crash: their intents need not be synced."""


async def step(
    held: HeldRun,
    runtime: Runtime,
    call_options: CallOptions,
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The recorded outcome of this call, or the outcome of calling it now. Durable when it returns."""
    if held.is_closed or held.sealed is not None or held.pid != getpid():
        held.check_usable()
    if call_options is not held.awake_for:
        held.wake_for(call_options)
    hooks = held.hooks
    for permit in hooks.permit:
        permitted = await permit(runtime, call_options, name, fn, args, kwargs)
        if isinstance(permitted, Denied):
            return permitted.value
        call_options = permitted
    asked = identify(held, call_options, name, fn, args, kwargs)
    return await identified(held, runtime, call_options, asked, fn, args, kwargs)


async def identified(
    held: HeldRun,
    runtime: Runtime,
    call_options: CallOptions,
    asked: RequestedCall,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The rest of ``step`` for a call with an identity."""
    try:
        hooks = held.hooks
        for recognize in hooks.recognize if asked.data is not None else ():
            asked = await recognize(runtime, call_options, asked)
        call, met = held.view.calls.get(asked.key), getattr(fn, "__code__", None)
        for meet in hooks.meet:
            to_do = meet(runtime, call_options, asked.name, fn)
            if to_do is not None:
                met = None
                await unclaiming(held, asked, to_do)
        hooks.met[asked.name] = met
        found = None if call is None else answer_at_hand(held, asked, call)
        if found is not None:
            return found[0]
        if hooks.claim and (call is None or (call_options.effect == "once" and call.is_spent)):
            asked, call = await look_around(held, runtime, call_options, asked, fn, call)
        if call is not None:
            found = await find_answer(held, runtime, asked, call, fn)
            if found is not None:
                return found.value
        work = Work(held, runtime, call_options, asked, fn, args, kwargs)
        if call is None and not hooks.live:
            work.enter_new()
        else:
            settled = await work.enter(call)
            if call is not None and settled is not None:
                held.note_given(settled)
                return await runtime.store(answer, held, asked, call, settled, fn)
        return await work.perform()
    finally:
        held.land(asked.site)


class Work:
    """One live call, from the intent to the outcome."""

    # Most calls never change these: what a class has, each call need not be given.
    idem = ""
    intent = b""
    intent_seq = 0
    deadline: float | None = None
    acted = concluded = succeeded = False
    _delegated = False
    given: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # if the function gets something else
    _drafted: Draft | None = None
    """The intent, if it is made and could not be deferred."""
    unwritten: tuple[Draft, ...] = ()

    def __init__(
        self,
        held: HeldRun,
        runtime: Runtime,
        call_options: CallOptions,
        asked: RequestedCall,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.held = held
        self.runtime = runtime
        self.call_options = call_options
        self.asked = asked
        self.fn = fn
        self.started_at = held.clock.wall()
        if asked.is_plain:
            self.args, self.kwargs, wants_key = args, kwargs, False
        else:
            self.given = args, kwargs
            self.args, self.kwargs = unwrap(args, kwargs)
            wants_key = has_parameter(fn, "idempotency_key")
        if call_options is READ and not wants_key:
            return
        self.deadline = call_options.deadline
        if self.deadline is not None:
            # An earlier attempt may have begun the call: its deadline still counts.
            self.deadline = held.recorded(asked.key, "deadline") or self.deadline
        if wants_key or call_options.effect not in _REPEATED:
            # A call that an earlier attempt or a fork's origin began keeps its key, so that the outside
            # service recognises the repeat.
            self.idem = minted_key(held, asked.key)
            if wants_key and self.kwargs.get("idempotency_key", KEY) is KEY:
                self.kwargs["idempotency_key"] = self.idem

    async def enter(self, call: Call | None) -> Outcome | None:
        """Check that the call may be made now. Returns an outcome if settling a doubt has found one."""
        held, asked, effect = self.held, self.asked, self.call_options.effect
        settled: Outcome | None = None
        try:
            if call is None or (effect == "once" and call.is_spent):
                for live in held.hooks.live:
                    await live(self)
            if call is not None and call.is_open and (effect == "once" or is_once(call)):
                held.require_journal(asked.name)
                settled = await in_doubt.settle_recorded(self, call)
        except BaseException:
            held.unclaim(asked.site, asked.n)
            raise
        if settled is None:
            self.enter_new()
        return settled

    def enter_new(self) -> None:
        """Check that a call that nothing is recorded of may be made now: the rest of ``enter``."""
        held, asked = self.held, self.asked
        try:
            held.require_journal(asked.name)
            if not held.enter_call(asked.key, self):
                raise Misuse(
                    problem=f"step {asked.name!r} with this key is running already",
                    advice="a key is one call: wait for it",
                )
            if held.observer is not None:
                held.observer.began(self)
        except BaseException:
            held.unclaim(asked.site, asked.n)
            raise

    async def perform(self) -> Any:
        """Call the function, with retries, until an outcome is recorded."""
        handler, is_held_back = self.held.sigterm, False
        try:
            if handler is not None and self.held.entry is not None and self.call_options.effect == "once":
                is_held_back = await handler.begin(self.held, self.held.entry.drain_s)
            for before in self.held.hooks.before:
                await before(self.runtime, self)
            if not self.defers():
                await self.begin()
            failures = 0
            while True:
                try:
                    return await self._try()
                except Again as again:
                    failures += 1
                    await self._wait_and_retry(failures, again.error)
        finally:
            self.leave()
            if handler is not None and is_held_back:
                await handler.end()

    def defers(self) -> bool:
        """Let the intent of a plain read go with its outcome, if nothing can need it before that."""
        options, held = self.call_options, self.held
        if options.effect != "read" or self.deadline is not None or options.approved_seq:
            return False
        journal = held.journal
        if held.hooks.before or held.remembers or journal is None:
            return False  # a saved state, or a reader, may name the call
        if options.timeout_s is not None:
            load_threads()
        self._drafted = intent = intent_of(self, {}, at=self.started_at)
        self.intent = intent.body
        return defer(journal, intent, is_noted=not self.runtime.waits)

    async def begin(self) -> None:
        """Append the intent: the call is about to be made."""
        if self.call_options.timeout_s is not None or self.deadline is not None:
            load_threads()  # an import that fails after the intent would leave a doubt for nothing
        intent = intent_of(self, {}) if self._drafted is None else self._drafted._replace(at=None)
        self.intent = intent.body
        if self.deadline is not None and self._left_s() <= 0:
            # Too late to call. The intent goes into one append with the failure: a crash between two appends
            # would leave an effect in doubt that was never tried.
            self.unwritten = (intent,)
            return
        effect = self.call_options.effect
        # Only a read is hasty: it does no harm if this process has lost its lease and does not know it yet.
        self.intent_seq = await self.append(intent, synced=effect not in _REPEATED, hasty=effect == "read")

    async def refuse(self, error: HoldfastError, *events: Draft) -> None:
        """Record that the call is not made, and these events, in one append. A replay gets the error."""
        intent = intent_of(self, {})
        self.intent, self.unwritten = intent.body, (*events, intent)
        self.asked.here.task_calls.passed(self.asked.key)
        await self.record_failure(error)

    def leave(self) -> None:
        """End the call for the program: a call that did not succeed frees its number, a doubt stays open."""
        asked, held = self.asked, self.held
        asked.here.task_calls.passed(asked.key)
        if held.observer is not None:
            held.observer.ended(self, None if self.succeeded else sys.exc_info()[1])
        if not self.succeeded:
            held.unclaim(asked.site, asked.n)
        if self.acted and not self.concluded and self.call_options.effect == "once":
            self._keep_open()
        if not self._delegated:
            held.leave_call(asked.key)

    def _keep_open(self) -> None:
        """The effect may have happened and has no record: a program that continues must not repeat it."""
        call = self.held.view.calls.get(self.asked.key)
        if call is None or not call.is_open:
            in_doubt.keep_open(self, "ended, and its outcome could not be recorded")

    async def _try(self) -> Any:
        """Call the function once and record its outcome. Raises ``Again`` if it failed and has tries left."""
        held, asked, call_options = self.held, self.asked, self.call_options
        acts_once = call_options.effect == "once"
        if self.deadline is not None and self._left_s() <= 0:
            late = self._too_late()
            await self.record_failure(late)
            raise late
        inside = BodySite(asked.here, asked.point.path, asked.key, asked.name if acts_once else "")
        is_checked = given_arguments.is_due(asked.name) or held.checks_arguments
        given = given_arguments.given_to(self) if is_checked else None
        began = held.clock.monotonic()
        self.acted = True  # from here on the effect may happen
        token = CALL_SITE.set(inside)
        timeout_s = call_options.timeout_s if self.deadline is None else self._timeout_s()
        try:
            if timeout_s is None and self.runtime.waits and is_async(self.fn):
                value = await self.fn(*self.args, **self.kwargs)  # ``invoke`` would be one coroutine more
            elif self.runtime.waits or timeout_s is not None:
                value = await self.runtime.invoke(self.fn, self.args, self.kwargs, timeout_s)
            else:
                value = call_here(self.fn, self.args, self.kwargs)
        except Straggler as straggler:
            return await self._straggled(straggler, began)
        except BaseException as error:  # noqa: BLE001 - every failure of the user's code is recorded, then raised
            return await self.ended_by(error, began)
        finally:
            CALL_SITE.reset(token)
        await self.succeed(value, {"ms": held.ms_since(began)})
        if given:
            given_arguments.check(self, given, value)
        return value

    async def ended_by(self, error: BaseException, began: float) -> Any:
        """The function raised this: record what that means, and raise what the program gets.

        A ``once`` call may be found done after all: then its value.
        """
        if isinstance(error, StopSignal):
            raise error  # a call inside of it stopped the attempt: this step has no outcome
        if isinstance(error, Exception):
            return await self._failed(self._named(error), began)
        # Ctrl-C, SIGTERM or a cancelled task: the effect may have happened
        if self.call_options.effect == "once":
            await in_doubt.record(self, f"was cut off by {type(error).__name__}")
        raise error

    async def succeed(self, value: Any, fields: dict[str, Any], parts: dict[str, Any] | None = None) -> None:
        """Record the call's value, durably. NotStorable or TooLarge only after it is recorded as done."""
        data, refused = None if SHAPES else encode_quickly(value), None
        if data is None:
            data, refused = self.encode(value)
        if refused is not None:
            parts = {**(parts or {}), "lost": lost_of(refused)}
        asked = self.asked
        finished = draft(Kind.STEP_FINISHED, asked.name, asked.key, fields, data, parts=parts)
        await self.conclude(finished, good=True)
        if refused is not None:
            raise refused

    def encode(self, value: Any) -> tuple[bytes | None, HoldfastError | None]:
        """The value as bytes, or why it cannot be stored; the call is recorded as done in both cases."""
        try:
            if KNOWN:  # the function may have used another run
                LINEAGE.set(self.held.lineage)
            data = encode(value, what=f"result of {self.asked.name!r}")
            if SHAPES:
                from holdfast.engine.steps.new_tokens import judge_tokens

                judge_tokens(self.held.store, self.asked.name, data)
        except (NotStorable, TooLarge) as refused:
            return None, refused
        return data, None

    async def _failed(self, error: Exception, began: float) -> Any:
        call_options = self.call_options
        if call_options.effect == "once" and not isinstance(error, call_options.harmless):
            return await in_doubt.settle_live(self, error)
        if self.may_retry(error):
            raise Again(error)
        await self.record_failure(error, began)
        raise error

    def may_retry(self, error: BaseException) -> bool:
        """Whether the call has tries left for this failure. ``call_options.retries`` counts down."""
        return self.call_options.retries > 0 and not isinstance(error, Misuse)

    async def record_failure(self, error: BaseException, began: float | None = None) -> None:
        """Record a failure that leaves no doubt: the effect is safe to repeat, or did not happen."""
        fields = {} if began is None else {"ms": self.held.ms_since(began)}
        parts = {"error": encode_failure(error)}
        failed = draft(Kind.STEP_FAILED, self.asked.name, self.asked.key, fields, parts=parts)
        seq = await self.conclude(failed, good=False)
        remember_failure(error, self.held, self.asked.key, seq)

    async def _wait_and_retry(self, failures: int, error: BaseException) -> None:
        self.call_options = self.call_options._replace(retries=self.call_options.retries - 1)
        wait_s = min(RETRY_BACKOFF_S * 2 ** (failures - 1), RETRY_BACKOFF_S_MAX)
        fields, parts = {"failures": failures, "wait_s": wait_s}, {"error": encode_failure(error)}
        retried = draft(Kind.STEP_RETRIED, self.asked.name, self.asked.key, fields, parts=parts)
        await self.append(retried, synced=False)  # only a report: the intent and a recorded doubt stay
        await self.runtime.sleep(self.held.clock, max(0.0, min(wait_s, self._left_s())))

    def _left_s(self) -> float:
        """The time until the call's deadline."""
        return inf if self.deadline is None else self.deadline - self.held.clock.wall()

    def _timeout_s(self) -> float | None:
        """How long a try may take: ``timeout_s``, or the time until the deadline if that is shorter."""
        if self.deadline is None:
            return self.call_options.timeout_s
        return min(self.call_options.timeout_s or inf, max(self._left_s(), 0.001))

    def _too_late(self) -> DeadlinePassed:
        assert self.deadline is not None
        return DeadlinePassed(run=self.held.run, step=self.asked.name, deadline=moment(self.deadline))

    async def _straggled(self, straggler: Straggler, began: float) -> Any:
        """The caller stopped waiting, and the function still runs in its thread.

        Its result still counts for a ``once`` call: ``in_doubt.follow`` records it when it comes.
        """
        reason = self._named(straggler.reason)
        if self.call_options.effect != "once":
            if isinstance(reason, Exception):
                return await self._failed(reason, began)
            raise reason
        self._delegated = True
        in_doubt.keep_open(self, None)  # before the callback, which may settle it at once
        straggler.on_finish(lambda result: in_doubt.follow(self, result))
        if isinstance(reason, Exception):
            raise in_doubt.in_doubt(self, "ran past its timeout and is still running") from reason
        raise reason

    def _named(self, error: Exception | BaseException) -> Any:
        """The error that the program gets: OutOfTime becomes StepTimeout or DeadlinePassed."""
        if isinstance(error, OutOfTime):
            if self._left_s() <= 0 or self.call_options.timeout_s is None:
                return self._too_late()
            return StepTimeout(run=self.held.run, step=self.asked.name, timeout_s=self.call_options.timeout_s)
        return error

    def append(self, *events: Draft, synced: bool = True, hasty: bool = False) -> Awaitable[int]:
        """Append events of this call to the journal."""
        journal = self.held.journal
        assert journal is not None
        at = self.held.clock.wall()
        return journal.append(self.runtime, self.written_with(*events), at, synced=synced, hasty=hasty)

    def written_with(self, *events: Draft) -> tuple[Draft, ...]:
        """The events, after the intent if that is not in the journal yet."""
        events, self.unwritten = (*self.unwritten, *events), ()
        return events

    async def conclude(self, event: Draft, *, good: bool, extras: Sequence[Extra] | None = None) -> int:
        """Append an outcome; durable when it returns. If the lease is lost, post it to the inbox."""
        held = self.held
        unsure: list[Append] = []
        if extras is None:
            extras = self.extras(event)
        events: tuple[Draft, ...] = (event,)
        if extras or self.unwritten:
            # Features add events to the same append, so that no crash separates them from the outcome.
            events = self.written_with(event, *(extra.event for extra in extras))
        journal, at = held.journal, held.clock.wall()
        assert journal is not None
        try:
            seq = await journal.append(self.runtime, events, at, unsure=unsure)
        except BaseException as cut:  # noqa: BLE001 - raised again, with what it means
            behind = len(extras)
            seq = await in_doubt.write_outcome(self, cut, event, events, at, unsure, good=good, behind=behind)
        return self.settle(event, seq - len(extras), extras, good=good)

    def extras(self, event: Draft) -> Sequence[Extra]:
        """What features add to the append of this outcome."""
        extras: Sequence[Extra] = ()
        for hook in self.held.hooks.outcome:
            extra = hook(self, event)
            if extra is not None:
                extras = [*extras, extra]
        return extras

    def settle(self, event: Draft, seq: int, extras: Sequence[Extra], *, good: bool) -> int:
        """The outcome is in the journal, with the events of features behind it. Raises their stop-signals."""
        stops = [stop for extra in extras if (stop := extra.recorded(seq)) is not None] if extras else ()
        if stops and not self._delegated:  # a delegated call has no caller that could be stopped
            # If the program swallows the stop and calls again, it gets this outcome.
            self.conclude_at(event, seq, good=good, is_given=False)
            raise stops[0]
        self.succeeded = good
        self.conclude_at(event, seq, good=good, is_given=True)
        return seq

    def conclude_at(self, event: Draft, seq: int, *, good: bool, is_given: bool) -> None:
        """The outcome is in the journal."""
        held, asked = self.held, self.asked
        self.concluded = True
        point = held.add_point()
        # Only outcomes that this attempt can need again are kept in memory: those of explicit keys, of calls
        # that the view knows, and those that the program did not receive.
        if not is_given or not asked.site or asked.key in held.view.calls or held.remembers:
            held.remember(asked.key, asked.name, Outcome(seq, good, point, event.body), is_given=is_given)
        if held.remembers:  # a reader of the record wants the arguments, too
            held.view.calls[asked.key].seq, held.view.calls[asked.key].body = self.intent_seq, self.intent


class Again(Exception):
    """The call failed and has tries left."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
