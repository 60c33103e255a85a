"""Which letters of an inbox follow a branch when a run is rewound, and which ones it may read again.

A letter that names an event or a call belongs to the history that has it. An answer that was accepted and not
read yet goes with the branch that holds its question. Messages and promise updates that the run had read
after the point are not lost: they are in its inbox again.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import contents_of, fields_of, part_of
from holdfast.model.events import Event, Kind

_NOT_OF_ITS_BODY: Final = frozenset({"in", "from", "id", "sent_at"})
"""Fields of a received message that the letter had beside its body, or did not have."""


def belongs_to(letter: Mapping[str, Any], view: View) -> bool:
    """Whether the history of this view has what the letter is about. One about nothing in particular does."""
    if "seq" in letter:
        return bool(letter["seq"] <= view.head)
    return all(letter[name] in view.calls for name in ("key", "asked") if letter.get(name))


def unread(events: Iterable[Event]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The letters that these events recorded, as they were in the inbox: their ids and contents.

    The events are those that a rewind leaves. Answers and resolutions are not among them: their questions
    are open again, or belong to the kept branch.
    """
    number = 0
    for event in events:
        if event.kind == Kind.MESSAGE_RECEIVED:
            told = contents_of(event.body)
            body = {name: value for name, value in told.items() if name not in _NOT_OF_ITS_BODY}
            # ``n`` orders the letters of one sender. Letters that are still unread have the sender's head
            # there, which is higher: it grows by more than one with every message.
            content = {"kind": "message", "id": told["id"], "from": told["from"], "n": number, "body": body}
            number += 1
            yield f"message-{told['id']}", {**content, "at": told["sent_at"]}
        elif event.kind == Kind.PROMISE_TOLD and fields_of(event.body).get("via") == "letter":
            for promise in part_of(event.body, "promises"):
                content = {"kind": "promise", "promise": promise, "at": event.at}
                yield f"promise-{promise['id']}-{promise['state']}", content
