"""Two small parts of a view that live on behind a compaction: what was said, and how far calls were counted."""

from typing import NamedTuple


class Said(NamedTuple):
    """An event of the conversation: messages added at its end, the oldest dropped, or its end mended.

    A repair that somebody else made than the program names the event up to which it mends: there it belongs.
    """

    seq: int
    is_drop: bool
    body: bytes | None
    mends_upto: int | None = None

    @property
    def place(self) -> int:
        """The event behind which it counts."""
        return self.seq if self.mends_upto is None else self.mends_upto


class Site(NamedTuple):
    """How far the calls of one site were counted: the highest count in use, and the failed ones below it."""

    used: int
    free: tuple[int, ...] = ()
