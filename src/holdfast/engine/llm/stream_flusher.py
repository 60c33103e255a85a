"""The background thread of streamed answers: what has arrived of them reaches the journal soon, whatever the program does.

The program gets each piece at once and never waits for a write. A piece is written at the latest ``STREAM_FLUSH_S`` after
it came, also if nothing comes after it, and sooner where much comes. Starts with the first stream and ends with the last.
"""

from threading import Event, Lock, Thread
from typing import Protocol

from holdfast.engine.log import log
from holdfast.errors import HoldfastError, StopSignal
from holdfast.limits import STREAM_FLUSH_S

THREAD_NAME = "holdfast-flusher"


class Flushed(Protocol):
    """Something with pieces on their way."""

    def flush(self) -> None:
        """Write what is there."""
        ...


class Flusher:
    """Flushes the open streams of one store."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._streams: set[Flushed] = set()
        self._wake = Event()
        self._thread: Thread | None = None

    def add(self, stream: Flushed) -> None:
        """Flush this one from now on."""
        with self._lock:
            self._streams.add(stream)
            if self._thread is None:
                self._wake = Event()
                self._thread = Thread(target=self._work, args=(self._wake,), name=THREAD_NAME, daemon=True)
                self._thread.start()

    def remove(self, stream: Flushed) -> None:
        """It has come to its end; the thread ends with the last one."""
        with self._lock:
            self._streams.discard(stream)
            if not self._streams and self._thread is not None:
                self._thread = None
                self._wake.set()

    def hurry(self) -> None:
        """Much has come: write it now."""
        self._wake.set()

    def _work(self, wake: Event) -> None:
        while True:
            if wake.wait(STREAM_FLUSH_S):
                wake.clear()
            with self._lock:
                if self._wake is not wake or self._thread is None:
                    return
                streams = list(self._streams)
            for stream in streams:
                try:
                    stream.flush()
                except (Exception, StopSignal) as error:  # noqa: BLE001 - one stream's trouble must not end the thread of all
                    # The reader learns of it when the stream's end is recorded; the next round tries again.
                    is_known = isinstance(error, (HoldfastError, StopSignal))
                    log().warning(
                        "part of a streamed answer is not in the journal yet: %s",
                        error,
                        exc_info=not is_known,
                    )
