"""One event or one step with its full content, for ``show RUN@#12`` and ``show RUN@3``.

The caller passes the bodies, because values may be in blobs, and views read no store.
"""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.event_text import describe
from holdfast.views.steps import StepLine, list_steps
from holdfast.views.timeline import Line, Timeline
from holdfast.views.value_text import value_line

Body = dict[str, Any]


class EventDetail(NamedTuple):
    """A recorded event."""

    run: str
    seq: int
    at: float
    kind: str
    what: str
    name: str
    key: str
    fence: int
    body: Body


class StepDetail(NamedTuple):
    """A step or checkpoint from its intent to its outcome.

    ``value`` is the result, or the checkpoint's state; ``lost`` says why there is none, if it could not be
    stored.
    """

    run: str
    step: StepLine
    idempotency_key: str
    owner: str
    """The run's identity for this call, if an import brought it to the store."""
    arguments: Any
    value: Any
    lost: str
    error: Body | None
    events: tuple[Line, ...]


def event_detail(run: str, event: Event, body: Body) -> EventDetail:
    """An event with its full body."""
    return EventDetail(
        run, event.seq, event.at, event.kind, describe(event).what, event.name, event.key, event.fence, body
    )


def step_detail(
    run: str, events: Sequence[Event], outcome: Event, read: Callable[[Event], Body]
) -> StepDetail | None:
    """The step or checkpoint that ended with this event; None if it ends none. ``read`` gives a full body."""
    step = next((line for line in list_steps(events) if line.outcome_seq == outcome.seq), None)
    if step is None:
        return None
    started = next(event for event in events if event.seq == step.started_seq)
    intent, end = read(started), read(outcome)
    own = [
        line
        for line in Timeline().lines(events)
        if (line.key == step.key if step.key else line.seq == outcome.seq)
    ]
    return StepDetail(
        run=run,
        step=step,
        idempotency_key=intent.get("idempotency_key", ""),
        owner=intent.get("owner", ""),
        arguments=intent.get("args"),
        value=end.get("state") if step.what == "checkpoint" else end.get("value"),
        lost=value_line(end) if "lost" in end or "pruned" in end else "",
        error=end.get("error"),
        events=tuple(own),
    )
