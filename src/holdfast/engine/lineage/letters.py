"""Moves letters when a run is rewound, so that no word of a person or of another run is lost.

Crash window: letters are copied before the head moves, and the append that moves it deletes the originals.
Killed in between, the kept branch is one fork too many and has copies; a message that the run has read
already is deleted unread.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from orjson import dumps, loads

from holdfast.core.journal.fold import View
from holdfast.core.lineage import letters
from holdfast.engine.journal import inbox
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.damaged_records import discard, find_sound
from holdfast.model.event_fields import fields_of, raw_part
from holdfast.model.events import Event, Kind
from holdfast.model.run_info import MovedLetters
from holdfast.model.store_rows import inbox_space
from holdfast.stores.port import StorePort


def move(store: StorePort, run: str, kept: str, at_point: View, later: Sequence[Event]) -> MovedLetters:
    """Copy letters to where they belong after a rewind. The caller deletes ``kept`` from the run's inbox.

    ``later`` are the events that the rewind leaves, without those that earlier rewinds left.
    """
    follow = [
        (record.key, letter)
        for record, letter in inbox.waiting(store, run)
        if not letters.belongs_to(letter, at_point)
    ]
    again = [*letters.unread(later)]
    for place, found in ((kept, follow), (run, again)):
        for id_, letter in found:
            store.put_record(inbox_space(place), id_, dumps(letter), revision=0)
    return MovedLetters(tuple(id_ for id_, _ in follow), tuple(id_ for id_, _ in again))


def unread_messages(
    store: StorePort, events: Sequence[Event], sent: Sequence[dict[str, Any]]
) -> dict[str, tuple[str, str]]:
    """Which of these effects are messages that wait in an inbox: receiver and id, by the key of the call."""
    ids = {entry["key"]: entry["idempotency_key"] for entry in sent if entry["step"] == "send"}
    intents = {event.key: event for event in events if event.kind == Kind.STEP_STARTED and event.key in ids}
    found = {}
    for key, event in intents.items():
        address = fields_of(event.body).get("args_blob")
        args = raw_part(event.body, "args") if address is None else read_blob(store, address)
        receiver = (loads(args) if args else {}).get("to", "")
        if (
            isinstance(receiver, str)
            and receiver
            and find_sound(store, inbox_space(receiver), f"message-{ids[key]}") is not None
        ):
            found[key] = (receiver, ids[key])
    return found


def take_back(store: StorePort, sent: Iterable[tuple[str, str]]) -> list[str]:
    """Delete messages that their receivers have not read: pairs of receiver and id. Returns the receivers."""
    return [to for to, id_ in sent if discard(store, inbox_space(to), f"message-{id_}")]
