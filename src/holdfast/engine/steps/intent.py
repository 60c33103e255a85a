"""The intent of a call: what is recorded before its function is called.

Its first field is the effect, or what a feature puts before it: ``model/event_fields.py → mark_of`` tells
intents apart by that.
"""

from typing import TYPE_CHECKING, Any

from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.steps import module_data
from holdfast.model.calls import READ
from holdfast.model.events import Kind

if TYPE_CHECKING:
    from holdfast.engine.steps.step import Work


def intent_of(
    work: "Work", more: dict[str, Any], parts: dict[str, Any] | None = None, at: float | None = None
) -> Draft:
    """The intent of a call, with more fields and parts; ``at`` is when it began, if it is written later."""
    asked, options = work.asked, work.call_options
    scope, after, forked, path = asked.point
    fields: dict[str, Any] = {"effect": options.effect, "in": scope, "after": after, "path": path, **more}
    if forked:
        fields["forked"] = True
    if options is not READ or work.idem:
        _add_options(work, fields)
    if asked.data is not None:
        parts = module_data.add_to(fields, parts, asked.data)
    for intent in work.held.hooks.intent:
        fields = intent(work, fields)
    started = Kind.STEP_STARTED
    return draft(started, asked.name, asked.key, fields, asked.arguments, "args", parts=parts, at=at)


def _add_options(work: "Work", fields: dict[str, Any]) -> None:
    """Add what makes this call other than a plain read."""
    options = work.call_options
    if options.refetchable:
        fields["refetchable"] = True
    if work.idem:
        fields["idempotency_key"] = work.idem
        if work.held.owner:  # it goes with the key, if the run came from another store
            fields["owner"] = work.held.owner
    if options.is_tool:
        fields["tool"] = True
    if options.effect == "once":
        # What the tool declares for a doubt. A resume plan reads it, which is made without the program.
        if options.in_doubt != "stop":
            fields["in_doubt"] = options.in_doubt
        if options.verify is not None:
            fields["verify"] = True
    if work.deadline is not None:
        fields["deadline"] = work.deadline
    if options.approved_seq:
        fields["approved"] = options.approved_seq
