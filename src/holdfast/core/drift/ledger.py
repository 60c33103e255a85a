"""The ledger of recorded ``once`` effects that the program of this attempt has not asked for.

An effect is in the ledger if it is done or in doubt. A failure that did nothing is not in it, nor is an
effect that a person abandoned. The program claims an effect when it gets the outcome, when it gets the
outcome of a step around it, or when it begins with a state that was recorded later.

The rule: a new ``once`` call stops if an unclaimed effect was passed over (the root task made another call at
a place where a recorded one waited before the effect), or if another program recorded the effect. Similarity
only orders what a person sees. Without either sign, unclaimed effects belong to tasks that have not reached
them yet: an unchanged program is never stopped.
"""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

from holdfast.core.journal.recorded_calls import Bodies, is_inside_answered
from holdfast.core.steps.call_difference import are_equal
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.named_tuple import NamedTuple

_TOLD_UNKNOWN = "EffectUnknown"


class Effect(NamedTuple):
    """A recorded effect that a new call may be, and the run that recorded it."""

    run: str
    call: Call
    bodies: Bodies

    def name_in(self, run: str) -> str:
        """Its name in the journal of a run: its key, and its own run if that is another one."""
        return self.call.key if self.run == run else f"{self.call.key}@{self.run}"


def split_name(name: str) -> tuple[str, str]:
    """The key and the run of an effect's name; no run for an effect of the run whose journal has the name."""
    key, _, run = name.partition("@")
    return key, run


def ledger_of(calls: Iterable[Call], bodies: Bodies) -> list[Call]:
    """The calls that are in the ledger, in the order in which they began."""
    found = [call for call in calls if call.seq and not call.abandoned and _is_effect(call, bodies)]
    return sorted(found, key=lambda call: call.seq)


def _is_effect(call: Call, bodies: Bodies) -> bool:
    if fields_of(bodies.intent_of(call)).get("effect") != "once":
        return False
    if call.is_open or any(outcome.good for outcome in call.outcomes):
        return True
    # The program got EffectUnknown and continued: the effect may have happened.
    return bool(call.outcomes) and is_told_unknown(bodies.body_of(call.outcomes[-1]))


def is_told_unknown(outcome: bytes) -> bool:
    """Whether a failure is EffectUnknown: it is not known whether the effect happened."""
    error = contents_of(outcome).get("error")
    return isinstance(error, dict) and _TOLD_UNKNOWN in str(error.get("type", ""))


def is_claimed(
    call: Call, calls: Mapping[str, Call], cursor_seq: int, bodies: Bodies, attempt_seq: float = inf
) -> bool:
    """Whether the program has got or passed the effect in this attempt, which began with this event.

    A step that this attempt has executed claims nothing: it was asked for what is inside it, or was edited.
    """
    if call.abandoned or not call.is_waiting or call.seq <= cursor_seq:
        return True
    return is_inside_answered(call, calls, bodies.intent_of, attempt_seq)


def blocking(unclaimed: Iterable[Call], passed_seq: float, is_changed: Callable[[Call], bool]) -> list[Call]:
    """The unclaimed effects that stop a new ``once`` call. The program left the record at ``passed_seq``."""
    return [call for call in unclaimed if call.seq >= passed_seq or is_changed(call)]


NOT_PASSED = inf
"""The program has not left the record."""


def by_likeness(
    candidates: Iterable[Effect], name: str, arguments: Mapping[str, Any], args_of: Callable[[Effect], Any]
) -> list[Effect]:
    """The candidates, the most likely first: the same tool, more equal arguments, the earlier one."""

    def distance(effect: Effect) -> tuple[bool, int, int]:
        recorded, call = args_of(effect), effect.call
        known = recorded if isinstance(recorded, Mapping) else {}
        equal = sum(are_equal(known[one], arguments[one]) for one in known.keys() & arguments.keys())
        return call.name != name, len({*known, *arguments}) - equal, call.seq

    return sorted(candidates, key=distance)
