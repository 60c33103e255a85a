"""Marks: single records without an effect (a thought, a plan, a drawn number, a checkpoint).

They are calls like any other, with an identity and a place: on replay they are consumed, never appended twice.
"""

from collections.abc import Callable
from typing import Any

from holdfast.codec.bodies import unpack_body
from holdfast.codec.values import canonical, decode, encode
from holdfast.core.identity import site_of
from holdfast.engine.asking import Asked, value_of
from holdfast.engine.context import locate
from holdfast.engine.hands import Hands
from holdfast.engine.journal import draft
from holdfast.engine.tenure import Tenure
from holdfast.model.events import Kind


async def mark(tenure: Tenure, hands: Hands, name: str, content: dict[str, Any]) -> None:
    """Record something the agent thought, planned, decided, found or said. Synced when it returns."""
    data = canonical(content, what=f"{name} of run {tenure.run}")
    asked = _ask(tenure, name, data)
    if _given(tenure, asked) is None:
        await _append(tenure, hands, asked, Kind.MARK, {}, data)


async def draw(tenure: Tenure, hands: Hands, name: str, make: Callable[[], Any]) -> Any:
    """A value from outside the program (time, chance), drawn once and the same in every replay."""
    asked = _ask(tenure, name, b"")
    recorded = _given(tenure, asked)
    if recorded is not None:
        return value_of(tenure, unpack_body(recorded), recorded, what=name)
    value = make()
    await _append(tenure, hands, asked, Kind.MARK, {}, encode(value, what=name))
    return value


async def checkpoint(tenure: Tenure, hands: Hands, state: Any, label: str | None) -> int:
    """Record the agent's state as it is now; the number of the point in the run."""
    data = encode(state, what="state of the checkpoint")
    asked = _ask(tenure, "checkpoint", data + (label or "").encode())
    call = tenure.view.calls.get(asked.key)
    if call is not None and (outcome := tenure.next_outcome(call)) is not None:
        asked.here.trail.last = asked.key
        return outcome.point
    await _append(tenure, hands, asked, Kind.CHECKPOINT, {"label": label}, data)
    tenure.latest_state = data
    return tenure.add_point()


def restore(tenure: Tenure, default: Any) -> Any:
    """The latest checkpointed state, and the cursor moved there; the default where there is none."""
    tenure.check_usable()
    event = tenure.view.checkpoint
    if event is None:
        return default
    tenure.move_cursor(event.seq)
    body = unpack_body(event.body)
    tenure.root.last = event.key
    return value_of(tenure, body, event.body, what="state of the checkpoint")


def latest_state(tenure: Tenure) -> Any:
    """The state as last checkpointed, in this tenure or before; None where there is none."""
    if tenure.latest_state is not None:
        return decode(tenure.latest_state, what="state of the checkpoint")
    event = tenure.view.checkpoint
    return (
        None
        if event is None
        else value_of(tenure, unpack_body(event.body), event.body, what="state of the checkpoint")
    )


def _ask(tenure: Tenure, name: str, data: bytes) -> Asked:
    tenure.check_usable()
    here, point = locate(tenure)
    site = site_of(here.scope, f"mark:{name}", data)
    n = tenure.claim(site)
    return Asked(name, f"{site}.{n}", site, n, data, here, point)


def _given(tenure: Tenure, asked: Asked) -> bytes | None:
    call = tenure.view.calls.get(asked.key)
    outcome = None if call is None else tenure.next_outcome(call)
    if outcome is None:
        return None
    asked.here.trail.last = asked.key
    return tenure.body_of(outcome)


async def _append(
    tenure: Tenure, hands: Hands, asked: Asked, kind: str, fields: dict[str, Any], data: bytes
) -> None:
    journal = tenure.require_journal(asked.name)
    if asked.point.scope:
        fields = {"in": asked.point.scope, **fields}
    await journal.append(hands, [draft(kind, asked.name, asked.key, fields, data)], tenure.clock.wall())
    asked.here.trail.last = asked.key
