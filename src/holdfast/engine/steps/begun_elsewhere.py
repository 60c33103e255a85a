"""Reads intents of calls that began in another run: a handoff carried them, or a fork's origin made them.

Such a call keeps the idempotency key under which it began.
"""

from typing import TYPE_CHECKING, Any

from holdfast.core.steps.identity import idempotency_key
from holdfast.model.event_fields import fields_of, mark_of

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
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
