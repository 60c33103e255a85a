"""Marks: single records without an effect (a thought, a plan, a drawn number).

They are calls like any other, with an identity and a place: on replay they are consumed, never appended twice.
"""

from collections.abc import Callable
from typing import Any

from holdfast.codec.values import canonical, encode
from holdfast.core.steps.identity import site_of
from holdfast.engine.journal.journal import Draft, draft
from holdfast.engine.run.call_site import locate
from holdfast.engine.run.held_run import Tenure
from holdfast.engine.steps.call_identity import Asked, value_of
from holdfast.engine.sync_async import Hands
from holdfast.model.calls import Outcome
from holdfast.model.events import Kind


async def mark(tenure: Tenure, hands: Hands, name: str, content: dict[str, Any]) -> None:
    """Record something the agent thought, planned, decided, found or said. Synced when it returns."""
    await mark_value(tenure, hands, name, canonical(content, what=f"{name} of run {tenure.run}"))


async def mark_value(tenure: Tenure, hands: Hands, name: str, data: bytes) -> int:
    """Record a value that was encoded before, unless this is a replay of its record; its seq. Synced when it returns."""
    asked = ask(tenure, name, data)
    try:
        recorded = given(tenure, asked)
        return await append(tenure, hands, asked, data) if recorded is None else recorded.seq
    finally:
        tenure.land(asked.site)


async def draw(tenure: Tenure, hands: Hands, name: str, make: Callable[[], Any], data: bytes = b"") -> Any:
    """A value from outside the program (time, chance, the journal), drawn once and the same in every replay.

    ``data`` tells it from others of its name. A finished run draws nothing new: RunFinished.
    """
    asked = ask(tenure, name, data)
    try:
        recorded = given(tenure, asked)
        if recorded is not None:
            return await hands.store(recorded_value, tenure, recorded, name)
        tenure.require_journal(name)
        value = await hands.store(make)
        await append(tenure, hands, asked, encode(value, what=name))
        return value
    finally:
        tenure.land(asked.site)


def recorded_value(tenure: Tenure, recorded: Outcome, what: str) -> Any:
    """The value that a mark recorded; it may lie in the store."""
    return value_of(tenure, tenure.body_of(recorded), what=what)


def ask(tenure: Tenure, name: str, data: bytes) -> Asked:
    """Who this mark is; ``data`` tells it from others of its name."""
    tenure.check_usable()
    here, point = locate(tenure)
    site = site_of(here.scope, f"mark:{name}", data)
    n = tenure.claim(site)
    return Asked(name, f"{site}.{n}", site, n, data, here, point)


def given(tenure: Tenure, asked: Asked) -> Outcome | None:
    """The record of this mark, if it was made before: consumed now."""
    call = tenure.view.calls.get(asked.key)
    outcome = None if call is None else tenure.next_outcome(call)
    if outcome is not None:
        asked.here.trail.last = asked.key
    return outcome


async def append(tenure: Tenure, hands: Hands, asked: Asked, data: bytes, *more: Draft) -> int:
    """Append a mark with this value, and what it calls for; the seq of the last event. Synced when it returns."""
    event = draft(Kind.MARK, asked.name, asked.key, placed(asked, {}), data)
    return await record(tenure, hands, asked, event, *more)


def placed(asked: Asked, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a mark, with the place it stands in."""
    return {"in": asked.point.scope, **fields} if asked.point.scope else fields


async def record(
    tenure: Tenure, hands: Hands, asked: Asked, event: Draft, *more: Draft, synced: bool = True
) -> int:
    """Append a mark, and what it calls for; the seq of the last event. Synced when it returns, unless that is not asked for."""
    journal = tenure.require_journal(asked.name)
    seq = await journal.append(hands, [event, *more], tenure.clock.wall(), synced=synced)
    asked.here.trail.last = asked.key
    return seq
