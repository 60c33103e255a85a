"""A step: answered from the journal, or intent, call, outcome, in that order, whatever happens in between.

Crash windows: before the intent, nothing happened. Between intent and outcome, a ``read`` or ``idempotent``
step runs again with the same key; a ``once`` step is in doubt and goes through ``doubt``. After the outcome, it
is answered and never runs again.
"""

import sys
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

from holdfast.codec.exceptions import encode_failure
from holdfast.codec.values import encode
from holdfast.core.journal.recorded_calls import is_once
from holdfast.core.steps.arguments import has_parameter, unwrap
from holdfast.core.steps.identity import idempotency_key
from holdfast.core.text.times import moment
from holdfast.engine.journal.journal import Draft, draft, written_despite
from holdfast.engine.run.call_site import HERE, Here, Trail
from holdfast.engine.run.features import Denied
from holdfast.engine.run.held_run import Tenure, remember_failure
from holdfast.engine.steps import drift, in_doubt, known_outcome
from holdfast.engine.steps.begun_elsewhere import giver_key
from holdfast.engine.steps.call_identity import Asked, answer, find_answer, identify, lost_of
from holdfast.engine.sync_async import Hands, OutOfTime, Straggler, load_threads
from holdfast.errors import (
    DeadlinePassed,
    HoldfastError,
    LeaseLost,
    Misuse,
    NotStorable,
    StepTimeout,
    StopSignal,
    TooLarge,
)
from holdfast.limits import RETRY_BACKOFF_S, RETRY_BACKOFF_S_MAX
from holdfast.model.calls import Call, Outcome, Treatment
from holdfast.model.events import Kind
from holdfast.model.markers import KEY

_REPEATED = frozenset({"read", "model"})
"""The effects of calls that are simply made again when they were cut off: their intent need not be synced."""
_DRIFT_STOPS = frozenset({"once", "model"})
"""Where something else stands recorded, these are not made: one acts on the world, the other costs money."""


async def step(
    tenure: Tenure,
    hands: Hands,
    treatment: Treatment,
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The recorded outcome of this call, or the outcome of running it now, recorded before it is returned."""
    tenure.check_usable()
    tenure.wake_for(treatment)
    hooks = tenure.hooks
    for permit in hooks.permit:
        permitted = await permit(hands, treatment, name, fn, args, kwargs)
        if isinstance(permitted, Denied):
            return permitted.value
        treatment = permitted
    asked = identify(tenure, treatment, name, fn, args, kwargs)
    try:
        call = tenure.view.calls.get(asked.key)
        if hooks.meet or hooks.claim:
            call = await _look_around(tenure, hands, treatment, asked, fn, call)
        found = await find_answer(tenure, hands, asked, call, fn)
        if found is not None:
            return found.value
        work = Work(tenure, hands, treatment, asked, fn, args, kwargs)
        settled = await work.enter(call)
        if call is not None and settled is not None:
            tenure.note_given(settled)
            return await hands.store(answer, tenure, asked, call, settled, fn)
        return await work.perform()
    finally:
        tenure.land(asked.site)


async def _look_around(
    tenure: Tenure,
    hands: Hands,
    treatment: Treatment,
    asked: Asked,
    fn: Callable[..., Any],
    call: Call | None,
) -> Call | None:
    """Let features see the call; the record that one of them has made of it, where the journal had none."""
    try:
        for meet in tenure.hooks.meet:
            to_do = meet(hands, treatment, asked.name, fn)
            if to_do is not None:
                await to_do
        for claim in tenure.hooks.claim if call is None else ():
            call = call or await claim(hands, treatment, asked)
    except BaseException:
        tenure.unclaim(asked.site, asked.n)
        raise
    return call


class Work:
    """One live call: what is known of it from the intent to the outcome."""

    __slots__ = (
        "_acted",
        "_concluded",
        "_delegated",
        "_succeeded",
        "_unwritten",
        "args",
        "asked",
        "deadline",
        "fn",
        "hands",
        "idem",
        "intent",
        "intent_seq",
        "kwargs",
        "started_at",
        "tenure",
        "treatment",
    )

    def __init__(
        self,
        tenure: Tenure,
        hands: Hands,
        treatment: Treatment,
        asked: Asked,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.tenure = tenure
        self.hands = hands
        self.treatment = treatment
        self.asked = asked
        self.fn = fn
        self.args, self.kwargs = unwrap(args, kwargs)
        self.idem = ""
        self.intent = b""
        self.intent_seq = 0
        self.started_at = tenure.clock.wall()
        self._acted = False
        self._concluded = False
        self._delegated = False
        self._succeeded = False
        self._unwritten: tuple[Draft, ...] = ()
        self.deadline = treatment.deadline
        if treatment.deadline is not None:
            # A call that was begun before keeps the deadline it was begun with.
            self.deadline = tenure.recorded(asked.key, "deadline") or treatment.deadline
        wants_key = has_parameter(fn, "idempotency_key")
        if wants_key or treatment.effect not in _REPEATED:
            # A call that was begun before keeps the key it was begun with, also where a fork goes on with it.
            self.idem = minted_key(tenure, asked.key)
            if wants_key and self.kwargs.get("idempotency_key", KEY) is KEY:
                self.kwargs["idempotency_key"] = self.idem

    async def enter(self, call: Call | None) -> Outcome | None:
        """Find out whether the call may be made now. The outcome, where one is found out about on the way."""
        tenure, asked, effect = self.tenure, self.asked, self.treatment.effect
        settled: Outcome | None = None
        try:
            tenure.require_journal(asked.name)
            if call is None and tenure.may_drift:
                await drift.judge(tenure, self.hands, asked, stops=effect in _DRIFT_STOPS)
            elif call is not None and call.is_open and (effect == "once" or is_once(call)):
                settled = await in_doubt.settle_recorded(self, call)
            if settled is None and not tenure.enter_call(asked.key, self):
                raise Misuse(
                    problem=f"step {asked.name!r} with this key is running already",
                    advice="a key is one call: wait for it",
                )
            if settled is None and tenure.attendant is not None:
                tenure.attendant.began(self)
        except BaseException:
            tenure.unclaim(asked.site, asked.n)
            raise
        return settled

    async def perform(self) -> Any:
        """Run the call to a recorded outcome, again as often as it may be."""
        try:
            for before in self.tenure.hooks.before:
                await before(self.hands, self)
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

    async def begin(self) -> None:
        """Record that the call is about to be made."""
        if self._timeout_s() is not None:
            load_threads()
        intent = self._intent({})
        self.intent = intent.body
        if self._left_s() <= 0:
            # It goes with its failure, in one append: an effect that is not tried is never in doubt.
            self._unwritten = (intent,)
            return
        effect = self.treatment.effect
        # Only a read may be made by a process that has lost its run and does not know it yet.
        self.intent_seq = await self.append(intent, synced=effect not in _REPEATED, hasty=effect == "read")

    def leave(self) -> None:
        """The call is over, as far as the program goes."""
        asked, tenure = self.asked, self.tenure
        asked.here.trail.last = asked.key
        if tenure.attendant is not None:
            tenure.attendant.ended(self, None if self._succeeded else sys.exc_info()[1])
        if not self._succeeded:
            tenure.unclaim(asked.site, asked.n)
        if self._acted and not self._concluded and self.treatment.effect == "once":
            self._keep_open()
        if not self._delegated:
            tenure.leave_call(asked.key)

    def _keep_open(self) -> None:
        """Something went wrong between the effect and its record: a program that goes past it must not make the effect again."""
        call = self.tenure.view.calls.get(self.asked.key)
        if call is None or not call.is_open:
            in_doubt.keep_open(self, "ended, and its outcome could not be recorded")

    def _intent(self, more: dict[str, Any], parts: dict[str, Any] | None = None) -> Draft:
        asked = self.asked
        fields: dict[str, Any] = {
            "effect": self.treatment.effect,
            "in": asked.point.scope,
            "after": asked.point.after,
            **more,
        }
        if asked.point.forked:
            fields["forked"] = True
        if self.treatment.refetchable:
            fields["refetchable"] = True
        if self.idem:
            fields |= self._keyed()
        if self.treatment.is_tool:
            fields["tool"] = True
        if self.treatment.effect == "once":
            fields |= self._in_doubt()
        if self.deadline is not None:
            fields["deadline"] = self.deadline
        if self.treatment.approved_seq:
            fields["approved"] = self.treatment.approved_seq
        for intent in self.tenure.hooks.intent:
            fields = intent(self, fields)
        return draft(Kind.STEP_STARTED, asked.name, asked.key, fields, asked.arguments, "args", parts=parts)

    def _keyed(self) -> dict[str, Any]:
        """The key, which is the same wherever the run goes; and where it came from elsewhere, whose call it is."""
        owner = self.tenure.owner
        return {"idempotency_key": self.idem, **({"owner": owner} if owner else {})}

    def _in_doubt(self) -> dict[str, Any]:
        """What is declared for the case that nobody knows whether it happened: for whoever plans without the program."""
        policy, verify = self.treatment.in_doubt, self.treatment.verify
        return {
            **({} if policy == "stop" else {"in_doubt": policy}),
            **({} if verify is None else {"verify": True}),
        }

    async def _try(self) -> Any:
        """Call the function and record what came of it. ``Again`` when it failed and may be tried again."""
        tenure, asked, treatment = self.tenure, self.asked, self.treatment
        here = asked.here
        is_once = treatment.effect == "once"
        if self._left_s() <= 0:
            late = self._too_late()
            await self.record_failure(late)
            raise late
        inside = Here(
            tenure, asked.key, Trail(here.trail.task, ""), here.depth + 1, asked.name if is_once else ""
        )
        began = tenure.clock.monotonic()
        self._acted = True
        token = HERE.set(inside)
        try:
            value = await self.hands.invoke(self.fn, self.args, self.kwargs, self._timeout_s())
        except Straggler as straggler:
            return await self._straggled(straggler, began)
        except StopSignal:
            raise
        except Exception as error:  # noqa: BLE001 - every failure of the user's code is recorded, then raised
            return await self._failed(self._named(error), began)
        except BaseException as cut:
            if is_once:
                await in_doubt.record(self, f"was cut off by {type(cut).__name__}")
            raise
        finally:
            HERE.reset(token)
        await self.succeed(value, {"ms": self._took_ms(began)})
        return value

    async def succeed(self, value: Any, fields: dict[str, Any], parts: dict[str, Any] | None = None) -> None:
        """Record that the call came to this value. Durable when it returns; NotStorable or TooLarge after that."""
        data, refused = self.encode(value)
        if refused is not None:
            parts = {**(parts or {}), "lost": lost_of(refused)}
        await self.conclude(
            draft(Kind.STEP_FINISHED, self.asked.name, self.asked.key, fields, data, parts=parts), good=True
        )
        if refused is not None:
            raise refused

    def _took_ms(self, began: float) -> float:
        return round((self.tenure.clock.monotonic() - began) * 1000, 3)

    def encode(self, value: Any) -> tuple[bytes | None, HoldfastError | None]:
        """The value as bytes. One that cannot be written down is recorded as done all the same, and then refused."""
        try:
            return encode(value, what=f"result of {self.asked.name!r}"), None
        except (NotStorable, TooLarge) as refused:
            return None, refused

    async def _failed(self, error: Exception, began: float) -> Any:
        treatment = self.treatment
        if treatment.effect == "once" and not isinstance(error, treatment.harmless):
            return await in_doubt.settle_live(self, error)
        if self.may_retry(error):
            raise Again(error)
        await self.record_failure(error, began)
        raise error

    def may_retry(self, error: BaseException) -> bool:
        """Whether the call has tries left for this failure; the count travels on the treatment."""
        return self.treatment.retries > 0 and not isinstance(error, Misuse)

    async def record_failure(self, error: BaseException, began: float | None = None) -> None:
        """Record that the call failed and certainly did nothing that matters."""
        fields = {} if began is None else {"ms": self._took_ms(began)}
        parts = {"error": encode_failure(error)}
        failed = draft(Kind.STEP_FAILED, self.asked.name, self.asked.key, fields, parts=parts)
        seq = await self.conclude(failed, good=False)
        remember_failure(error, self.asked.key, seq)

    async def _wait_and_retry(self, failures: int, error: BaseException) -> None:
        self.treatment = self.treatment._replace(retries=self.treatment.retries - 1)
        wait_s = min(RETRY_BACKOFF_S * 2 ** (failures - 1), RETRY_BACKOFF_S_MAX)
        fields, parts = {"failures": failures, "wait_s": wait_s}, {"error": encode_failure(error)}
        retried = draft(Kind.STEP_RETRIED, self.asked.name, self.asked.key, fields, parts=parts)
        await self.append(retried, synced=False)
        await self.hands.sleep(self.tenure.clock, max(0.0, min(wait_s, self._left_s())))

    def _left_s(self) -> float:
        """How long there is until the call's deadline."""
        return inf if self.deadline is None else self.deadline - self.tenure.clock.wall()

    def _timeout_s(self) -> float | None:
        """How long a try may take: its own limit, or what is left until the deadline."""
        if self.deadline is None:
            return self.treatment.timeout_s
        return min(self.treatment.timeout_s or inf, max(self._left_s(), 0.001))

    def _too_late(self) -> DeadlinePassed:
        assert self.deadline is not None
        return DeadlinePassed(run=self.tenure.run, step=self.asked.name, deadline=moment(self.deadline))

    async def _straggled(self, straggler: Straggler, began: float) -> Any:
        """The caller stopped waiting, the function did not stop. A once call is followed to its end."""
        reason = self._named(straggler.reason)
        if self.treatment.effect != "once":
            if isinstance(reason, Exception):
                return await self._failed(reason, began)
            raise reason
        self._delegated = True
        in_doubt.keep_open(self, None)
        straggler.on_finish(lambda result: in_doubt.follow(self, result))
        if isinstance(reason, Exception):
            raise in_doubt.in_doubt(self, "ran past its timeout and is still running") from reason
        raise reason

    def _named(self, error: Exception | BaseException) -> Any:
        if isinstance(error, OutOfTime):
            if self._left_s() <= 0 or self.treatment.timeout_s is None:
                return self._too_late()
            return StepTimeout(run=self.tenure.run, step=self.asked.name, timeout_s=self.treatment.timeout_s)
        return error

    def append(self, *events: Draft, synced: bool = True, hasty: bool = False) -> Awaitable[int]:
        """Append events of this call to the journal."""
        journal = self.tenure.journal
        assert journal is not None
        at = self.tenure.clock.wall()
        return journal.append(self.hands, self.written_with(*events), at, synced=synced, hasty=hasty)

    def written_with(self, *events: Draft) -> tuple[Draft, ...]:
        """The events, behind the intent where that is not in the journal yet."""
        events, self._unwritten = (*self._unwritten, *events), ()
        return events

    async def conclude(self, event: Draft, *, good: bool) -> int:
        """Append an outcome: it is not given up while it may yet be written. If the lease is gone, leave it in the inbox."""
        extras = [extra for hook in self.tenure.hooks.outcome if (extra := hook(self, event)) is not None]
        try:
            events = self.written_with(event, *(extra.event for extra in extras))
            seq = await known_outcome.append(self, events) - len(extras)
        except LeaseLost:
            if self.treatment.effect != "read":
                await in_doubt.post_late_outcome(self, event, good=good)
            raise
        except BaseException as cut:
            self._cut_off_in_writing(cut, event, good=good, behind=len(extras))
            raise
        stops = [stop for extra in extras if (stop := extra.recorded(seq)) is not None]
        if stops and not self._delegated:  # else the program waits for this call no more
            # A program that swallows the stop and asks again is given what is recorded.
            self._conclude(event, seq, good=good, is_given=False)
            raise stops[0]
        self._succeeded = good
        self._conclude(event, seq, good=good, is_given=True)
        return seq

    def _conclude(self, event: Draft, seq: int, *, good: bool, is_given: bool) -> None:
        tenure, asked = self.tenure, self.asked
        self._concluded = True
        point = tenure.add_point()
        # What can be asked for again in this very tenure: an explicit key, what the view knew as open, and an
        # outcome that the program was cut off from.
        if not is_given or not asked.site or asked.key in tenure.view.calls or tenure.remembers:
            tenure.remember(asked.key, asked.name, Outcome(seq, good, point, event.body), is_given=is_given)
        if tenure.remembers:  # whoever looks it up is told what was asked for, too
            tenure.view.calls[asked.key].seq, tenure.view.calls[asked.key].body = self.intent_seq, self.intent

    def _cut_off_in_writing(self, cut: BaseException, event: Draft, *, good: bool, behind: int) -> None:
        """The outcome was on its way. Written, it answers the next call; not written, a once effect is in doubt."""
        seq = written_despite(cut)
        if seq is not None:
            self._conclude(event, seq - behind, good=good, is_given=False)
        elif self.treatment.effect == "once":
            in_doubt.keep_open(self, f"ended, and its outcome could not be written ({type(cut).__name__})")


def minted_key(tenure: Tenure, key: str) -> str:
    """The idempotency key of the call with this key: the one that it was begun with, or its own."""
    recorded: str | None = tenure.recorded(key, "idempotency_key")
    call = tenure.view.calls.get(key)
    if recorded is None and call is not None and call.seq:
        recorded = giver_key(tenure.intent_of(call))
    return recorded or idempotency_key(tenure.birth, key)


class Again(Exception):
    """The call failed and has tries left."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
