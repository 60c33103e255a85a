"""Cuts the bytes of a stream into events: server-sent events, or one JSON text a line. Does no I/O."""

from collections.abc import Iterator
from re import compile as pattern
from typing import Final, Protocol

_OVER: Final = "[DONE]"
_MARK: Final = b"\xef\xbb\xbf"
_LINE_END: Final = pattern(rb"\r\n|\r|\n")


class Decoder(Protocol):
    """Takes the bytes as they come, and gives the data of each event once it is complete."""

    is_over: bool
    """Whether the stream has said that it is over; what comes behind that is no event."""

    def feed(self, data: bytes) -> Iterator[str]:
        """The events that these bytes complete."""
        ...

    def end(self) -> Iterator[str]:
        """What is left when the stream has ended."""
        ...


class Lines:
    """One JSON text a line."""

    is_over = False

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that these bytes complete."""
        for line in self._lines(data):
            if line.strip():
                yield line.decode("utf-8", "replace")

    def end(self) -> Iterator[str]:
        """A last line without an end."""
        rest, self._rest = self._rest, b""
        if rest.strip():
            yield rest.decode("utf-8", "replace")

    def _lines(self, data: bytes) -> list[bytes]:
        held = self._rest + data
        if held.endswith(b"\r"):  # perhaps half of a line end
            held, kept = held[:-1], b"\r"
        else:
            kept = b""
        *lines, rest = _LINE_END.split(held)
        self._rest = rest + kept
        return lines


class ServerSentEvents(Lines):
    """Server-sent events: the data of each. An event that its stream cuts off does not count."""

    def __init__(self) -> None:
        super().__init__()
        self._data: list[str] = []
        self._is_first = True

    def feed(self, data: bytes) -> Iterator[str]:
        """The data of the events that these bytes complete."""
        for line in self._lines(data) if not self.is_over else ():
            if self._is_first:  # behind the mark of byte order that a stream may begin with
                self._is_first, line = False, line.removeprefix(_MARK)  # noqa: PLW2901 - the line itself
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
            elif not line and self._data:
                event, self._data = "\n".join(self._data), []
                if event.startswith(_OVER):
                    self.is_over = True
                    return
                yield event

    def end(self) -> Iterator[str]:
        """The last event, if only the empty line behind it is missing."""
        for _ in super().end():
            return
        if self._data and not self.is_over and not self._data[0].startswith(_OVER):
            yield "\n".join(self._data)
