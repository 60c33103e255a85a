"""The note of a call whose intent is not in the journal yet: its name, and when it began.

A store may keep such a note outside of the journal, without a sync. It only tells people what was under way:
nothing is decided by it.
"""

from functools import lru_cache
from math import isfinite
from struct import Struct
from typing import Final

from holdfast.limits import CALL_NOTE_BYTES_MAX
from holdfast.model.store_rows import CallNote, NotedCall

_AT: Final = Struct("<d")
_NAME_BYTES_MIN: Final = 8
"""Less of a name tells nothing."""


@lru_cache(1_000)
def name_room(run: str) -> int:
    """How many bytes of a call's name fit into the notes of this run; 0 if its id leaves no place for one."""
    room = CALL_NOTE_BYTES_MAX - _AT.size - len(run.encode("utf-8", "replace"))
    return room if room >= _NAME_BYTES_MIN else 0


def packed(name: str, began_at: float, room: int) -> bytes:
    """The content of a note; of a name without room, the beginning."""
    encoded = name.encode("utf-8", "replace")
    if len(encoded) > room:
        encoded = encoded[: room - 3].decode("utf-8", "ignore").encode() + "…".encode()
    return _AT.pack(began_at) + encoded


def noted_call(note: CallNote | None) -> NotedCall | None:
    """What the note says; None without one, and for one that another version wrote in another way."""
    if note is None or len(note.content) <= _AT.size:
        return None
    (began_at,) = _AT.unpack_from(note.content)
    try:
        name = note.content[_AT.size :].decode()
    except UnicodeDecodeError:
        return None
    return NotedCall(name, began_at, note.after_seq) if isfinite(began_at) else None


def noted_behind(noted: NotedCall | None, head: int) -> NotedCall | None:
    """The same, if the journal that was read ends where the note was written; else its intent is there."""
    return noted if noted is not None and noted.after_seq == head else None
