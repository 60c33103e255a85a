"""Folds the conversation of a run: messages that were added, dropped and repaired."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, Self

from orjson import loads

from holdfast.core.journal.feature_fold import Compaction, FeatureFold, Read, Slot
from holdfast.core.journal.snapshots import bytes_of, text_of
from holdfast.model.event_fields import contents_of, fields_of, rewritten, values_in, write
from holdfast.model.events import DROPPED, MENDED, Event
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class ConversationEvent(NamedTuple):
    """An event of the conversation: messages added at its end, the oldest dropped, or its end repaired.

    A repair by Holdfast names the event up to which it repairs, and counts at that place.
    """

    seq: int
    is_drop: bool
    body: bytes | None
    mends_upto: int | None = None

    @property
    def place(self) -> int:
        """The event behind which it counts."""
        return self.seq if self.mends_upto is None else self.mends_upto


class ConversationFold(FeatureFold):
    """The events of the conversation, in the order in which they count."""

    def __init__(self) -> None:
        self.messages: list[ConversationEvent] = []

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Add messages at the end; insert a repair behind what it repairs."""
        if event.name == MENDED:
            said = ConversationEvent(
                event.seq, False, event.body, fields_of(event.body).get("upto", event.seq)
            )
            behind = sum(other.place <= said.place for other in self.messages)
            self.messages.insert(behind, said)
        if event.key and event.name != MENDED:
            self.messages.append(ConversationEvent(event.seq, event.name == DROPPED, event.body))

    def dump(self, *, whole: bool) -> dict[str, Any]:
        """The events; ``whole`` with their bodies."""
        return {"messages": [_dump_event(said, whole=whole) for said in self.messages]}

    def load(self, data: Mapping[str, Any]) -> None:
        """The events."""
        self.messages = [
            ConversationEvent(seq, is_drop, bytes_of(body), *more)
            for seq, is_drop, body, *more in data["messages"]
        ]

    def reduced(self, compaction: Compaction) -> Self:
        """Keep the messages that are not dropped."""
        kept = type(self)()
        checkpoint = compaction.view.checkpoint
        body = fields_of(checkpoint.body) if checkpoint is not None else {}
        # The program had not added these yet when it saved the latest state; it adds them after a restore.
        unsaid = frozenset(body.get("unsaid", ()))
        kept.messages = list(standing_messages(self.messages, unsaid, compaction.read))
        return kept

    def shed(self, upto_seq: int, kept: Self) -> None:
        """Take what stays, and keep what came since."""
        self.messages = kept.messages + [said for said in self.messages if said.seq > upto_seq]

    def blobs(self) -> Iterator[str]:
        """The blobs of long messages."""
        for said in self.messages:
            yield from values_in(said.body or b"")


CONVERSATION: Final = Slot("conversation", ConversationFold)


def _dump_event(said: ConversationEvent, *, whole: bool) -> list[Any]:
    mends = [] if said.mends_upto is None else [said.mends_upto]
    return [said.seq, said.is_drop, text_of(said.body) if whole else None, *mends]


class _Remaining:
    """An event, how many of its messages are left, and how many messages were dropped before it came."""

    def __init__(self, said: ConversationEvent, count: int, dropped_before: int) -> None:
        self.said = said
        self.count = count
        self.dropped_before = dropped_before


def standing_messages(
    messages: Iterable[ConversationEvent], unsaid: AbstractSet[int], read: Read
) -> Iterator[ConversationEvent]:
    """The events that still have messages in the conversation. An event of which some are left stays whole.

    Events in ``unsaid`` stay as they are, because the program has not reached them yet.
    """
    standing: list[_Remaining] = []
    dropped = total = 0
    ahead: list[ConversationEvent] = []
    for said in messages:
        if said.seq in unsaid:
            ahead.append(said)
            continue
        value = _value(said, read)
        if said.is_drop:
            dropped, total = dropped + value["first"], total + value["first"]
        else:
            if said.mends_upto is not None:
                _shorten(standing, _kept(said) + dropped)
            standing.append(_Remaining(said, len(value), total))
        # An event goes when all its messages are dropped. A part of one stays, with a drop behind it.
        while standing and standing[0].count <= dropped:
            dropped -= standing.pop(0).count
    for number, one in enumerate(standing):
        yield _rebased(one.said, total - one.dropped_before)
        if number == 0 and dropped:
            yield ConversationEvent(one.said.seq, True, write({}, {"value": {"first": dropped}}))
    yield from ahead


def _shorten(standing: list[_Remaining], room: int) -> None:
    """Keep only so many messages: a repair replaces the rest."""
    whole = 0
    # An event with no message left may be an earlier repair that only removed some: it stays if room is left.
    while whole < len(standing) and room:
        standing[whole].count = min(standing[whole].count, room)
        room -= standing[whole].count
        whole += 1
    del standing[whole:]


def _kept(said: ConversationEvent) -> int:
    return int(fields_of(said.body or b"{}").get("keep", 0))


def _rebased(said: ConversationEvent, dropped_since: int) -> ConversationEvent:
    """A repair says how many messages from the beginning stay.

    Messages dropped since then no longer count.
    """
    if said.mends_upto is None or not dropped_since:
        return said
    return said._replace(body=rewritten(said.body or b"{}", keep=max(0, _kept(said) - dropped_since)))


def _value(said: ConversationEvent, read: Read) -> Any:
    assert said.body is not None, "compaction folds events, not a snapshot"
    body = contents_of(said.body)
    return loads(read(body["value_blob"])) if "value_blob" in body else body["value"]
