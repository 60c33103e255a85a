"""The retention policy that a run's program declared, as its last attempt recorded it."""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import fields_of
from holdfast.model.retention import RETENTION, Keep, Retention

_NOTHING_GOES: Final = Retention(chunks=Keep(), checkpoints=Keep(), compact_events=None)
"""What ``retention=None`` means."""


def recorded_policy(policy: Retention | None) -> dict[str, Any] | None:
    """The policy for the event of an attempt: what differs from the default, or None if nothing may go."""
    if policy is None:
        return None
    changed = {name for name in Retention._fields if getattr(policy, name) != getattr(RETENTION, name)}
    plain = {
        name: value._asdict() if isinstance(value, Keep) else value
        for name, value in policy._asdict().items()
    }
    return {name: value for name, value in plain.items() if name in changed}


def policy_for(view: View, asked: Retention | Mapping[str, Keep]) -> Retention:
    """The policy to prune a run by: the whole one, or changes to the one that its program declared."""
    return asked if isinstance(asked, Retention) else _changed(declared_policy(view), asked)


def declared_policy(view: View) -> Retention:
    """The policy of the run's last attempt; the default if it declared none."""
    fields = fields_of(view.attempts[-1].event.body) if view.attempts else {}
    declared = fields.get("retention", {})
    if declared is None:
        return _NOTHING_GOES
    bounds = {name: Keep(**value) if isinstance(value, dict) else value for name, value in declared.items()}
    return _changed(RETENTION, bounds)


def _changed(policy: Retention, bounds: Mapping[str, Any]) -> Retention:
    return policy._replace(**bounds)
