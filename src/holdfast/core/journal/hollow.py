"""Hollow events: pruning leaves an event with its number, name and key, and removes its content.

Replay stays exact, because a program finds calls by their keys and consumes a hollow record like a whole one.
Content falls into classes, and each has its own reason why it may go. No program asks for ``reasoning``
again. The state in ``checkpoints`` that were superseded is not needed: an older state, or the program from
its top, leads to the same point. A ``refetchable`` result is fetched again. The ``chunks`` of a streamed
answer are needed only until the whole answer is recorded.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from holdfast.model.event_fields import is_hollow, without
from holdfast.model.events import PENDING, Event, Kind, anchor, checksum

REASONING: Final = frozenset({"thought", "decision", "discovery", "said"})
"""The names of marks that the program never reads back."""

COMPACTED: Final = "compacted"
"""The class of an effect's outcome that compaction kept without its content."""

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
    """The event with another body under the same number."""
    # Later events are chained to the old bytes. An anchored chain value says that this event was replaced, so
    # that verification takes the recorded value instead of computing it from the new body.
    return event._replace(body=body, crc=checksum(run, *event[:6], body), chain=anchor(event.chain))


def class_of(
    event: Event, refetchable: AbstractSet[str], whole: AbstractSet[str] = frozenset()
) -> str | None:
    """The class of content that pruning may remove from this event; None if it has none or is hollow already.

    ``refetchable`` are the keys of calls that may be fetched again; ``whole`` the keys of streamed calls
    whose whole answer is recorded.
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
