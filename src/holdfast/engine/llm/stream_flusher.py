"""A background thread that writes the arrived pieces of streamed answers to the journal.

The program gets each piece at once and never waits for a write. The thread writes a piece at most
``STREAM_FLUSH_S`` after it arrived, even if no further piece follows, and sooner if many arrive. It starts
with the first stream of a store and ends with the last.
"""

from threading import Event, Lock, Thread
from typing import Protocol

from holdfast.engine.log import log
from holdfast.errors import HoldfastError, StopSignal
from holdfast.limits import STREAM_FLUSH_S

THREAD_NAME = "holdfast-flusher"


class Flushed(Protocol):
    """A stream that may have unwritten pieces."""

    def flush(self) -> None:
        """Write the pieces that have arrived."""
        ...


class Flusher:
    """Flushes the open streams of one store."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._streams: set[Flushed] = set()
        self._wake = Event()
        self._thread: Thread | None = None

    def add(self, stream: Flushed) -> None:
        """Flush this stream from now on."""
        with self._lock:
            self._streams.add(stream)
            if self._thread is None:
                self._wake = Event()
                self._thread = Thread(target=self._work, args=(self._wake,), name=THREAD_NAME, daemon=True)
                self._thread.start()

    def remove(self, stream: Flushed) -> None:
        """Stop flushing this stream. The thread ends with the last one."""
        with self._lock:
            self._streams.discard(stream)
            if not self._streams and self._thread is not None:
                self._thread = None
                self._wake.set()

    def hurry(self) -> None:
        """Flush now instead of at the next interval."""
        self._wake.set()

    def _work(self, wake: Event) -> None:
        # Each thread has its own Event: after a remove and an add, the old thread sees that it was replaced.
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
                    # Only logged: the next round tries again, and if that fails too, so does the record of
                    # the answer.
                    is_known = isinstance(error, (HoldfastError, StopSignal))
                    log().warning(
                        "part of a streamed answer is not in the journal yet: %s",
                        error,
                        exc_info=not is_known,
                    )
