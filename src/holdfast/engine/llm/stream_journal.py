"""Writes the pieces of a streamed answer to the journal: the live call behind a stream.

``add`` only collects a piece; the flusher's thread writes it soon, or ``stop`` does. Invariant: the chunks of
one call are written in the order of their try and number.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from holdfast.codec.secrets import has_unfinished, with_masked_ends
from holdfast.core.llm.model_fold import MODEL
from holdfast.core.llm.request_shapes import usage_in, with_tries
from holdfast.core.llm.streams import merge
from holdfast.engine.journal.drafts import draft
from holdfast.engine.llm.model_call import ModelWork
from holdfast.engine.llm.stream_flusher import Flusher
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.limits import STREAM_FLUSH_BYTES
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Kind
from holdfast.model.markers import KNOWN
from holdfast.model.usage import Usage


class StreamWork(ModelWork):
    """The live call behind a stream, with its unwritten pieces."""

    __slots__ = (
        "_began",
        "_continues",
        "_lock",
        "_number",
        "_pending",
        "_reported",
        "_size",
        "_tries",
        "_writing",
    )

    async def start(self, call: Call | None) -> None:
        """Record the request and let the flusher write pieces from now on."""
        held = self.held
        self._pending: list[dict[str, Any]] = []
        self._size = 0
        self._lock, self._writing = Lock(), Lock()
        self._number, self._continues = 0, ""
        written = MODEL.of(held.view).partials.get(self.asked.key, ()) if call is not None else ()
        self._tries = max((fields_of(body).get("try", 0) for body in written), default=0)
        self._reported: dict[int, Any] = {}
        """The usage that each try has reported so far, by its number: of tries that brought anything."""
        for body in map(contents_of, written):
            self._note_usage(body.get("try", 0), body)
        self._began = held.clock.monotonic()
        try:
            await self.begin()
        except BaseException:
            self.leave()
            raise
        # Calls that the program makes between two pieces follow this call, live as in a replay.
        self.asked.here.task_calls.passed(self.asked.key)
        held.session.part(Flusher).add(self)

    def _said(self) -> dict[str, Any]:
        return {"stream": True}

    def next_try(self, continues: str) -> None:
        """Number the coming pieces as those of another request to the provider."""
        with self._lock:
            self._tries, self._number, self._continues = self._tries + 1, 0, continues

    def add(self, delta: dict[str, Any]) -> None:
        """Collect a piece, which the flusher writes soon. Does not wait for the store."""
        if not delta:
            return
        with self._lock:
            self._note_usage(self._tries, delta)
            self._pending.append(delta)
            self._size += sum(len(text) for text in delta.values() if type(text) is str) or 16
            much = self._size >= STREAM_FLUSH_BYTES
        if much:
            self.held.session.part(Flusher).hurry()

    def flush(self, *, is_last: bool = False) -> None:
        """Write the collected pieces as one chunk. Flushed on return.

        Until the last, pieces that end with the beginning of a secret wait for the rest of it.
        """
        # Two locks: ``_lock`` is never held during a write, so that ``add`` does not wait for the store.
        with self._writing:
            with self._lock:
                pending = self._pending
                ready = len(pending) if is_last or not KNOWN else _finished(pending)
                pending, self._pending, self._size = pending[:ready], pending[ready:], 0
                if not pending:
                    return
                fields: dict[str, Any] = {"try": self._tries, "n": self._number, "pieces": len(pending)}
                if self._number == 0 and self._continues:
                    fields["continues"] = self._continues
                self._number += 1
            parts = merge(pending)
            if KNOWN and is_last:
                parts = with_masked_ends(parts)
            event = draft(Kind.STREAM_CHUNK, self.asked.name, self.asked.key, fields, parts=parts)
            journal = self.held.journal
            assert journal is not None
            try:
                drive(journal.append(BLOCKING, [event], self.held.clock.wall(), synced=False))
            except BaseException:
                with self._lock:  # back in front, under the same number, for the next flush
                    self._pending = pending + self._pending
                    self._number -= 1
                raise
            MODEL.of(self.held.view).partials.setdefault(self.asked.key, []).append(event.body)

    def _note_usage(self, number: int, delta: Mapping[str, Any]) -> None:
        known = self._reported.get(number)
        self._reported[number] = (delta.get("facts") or {}).get("usage") or known

    def usage_of(self, value: Any) -> Usage:
        """The usage of all tries. An earlier one was cut off, so what it reported is not all of it."""
        *earlier, _ = sorted(self._reported) or (0,)
        return with_tries(
            super().usage_of(value), [usage_in({"usage": self._reported[number]}) for number in earlier]
        )

    async def may_go_on(self, error: Exception) -> bool:
        """Wait for the provider. False where it is not worth asking again after this error."""
        if await self.watch.outlast(error):
            return True
        await self.watch.over()
        return False

    async def succeed(self, value: Any, fields: dict[str, Any], parts: dict[str, Any] | None = None) -> None:
        """Record the whole answer; its chunks are not needed any more."""
        await super().succeed(value, {"ms": self.held.ms_since(self._began), **fields}, parts)
        MODEL.of(self.held.view).partials.pop(self.asked.key, None)

    def stop(self) -> None:
        """End the stream. Write the remaining pieces, unless the whole answer is recorded."""
        held = self.held
        held.session.part(Flusher).remove(self)
        try:
            if not self.succeeded:
                self.flush(is_last=True)
        finally:
            # ``leave`` makes this call the last one, but the program may have made others since it began.
            task_calls = self.asked.here.task_calls
            last, path = task_calls.last, task_calls.path
            self.leave()
            task_calls.last, task_calls.path = last, path
            held.land(self.asked.site)


def _finished(pending: list[dict[str, Any]]) -> int:
    """How many of the pieces can be written: no text in them ends with the beginning of a secret."""
    for count in range(len(pending), 0, -1):
        if not has_unfinished(merge(pending[:count])):
            return count
    return 0
