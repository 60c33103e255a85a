"""Calls that began in another run: handed over, or made by a fork's origin. Their intents say so in fields of our own."""

from typing import TYPE_CHECKING, Any

from holdfast.model.event_fields import fields_of, mark_of

if TYPE_CHECKING:
    from holdfast.stores.port import StorePort


def origin_in(intent: bytes) -> dict[str, Any] | None:
    """Where the effect is recorded that this intent goes on with; None for any other intent."""
    found: dict[str, Any] | None = fields_of(intent).get("origin")
    return found


def is_for_a_person(intent: bytes) -> bool:
    """Whether nothing but a person decides about this call: it happened, as far as could be found out."""
    origin = origin_in(intent)
    return origin is not None and origin["how"] == "done"


def giver_key(intent: bytes) -> str:
    """The idempotency key under which another run had begun a call that this intent goes on with; empty for any other.

    What has happened at a fork's origin, a person lets happen once more: that is another effect, with a key of its own.
    """
    origin = origin_in(intent)
    is_the_same = mark_of(intent) == "handed" or (origin is not None and origin["how"] != "done")
    return str(fields_of(intent).get("idempotency_key", "")) if is_the_same else ""


def is_over(store: "StorePort", intent: bytes) -> bool | None:
    """Whether the process that had begun the call elsewhere is proven to be gone; None for a call of our own."""
    origin = origin_in(intent)
    if origin is not None:
        return bool(origin["over"]) or (bool(origin["owner"]) and store.probe(origin["owner"]) == "dead")
    return bool(fields_of(intent)["handed"]["is_over"]) if mark_of(intent) == "handed" else None
