"""The conversation of a run: messages that the journal keeps, one event for what was added at once.

A checkpoint does not write them again: they are in the journal already, and a restored program finds those that
stood when its state was taken. So what a turn costs does not depend on how long the conversation is.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from orjson import dumps, loads

from holdfast.codec.values import decode
from holdfast.core.fold import Said
from holdfast.engine.journal import read_blob

if TYPE_CHECKING:
    from holdfast.engine.tenure import Tenure

WHAT: Final = "message"


class Conversation:
    """The messages that the program has come to, in order, as bytes: nobody can change them from outside."""

    def __init__(self, tenure: "Tenure") -> None:
        """Begin with what stood where the cursor was moved to; nothing, where the program runs from the top."""
        self._entries: list[bytes] = []
        for said in tenure.view.messages:
            if said.seq <= tenure.cursor_seq:
                self._replay(tenure, said)

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, at: int | slice) -> Any:
        """The message or messages there, each made anew."""
        if isinstance(at, slice):
            return [decode(entry, what=WHAT) for entry in self._entries[at]]
        return decode(self._entries[at], what=WHAT)

    def add(self, entries: Sequence[bytes]) -> None:
        """The messages are in the journal."""
        self._entries += entries

    def drop(self, count: int) -> None:
        """The oldest are not part of the conversation any more."""
        del self._entries[:count]

    def _replay(self, tenure: "Tenure", said: Said) -> None:
        body = loads(tenure.body_at(said.seq, said.body))
        value = loads(read_blob(tenure.store, body["value_blob"])) if "value_blob" in body else body["value"]
        if said.is_drop:
            self.drop(value["first"])
        else:
            self.add([dumps(message) for message in value])
