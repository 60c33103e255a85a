"""Steps in doubt, with what helps a person to find out whether they happened."""

from typing import Any

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import contents_of
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import Doubt, StoppedCall, UnclaimedEffect
from holdfast.views.value_text import one_line, readable, value_line


class DoubtLine(NamedTuple):
    """A step in doubt, with what helps to look it up outside; ``pending`` is a resolution in the inbox."""

    step: str
    key: str
    started_at: float
    reason: str
    arguments: str
    idempotency_key: str
    owner: str
    pending: str | None
    id: str = ""


class StoppedLine(NamedTuple):
    """A call that was not made, and the recorded effects that it may be, as ``(id, call, state)``."""

    step: str
    key: str
    call: str
    effects: tuple[tuple[str, str, str], ...]
    pending: str | None


class UnclaimedLine(NamedTuple):
    """A recorded effect that the program has not asked for."""

    id: str
    key: str
    call: str
    state: str


def doubt_line(doubt: Doubt, view: View) -> DoubtLine:
    """The step with its recorded arguments and its idempotency key, which an outside service knows."""
    body = contents_of(view.calls[doubt.key].body or b"{}")
    arguments = value_line(body, "args")
    return DoubtLine(
        step=doubt.step,
        key=doubt.key,
        started_at=doubt.started_at,
        reason=doubt.reason,
        arguments="" if arguments == "{}" else arguments,
        idempotency_key=body.get("idempotency_key", ""),
        owner=body.get("owner", ""),
        pending=doubt.pending,
        id=doubt.id,
    )


def stopped_line(stopped: StoppedCall) -> StoppedLine:
    """The call and what it may be, each as one line."""
    effects = tuple((one.id, one.call, one.state) for one in map(unclaimed_line, stopped.effects))
    return StoppedLine(
        stopped.step, stopped.key, _call(stopped.step, stopped.arguments), effects, stopped.pending
    )


def unclaimed_line(effect: UnclaimedEffect) -> UnclaimedLine:
    """The effect as one line."""
    return UnclaimedLine(effect.id, effect.key, _call(effect.step, effect.arguments), effect.state)


def _call(step: str, arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return step
    return one_line(f"{step}({', '.join(f'{name}={readable(value)}' for name, value in arguments.items())})")
