"""Marks: single records without an effect (a thought, a plan, a drawn number).

They are calls like any other, with an identity and a place: on replay they are consumed, never appended twice.
"""

from collections.abc import Callable
from typing import Any

from holdfast.codec.values import canonical, encode
from holdfast.core.steps.identity import site_of
from holdfast.engine.journal.journal import Draft, draft
from holdfast.engine.run.call_site import locate
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.steps.call_identity import RequestedCall, value_of
from holdfast.engine.sync_async import Runtime
from holdfast.model.calls import Outcome
from holdfast.model.events import Kind


async def mark(held: HeldRun, runtime: Runtime, name: str, content: dict[str, Any]) -> None:
    """Record something the agent thought, planned, decided, found or said. Synced when it returns."""
    await mark_value(held, runtime, name, canonical(content, what=f"{name} of run {held.run}"))


async def mark_value(held: HeldRun, runtime: Runtime, name: str, data: bytes) -> int:
    """Record a value that was encoded before, unless this is a replay of its record; its seq. Synced when it returns."""
    asked = ask(held, name, data)
    try:
        recorded = given(held, asked)
        return await append(held, runtime, asked, data) if recorded is None else recorded.seq
    finally:
        held.land(asked.site)


async def draw(held: HeldRun, runtime: Runtime, name: str, make: Callable[[], Any], data: bytes = b"") -> Any:
    """A value from outside the program (time, chance, the journal), drawn once and the same in every replay.

    ``data`` tells it from others of its name. A finished run draws nothing new: RunFinished.
    """
    asked = ask(held, name, data)
    try:
        recorded = given(held, asked)
        if recorded is not None:
            return await runtime.store(recorded_value, held, recorded, name)
        held.require_journal(name)
        value = await runtime.store(make)
        await append(held, runtime, asked, encode(value, what=name))
        return value
    finally:
        held.land(asked.site)


def recorded_value(held: HeldRun, recorded: Outcome, what: str) -> Any:
    """The value that a mark recorded; it may lie in the store."""
    return value_of(held, held.body_of(recorded), what=what)


def ask(held: HeldRun, name: str, data: bytes) -> RequestedCall:
    """Who this mark is; ``data`` tells it from others of its name."""
    held.check_usable()
    here, point = locate(held)
    site = site_of(here.scope, f"mark:{name}", data)
    n = held.claim(site)
    return RequestedCall(name, f"{site}.{n}", site, n, data, here, point)


def given(held: HeldRun, asked: RequestedCall) -> Outcome | None:
    """The record of this mark, if it was made before: consumed now."""
    call = held.view.calls.get(asked.key)
    outcome = None if call is None else held.next_outcome(call)
    if outcome is not None:
        asked.here.task_calls.last = asked.key
    return outcome


async def append(held: HeldRun, runtime: Runtime, asked: RequestedCall, data: bytes, *more: Draft) -> int:
    """Append a mark with this value, and what it calls for; the seq of the last event. Synced when it returns."""
    event = draft(Kind.MARK, asked.name, asked.key, placed(asked, {}), data)
    return await record(held, runtime, asked, event, *more)


def placed(asked: RequestedCall, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a mark, with the place it stands in."""
    return {"in": asked.point.scope, **fields} if asked.point.scope else fields


async def record(
    held: HeldRun, runtime: Runtime, asked: RequestedCall, event: Draft, *more: Draft, synced: bool = True
) -> int:
    """Append a mark, and what it calls for; the seq of the last event. Synced when it returns, unless that is not asked for."""
    journal = held.require_journal(asked.name)
    seq = await journal.append(runtime, [event, *more], held.clock.wall(), synced=synced)
    asked.here.task_calls.last = asked.key
    return seq
