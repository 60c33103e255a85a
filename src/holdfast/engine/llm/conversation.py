"""Keeps the conversation of a run in its journal: one event for the messages that are added together.

A checkpoint does not repeat them. A program that restores a state gets the messages that the conversation had
when the state was saved. So the cost of a turn does not grow with the conversation.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final

from orjson import dumps, loads

from holdfast.codec.filled_secrets import revealed
from holdfast.codec.values import decode, encode
from holdfast.core.llm.conversation_fold import CONVERSATION, ConversationEvent
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.load_view import Pager
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.steps.marks import mark_value
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Misuse
from holdfast.model.event_fields import contents_of
from holdfast.model.events import DROPPED, MESSAGES
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.stores.port import StorePort

WHAT: Final = "message"


class Entry(NamedTuple):
    """A message as bytes, and the event that recorded it."""

    data: bytes
    seq: int


class Mending(NamedTuple):
    """A new end for a conversation: how many messages stay, and what follows them."""

    keep: int
    entries: list[bytes]


class Conversation(Feature):
    """The messages that the program has reached, in order.

    They are kept as bytes, so that a caller cannot change a message after it was recorded.
    """

    def __init__(self, held: "HeldRun") -> None:
        """Start with the messages of the restored state, or with none in a replay from the top."""
        super().__init__(held)
        self._begin()

    def cursor_moved(self) -> None:
        """Start again with the messages of the state that the program has restored."""
        self._begin()

    def checkpoint_fields(self) -> dict[str, Any]:
        """Instead of the messages, a checkpoint lists the records that the program has not reached."""
        return {"unsaid": self.unsaid} if self._unsaid else {}

    def _begin(self) -> None:
        held = self.held
        self._entries: list[Entry] = []
        self._repairs: dict[int, list[ConversationEvent]] = {}
        """The repairs made while the run had no holder, by the record that they follow, in their order."""
        self._unsaid: set[int] = set()
        last = 0
        for event in CONVERSATION.of(held.view).messages:
            if event.place <= held.cursor_seq and event.seq not in held.unsaid:
                apply(self._entries, event.seq, self._content(event))
            else:
                self._unsaid.add(event.seq)
                # A replaying program makes no call that would bring this repair in: ``_passed`` applies it.
                if event.mends_upto is not None and event.place != event.seq:
                    self._repairs.setdefault(last, []).append(event)
            last = event.seq if event.mends_upto is None else last
        self.restored = len(self._entries)
        """How many messages the program started with, instead of adding them itself."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def unsaid(self) -> list[int]:
        """The records of the conversation that the program has not reached."""
        return sorted(self._unsaid)

    def read(self, at: int | slice) -> Any:
        """The message or messages at an index or slice. Each call decodes new objects."""
        if isinstance(at, slice):
            return [decode(entry.data, what=WHAT) for entry in self._entries[at]]
        return decode(self._entries[at].data, what=WHAT)

    def plain(self) -> list[Any]:
        """The messages as plain JSON data, as a provider gets them. Each call makes new objects."""
        # A late import, because most programs do not keep their messages in the run.
        from holdfast.core.llm.conversation import plain_of

        return [plain_of(revealed(loads(entry.data))) for entry in self._entries]

    def entry(self, index: int) -> Entry:
        """The recorded message, and the event that recorded it."""
        return self._entries[index]

    def add(self, seq: int, entries: Sequence[bytes]) -> None:
        """Add messages that are in the journal now."""
        self._entries += [Entry(data, seq) for data in entries]
        self._passed(seq)

    def drop(self, seq: int, count: int) -> None:
        """Remove the oldest messages from the conversation."""
        del self._entries[:count]
        self.restored = max(0, self.restored - count)
        self._passed(seq)

    def mend(self, seq: int, mending: Mending) -> None:
        """Replace the end of the conversation."""
        apply(self._entries, seq, mending)
        self.restored = len(self._entries)
        self._passed(seq)

    def _passed(self, seq: int) -> None:
        """The program has reached this record. Repairs that follow it apply from now on."""
        self._unsaid.discard(seq)
        for repair in self._repairs.pop(seq, ()):
            apply(self._entries, repair.seq, self._content(repair))
            self._unsaid.discard(repair.seq)
            self.restored = len(self._entries)

    def _content(self, event: ConversationEvent) -> "Content":
        body = contents_of(self.held.body_at(event.seq, event.body))
        return content_of(self.held.store, event, body)


MESSAGES_SEEN: Final = Slot("conversation", Conversation)
Content = int | list[bytes] | Mending


def content_of(store: "StorePort", event: ConversationEvent, body: dict[str, Any]) -> Content:
    """The content of a record: the number of dropped messages, the added ones, or a new end."""
    value = loads(read_blob(store, body["value_blob"])) if "value_blob" in body else body["value"]
    if event.is_drop:
        return int(value["first"])
    entries = [dumps(message) for message in value]
    return entries if event.mends_upto is None else Mending(body["keep"], entries)


def apply(entries: list[Entry], seq: int, content: Content) -> None:
    """Apply a record to the messages, in place."""
    if isinstance(content, int):
        del entries[:content]
    elif isinstance(content, Mending):
        entries[content.keep :] = [Entry(data, seq) for data in content.entries]
    else:
        entries += [Entry(data, seq) for data in content]


async def add_messages(held: "HeldRun", runtime: Runtime, messages: Sequence[Any]) -> None:
    """Add messages at the end, in one record. A replay recognises them by their content."""
    held.check_usable()
    entries = [encode(message, what=WHAT) for message in messages]
    if entries:
        seq = await mark_value(held, runtime, MESSAGES, b"[" + b",".join(entries) + b"]")
        MESSAGES_SEEN.of(held).add(seq, entries)


async def drop_messages(held: "HeldRun", runtime: Runtime, count: int) -> None:
    """Remove the oldest messages from the conversation. The journal keeps them."""
    conversation = MESSAGES_SEEN.of(held)
    if not 0 <= count <= len(conversation):
        raise Misuse(
            problem=f"run.messages.drop({count!r}): the conversation has {len(conversation)} messages",
            advice="drop at most as many as there are",
        )
    if count:
        seq = await mark_value(held, runtime, DROPPED, b'{"first":%d}' % count)
        conversation.drop(seq, count)


def standing_in(
    messages: Sequence[ConversationEvent], cursor_seq: int, unsaid: AbstractSet[int]
) -> list[ConversationEvent]:
    """The records that a program has reached when it restores the state of that event."""
    return [event for event in messages if event.place <= cursor_seq and event.seq not in unsaid]


def entries_at(
    store: "StorePort", run: str, view: "View", cursor_seq: int, unsaid: AbstractSet[int] = frozenset()
) -> list[Entry]:
    """The messages of a run at an event, read without holding the run."""
    pager = Pager(store, run)
    entries: list[Entry] = []
    for event in standing_in(CONVERSATION.of(view).messages, cursor_seq, unsaid):
        body = contents_of(pager.body_of(event.seq) if event.body is None else event.body)
        apply(entries, event.seq, content_of(store, event, body))
    return entries
