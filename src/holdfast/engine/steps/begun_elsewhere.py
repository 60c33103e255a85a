"""Calls that began in another run: a handoff carried them, a fork's origin or a child made them.

Such a call keeps the idempotency key under which it began.
"""

from typing import TYPE_CHECKING, Any

from holdfast.core.steps.identity import idempotency_key
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import contents_of, fields_of, mark_of
from holdfast.model.events import Kind

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.steps.call_identity import RequestedCall
    from holdfast.model.calls import CallOptions
    from holdfast.stores.port import StorePort


def origin_in(intent: bytes) -> dict[str, Any] | None:
    """Where a fork's origin recorded the effect that this intent continues; None for any other intent."""
    found: dict[str, Any] | None = fields_of(intent).get("origin")
    return found


def is_for_a_person(intent: bytes) -> bool:
    """Whether only a person may decide about this call.

    It is recorded as done at the origin, or the giver of a handoff made it with other data of its module.
    """
    origin = origin_in(intent)
    if origin is not None:
        return bool(origin["how"] == "done")
    return mark_of(intent) == "handed" and bool(fields_of(intent)["handed"].get("for_person"))


def giver_key(intent: bytes) -> str:
    """The idempotency key under which another run began the call that this intent continues; empty if none.

    If the origin's call is done and a person allows it again, that is another effect, with a key of its own.
    """
    origin = origin_in(intent)
    is_the_same = mark_of(intent) == "handed" or (origin is not None and origin["how"] != "done")
    return str(fields_of(intent).get("idempotency_key", "")) if is_the_same else ""


def minted_key(held: "HeldRun", key: str) -> str:
    """The idempotency key of a call: the one in its open intent or in another run's, else a new one."""
    recorded: str | None = held.recorded(key, "idempotency_key")
    call = held.view.calls.get(key)
    if recorded is None and call is not None and call.seq:
        recorded = giver_key(held.intent_of(call))
    return recorded or idempotency_key(held.birth, key)


def is_over(store: "StorePort", intent: bytes) -> bool | None:
    """Whether the process that began the call in another run is proven dead; None for a call of this run."""
    origin = origin_in(intent)
    if origin is not None:
        return bool(origin["over"]) or (bool(origin["owner"]) and store.probe(origin["owner"]) == "dead")
    return bool(fields_of(intent)["handed"]["is_over"]) if mark_of(intent) == "handed" else None


def intent_elsewhere(
    call_options: "CallOptions",
    asked: "RequestedCall",
    whose: dict[str, Any],
    effect: str,
    idempotency_key: str,
) -> Draft:
    """The intent of a call whose effect another run has begun. ``whose`` are its first fields."""
    fields: dict[str, Any] = {
        **whose,
        "effect": effect,
        "in": asked.point.scope,
        "after": asked.point.after,
        "path": asked.point.path,
        "idempotency_key": idempotency_key,
    }
    if asked.point.forked:
        fields["forked"] = True
    fields |= {
        name: True
        for name, is_so in (("tool", call_options.is_tool), ("verify", call_options.verify))
        if is_so
    }
    if effect == "once" and call_options.in_doubt != "stop":
        fields["in_doubt"] = call_options.in_doubt
    if call_options.approved_seq:  # without it, a replay would count the approval as unused and ask again
        fields["approved"] = call_options.approved_seq
    return draft(Kind.STEP_STARTED, asked.name, asked.key, fields, asked.arguments, "args")


def noted(held: "HeldRun", asked: "RequestedCall", drafts: list[Draft], first_seq: int) -> Call:
    """Update the view as a fold of these events would."""
    assert held.journal is not None
    call = held.view.calls[asked.key] = Call(asked.key, asked.name)
    call.seq, call.started_at, call.fence = first_seq, held.clock.wall(), held.journal.fence
    call.body, call.is_open = drafts[0].body, True
    held.unasked[asked.key] = call
    for seq, event in enumerate(drafts[1:], first_seq + 1):
        if event.key != asked.key:
            continue
        body = contents_of(event.body)
        if event.kind == Kind.STEP_DOUBTED:
            call.doubt = body["reason"]
        else:
            call.is_open = False
            if body["how"] != "retry":
                outcome = Outcome(seq, body["how"] == "done", held.add_point(), event.body)
                held.view.add_outcome(call, outcome)
    return call
