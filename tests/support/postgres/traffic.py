"""What is said to a server: statements, transactions and round trips, counted on the line and not by the client.

A message of the client has a letter and a length, except the first ones of a connection. One round trip is everything that
is sent until the server answers, however many statements that are.
"""

import threading
from collections import Counter
from struct import unpack

_NAMES = {b"Q": "statements", b"E": "statements", b"P": "prepared", b"S": "syncs"}
_STARTUP = 196_608
"""Protocol 3.0; before it a client may ask for encryption, which the tests' server refuses."""


class Traffic:
    """Counts of all lines together. ``syncs`` ends a transaction, unless one was begun by a statement."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._held_upto = 0
        self.counts: Counter[str] = Counter()
        self.texts: list[bytes] = []

    def add(self, name: str, text: bytes = b"") -> None:
        with self._lock:
            self.counts[name] += 1
            if text:
                self.texts.append(text)
            self._lock.notify_all()

    def hold_answers(self, *, statements: int) -> None:
        """Let nobody hear an answer before so many more statements are sent: a client that waits in between is stuck."""
        with self._lock:
            self._held_upto = self.counts["statements"] + statements

    def wait_for_statements(self) -> None:
        """Before an answer is passed on. A client that is stuck hears it in the end, and it counts as a round trip."""
        with self._lock:
            self._lock.wait_for(lambda: self.counts["statements"] >= self._held_upto, 10)

    def since(self, before: Counter[str]) -> Counter[str]:
        return self.counts - before


class TrafficOfLine:
    """Reads along what one connection sends."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._left = b""
        self._has_started = False
        self._is_asking = False

    def sent(self, data: bytes) -> None:
        """Bytes of the client, cut anywhere."""
        self._is_asking = True
        self._left += data
        while self._left:
            first = 1 if self._has_started else 0
            if len(self._left) < first + 4:
                return
            (length,) = unpack("!i", self._left[first : first + 4])
            if len(self._left) < first + length:
                return
            message, self._left = self._left[: first + length], self._left[first + length :]
            if not self._has_started:
                self._has_started = unpack("!i", message[4:8])[0] >> 16 == _STARTUP >> 16
            elif (name := _NAMES.get(message[:1])) is not None:
                self._traffic.add(name, message[5:] if message[:1] in b"QP" else b"")

    def answered(self) -> None:
        """The server says something."""
        if self._is_asking:
            self._is_asking = False
            self._traffic.add("round trips")
