"""Steps in doubt, with what helps a person to find out whether they happened."""

from typing import NamedTuple

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import contents_of
from holdfast.model.run_info import Doubt
from holdfast.views.value_text import value_line


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
    )
