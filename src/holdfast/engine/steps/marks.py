"""Records marks: single events without an effect (a thought, a plan, a drawn number).

A mark has an identity and a place like any call: on replay it is consumed and never appended twice. It is one
event, so a crash leaves it recorded or not; a mark that is not recorded is made again.
"""

from collections.abc import Callable
from typing import Any

from holdfast.codec.values import canonical, encode
from holdfast.core.steps.identity import site_of
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.run.call_site import locate
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.call_identity import RequestedCall, moved, value_of
from holdfast.engine.sync_async import Runtime
from holdfast.model.calls import Outcome
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind
from holdfast.model.markers import KNOWN, SHAPES


async def mark(held: HeldRun, runtime: Runtime, name: str, content: dict[str, Any]) -> None:
    """Record what the agent thought, planned, decided, found or said. Durable when it returns."""
    held.check_usable()
    if KNOWN or SHAPES:  # it is read by people and models
        from holdfast.codec.secrets import masked_text

        content = masked_text(content)
    await mark_value(held, runtime, name, canonical(content, what=f"{name} of run {held.run}"))


async def mark_value(held: HeldRun, runtime: Runtime, name: str, data: bytes) -> int:
    """Record an encoded value, unless the journal has it; returns its seq. Durable when it returns."""
    asked = ask(held, name, data)
    try:
        recorded = given(held, asked)
        return await append(held, runtime, asked, data) if recorded is None else recorded.seq
    finally:
        held.land(asked.site)


async def draw(held: HeldRun, runtime: Runtime, name: str, make: Callable[[], Any], data: bytes = b"") -> Any:
    """A value from outside the program (time, chance, the journal): drawn once, the same in every replay.

    ``data`` distinguishes it from others of its name. Without it, a task that another task started has its
    own values: they belong to the call that it made before, or to its function and arguments. RunFinished if
    a finished run would draw a new one.
    """
    asked = ask(held, name, data, by_task=not data)
    if not data and asked.arguments and asked.key not in held.view.calls:
        asked = await runtime.store(_as_counted_before, held, asked)
    try:
        recorded = given(held, asked)
        if recorded is not None:
            return await runtime.store(recorded_value, held, recorded, name)
        held.require_journal(name)  # before drawing: a finished run gets no new value
        value = await runtime.store(make)  # it may read the store
        fields = placed(asked, {} if data else {"of_task": True})
        event = draft(Kind.MARK, name, asked.key, fields, encode(value, what=name))
        await record(held, runtime, asked, event)
        return value
    finally:
        held.land(asked.site)


def _as_counted_before(held: HeldRun, asked: RequestedCall) -> RequestedCall:
    """The draw under the identity of earlier versions, which counted draws of several tasks together.

    Those without ``by_task`` counted all of them, those with it the draws before a task's first call.
    """
    site = site_of(asked.here.scope, f"mark:{asked.name}", b"")
    call = held.view.calls.get(f"{site}.{held.next_number(site)}")
    if call is None or not call.outcomes:
        return asked
    fields = fields_of(held.body_of(call.outcomes[-1]))
    if "of_task" in fields or ("by_task" in fields and asked.here.task_calls.own_last):
        return asked
    return moved(held, asked, site, b"")


def recorded_value(held: HeldRun, recorded: Outcome, what: str) -> Any:
    """The value that a mark recorded. It may read a blob."""
    return value_of(held, held.body_of(recorded), what=what)


def ask(
    held: HeldRun,
    name: str,
    data: bytes,
    *,
    by_task: bool = False,
    clear: Callable[[], bytes | None] | None = None,
) -> RequestedCall:
    """The identity of this mark; ``data`` distinguishes it from others of its name, or the task does.

    ``clear`` gives what distinguished it before a secret was known; it counts if that is recorded.
    """
    held.check_usable()
    here, point = locate(held)
    if by_task:
        data = here.task_calls.own.encode()
    site = site_of(here.scope, f"mark:{name}", data)
    if KNOWN:
        site = _recorded_site(held, here.scope, name, data, clear, site)
    n = held.claim(site)
    return RequestedCall(name, f"{site}.{n}", site, n, data, here, point)


def _recorded_site(
    held: HeldRun, scope: str, name: str, data: bytes, clear: Callable[[], bytes | None] | None, site: str
) -> str:
    from holdfast.codec.filled_secrets import in_clear
    from holdfast.engine.steps.secret_arguments import is_recorded

    if is_recorded(held, site):
        return site
    shown = None if clear is None else clear()
    if shown is None:  # JSON texts, with zeros between them
        texts = [(text, in_clear(text)) for text in data.split(b"\0")]
        shown = b"\0".join(text if found is None else found for text, found in texts)
    before = site_of(scope, f"mark:{name}", shown)
    return before if is_recorded(held, before) else site


def given(held: HeldRun, asked: RequestedCall) -> Outcome | None:
    """The record of this mark, if there is one; it is consumed now."""
    call = held.view.calls.get(asked.key)
    outcome = None if call is None else held.next_outcome(call)
    if outcome is not None:
        asked.here.task_calls.last = asked.key
    return outcome


async def append(held: HeldRun, runtime: Runtime, asked: RequestedCall, data: bytes, *more: Draft) -> int:
    """Append a mark with this value, and ``more``; the seq of the last event. Durable when it returns."""
    event = draft(Kind.MARK, asked.name, asked.key, placed(asked, {}), data)
    return await record(held, runtime, asked, event, *more)


def placed(asked: RequestedCall, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a mark, with its scope."""
    return {"in": asked.point.scope, **fields} if asked.point.scope else fields


async def record(
    held: HeldRun, runtime: Runtime, asked: RequestedCall, event: Draft, *more: Draft, synced: bool = True
) -> int:
    """Append a mark and ``more`` in one append; the seq of the last event. Durable, if ``synced``."""
    journal = held.require_journal(asked.name)
    seq = await journal.append(runtime, [event, *more], held.clock.wall(), synced=synced)
    asked.here.task_calls.last = asked.key
    return seq
