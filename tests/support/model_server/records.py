"""What a provider was asked and what it sent, kept by the provider itself: the witness that has no hand in Holdfast.

In a file, each line is written when it happened, after the bytes have gone to the socket, and stays when either side is
killed. ``read_record`` gives what a provider in this process has as ``exchanges``.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Final

_PATIENCE_S: Final = 1.0


class Exchange:
    """One request, and how far its answer got."""

    def __init__(self, number: int, method: str, path: str, body: Any, at: float) -> None:
        self.number = number
        self.method = method
        self.path = path
        self.body = body
        self.at = at
        self.sent: list[tuple[float, str]] = []
        self.how = "open"
        self.status = 0
        self.ended_at: float | None = None
        self.busy = threading.Lock()
        """Held by whoever answers, except while it pauses: bytes that are gone are noted before anybody looks."""

    @property
    def text(self) -> str:
        """All text that went to the socket, reasoning and arguments included."""
        return "".join(text for _, text in self.sent)

    @property
    def tokens(self) -> int:
        """How many tokens went to the socket, one by one."""
        return len(self.sent)

    def __repr__(self) -> str:
        return f"<{self.number} {self.method} {self.path} {self.status} {self.how}, {self.tokens} tokens>"

    def note(self, line: dict[str, Any]) -> None:
        """Take in what happened."""
        if line["what"] == "sent":
            self.sent.append((line["at"], line["text"]))
        else:
            self.how, self.status, self.ended_at = line["how"], line["status"], line["at"]


class Record:
    """All exchanges of a provider, in the order in which they came; with a file, written down at once."""

    def __init__(self, file: Path | None = None) -> None:
        self._lock = threading.Lock()
        self.tokens_sent = 0
        self.exchanges: list[Exchange] = [] if file is None else read_record(file)
        self._file = None if file is None else os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def settled(self) -> list[Exchange]:
        """All exchanges, each with everything noted that its client can have received by now."""
        for exchange in list(self.exchanges):
            if exchange.busy.acquire(timeout=_PATIENCE_S):  # in vain where a client does not read
                exchange.busy.release()
        return list(self.exchanges)

    def open(self, method: str, path: str, body: Any) -> Exchange:
        """A request has come; its exchange is busy until it is ended."""
        with self._lock:
            exchange = Exchange(len(self.exchanges), method, path, body, time.time())
            exchange.busy.acquire()
            self.exchanges.append(exchange)
        told = {"what": "asked", "method": method, "path": path, "body": body, "at": exchange.at}
        self._write(exchange, told)
        return exchange

    def sent(self, exchange: Exchange, text: str) -> None:
        """A token has gone to the socket."""
        self.tokens_sent += 1  # whoever kills by it may be one off
        self._note(exchange, {"what": "sent", "text": text, "at": time.time()})

    def ended(self, exchange: Exchange, how: str, status: int) -> None:
        """The answer is over: ``finished``, ``refused``, ``cut`` by a fault, or the client was ``gone``."""
        self._note(exchange, {"what": "ended", "how": how, "status": status, "at": time.time()})
        exchange.busy.release()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _note(self, exchange: Exchange, line: dict[str, Any]) -> None:
        exchange.note(line)
        self._write(exchange, line)

    def _write(self, exchange: Exchange, line: dict[str, Any]) -> None:
        with self._lock:
            if self._file is not None:
                os.write(self._file, json.dumps({"n": exchange.number, **line}).encode() + b"\n")


def read_record(file: Path) -> list[Exchange]:
    """The exchanges that a record tells of; a last line that was cut off does not count."""
    exchanges: dict[int, Exchange] = {}
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            continue
        told = json.loads(line)
        number = told["n"]
        if told["what"] == "asked":
            exchanges[number] = Exchange(number, told["method"], told["path"], told["body"], told["at"])
        else:
            exchanges[number].note(told)
    return [exchanges[number] for number in sorted(exchanges)]
