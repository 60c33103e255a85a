"""An answer on its way from the provider, or the journal, to the agent."""

import asyncio
from collections.abc import AsyncIterator, Sequence

Headers = Sequence[tuple[bytes, bytes]]


class Answer:
    """The status, the headers and the pieces so far. One writes it, one reads it, each at its own speed.

    It is kept whole until it was read: an agent whose connection broke asks again, and reads it again.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: Headers = ()
        self.is_broken = False
        """Whether the rest is missing: its reader must see that the answer is not complete."""
        self.pieces_read = 0
        self._pieces: list[bytes] = []
        self._is_whole = False
        self._news = asyncio.Event()

    def begin(self, status: int, headers: Headers) -> None:
        """What comes before the pieces."""
        self.status, self.headers = status, headers
        self._news.set()

    def add(self, piece: bytes) -> None:
        """The next piece; an empty one is none."""
        self._pieces += [piece] if piece else []
        self._news.set()

    def end(self) -> None:
        """There are no more pieces."""
        self._is_whole = True
        self._news.set()

    async def begun(self) -> None:
        """Wait for the status and the headers."""
        while not self.status and not self._is_whole:
            await self._wait()

    async def is_missed_after(self, count: int) -> bool:
        """Wait for the end. Returns whether it is complete, and has more pieces than these."""
        while not self._is_whole:
            await self._wait()
        return count < len(self._pieces) and not self.is_broken

    async def pieces(self) -> AsyncIterator[bytes]:
        """All pieces, as they come."""
        self.pieces_read = 0
        while True:
            while self.pieces_read < len(self._pieces):
                piece = self._pieces[self.pieces_read]
                self.pieces_read += 1
                yield piece
            if self._is_whole:
                return
            await self._wait()

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()
