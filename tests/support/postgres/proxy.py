"""A line to the server that can be cut: right before what it carries arrives, or right after it was answered.

Cut *before*: the next message that carries the word never reaches the server. Cut *after*: it does, the server answers, and
nobody hears it. That is what a connection looks like when it is lost around a commit.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from tests.support.postgres.traffic import Traffic, TrafficOfLine


class Proxy:
    """Listens on a port of its own and passes everything on, until it is told to cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._cut: tuple[str, tuple[bytes, ...]] | None = None
        self.cuts = 0
        self.traffic = Traffic()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def cut_next(self, when: str, *words: bytes) -> None:
        """Cut the line at the next thing sent that says one of the words: an append or a commit, if none is given."""
        with self._lock:
            self._cut = (when, words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone wakes nobody: the thread would accept a pool's next connection, and leave it open for some later test.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()  # it accepts no more, and starts no more of them
        _shut(*self._sockets)
        for one in self._threads:
            one.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the server is down: the client hears that at once
                _shut(client)
                continue
            self._sockets.append(server)
            line = _Line(self, client, server)
            self._start(line.forth)
            self._start(line.back)

    def wants_cut(self, data: bytes) -> str | None:
        """When to cut for this, once."""
        with self._lock:
            if self._cut is None:
                return None
            when, words = self._cut
            if words and not any(word in data for word in words):
                return None
            self._cut = None
            self.cuts += 1
            return when


class _Line:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._is_deaf = False
        self._traffic = TrafficOfLine(proxy.traffic)

    def forth(self) -> None:
        try:
            while data := self._client.recv(1 << 16):
                when = self._proxy.wants_cut(data)
                if when == "before":
                    break
                self._is_deaf = when == "after"
                self._traffic.sent(data)
                self._server.sendall(data)
        except OSError:
            pass
        self._end()

    def back(self) -> None:
        try:
            while data := self._server.recv(1 << 16):
                if self._is_deaf:  # answered, and nobody hears it
                    break
                self._proxy.traffic.wait_for_statements()
                self._traffic.answered()
                self._client.sendall(data)
        except OSError:
            pass
        self._end()

    def _end(self) -> None:
        _shut(self._client, self._server)


def _shut(*sockets: socket.socket) -> None:
    """Wake whoever reads from these."""
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
