"""The conversation of a run: messages that the journal keeps, one event for what was added at once.

A checkpoint does not write them again: they are in the journal already, and a restored program finds those that
stood when its state was taken. So what a turn costs does not depend on how long the conversation is.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orjson import dumps, loads

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

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.stores.port import StorePort

WHAT: Final = "message"


class Entry(NamedTuple):
    """A message as bytes, and the event that brought it."""

    data: bytes
    seq: int


class Mending(NamedTuple):
    """The end of a conversation made anew: how many messages stay, and what follows them."""

    keep: int
    entries: list[bytes]


class Conversation(Feature):
    """The messages that the program has come to, in order, as bytes: nobody can change them from outside."""

    def __init__(self, held: "HeldRun") -> None:
        """Begin with what was there where the cursor was moved to; nothing, where the program runs from the top."""
        super().__init__(held)
        self._begin()

    def cursor_moved(self) -> None:
        """The program has restored a state: it goes on with the messages of that state."""
        self._begin()

    def checkpoint_fields(self) -> dict[str, Any]:
        """A state does not repeat the messages: it says which records of them its program has not come to."""
        return {"unsaid": self.unsaid} if self._unsaid else {}

    def _begin(self) -> None:
        held = self.held
        self._entries: list[Entry] = []
        self._repairs: dict[int, ConversationEvent] = {}
        """What was repaired while nobody held the run, by the record behind which that belongs."""
        self._unsaid: set[int] = set()
        last = 0
        for said in CONVERSATION.of(held.view).messages:
            if said.place <= held.cursor_seq and said.seq not in held.unsaid:
                apply(self._entries, said.seq, self._content(said))
            else:
                self._unsaid.add(said.seq)
                if said.mends_upto is not None and said.place != said.seq:
                    self._repairs[last] = said
            last = said.seq if said.mends_upto is None else last
        self.restored = len(self._entries)
        """How many of its messages the program began with instead of adding them."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def unsaid(self) -> list[int]:
        """The records of the conversation that the program has not come to."""
        return sorted(self._unsaid)

    def read(self, at: int | slice) -> Any:
        """The message or messages there, each made anew."""
        if isinstance(at, slice):
            return [decode(entry.data, what=WHAT) for entry in self._entries[at]]
        return decode(self._entries[at].data, what=WHAT)

    def plain(self) -> list[Any]:
        """The messages as plain JSON, made anew: what a provider is sent."""
        from holdfast.core.llm.conversation import plain_of  # most programs keep their messages elsewhere

        return [plain_of(loads(entry.data)) for entry in self._entries]

    def entry(self, index: int) -> Entry:
        """The message as it is recorded, and the event that brought it."""
        return self._entries[index]

    def add(self, seq: int, entries: Sequence[bytes]) -> None:
        """The messages are in the journal."""
        self._entries += [Entry(data, seq) for data in entries]
        self._passed(seq)

    def drop(self, seq: int, count: int) -> None:
        """The oldest are not part of the conversation any more."""
        del self._entries[:count]
        self.restored = max(0, self.restored - count)
        self._passed(seq)

    def mend(self, seq: int, mending: Mending) -> None:
        """Its end is another one."""
        apply(self._entries, seq, mending)
        self.restored = len(self._entries)
        self._passed(seq)

    def _passed(self, seq: int) -> None:
        """The program has come to this record: if somebody repaired what stood behind it, that counts from here on."""
        self._unsaid.discard(seq)
        repair = self._repairs.pop(seq, None)
        if repair is not None:
            apply(self._entries, repair.seq, self._content(repair))
            self._unsaid.discard(repair.seq)
            self.restored = len(self._entries)

    def _content(self, said: ConversationEvent) -> "Content":
        body = contents_of(self.held.body_at(said.seq, said.body))
        return content_of(self.held.store, said, body)


MESSAGES_SEEN: Final = Slot("conversation", Conversation)
Content = int | list[bytes] | Mending


def content_of(store: "StorePort", said: ConversationEvent, body: dict[str, Any]) -> Content:
    """What a record says: how many messages were dropped, those that were added, or how it was mended."""
    value = loads(read_blob(store, body["value_blob"])) if "value_blob" in body else body["value"]
    if said.is_drop:
        return int(value["first"])
    entries = [dumps(message) for message in value]
    return entries if said.mends_upto is None else Mending(body["keep"], entries)


def apply(entries: list[Entry], seq: int, content: Content) -> None:
    """Let a record count."""
    if isinstance(content, int):
        del entries[:content]
    elif isinstance(content, Mending):
        entries[content.keep :] = [Entry(data, seq) for data in content.entries]
    else:
        entries += [Entry(data, seq) for data in content]


async def add_messages(held: "HeldRun", runtime: Runtime, messages: Sequence[Any]) -> None:
    """Add messages at the end, in one record; on replay they are known by their content."""
    entries = [encode(message, what=WHAT) for message in messages]
    if entries:
        seq = await mark_value(held, runtime, MESSAGES, b"[" + b",".join(entries) + b"]")
        MESSAGES_SEEN.of(held).add(seq, entries)


async def drop_messages(held: "HeldRun", runtime: Runtime, count: int) -> None:
    """Let the oldest messages go: what the model no longer sees, the journal still has."""
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
    """The records that a program begins with which restores a state that was taken there."""
    return [said for said in messages if said.place <= cursor_seq and said.seq not in unsaid]


def entries_at(
    store: "StorePort", run: str, view: "View", cursor_seq: int, unsaid: AbstractSet[int] = frozenset()
) -> list[Entry]:
    """The messages of a run that nobody need hold, as they stood at an event."""
    pager = Pager(store, run)
    entries: list[Entry] = []
    for said in standing_in(CONVERSATION.of(view).messages, cursor_seq, unsaid):
        body = contents_of(pager.body_of(said.seq) if said.body is None else said.body)
        apply(entries, said.seq, content_of(store, said, body))
    return entries
