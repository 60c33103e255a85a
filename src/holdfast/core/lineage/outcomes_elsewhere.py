"""How a call that is in doubt in one history ended in another one that shares its intent.

A fork, or a rewound run, may begin between the start and the end of an effect. Another history that has the
same intent may know its outcome. Invariant: an outcome belongs to an effect only if it was made under the
effect's own idempotency key. The other history may have gone back, too, and made the same call as another
effect.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple

_ENDS: Final = {Kind.STEP_FINISHED: "done", Kind.STEP_FAILED: "failed"}


class Awaited(NamedTuple):
    """A call without an outcome: where its intent is, and under which idempotency key it was made."""

    seq: int
    idempotency_key: str


def outcomes_in(events: Iterable[Event], awaited: Mapping[str, Awaited]) -> Iterator[tuple[str, Event, str]]:
    """The first outcome of each call in the later events of another history, with its key and how it ended.

    That is ``done`` or ``failed``. ``awaited`` has the calls by key. The events are as they were recorded,
    with those that rewinds left.
    """
    missing = dict(awaited)
    others = set[str]()
    """Calls of which the other history now has another effect under the same key."""
    for event in events:
        if event.kind == Kind.RUN_REWOUND:
            to_seq = fields_of(event.body)["to_seq"]
            others |= {key for key, call in missing.items() if call.seq > to_seq}
        call = missing.get(event.key) if event.key else None
        if call is None:
            continue
        if event.kind == Kind.STEP_STARTED:
            is_same = fields_of(event.body).get("idempotency_key", "") == call.idempotency_key
            (others.discard if is_same else others.add)(event.key)
        elif event.key not in others and (how := _how(event)) in {"done", "failed"}:
            del missing[event.key]
            yield event.key, event, how


def _how(event: Event) -> str:
    """How the event says that its call ended; empty if it says nothing about that."""
    if event.kind == Kind.STEP_SETTLED:
        return str(fields_of(event.body)["how"])
    return _ENDS.get(event.kind, "")
