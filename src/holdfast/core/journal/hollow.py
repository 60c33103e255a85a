"""Hollowing: an event keeps its place, name and key, and loses its content.

So replay stays exact: calls are known by their keys, and a hollow record is consumed like a whole one. Which content
may go is a class of its own: ``reasoning`` is never asked for again; the state of a superseded checkpoint neither,
because an older one, or the program from its top, comes to the same point; a ``refetchable`` result is fetched anew;
the ``chunks`` of a streamed answer are only needed until it is recorded whole.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from holdfast.model.event_fields import is_hollow, without
from holdfast.model.events import PENDING, Event, Kind, anchor, checksum

REASONING: Final = frozenset({"thought", "decision", "discovery", "said"})
"""The marks that only people read."""

COMPACTED: Final = "compacted"
"""How the outcome of an effect is marked that is remembered without its content: its run was compacted."""

_CONTENT: Final = {
    "reasoning": ("value", "value_blob", "value_bytes"),
    "chunks": (
        "text",
        "reasoning",
        "refusal",
        "calls",
        "facts",
        "logprobs",
        "more",
        "items",
        "choices",
    ),
    "checkpoints": ("state", "rebuild", "about", "about_blob", "about_bytes"),
    "refetchable": ("value", "value_blob", "value_bytes"),
    "pending": ("value", "value_blob", "value_bytes"),
}


def hollowed(run: str, event: Event, kind: str) -> Event:
    """The event without the content of its class."""
    return rebodied(run, event, without(event.body, _CONTENT[kind], pruned=kind))


def rebodied(run: str, event: Event, body: bytes) -> Event:
    """The event with another body, at its place: later events are chained to what it was, and it tells so."""
    return event._replace(body=body, crc=checksum(run, *event[:6], body), chain=anchor(event.chain))


def class_of(
    event: Event, refetchable: AbstractSet[str], whole: AbstractSet[str] = frozenset()
) -> str | None:
    """The class that a whole event's content belongs to; None for one that stays.

    ``refetchable`` are keys of calls; ``whole`` those whose answer is recorded, so that its pieces are not needed.
    """
    if event.kind == Kind.MARK:
        name = "reasoning" if event.name in REASONING else "pending" if event.name == PENDING else None
    elif event.kind == Kind.CHECKPOINT:
        name = "checkpoints"
    elif event.kind == Kind.STEP_FINISHED and event.key in refetchable:
        name = "refetchable"
    elif event.kind == Kind.STREAM_CHUNK and event.key in whole:
        name = "chunks"
    else:
        name = None
    return None if name is None or is_hollow(event.body) else name
