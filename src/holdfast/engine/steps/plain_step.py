"""A plain step: what ``step`` does, in a thread that waits without a coroutine, in a task with a single one.

Most calls of a program are plain: ``run.step`` or ``run.once``, no feature has anything to add, and the store
answers at once. For these, the layers between the program and the store would cost more than what they do. So
they are made here, out of the parts that ``step`` has, too; whatever is unusual is left to ``step``. The
order of intent, call and outcome is the same, and so is each crash window.

Hundreds of tasks wait for the same commit, and the collector looks at all that each of them keeps: so it is
little.

Invariant: a program writes the same journal either way; ``tests/property/test_plain_steps.py`` compares them.
"""

from collections.abc import Callable, Coroutine
from os import getpid
from types import CoroutineType, FunctionType
from typing import Any, Final

from holdfast.codec.values import encode_quickly
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.run.call_site import CALL_SITE, BodySite
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps import given_arguments, in_doubt
from holdfast.engine.steps.call_identity import answer_at_hand, asked_now, intent_of, requested
from holdfast.engine.steps.step import Work, identified, step
from holdfast.engine.sync_async import AWAITING, BLOCKING, COROUTINE, call_here, drive
from holdfast.model.calls import ONCE, READ, CallOptions
from holdfast.model.events import Kind
from holdfast.model.markers import SHAPES
from holdfast.model.store_rows import Append

_FINISHED: Final = Kind.STEP_FINISHED


def step_here(
    held: HeldRun,
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
    if hooks.permit:
        return drive(step(held, BLOCKING, call_options, name, fn, args, kwargs))
    code = fn.__code__ if (is_function := type(fn) is FunctionType) else getattr(fn, "__code__", None)
    asked = asked_now(held, call_options, name, fn, code if is_function else None, args, kwargs)
    if code is not None and hooks.met.get(asked[0]) is code and (asked[9] is None or not hooks.recognize):
        call = held.view.calls.get(asked[1])
        if call is not None:
            found = answer_at_hand(held, asked, call)
            if found is not None:
                held.claims.remove(asked[2])  # as ``land``, of a call that has claimed its site
                return found[0]
        elif (
            (call_options is READ or call_options is ONCE)
            and asked[2]
            and not (hooks.claim or hooks.live or hooks.before or held.remembers)
            and held.observer is None
        ):
            try:
                return _make(Work(held, BLOCKING, call_options, requested(asked), fn, args, kwargs))
            finally:
                held.land(asked[2])
    return drive(identified(held, BLOCKING, call_options, requested(asked), fn, args, kwargs))


def _make(work: Work) -> Any:
    """As ``Work.enter_new`` and ``Work.perform``: the call of a function that has no time limit."""
    held, asked, acts_once = work.held, work.asked, work.call_options is ONCE
    work.enter_new()
    handler, is_held_back = held.sigterm if acts_once else None, False
    try:
        if handler is not None and held.entry is not None:
            is_held_back = drive(handler.begin(held, held.entry.drain_s))
        if acts_once:
            _begin(work)
        elif not work.defers():
            drive(work.begin())
        is_checked = given_arguments.is_due(asked[0]) or held.checks_arguments
        given = given_arguments.given_to(work) if is_checked else None
        inside = BodySite(asked[5], asked[6][3], asked[1], asked[0] if acts_once else "")
        began = held.clock.monotonic()
        work.acted = True  # from here on the effect may happen
        token = CALL_SITE.set(inside)
        try:
            value = work.fn(*work.args, **work.kwargs)
            if type(value) is CoroutineType:
                call_here(lambda: value, (), {})  # it says what is wrong
        except BaseException as error:  # noqa: BLE001 - each failure is recorded, then raised
            return drive(work.ended_by(error, began))
        finally:
            CALL_SITE.reset(token)
        event = _outcome(work, value, held.ms_since(began))
        if not isinstance(event, Draft):
            drive(event)
        else:
            journal, at = held.journal, held.clock.wall()
            assert journal is not None
            unsure: list[Append] = []  # not list[Append](): that takes longer than the rest
            try:
                seq = journal.write((event,), at, unsure)
            except BaseException as cut:  # noqa: BLE001 - raised again, with what it means
                seq = drive(in_doubt.write_outcome(work, cut, event, (event,), at, unsure, good=True))
            work.succeeded = True
            work.conclude_at(event, seq, good=True, is_given=True)
        if given:
            given_arguments.check(work, given, value)
        return value
    finally:
        work.leave()
        if is_held_back:
            assert handler is not None
            drive(handler.end())


def _begin(work: Work) -> None:
    """Append the intent of an effect: on disk when this returns."""
    journal = work.held.journal
    assert journal is not None
    intent = intent_of(work, {})
    work.intent = intent[3]
    work.intent_seq = journal.write((intent,), work.held.clock.wall(), [])


def _outcome(work: Work, value: Any, ms: float) -> Draft | Coroutine[Any, Any, object]:
    """The event that is all there is to append for this value; else the rule that records it."""
    data = None if SHAPES else encode_quickly(value)
    if data is None:  # it cannot be stored, or only by a second look
        return work.succeed(value, {"ms": ms})
    event = draft(_FINISHED, work.asked[0], work.asked[1], {"ms": ms}, data)
    extras = work.extras(event)
    return work.conclude(event, good=True, extras=extras) if extras else event


# -- in a task -----------------------------------------------------------------------------------------------


def step_in_task(
    held: HeldRun,
    call_options: CallOptions,
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Coroutine[Any, Any, Any]:
    """As ``step_here``: what the task awaits, at once."""
    if held.is_closed or held.sealed is not None or held.pid != getpid():
        held.check_usable()
    if call_options is not held.awake_for:
        held.wake_for(call_options)
    hooks = held.hooks
    # A plain function is called in a thread.
    if hooks.permit or type(fn) is not FunctionType or not fn.__code__.co_flags & COROUTINE:
        return step(held, AWAITING, call_options, name, fn, args, kwargs)
    asked = requested(asked_now(held, call_options, name, fn, fn.__code__, args, kwargs))
    if (
        hooks.met.get(asked[0]) is fn.__code__
        and (asked[9] is None or not hooks.recognize)
        and asked[1] not in held.view.calls
        and asked[2]
        and not (hooks.claim or hooks.live or hooks.before or held.remembers)
        and held.observer is None
        and (call_options is READ or call_options is ONCE)
    ):
        return _make_in_task(Work(held, AWAITING, call_options, asked, fn, args, kwargs))
    return identified(held, AWAITING, call_options, asked, fn, args, kwargs)


async def _make_in_task(work: Work) -> Any:  # noqa: C901, PLR0912, PLR0915 - see the module
    """As ``_make``: one coroutine, which waits for the function, and then for the commit."""
    held, asked, acts_once = work.held, work.asked, work.call_options is ONCE
    handler, is_held_back = held.sigterm if acts_once else None, False
    try:
        work.enter_new()
    except BaseException:
        held.land(asked[2])
        raise
    try:
        if handler is not None and held.entry is not None:
            is_held_back = await handler.begin(held, held.entry.drain_s)
        if acts_once or not work.defers():
            await work.begin()
        is_checked = given_arguments.is_due(asked[0]) or held.checks_arguments
        given = given_arguments.given_to(work) if is_checked else None
        inside = BodySite(asked[5], asked[6][3], asked[1], asked[0] if acts_once else "")
        began = held.clock.monotonic()
        work.acted = True  # from here on the effect may happen
        token = CALL_SITE.set(inside)
        try:
            value = await work.fn(*work.args, **work.kwargs)
        except BaseException as error:  # noqa: BLE001 - as above
            return await work.ended_by(error, began)
        finally:
            CALL_SITE.reset(token)
            del token, inside  # the collector need not look at them while hundreds of tasks wait
        event = _outcome(work, value, held.ms_since(began))
        if not isinstance(event, Draft):
            await event
        else:
            journal, at, seq = held.journal, held.clock.wall(), None
            assert journal is not None
            unsure: list[Append] = []
            try:
                ticket = journal.submit((event,), at)
                if ticket is not None:
                    try:
                        await journal.committer.expect(ticket)
                    except BaseException as cut:  # noqa: BLE001 - raised by it, if it is to be raised
                        seq = await journal.settled(AWAITING, ticket, cut, unsure)
                    else:
                        seq = journal.written(ticket) or await journal.settled(AWAITING, ticket, None, unsure)
                if not seq:
                    seq = await journal.append(AWAITING, (event,), at, unsure=unsure)
            except BaseException as cut:  # noqa: BLE001 - raised again, with what it means
                seq = await in_doubt.write_outcome(work, cut, event, (event,), at, unsure, good=True)
            work.succeeded = True
            work.conclude_at(event, seq, good=True, is_given=True)
        if given:
            given_arguments.check(work, given, value)
        return value
    finally:
        work.leave()
        held.land(asked[2])
        if is_held_back:
            assert handler is not None
            await handler.end()
